"""What is said of a Parquet file that holds something else than it says."""

from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from timing_files import record, write_timing_file

from timing_logger.errors import NotATimingFileError
from timing_logger.reading.converting import convert
from timing_logger.reading.parquet import NotConverted, Part, parts_of, pyarrow_parquet

pytest.importorskip("pyarrow")


@pytest.fixture(scope="module")
def part(tmp_path_factory: pytest.TempPathFactory) -> Part:
    """The only timing file of a Parquet file, of three rows."""
    folder = tmp_path_factory.mktemp("converted")
    write_timing_file(folder / "in", 0, [record(start_s=float(at)) for at in range(3)])
    convert(folder / "in", "parquet", folder / "run.parquet")
    (found,) = parts_of(folder / "run.parquet")
    return found


def why(part: Part) -> str:
    """Return why a part cannot be read, which is said with its path and what to do."""
    with pytest.raises(NotATimingFileError) as error:
        part.read()
    said = str(error.value)
    assert said.startswith(f"paths: {str(part.path)!r} was damaged since it was written (")
    assert said.endswith("). Convert the timing files of the run again.")
    return said.partition("written (")[2].rpartition("). Convert")[0]


def of_facts(part: Part, **facts: Any) -> Part:
    return replace(part, facts={**part.facts, **facts})


def test_rows_that_were_replaced_are_stated_and_not_held(part: Part) -> None:
    assert part.read().content.replaced == 0
    found = of_facts(part, rows=5, replaced=2).read()
    assert (found.content.n_rows, found.content.replaced) == (3, 2)


def test_files_of_before_rows_were_replaced_say_nothing_of_it(part: Part) -> None:
    before = replace(part, facts={name: fact for name, fact in part.facts.items() if name != "replaced"})
    assert before.read().content.replaced == 0


def test_another_number_of_rows_is_damage(part: Part) -> None:
    assert why(of_facts(part, rows=4)) == "it holds 3 rows instead of 4"


def test_a_column_that_lacks_is_damage_unless_the_file_never_had_it(part: Part, tmp_path: Path) -> None:
    _, parquet = pyarrow_parquet()
    path = tmp_path / "run.parquet"
    parquet.write_table(parquet.read_table(part.path).drop_columns(["seq"]), path)
    assert why(replace(part, path=path)) == "it lacks columns"
    stated = [name for name in part.facts["columns"] if name != "seq"]
    assert of_facts(replace(part, path=path), columns=stated).read().frame["seq"].isna().all()


def test_a_column_of_another_type_is_damage(part: Part, tmp_path: Path) -> None:
    pyarrow, parquet = pyarrow_parquet()
    table = parquet.read_table(part.path)
    at = table.column_names.index("seq")
    path = tmp_path / "run.parquet"
    parquet.write_table(table.set_column(at, "seq", table["seq"].cast(pyarrow.int32())), path)
    assert why(replace(part, path=path)) == "its columns are of other types"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError("of\n two  lines"), "of two lines"), (ValueError(), "ValueError"),
        (ValueError("x" * 201), "x" * 200), (OSError("no number"), "no number"), (KeyError("seq"), "'seq'"),
    ],
    ids=["lines", "nothing", "long", "of the library", "key"],
)  # fmt: skip
def test_damage_is_told_in_one_short_line(
    part: Part, monkeypatch: pytest.MonkeyPatch, error: Exception, said: str
) -> None:
    monkeypatch.setattr(Part, "_frame", raising(error))
    assert why(part) == said


def raising(error: Exception) -> Any:
    def fail(*given: object) -> None:
        raise error

    return fail


def test_an_error_of_the_system_is_no_damage(
    part: Part, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(Part, "_frame", raising(OSError(errno.EIO, "Input/output error")))
    with pytest.raises(OSError, match="Input/output error"):
        part.read()
    with pytest.raises(FileNotFoundError):
        parts_of(tmp_path / "none.parquet")


def test_a_file_that_is_no_parquet_or_that_another_program_wrote_was_not_converted(
    part: Part, tmp_path: Path
) -> None:
    path = tmp_path / "run.parquet"
    path.write_text("no Parquet")
    with pytest.raises(NotConverted, match="it is not a Parquet file, or was damaged"):
        parts_of(path)
    pyarrow, parquet = pyarrow_parquet()
    parquet.write_table(pyarrow.table({"a": [1]}), path)
    with pytest.raises(NotConverted, match="its metadata name no timing files"):
        parts_of(path)
