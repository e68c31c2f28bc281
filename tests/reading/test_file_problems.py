"""Whatever stands in a sidecar, all commands answer or say one sentence, and what cannot be used is named."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hostile_files import COMMANDS, change_sidecar, mutated, say_all, write_run

from timing_logger.process.sidecar_files import read_sidecar
from timing_logger.reading import read_timings
from timing_logger.reading.file_problems import (
    missing_parts,
    parts_trouble,
    problems_of,
    schema_trouble,
    uncounted,
)
from timing_logger.schema.sidecar import SCHEMA_VERSION, UNUSABLE, RunInfo, usable_sidecar
from timing_logger.schema.timing_files import TimingFile, sidecar_path

FIELD_BY_COMMAND = {
    "labels": ["x", 1], "counters": [1, 2, 3, 4], "clock_anchors": None, "clock_offsets": ["a", "b"],
    "device_clocks": {"cuda:0": 1}, "rank": "0", "world_size": -4, "options": 7, "host": {"a": 1},
    "closed": 1, "started_unix_ns": 10**30, "logger_cpu_ns": "1",
}  # fmt: skip


def test_every_field_of_another_type_is_left_out_and_named(tmp_path: Path) -> None:
    path, _ = write_run(tmp_path)
    change_sidecar(path, lambda content: content.update(FIELD_BY_COMMAND))
    sidecar = read_sidecar(path) or {}
    named = {name.partition("[")[0] for name in sidecar[UNUSABLE]}
    assert named == set(FIELD_BY_COMMAND)
    assert sidecar.keys().isdisjoint(set(FIELD_BY_COMMAND) - {"clock_offsets"})
    assert sidecar["clock_offsets"] == []


def test_an_entry_of_which_a_part_is_wrong_is_none(tmp_path: Path) -> None:
    path, _ = write_run(tmp_path)

    def change(content: dict[str, Any]) -> None:
        content["clock_offsets"][1]["offset_ns"] = "12"
        content["clock_anchors"].append({"unix_ns": 1})
        content["counters"]["dropped"] = -1
        content["device_clocks"][0]["anchors"][0]["uncertainty_ns"] = None

    change_sidecar(path, change)
    sidecar = read_sidecar(path) or {}
    assert sidecar[UNUSABLE] == [
        "clock_anchors[1].perf_counter_ns", "clock_anchors[1].uncertainty_ns", "clock_offsets[1].offset_ns",
        "device_clocks[0].anchors[0].uncertainty_ns", "counters.dropped",
    ]  # fmt: skip
    assert [len(sidecar[name]) for name in ("clock_anchors", "clock_offsets", "device_clocks")] == [1, 1, 0]
    assert "dropped" not in sidecar["counters"]
    assert sidecar["counters"]["written"] == 18


def test_what_a_logger_writes_is_usable_as_it_is(tmp_path: Path) -> None:
    for path in write_run(tmp_path):
        assert read_sidecar(path) == json.loads(sidecar_path(path).read_text())
    written = RunInfo(
        file="timing-rank0.csv", rank=0, incarnation=1, world_size=None,
        labels={"lr": float("nan"), "of": [1]}, options={}, started_unix_ns=1,
    )  # fmt: skip
    assert UNUSABLE not in (usable_sidecar(json.loads(written.to_json())) or {})


def test_fields_that_are_lacking_or_not_known_are_no_flaw() -> None:
    assert usable_sidecar({"rank": 1, "of_a_later_version": [None]}) == {
        "rank": 1,
        "of_a_later_version": [None],
    }
    assert usable_sidecar({"device_clocks": [{"device": "cuda:0"}]}) == {
        "device_clocks": [{"device": "cuda:0"}]
    }


@pytest.mark.slow("that reading says it is quick, of Parquet")
@pytest.mark.parametrize("command", ["waits", "trace -o {out}.json", "summary"])
def test_summary_trace_and_reader_say_what_they_cannot_use(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    path, _ = write_run(tmp_path / "in")
    change_sidecar(path, lambda content: content["counters"].update(written=[18]))
    with pytest.warns(UserWarning, match="rank0.csv: its sidecar states no value that can be one for"):
        read_timings(tmp_path / "in")
    said = say_all(tmp_path / "in", tmp_path, capsys, [command])[command]
    assert "states no value that can be one for counters.written" in said.out


def test_what_was_left_out_of_a_sidecar_is_still_named_in_parquet(tmp_path: Path) -> None:
    from timing_logger.reading.converting import convert

    path, _ = write_run(tmp_path / "in")
    change_sidecar(path, lambda content: content.update(host=1))
    with pytest.warns(UserWarning, match="host"):
        convert(tmp_path / "in", "parquet", tmp_path / "out")
    with pytest.warns(UserWarning, match="no value that can be one for host"):
        first, _ = read_timings(tmp_path / "out").attrs["files"]
    assert first["sidecar"][UNUSABLE] == ["host"]


@pytest.mark.slow("all commands on random sidecars; which values are left out of these is quick")
@pytest.mark.parametrize("seed", range(3))
def test_no_mutation_of_a_sidecar_ends_in_a_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], seed: int
) -> None:
    files, chance = write_run(tmp_path / "in"), random.Random(seed)

    def change(content: dict[str, Any]) -> Any:
        return mutated(content, chance)[0]

    for _ in range(2):  # also where several values are wrong
        for path in files:
            if isinstance(json.loads(sidecar_path(path).read_text()), dict):
                change_sidecar(path, change)
    for one in say_all(tmp_path / "in", tmp_path / "out", capsys, COMMANDS).values():
        assert "\x1b" not in one.out
        assert "\u202e" not in one.out


NO_SIDECARS = (b"", b"{", b"[]", b"null", b"1e999", b"[" * 10**5, b"9" * 5000, b"\xff\xfe")


@pytest.mark.parametrize("content", NO_SIDECARS)
def test_what_is_no_sidecar_is_none(tmp_path: Path, content: bytes) -> None:
    path, _ = write_run(tmp_path)
    sidecar_path(path).write_bytes(content)
    assert read_sidecar(path) is None


@pytest.mark.slow("that it is read as none is quick, and what is said of a file without one")
@pytest.mark.parametrize("content", NO_SIDECARS)
def test_of_a_file_with_what_is_no_sidecar_it_is_said_that_it_has_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes
) -> None:
    path, _ = write_run(tmp_path / "in")
    sidecar_path(path).write_bytes(content)
    assert "no sidecar" in say_all(tmp_path / "in", tmp_path, capsys, ["summary"])["summary"].out


# -- in words --------------------------------------------------------------------------------------------


def test_numbers_too_large_are_counted_by_column_and_of_a_file_without_any_nothing_is_said() -> None:
    assert list(uncounted({"inexact": {"seq": 2, "peer": 1}})) == [
        "numbers beyond 9007199254740991 either way count as blank: 2 of seq, 1 of peer"
    ]
    assert list(uncounted({})) == list(uncounted({"inexact": {}})) == []


@pytest.mark.parametrize(("n", "named"), [(1, "f0"), (5, "f0, f1, f2, f3, f4")])
def test_up_to_five_values_that_cannot_be_used_are_named(n: int, named: str) -> None:
    said = f"its sidecar states no value that can be one for {named}"
    assert list(problems_of({"sidecar": {UNUSABLE: [f"f{i}" for i in range(n)]}})) == [said]
    assert list(problems_of({"sidecar": {UNUSABLE: [f"f{i}" for i in range(7)]}})) == [
        "its sidecar states no value that can be one for f0, f1, f2, f3, f4 and 2 more"
    ]


def test_what_is_wrong_with_the_clock_comes_first() -> None:
    moved = {"moved_s": 0.5, "explained_s": 0.001, "after_s": 10.0, "before_s": 20.0}
    file = {"clock": {"contradictions": [moved]}, "sidecar": {UNUSABLE: ["host"]}}
    assert [said.partition(" ")[2].partition(" ")[0] for said in problems_of(file)] == ["clock", "sidecar"]


@pytest.mark.parametrize("sidecar", [None, {}, {"schema_version": SCHEMA_VERSION}])
def test_the_version_of_this_logger_or_none_is_no_trouble(sidecar: dict[str, Any] | None) -> None:
    assert schema_trouble({"sidecar": sidecar}) == ""


def test_another_version_is_named_beside_the_one_that_is_known() -> None:
    said = schema_trouble({"sidecar": {"schema_version": 99}})
    assert said.startswith(
        f"its sidecar has schema version 99, and this timing_logger knows {SCHEMA_VERSION}: what it states"
    )


def in_parts(there: list[int], *stated: dict[str, Any]) -> dict[str, Any]:
    """A file of rank 3 of which these parts are there, and what its sidecar states of parts."""
    paths = [{"path": f"logs/{part(number)}"} for number in there]
    return {"rank": 3, "incarnation": 1, "parts": paths, "sidecar": {"parts": list(stated)}}


def part(number: int) -> str:
    return TimingFile(3, 1, number).name


@pytest.mark.parametrize(
    ("there", "with_rows", "missing"),
    [
        ([1], {1: 5}, []),
        ([1], {1: 5, 2: 4, 3: 0}, [2]),
        ([1, 5], {1: 5, 2: 4}, [2, 3, 4]),
        ([1, 2, 4], {}, [3]),
        ([3], {}, [1, 2]),
        ([], {}, []),
    ],
)
def test_parts_with_rows_are_missing_and_those_before_a_later_one(
    there: list[int], with_rows: dict[int, int], missing: list[int]
) -> None:
    stated = [{"file": part(number), "rows": rows} for number, rows in with_rows.items()]
    assert missing_parts(in_parts(there, *stated)) == [part(number) for number in missing]


def test_of_each_part_whose_rows_are_gone_a_sentence_is_said() -> None:
    was_cut = {"file": part(1), "rows": 9, "lost": 1, "why": "was cut"}
    fine = {"file": part(2), "rows": 9, "lost": 0}
    gone, odd = {"file": part(3), "rows": 4}, {"file": "notes.txt", "rows": 7, "lost": 7}
    assert parts_trouble(in_parts([1, 2, 5], was_cut, fine, gone, odd)) == [
        f"{part(1)} was cut while the run went on, and 1 rows of it are gone",
        f"its part {part(3)}, with 4 rows, is not there",
        f"its part {part(4)} is not there",
    ]
    assert parts_trouble({"rank": 0, "incarnation": 1}) == []
