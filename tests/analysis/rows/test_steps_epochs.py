"""Iterations that are counted from 0 in each epoch: equal numbers are different steps."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from page_data import unpacked
from rank_tables import as_polars
from rank_tables import quick_table as table
from simulated_runs import data_parallel, factors
from slow import slow
from timing_files import record, write_table

from timing_logger.analysis import (
    Verdict,
    match_collectives,
    overlap,
    scores,
    spread_between_ranks,
    stragglers,
    summarize,
    summarize_overlap,
    summarize_ranks,
    waits,
    windows,
)
from timing_logger.analysis.rows.steps import _passes
from timing_logger.cli import main
from timing_logger.live.now import snapshot_text
from timing_logger.live.watcher import Watcher
from timing_logger.report import evidence_sentences
from timing_logger.report.html._findings import Findings
from timing_logger.report.html._heatmap import heatmap
from timing_logger.report.html._verdict import judgement
from timing_logger.results.facts import EpochsCounted

PER_EPOCH = 50


@functools.cache
def _made(first: int, end: int, ranks: int) -> pd.DataFrame:
    factor = factors(200, ranks, noise=0.05, seed=7)
    factor[first:end, 2] *= 2
    return data_parallel(factor)


def run(slow: slice = slice(120, 160), *, ranks: int = 4) -> pd.DataFrame:
    """200 iterations that are numbered throughout; rank 2 takes twice its time in some."""
    return _made(slow.start, slow.stop, ranks).copy()


@functools.cache
def verdict_without_epochs() -> Verdict:
    return stragglers(run())


@functools.cache
def overlap_without_epochs() -> pd.DataFrame:
    return overlap(run())


@functools.cache
def windows_without_epochs() -> pd.DataFrame:
    return windows(run())


@functools.cache
def findings_on_epochs() -> Findings:
    return Findings.of(restarting(run()))


@functools.cache
def verdict_on_epochs() -> Verdict:
    return stragglers(restarting(run()))


def restarting(timings: pd.DataFrame) -> pd.DataFrame:
    """The same run as a loop over epochs counts it."""
    number = timings["iteration"]
    return timings.assign(epoch=number // PER_EPOCH, iteration=number % PER_EPOCH)


def without_epochs(timings: pd.DataFrame) -> pd.DataFrame:
    return timings.assign(epoch=pd.array([None] * len(timings), "Int64"))


def as_numbered(steps: pd.DataFrame) -> pd.Series[Any]:
    return steps["epoch"] * PER_EPOCH + steps["iteration"]


IN_POLARS = slow(as_polars, "that steps have their epochs in polars is quick")


# -- with epochs ---------------------------------------------------------------------------------------


def test_a_verdict_is_that_of_the_run_numbered_throughout_and_names_the_epochs() -> None:
    plain, verdict = verdict_without_epochs(), verdict_on_epochs()
    assert (verdict.ranks, verdict.window) == (plain.ranks, plain.window) == ((2,), "bounded")
    assert (verdict.score, verdict.cost_ms, verdict.gates) == (plain.score, plain.cost_ms, plain.gates)
    assert verdict.when == "iteration 20 of epoch 2 to iteration 9 of epoch 3"
    assert verdict.as_dict()["first_epoch"] == 2


@pytest.mark.slow("a rarer window; one over two epochs is quick")
def test_a_window_within_one_epoch_says_so_in_words() -> None:
    verdict = stragglers(restarting(run(slice(105, 140))))
    assert verdict.when == "iterations 5 to 39 of epoch 2"
    assert any("iterations 5 to 39 of epoch 2" in sentence for sentence in evidence_sentences(verdict))


@pytest.mark.parametrize("library", [lambda frame: frame, IN_POLARS], ids=["pandas", "polars"])
def test_windows_have_their_epochs_beside_their_iterations(library: Any) -> None:
    found = windows(library(restarting(run())))
    names = ["first_iteration", "last_iteration", "first_epoch", "last_epoch"]
    assert [found[name].to_list()[0] for name in names] == [20, 9, 2, 3]
    assert list(found.columns)[4:8] == names


@pytest.mark.slow("that other sums count every step is quick")
def test_scores_count_every_step() -> None:
    assert set(scores(restarting(run()))["steps"]) == {200}


@pytest.mark.parametrize(
    "library", [slow(lambda frame: frame, "in polars it is quick"), as_polars], ids=["pandas", "polars"]
)
def test_overlap_has_a_row_for_each_step(library: Any) -> None:
    plain, found = overlap_without_epochs(), overlap(library(restarting(run())))
    assert list(found.columns)[:4] == ["rank", "incarnation", "iteration", "epoch"]
    assert found["step_ms"].to_list() == pytest.approx(plain["step_ms"].to_list())
    as_pandas = pd.DataFrame({name: found[name].to_list() for name in found.columns})
    assert as_numbered(as_pandas).tolist() == plain["iteration"].tolist()
    assert set(summarize_overlap(found)["iterations"].to_list()) == {200}


def test_a_summary_counts_the_iterations_of_every_epoch() -> None:
    assert summarize_ranks(restarting(run()))["iterations"].tolist() == [200] * 4


def test_sums_can_be_asked_for_by_epoch() -> None:
    found = summarize(restarting(run()), ["epoch"])
    assert found["epoch"].tolist() == [0, 1, 2, 3]
    assert found["count"].sum() == len(run())


def test_the_spread_between_ranks_is_compared_step_by_step() -> None:
    plain, found = spread_between_ranks(run()), spread_between_ranks(restarting(run()))
    pd.testing.assert_frame_equal(found, plain)
    assert found["steps"].tolist() == [200]


def test_collectives_without_a_number_are_matched_within_their_epoch() -> None:
    timings = restarting(run()).assign(seq=pd.array([pd.NA] * len(run()), "Int64"))
    lost = (timings["operation"] == "ALLREDUCE") & (timings["rank"] == 1) & (timings["epoch"] == 0)
    found = match_collectives(timings[~(lost & (timings["iteration"] == 7))].reset_index(drop=True))
    flawed = found[found["state"] != "complete"]
    assert set(zip(flawed["epoch"], flawed["iteration"], strict=True)) == {(0, 7)}
    assert found["instance"].nunique() == 200


def test_waits_say_of_which_epoch_they_are() -> None:
    found = waits(restarting(run()))
    assert list(found.columns)[4:6] == ["iteration", "epoch"]
    assert as_numbered(found).tolist() == found["seq"].tolist()


# -- without -------------------------------------------------------------------------------------------


def test_iterations_that_fall_back_begin_an_epoch_that_is_counted_and_the_evidence_says_so() -> None:
    plain, verdict = verdict_on_epochs(), stragglers(without_epochs(restarting(run())))
    assert (verdict.when, verdict.score) == (plain.when, plain.score)
    assert EpochsCounted() in verdict.evidence


@pytest.mark.slow("iterations that fall back are quick without epochs")
def test_one_epoch_for_all_tells_no_more_than_none() -> None:
    timings = restarting(run()).assign(epoch=pd.array([0] * len(run()), "Int64"))
    assert overlap(timings)["epoch"].max() == 3


def test_rows_that_come_late_or_early_belong_to_the_nearest_step_of_their_number() -> None:
    steps = [(i, 1.0 + 0.1 * at) for at, i in enumerate([0, 1, 2, 3, 0, 1, 2, 3])]
    plain = {"seq": None, "group": "", "group_size": None, "epoch": None}
    rows = [record("FORWARD", start_s, 90.0, iteration=i, **plain) for i, start_s in steps]
    rows += [
        record("WAIT", 1.405, 5.0, iteration=3, **plain),  # when iteration 0 had begun again
        record("H2D", 1.395, 1.0, iteration=0, thread="prefetch", **plain),  # before it had
    ]
    found = overlap(table(rows))
    of_step = {(row.epoch, row.iteration): row for row in found.itertuples()}
    assert len(found) == 8
    assert of_step[0, 3].waited_ms == pytest.approx(5)
    assert of_step[1, 0].copy_ms == pytest.approx(1)


def test_a_thread_that_is_behind_is_no_restart() -> None:
    plain = {"seq": None, "group": "", "group_size": None, "epoch": None}
    rows = [record("FORWARD", 1 + 0.1 * i, 90.0, iteration=i, **plain) for i in range(10)]
    rows += [record("COPY", 1.15 + 0.1 * i, 1.0, iteration=i, thread="late", **plain) for i in range(5)]
    rows.sort(key=lambda row: row.start_ns)
    assert "epoch" not in overlap(table(rows))


@pytest.mark.parametrize("ahead", [1, *(slow(more, "the same, further ahead") for more in (2, 5))])
def test_what_is_fetched_ahead_on_the_same_thread_is_no_restart(ahead: int) -> None:
    timings = run()
    fetched = timings["operation"] == "DATA"
    timings.loc[fetched, "iteration"] += ahead
    assert "epoch" not in overlap(timings)


# -- where people look ---------------------------------------------------------------------------------


@pytest.mark.slow("of the page; windows of epochs are quick")
def test_the_heatmap_has_a_column_for_each_step_and_frames_the_slow_ones() -> None:
    drawn = heatmap(findings_on_epochs())
    assert drawn.data is not None
    ends = [unpacked(drawn.data[name])[[0, 50, 199]].tolist() for name in ("first", "first_epoch")]
    assert ends == [[0, 0, 49], [0, 1, 3]]
    assert drawn.data["slow"] == {"rows": [2], "frames": [[2, 120, 159]]}


@pytest.mark.slow("on a page; that the verdict says so is quick")
def test_the_page_says_of_which_epoch_it_speaks() -> None:
    said = str(judgement(findings_on_epochs()))
    assert "in iteration 20 of epoch 2 to iteration 9 of epoch 3 only, in BACKWARD." in said


@pytest.mark.slow("that the verdict names epochs, and that they are selected, is quick")
def test_the_command_line_names_epochs_and_selects_iterations_in_each(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(
        write_table(tmp_path / "run", restarting(run(slice(0, 200), ranks=3)).query("iteration < 25"))
    )
    assert main(["stragglers", folder, "--iterations", "10:20"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "throughout (iteration 10 of epoch 0 to iteration 19 of epoch 3)" in said
    assert "40 slow steps" in said


@pytest.mark.slow("that the verdict names epochs is quick")
def test_watching_tells_the_epoch_of_the_latest_step(tmp_path: Path) -> None:
    folder = write_table(
        tmp_path / "run",
        restarting(run(ranks=3)).query("epoch == 1 and iteration > 40 or iteration < 5 and epoch == 2"),
    )
    look = Watcher(folder, 1e9).snapshot()
    assert {(rank.epoch, rank.iteration) for rank in look.ranks} == {(2, 4)}
    assert "epoch" in snapshot_text(look, 120)


# -- where nothing restarts ----------------------------------------------------------------------------


@pytest.mark.slow("what most other tests are: runs without epochs")
@pytest.mark.parametrize("epoch", [0, 50], ids=["one epoch", "iterations numbered through epochs"])
def test_what_does_not_restart_is_as_without_epochs(epoch: int) -> None:
    timings = run()
    numbered = timings.assign(epoch=timings["iteration"] // epoch if epoch else 0)
    pd.testing.assert_frame_equal(overlap(numbered), overlap_without_epochs())
    pd.testing.assert_frame_equal(windows(numbered), windows_without_epochs())
    verdict = stragglers(numbered)
    assert verdict == verdict_without_epochs()
    assert "first_epoch" not in verdict.as_dict()


def test_an_iteration_that_lies_in_two_epochs_is_one_step() -> None:
    timings = run()
    straddling = timings.assign(epoch=timings["iteration"] // 100)
    first_half = straddling["operation"].isin(["DATA", "FORWARD"]) & (straddling["iteration"] == 100)
    straddling.loc[first_half, "epoch"] = 0
    pd.testing.assert_frame_equal(overlap(straddling), overlap_without_epochs())


def passes(led: list[int], *others: tuple[float, int]) -> list[float]:
    """Return the passes of a thread's iterations, one a second, and of another's at other times."""
    iteration = np.array([*led, *(one for _, one in others)], np.float64)
    when = np.array([*range(len(led)), *(at for at, _ in others)], np.float64)
    lane = np.array([0] * len(led) + [1] * len(others))
    return _passes(iteration, when, lane, np.ones(len(lane), np.bool_)).tolist()


@pytest.mark.parametrize(
    ("led", "begins"),
    [
        ([0, 1, 2, 3, 0, 1], [4]), ([0, 1, 2, 3, 4, 2, 3], [5]), ([0, 1, 2, 3, 4, 5, 3, 4], []),
        ([0, 1, 0, 1], []),
        ([0, 1, 2, 0, 1, 2, 0], [3, 6]), ([9, 8, 7], []),
    ],
)  # fmt: skip
def test_a_pass_begins_where_iterations_fall_by_half_of_their_range_and_by_two(
    led: list[int], begins: list[int]
) -> None:
    assert passes(led) == [sum(at >= begin for begin in begins) for at in range(len(led))]


def test_a_row_of_a_step_that_the_leading_thread_lacks_is_of_the_pass_under_way() -> None:
    led = [0, 2, 4, 0, 2, 4, 0, 2, 4]
    assert passes(led, (1.5, 1), (4.5, 1), (7.5, 3), (-1.0, 1)) == [0, 0, 0, 1, 1, 1, 2, 2, 2, 0, 1, 2, 0]
