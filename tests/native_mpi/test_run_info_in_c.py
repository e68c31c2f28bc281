"""The sidecar in C: its fields are those of ``RunInfo``, and whatever is in it is JSON."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from limits import PROCESS_S
from places import ROOT

from timing_logger.native_mpi import run_info_in_c
from timing_logger.native_mpi.run_info_in_c import run_info_header
from timing_logger.schema.columns_in_c import HEADER_FILE, columns_header
from timing_logger.schema.sidecar import UNUSABLE, RunInfo, usable_sidecar

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")

SHARED = ROOT / "timing_logger" / "csrc"
SOURCES = ROOT / "timing_logger" / "native_mpi" / "csrc"


def said_in_c(folder: Path, statements: str, **environment: str) -> str:
    """Return what these statements write to ``stdout``, where they have structs of ``run_info.h``."""
    (folder / HEADER_FILE).write_text(columns_header())
    (folder / "run_info.h").write_text(run_info_header())
    program = f'#include <locale.h>\n#include "run_info.h"\nint main(void)\n{{\n{statements}\nreturn 0;\n}}\n'
    (folder / "program.c").write_text(program)
    command = ["cc", "-std=gnu11", "-Wall", "-Werror", f"-I{folder}", f"-I{SOURCES}", f"-I{SHARED}"]
    files = [folder / "program.c", SOURCES / "json.c", "-o", folder / "program"]
    subprocess.run([*command, *map(str, files)], check=True, timeout=PROCESS_S)
    done = subprocess.run(
        [folder / "program"],
        capture_output=True,
        text=True,
        timeout=PROCESS_S,
        env={**os.environ, **environment},
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


# -- fields -------------------------------------------------------------------------------------------------


VALUES: list[tuple[str, Any]] = [
    (r'json_text(stdout, "a \"b\" \\ c\n\td");', 'a "b" \\ cd'),
    (r'json_text(stdout, "No\xebl");', "No?l"),  # in no encoding that is known
    ("json_text(stdout, NULL);", ""),
    (r'json_escaped(stdout, "a \"b\" \\\\ \\u00e9 \\U0001f600.");', 'a "b" \\ é ?.'),
    (r'json_escaped(stdout, "\\=1+1");', "=1+1"),
    ("json_integer(stdout, INT64_MIN);", -(2**63)),
    ("json_optional(stdout, (struct json_optional){false, 3});", None),
    ("json_bool(stdout, true);", True),
    ("json_real(stdout, 0.1);", 0.1),
    ("json_real(stdout, 1e-5);", 1e-5),
    ("json_real(stdout, -2.5);", -2.5),
]

CLASSES: list[Any] = [*run_info_in_c._classes(RunInfo)][:-1]


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What one program writes, by the statement that writes it."""
    statements = [
        "write_run_info(stdout, &(struct run_info){0});",
        *map(of_class, CLASSES),
        *(written for written, _ in VALUES),
    ]
    between = '\nputs("\\n--");\n'
    texts = said_in_c(tmp_path_factory.mktemp("said"), between.join(statements)).split("\n--\n")
    return {one: json.loads(text) for one, text in zip(statements, texts, strict=True)}


def of_class(kind: Any) -> str:
    name = run_info_in_c._name(kind)
    return f"json_{name}(stdout, &(struct {name}){{0}});"


def test_it_has_each_field_in_its_order_as_by_default_where_nothing_is_said(said: dict[str, Any]) -> None:
    found = said["write_run_info(stdout, &(struct run_info){0});"]
    assert list(found) == ["schema_version", *(one.name for one in fields(RunInfo))]
    by_default = {one.name: one.default for one in fields(RunInfo) if one.default is not MISSING}
    assert {name: found[name] for name in by_default} == by_default
    assert UNUSABLE not in (usable_sidecar(found) or {UNUSABLE: ""})


def test_each_class_has_its_fields_in_their_order(said: dict[str, Any]) -> None:
    assert len(CLASSES) > 10
    assert [list(said[of_class(one)]) for one in CLASSES] == [list(one._fields) for one in CLASSES]


class _One(NamedTuple):
    invented: int


class _Entry(NamedTuple):
    ones: list[_One]
    perhaps: _One | None
    number: int | None


@dataclass
class _Other:
    entries: list[_Entry] = field(default_factory=list)


def test_a_field_that_is_invented_is_in_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(run_info_in_c, "RunInfo", _Other)
    monkeypatch.setattr(run_info_in_c, "_name", lambda kind: kind.__name__.strip("_").lower())
    header = run_info_header().replace("struct other", "struct run_info")
    monkeypatch.setattr(f"{__name__}.run_info_header", lambda: header)
    statements = """
    struct one one = {.invented = -7};
    struct json_list list = {stdout, 0};
    add_entry(&list, (struct entry){.perhaps = &one});
    add_entry(&list, (struct entry){.number = {true, 5}});"""
    said = json.loads(f"[{said_in_c(tmp_path, statements)}]")
    assert said == [
        {"ones": [], "perhaps": {"invented": -7}, "number": None},
        {"ones": [], "perhaps": None, "number": 5},
    ]


@dataclass
class _OfAnotherType:
    invented: complex = 0


@dataclass
class _WithADefault:
    invented: str = "something"


@pytest.mark.parametrize("kind", [_OfAnotherType, _WithADefault])
def test_what_c_has_nothing_for_is_refused_when_the_library_is_built(
    monkeypatch: pytest.MonkeyPatch, kind: type
) -> None:
    monkeypatch.setattr(run_info_in_c, "RunInfo", kind)
    with pytest.raises(TypeError, match="invented: C "):
        run_info_header()


# -- values -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("written", "expected"), VALUES)
def test_a_value_is_read_as_it_was(said: dict[str, Any], written: str, expected: Any) -> None:
    assert said[written] == expected


@pytest.mark.slow("makes a locale; how numbers are written without one is quick")
def test_a_decimal_comma_of_the_program_is_none_of_the_sidecars(tmp_path: Path) -> None:
    (tmp_path / "comma").write_text(
        'LC_NUMERIC\ndecimal_point ","\nthousands_sep ""\ngrouping -1\nEND LC_NUMERIC\n'
    )
    made = shutil.which("localedef") and subprocess.run(
        ["localedef", "-c", "-i", tmp_path / "comma", "-f", "UTF-8", tmp_path / "de_DE.UTF-8"],
        capture_output=True,
    )
    if not made or not (tmp_path / "de_DE.UTF-8").exists():
        pytest.skip("no locale with a decimal comma can be made here")
    statements = 'if (setlocale(LC_NUMERIC, "de_DE.UTF-8") == NULL)\nreturn 1;\njson_real(stdout, 0.5);'
    assert said_in_c(tmp_path, statements, LOCPATH=str(tmp_path)) == "0.5"
