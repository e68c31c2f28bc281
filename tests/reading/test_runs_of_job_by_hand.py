"""Which files are of one run, and how that is said, by what is known of each file: none is read."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from timing_logger.errors import ConfigurationError
from timing_logger.reading import runs_of_job
from timing_logger.reading.runs_of_job import (
    Run,
    check_incarnations,
    newest_run,
    number_of_run,
    numbers_of_runs,
)
from timing_logger.reading.sources import Lifetime
from timing_logger.schema.timing_files import TimingFile


def source(rank: int = 0, incarnation: int = 1, life: tuple[int, int] | None = None, **sidecar: Any) -> Any:
    """Return what is known of a file."""
    name = TimingFile(rank, incarnation)
    lifetime = Lifetime(*life) if life else None
    return SimpleNamespace(name=name, path=Path(name.name), sidecar=sidecar, lifetime=lifetime)


@pytest.mark.parametrize("value", [True, False, "first", 1.0, None])
def test_what_names_no_run_is_refused(value: object) -> None:
    with pytest.raises(ConfigurationError, match="say 'latest', 'all' or the number of a run"):
        check_incarnations(value)


@pytest.mark.parametrize("value", ["latest", "all", 0, 7])
def test_what_names_a_run_is_taken(value: object) -> None:
    check_incarnations(value)


def test_a_run_with_one_file_of_each_rank_has_the_highest_number_in_their_names() -> None:
    assert numbers_of_runs([source(0, 3), source(1, 2)]) == [3]


def test_a_run_begins_with_the_first_of_its_ranks() -> None:
    stated = [source(rank, started_unix_ns=at) for rank, at in enumerate((7, 5, 9))]
    assert runs_of_job._began_ns(stated) == 5


def test_where_no_sidecar_says_when_a_run_began_its_rows_do() -> None:
    of_rows = [source(0, life=(6, 9)), source(1), source(2, life=(4, 5))]
    assert runs_of_job._began_ns(of_rows) == 4
    assert runs_of_job._began_ns([*of_rows, source(3, started_unix_ns=8)]) == 8
    assert runs_of_job._began_ns([source()]) == 0


def two_runs() -> list[Any]:
    """Return the files of run a, which ended when run b began, on two ranks each."""
    return [
        source(0, 1, run_id="a", started_unix_ns=1), source(0, 2, run_id="b", started_unix_ns=5),
        source(1, 1, run_id="a", started_unix_ns=1), source(1, 2, run_id="b", started_unix_ns=5),
    ]  # fmt: skip


def without_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no two files of one run be of different incarnations of it."""
    monkeypatch.setattr(runs_of_job, "runs_by_times", lambda sources: [sources])


def test_the_latest_run_needs_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    without_rows(monkeypatch)
    files = two_runs()
    assert [number_of_run(files, file.path) for file in files] == [1, None, 1, None]
    assert number_of_run(files, Path("another")) is None
    assert number_of_run(files[:1], files[0].path) is None


def of_number(number: int, n_runs: int) -> Any:
    """Return what is read of so many runs, whose files are not in the order of their names."""
    runs = [Run(1 + n, "", [source(9 - n, 1), source(0, 1 + n)]) for n in range(n_runs)]
    return runs_of_job._of_number(runs, number)


def test_the_files_that_are_left_out_are_in_the_order_of_their_names() -> None:
    left_out = of_number(2, 3).left_out
    assert [(one.path.name, one.reason) for one in left_out] == [
        ("timing-rank0.csv", "of run 1"), ("timing-rank0.run3.csv", "of run 3"),
        ("timing-rank7.csv", "of run 3"), ("timing-rank9.csv", "of run 1"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("number", "n_runs", "about"),
    [
        (1, 1, ""),
        (1, 2, "This is about run 1. Left out: run 2."),
        (2, 2, "This is about run 2, which began last. Left out: run 1."),
        (4, 4, "This is about run 4, which began last. Left out: run 1, run 2, run 3."),
        (5, 5, "This is about run 5, which began last. Left out: run 2, run 3, run 4, 1 earlier."),
        (6, 6, "This is about run 6, which began last. Left out: run 3, run 4, run 5, 2 earlier."),
    ],
)
def test_the_run_and_the_latest_of_the_others_are_named(number: int, n_runs: int, about: str) -> None:
    assert of_number(number, n_runs).about == about


def test_with_one_rank_alone_no_times_are_asked() -> None:
    files = [source(0, 1), source(0, 2)]
    for file in files:
        del file.lifetime
    kept, left_out = newest_run(files)
    assert kept == files[1:]
    assert left_out == [(files[0].path, "timing-rank0.run2.csv of the same rank is newer")]


@pytest.mark.parametrize(
    ("began", "ended", "is_left_out"),
    [(5, 29, True), (10, 29, True), (11, 29, False), (5, 30, False), (5, 31, False)],
)
def test_a_file_that_ended_before_another_rank_began_anew_is_of_an_earlier_job(
    began: int, ended: int, is_left_out: bool
) -> None:
    files = [source(0, 1, (0, 10)), source(0, 2, (30, 40)), source(1, 1, (began, ended))]
    _, left_out = newest_run(files)
    reason = "of an earlier job: it had ended when timing-rank0.run2.csv began"
    assert left_out[1:] == [(files[2].path, reason)] * is_left_out
