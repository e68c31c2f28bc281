"""The figures of a job: a bounded list of what is known, under steady names."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from slow import slow
from snapshots import BEGINS, ENDS, HANGS, SLOW, snapshot_of, snapshot_of_sample

from timing_logger.analysis import Verdict
from timing_logger.live.figures import (
    MOST,
    MOST_OF_JOB,
    MOST_OF_RANK,
    MOST_OPERATIONS,
    OTHER,
    Figure,
    Figures,
)
from timing_logger.live.series import OF_RANK, SERIES
from timing_logger.live.watcher import Snapshot


def value(figures: list[Figure], name: str, **labels: str) -> float:
    (found,) = (each.value for each in figures if (each.series.name, each.labels) == (name, labels))
    return found


def names(figures: list[Figure]) -> set[str]:
    return {figure.series.name for figure in figures}


def of_job(figures: list[Figure]) -> list[Figure]:
    return [figure for figure in figures if "rank" not in figure.labels]


@pytest.mark.parametrize("n_ranks", [8, 1_000, slow(10_000, "as bounded as of 1,000")])
def test_figures_are_bounded_however_many_ranks_there_are(n_ranks: int) -> None:
    everything = {f"rank{rank}": {"epoch": 2} for rank in range(n_ranks)}
    figures = Figures().of(snapshot_of(n_ranks, SLOW, **everything), BEGINS)
    assert names(figures) == {series.name for series in SERIES}, "a figure that is left out is not counted"
    assert len(of_job(figures)) <= MOST_OF_JOB, "MOST_OF_JOB in live/figures.py bounds OF_JOB"
    assert len(figures) - len(of_job(figures)) == MOST_OF_RANK * min(n_ranks, MOST)
    assert len(OF_RANK) == MOST_OF_RANK, "MOST_OF_RANK in live/figures.py bounds OF_RANK"


@pytest.mark.slow("reads files; the figures of what is seen in them are quick")
def test_the_figures_of_the_sample_files_say_what_its_reports_say() -> None:
    figures = Figures().of(snapshot_of_sample())
    assert value(figures, "ranks") == value(figures, "closed_ranks") == 4
    assert value(figures, "iteration", stat="max") == 32
    assert value(figures, "rows_written") == 4 * 301
    assert value(figures, "verdict", verdict="rank") == 1
    assert value(figures, "rank_named", rank="2") == value(figures, "run_state", state="ended") == 1
    assert value(figures, "cost_ratio") == pytest.approx(0.5, abs=0.05)


def test_what_is_not_known_is_left_out() -> None:
    nothing = dict.fromkeys(("written", "iteration", "dropped")) | dict.fromkeys(
        ("rows_per_s", "iterations_per_s", "communication_share", "waited_share"), float("nan")
    )
    known = names(Figures().of(snapshot_of(1, rank0=nothing)))
    assert not known & {
        "iteration",
        "iterations",
        "step",
        "waiting_ratio",
        "rows",
        "rows_written",
        "rank_waiting_ratio",
    }
    assert {"ranks", "silence", "rank_silence", "verdict"} <= known


def test_a_rank_that_does_no_iteration_has_a_rate_and_no_step() -> None:
    figures = Figures().of(snapshot_of(1, rank0={"iterations_per_s": 0.0}))
    assert value(figures, "iterations", stat="max") == 0
    assert not names(figures) & {"step", "rank_step"}


def test_a_run_without_a_rank_has_figures_too() -> None:
    figures = Figures().of(snapshot_of(0))
    assert value(figures, "ranks") == 0
    assert not any(figure.series in OF_RANK for figure in figures)


def test_iterations_that_were_not_recorded_count_in_rates() -> None:
    every_tenth = replace(SLOW, recorded_every=10)
    figures = Figures().of(snapshot_of(4, every_tenth))
    assert value(figures, "iterations", stat="median") == pytest.approx(20.0)
    assert value(figures, "rank_step", rank="3") == pytest.approx(0.05)


def test_exactly_one_state_and_one_verdict_are_1() -> None:
    figures = Figures().of(snapshot_of(8, HANGS))
    for name in ("verdict", "run_state"):
        assert sum(figure.value for figure in figures if figure.series.name == name) == 1
    assert value(figures, "hang") == value(figures, "verdict", verdict="hang") == 1


def test_an_alert_stands_from_the_change_that_begins_to_the_one_that_ends() -> None:
    figures, snapshot = Figures(), snapshot_of(4, SLOW)
    told = [value(figures.of(snapshot, change), "alert") for change in (None, BEGINS, None, ENDS, None)]
    assert told == [0, 1, 1, 0, 0]
    assert value(figures.of(snapshot), "change_timestamp", change="ends") == ENDS.unix_s


def with_operation(name: str) -> Snapshot:
    return snapshot_of(4, replace(SLOW, operation=name))


def operation(figures: list[Figure]) -> str:
    (info,) = (figure for figure in figures if figure.series.name == "verdict_info")
    return info.labels["operation"]


def test_operations_beyond_the_first_ones_share_a_label() -> None:
    figures = Figures()
    labels = [operation(figures.of(with_operation(f"OP_{i}"))) for i in range(MOST_OPERATIONS + 5)]
    assert labels[0] == "OP_0"
    assert labels[MOST_OPERATIONS:] == [OTHER] * 5
    assert operation(figures.of(with_operation("OP_0"))) == "OP_0"


def test_a_long_name_of_an_operation_is_cut() -> None:
    assert len(operation(Figures().of(with_operation("X" * 5000)))) == 64


def test_a_name_of_no_valid_text_becomes_one() -> None:
    assert operation(Figures().of(with_operation("LOAD\udcff"))) == "LOAD?"


def test_the_verdict_says_who_owns_the_delay() -> None:
    figures = Figures().of(snapshot_of(4, SLOW))
    labels = {"verdict": "rank", "operation": "DATA", "owner": "machine", "cause": "", "window": "ongoing"}
    assert value(figures, "verdict_info", **labels) == 1


def test_names_have_the_form_that_prometheus_wants() -> None:
    full = [series.full_name for series in SERIES]
    assert len(set(full)) == len(full)
    assert all(re.fullmatch(r"timing_logger_[a-z_]+", name) for name in full)
    assert all(name.endswith("_total") == series.counts for name, series in zip(full, SERIES, strict=True))
    assert {
        "timing_logger_step_seconds",
        "timing_logger_waiting_ratio",
        "timing_logger_rows_per_second",
    } <= set(full)


def test_figures_have_the_labels_of_their_series() -> None:
    for figure in Figures().of(snapshot_of(20, Verdict(verdict="diffuse")), BEGINS):
        assert tuple(figure.labels) == figure.series.labels
