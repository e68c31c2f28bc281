"""What is said of timing files that were read, and of paths that lead to none."""

from __future__ import annotations

import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sidecars import states

from timing_logger import read_timings
from timing_logger.errors import ConfigurationError, NotATimingFileError, NoTimingFilesError
from timing_logger.reading.timings import find_sources, timing_files, troubles, warn_of_schemas
from timing_logger.schema.record import COLUMNS, HEADER
from timing_logger.schema.sidecar import SCHEMA_VERSION


def said_of(*files: dict[str, Any], **attrs: Any) -> list[str]:
    plain = {"path": "f.csv", "rank": 0, "incarnation": 1, "parts": [{"path": "timing-rank0.csv"}]}
    return troubles({"files": [plain | file for file in files], "left_out": [], **attrs}).splitlines()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("timing-rank0.csv", "timing-rank1.csv"):
        (tmp_path / name).write_text(HEADER)
    return tmp_path


# -- files with troubles ---------------------------------------------------------------------------------


def test_of_files_without_a_problem_nothing_is_said() -> None:
    assert said_of({"cut": "", "bad_lines": 0, "sidecar": None, "rows": 5}) == []


def test_each_problem_is_a_line_and_which_run_it_is_comes_first() -> None:
    files = (
        {"bad_lines": 2, "bad_examples": ["x", "y"]},
        {"cut": "12"},
        {"bad_lines": 1, "bad_examples": ["z"]},
    )
    left_out = [{"path": "g.csv", "reason": "of an earlier run"}]
    assert said_of(*files, left_out=left_out, about="Run 2 of 3.") == [
        "Run 2 of 3.",
        "f.csv: the unterminated last line was cut",
        "f.csv: 2 damaged lines were skipped, such as 'x'",
        "f.csv: 1 damaged line was skipped, such as 'z'",
        "g.csv: left out, of an earlier run",
    ]


@pytest.mark.parametrize(
    ("n_files", "n_lines", "last"), [(5, 5, "f.csv:"), (6, 6, "and 1 more"), (9, 6, "and 4 more")]
)
def test_of_many_problems_five_are_told_and_how_many_more_there_are(
    n_files: int, n_lines: int, last: str
) -> None:
    said = said_of(*[{"cut": "1"}] * n_files)
    assert len(said) == n_lines
    assert said[-1].startswith(last)


@pytest.mark.parametrize(
    ("rows", "sidecar", "is_said"),
    [
        (4, {}, True), (6, {}, True), (5, {}, False), (4, {"closed": False}, True),
        (6, {"closed": False}, False), (6, {"killed": True}, False), (4, {"killed": True}, True),
        (4, {"counters": {}}, False), (None, {}, False),
    ],
)  # fmt: skip
def test_another_number_of_rows_than_the_logger_wrote_is_said_unless_the_sidecar_is_behind(
    rows: int | None, sidecar: dict[str, Any], is_said: bool
) -> None:
    stated = {"closed": True, "counters": {"written": 5}, **sidecar}
    assert said_of({"rows": rows, "sidecar": stated}) == (
        [f"f.csv: its logger wrote 5 rows, and {rows} are there"] if is_said else []
    )


@pytest.mark.parametrize("why", [{"cut": "1"}, {"bad_lines": 1, "bad_examples": ["x"]}])
def test_rows_that_lack_for_a_reason_that_is_told_are_not_told_again(why: dict[str, Any]) -> None:
    (said,) = said_of({"rows": 4, "sidecar": {"closed": True, "counters": {"written": 5}}, **why})
    assert "its logger wrote" not in said


@pytest.mark.parametrize(("n_others", "more"), [(0, ""), (1, " and 1 more"), (2, " and 2 more")])
def test_of_sidecars_of_an_unknown_version_the_first_is_named(n_others: int, more: str) -> None:
    def source(name: str, version: int) -> Any:
        return SimpleNamespace(path=Path(name), stated=lambda: {"sidecar": {"schema_version": version}})

    unknown = [source(f"timing-rank{rank}.csv", SCHEMA_VERSION + 1) for rank in range(1 + n_others)]
    with pytest.warns(UserWarning, match=rf"^timing-rank0\.csv{more}: its sidecar has schema version"):
        warn_of_schemas([source("timing-rank9.csv", SCHEMA_VERSION), *unknown], stacklevel=1)


def test_sidecars_of_the_known_version_are_not_warned_of() -> None:
    known: Any = SimpleNamespace(
        path=Path("f.csv"), stated=lambda: {"sidecar": {"schema_version": SCHEMA_VERSION}}
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_schemas([known], stacklevel=1)


def test_what_becomes_of_files_that_were_not_closed_is_said_once_for_each_thing(folder: Path) -> None:
    for rank in (0, 1):
        states(folder / f"timing-rank{rank}.csv", closed=False, host="elsewhere", updated_unix_ns=0)
    with pytest.warns(UserWarning, match=r"timing-rank0\.csv and 1 more: not closed: ") as said:
        find_sources([folder])
    assert len(said) == 1


def test_the_sidecar_of_a_file_that_was_closed_is_read_once(folder: Path) -> None:
    states(folder / "timing-rank1.csv", closed=True, rank=1)
    finals = [source.final_sidecar for source in find_sources([folder])]
    assert finals[0] is None
    assert finals[1] is not None


# -- which files ------------------------------------------------------------------------------------------


def test_a_file_that_is_named_twice_is_read_once_with_all_its_parts(folder: Path) -> None:
    part = folder / "timing-rank1.part2.csv"
    part.write_text(HEADER)
    found = find_sources([part, folder / "timing-rank1.csv", part])
    assert [source.paths for source in found] == [[folder / "timing-rank1.csv", part]]
    assert found[0].name.part == 1
    assert [source.name.rank for source in find_sources([folder])] == [0, 1]


@pytest.mark.parametrize(("part", "as_part"), [("", ""), (".part2", ", part 2")])
def test_two_files_of_a_rank_cannot_be_told_apart(folder: Path, part: str, as_part: str) -> None:
    name = f"timing-rank0{part}.csv"
    for place in (folder, folder / "other"):
        place.mkdir(exist_ok=True)
        (place / name).write_text(HEADER)
    with pytest.raises(ConfigurationError, match=f"both of rank 0, incarnation 1{as_part}: their rows"):
        find_sources([folder / name, folder / "other" / name])


def test_parts_of_a_file_have_to_be_in_one_folder(folder: Path) -> None:
    other = folder / "other" / "timing-rank0.part2.csv"
    other.parent.mkdir()
    other.write_text(HEADER)
    with pytest.raises(ConfigurationError, match="are parts of rank 0, incarnation 1, in different folders"):
        find_sources([folder, other])


def test_where_no_path_is_given_or_none_leads_to_a_file_it_is_said_what_is_there(tmp_path: Path) -> None:
    with pytest.raises(NoTimingFilesError, match="paths: none given"):
        find_sources([])
    with pytest.raises(NoTimingFilesError, match=r"no timing-rank\*\.csv in .* holds nothing\."):
        find_sources([tmp_path])
    for name in ("b", "a"):
        (tmp_path / name).mkdir()
    with pytest.raises(NoTimingFilesError, match=r"holds a/, b/\.$"):
        find_sources([tmp_path])
    with pytest.raises(NoTimingFilesError, match=r"does not exist\. .* holds a/, b/\.$"):
        find_sources([tmp_path / "x" / "y"])
    (tmp_path / "b" / "timing-rank0.csv").write_text(HEADER)
    with pytest.raises(NoTimingFilesError, match=r"There are timing files in '.*/b'\."):
        find_sources([tmp_path])


def test_a_file_whose_name_states_no_rank_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "other.csv"
    other.write_text(HEADER)
    with pytest.raises(
        NotATimingFileError, match=r"states no rank.*'timing-rank0\.csv' or 'timing-rank0\.run2\.csv'"
    ):
        find_sources([other])


# -- what is to be read ------------------------------------------------------------------------------------


def test_of_columns_rank_and_incarnation_are_always_read_in_the_order_of_the_table(folder: Path) -> None:
    found = timing_files(folder, columns=["end_s", "operation"], engine="pandas")
    assert {tuple(source.columns) for source, _ in found.aligned} == {
        ("operation", "rank", "incarnation", "end_s")
    }
    ((source, _), _) = timing_files(folder, engine="pandas").aligned
    assert source.columns[: len(COLUMNS)] == list(COLUMNS)
    with pytest.raises(ConfigurationError, match=r"columns: there is no 'duration'\. There are timestamp"):
        timing_files(folder, columns=["operation", "duration"])


def test_the_size_of_all_files_chooses_what_reads_them(folder: Path) -> None:
    n_bytes = 2 * len(HEADER)
    assert timing_files(folder, large_bytes=n_bytes).n_bytes == n_bytes
    assert timing_files(folder, large_bytes=n_bytes).engine == "pandas"
    assert timing_files(str(folder), large_bytes=n_bytes - 1).engine == "pyarrow"


def test_warnings_are_of_the_line_that_reads(folder: Path) -> None:
    for rank in (0, 1):  # the rows of rank 2 lack
        states(folder / f"timing-rank{rank}.csv", schema_version=99, world_size=3)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        read_timings(folder)
    assert ["schema version 99" in str(one.message) for one in said] == [False, True]
    assert {one.filename for one in said} == {__file__}
