"""Ranks whose rows are missing are told of first, and never count as healthy, closed or complete."""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from places import SAMPLE
from slow import slow
from timing_files import record, write_sidecar, write_timing_file

from timing_logger import analysis, read_timings
from timing_logger.cli import main
from timing_logger.reading.converting import convert
from timing_logger.reading.named_ranks import lacking, select, stated_world_size
from timing_logger.report import evidence_sentences
from timing_logger.report._diagnostics import diagnostics, is_complete
from timing_logger.results import criteria
from timing_logger.schema.timing_files import sidecar_path

Damage = Callable[[Path], object]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return shutil.copytree(SAMPLE, tmp_path / "logs")


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A run of one row."""
    write_sidecar(write_timing_file(tmp_path / "small", 0, [record()]))
    return tmp_path / "small"


def restate(timing_file: Path, **values: object) -> None:
    path = sidecar_path(timing_file)
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def without_rank_2(folder: Path) -> None:
    for path in folder.glob("timing-rank2.*"):
        path.unlink()


def cut(folder: Path) -> None:
    path = folder / "timing-rank2.csv"
    path.write_bytes(path.read_bytes()[:20_000])


def said_of(folder: Path, *arguments: str) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        read_timings(folder)
    return [str(one.message) for one in caught]


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (without_rank_2, "There is no file of rank 2, and the run had 4 ranks."),
        (lambda folder: (folder / "timing-rank2.csv").unlink(), "There is no file of rank 2"),
        (lambda folder: (folder / "timing-rank2.csv").write_bytes(b""), "The file of rank 2 is empty."),
        (cut, "Of the 42,579 bytes that the logger of rank 2 wrote, 20,000 are there."),
    ],
)
def test_reading_says_first_of_which_ranks_rows_are_missing(folder: Path, damage: Damage, said: str) -> None:
    damage(folder)
    assert said in said_of(folder)[0]


def test_a_whole_folder_lacks_nothing(folder: Path) -> None:
    assert said_of(folder) == []


@pytest.mark.parametrize(
    "damage",
    [
        without_rank_2,
        slow(lambda folder: (folder / "timing-rank2.csv").write_bytes(b""), "reading says the same of it"),
    ],
)
def test_where_a_rank_is_missing_nobody_is_said_to_be_healthy(
    folder: Path, damage: Damage, capsys: pytest.CaptureFixture[str]
) -> None:
    damage(folder)
    assert main(["stragglers", str(folder), "--fail-on", "unjudged"]) == 1
    told = capsys.readouterr()
    assert "nobody could be judged: " in told.out
    assert "no rank is slow" not in told.out
    assert "ile of rank 2" in told.err


def test_a_rank_that_is_slow_is_named_even_if_another_is_missing(folder: Path) -> None:
    for path in folder.glob("timing-rank1.*"):
        path.unlink()
    with pytest.warns(UserWarning, match="no file of rank 1"):
        verdict = analysis.stragglers(read_timings(folder))
    assert (verdict.verdict, verdict.ranks, verdict.judged) == ("rank", (2,), True)
    assert "There is no file of rank 1, and the run had 4 ranks." in evidence_sentences(verdict)
    assert 1 in verdict.unjudged_ranks


def test_a_run_of_which_a_file_is_missing_is_not_said_to_have_ended(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    without_rank_2(folder)
    assert main(["hang", str(folder), "--fail-on", "unfinished"]) == 1
    said = capsys.readouterr().out
    assert "Whether the run ended is not known" in said
    assert "no file of rank 2" in said


@pytest.mark.filterwarnings("ignore")
def test_a_file_of_which_rows_are_missing_is_not_complete(folder: Path) -> None:
    cut(folder)
    summary = analysis.overview(read_timings(folder))
    assert [is_complete(counters) for counters in summary.counters] == [True, True, False, True]
    assert any("Of the 42,579 bytes that the logger of rank 2 wrote" in said for said in diagnostics(summary))


@pytest.mark.slow("that the file is not complete, and what is said of it, is quick")
def test_a_summary_calls_no_file_complete_of_which_rows_are_missing(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cut(folder)
    main(["summary", str(folder)])
    said = capsys.readouterr().out
    assert "every record written" not in said
    assert "Of the 42,579 bytes that the logger of rank 2 wrote" in said


def test_ranks_that_were_not_selected_do_not_count_as_missing(folder: Path) -> None:
    assert lacking(select(read_timings(folder), ranks={0, 2, 3}).attrs["files"]) == []


@pytest.mark.slow("that they do not count, and that whoever says it asks, is quick")
def test_ranks_that_were_not_asked_for_do_not_count_as_missing(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["stragglers", str(folder), "--ranks", "0,2,3"]) == 0
    said = capsys.readouterr()
    assert "no file" not in said.out + said.err


@pytest.mark.slow("that it has a sentence of its own is quick, in test_diagnostics.py")
def test_ranks_that_were_to_record_nothing_do_not_spoil_the_verdict_and_are_told_of(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    without_rank_2(folder)
    for path in folder.glob("*.csv"):
        options = json.loads(sidecar_path(path).read_text())["options"]
        restate(path, options={**options, "ranks": [0, 1, 3]})
    assert main(["summary", str(folder)]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert "Rank 2 recorded nothing, as the option ranks of the loggers asks." in said.out


def test_a_sidecar_of_another_schema_is_not_read_without_a_word(small: Path) -> None:
    restate(small / "timing-rank0.csv", schema_version=99)
    assert "its sidecar has schema version 99, and this timing_logger knows 1" in said_of(small)[0]


@pytest.mark.slow("reading says it, also to each command")
@pytest.mark.parametrize("command", [["hang"], ["trace", "-o"], ["stragglers"], ["waits"], ["summary"]])
def test_each_command_says_that_a_sidecar_is_of_another_schema(
    folder: Path, command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in folder.glob("*.csv"):
        restate(path, schema_version=99)
    name, *output = command
    assert main([name, str(folder), *output, *[str(tmp_path / "out.json") for _ in output]]) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert said.count("has schema version 99, and this timing_logger knows 1") == 1
    assert "timing-rank0.csv and 3 more" in said


def test_reading_says_it_once(small: Path) -> None:
    restate(small / "timing-rank0.csv", schema_version=99)
    assert "".join(said_of(small)).count("schema version 99") == 1


@pytest.mark.slow("reading says it, also to whoever converts")
def test_converting_says_that_a_sidecar_is_of_another_schema(folder: Path, tmp_path: Path) -> None:
    restate(folder / "timing-rank0.csv", schema_version=99)
    with pytest.warns(UserWarning, match="schema version 99"):
        convert(folder, "csv", tmp_path / "all.csv")


@pytest.mark.parametrize("version", ["99", None, [1], {"a": 1}])
def test_a_schema_version_of_any_kind_is_told_of(small: Path, version: object) -> None:
    restate(small / "timing-rank0.csv", schema_version=version)
    assert "its sidecar has schema version" in said_of(small)[0]


@pytest.mark.parametrize(
    ("stated", "size"),
    [
        ([4, 4, None], 4),
        ([4, 8], None),
        ([None], None),
        ([0], None),
        ([criteria.MAX_RANKS], criteria.MAX_RANKS),
        ([criteria.MAX_RANKS + 1], None),
    ],
)
def test_the_number_of_ranks_is_known_if_sidecars_agree_on_one_that_can_be(
    stated: list[int | None], size: int | None
) -> None:
    assert stated_world_size([{"sidecar": {"world_size": one}} for one in stated] + [{}]) == size
