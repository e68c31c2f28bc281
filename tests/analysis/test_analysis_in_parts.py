"""What parts of some processes say together is what is said of all their rows."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rank_tables import quick_table as table
from seeds import few_examples
from simulated_runs import data_parallel, factors
from slow import slow
from timing_files import record

from timing_logger import analysis
from timing_logger.analysis.accounting.account import ACCOUNT
from timing_logger.analysis.collectives.messages import MESSAGES
from timing_logger.analysis.rows.analysis import ByProcess
from timing_logger.analysis.rows.overlap import EFFICIENCIES, OVERLAP
from timing_logger.analysis.rows.summarize import totals_by
from timing_logger.analysis.verdict.windows import STRAGGLERS
from timing_logger.results.verdict import Verdict
from timing_logger.schema.record import Record

ANALYSES: list[tuple[ByProcess[Any, Any], Any]] = [
    (ACCOUNT, analysis.account),
    (OVERLAP, analysis.overlap),
    (EFFICIENCIES, analysis.efficiencies),
    (MESSAGES, lambda timings: analysis.summarize_messages(analysis.message_waits(timings))),
]


def one_table_for_each_process(timings: pd.DataFrame) -> list[pd.DataFrame]:
    return [rows.reset_index(drop=True) for _, rows in timings.groupby(["rank", "incarnation"])]


BY = [["operation"], ["layer_name", "operation"], ["iteration", "group"], ["rank", "phase"], ["incarnation"]]


def assert_steps_are_the_same_in_parts(timings: pd.DataFrame) -> Verdict:
    """Compare what asks for steps and epochs, and return the verdict."""
    tables = one_table_for_each_process(timings)
    for in_parts, analyse in ANALYSES:
        found = in_parts.reduce([in_parts.map(rows) for rows in tables])
        pd.testing.assert_frame_equal(found, analyse(timings), check_exact=True)
    return assert_verdicts_are_the_same_in_parts(timings)


def assert_verdicts_are_the_same_in_parts(timings: pd.DataFrame) -> Verdict:
    """Compare the verdict and its windows, and return the verdict."""
    tables = one_table_for_each_process(timings)
    verdict, windows = STRAGGLERS.reduce([STRAGGLERS.map(rows) for rows in tables])
    expected = analysis.stragglers_and_windows(timings)
    assert verdict.as_dict() == expected.verdict.as_dict()
    pd.testing.assert_frame_equal(windows, expected.windows, check_exact=True)
    return verdict


def assert_sums_are_the_same_in_parts(timings: pd.DataFrame) -> None:
    tables = one_table_for_each_process(timings)
    for by in BY:
        in_parts = totals_by(by)
        found = in_parts.reduce([in_parts.map(rows) for rows in tables])
        pd.testing.assert_frame_equal(found, analysis.summarize(timings, by), check_exact=True)


rows = st.lists(
    st.builds(
        record,
        operation=st.sampled_from(["ALLREDUCE", "IALLREDUCE", "WAIT", "FORWARD", "BACKWARD", "SEND", "RECV"]),
        start_s=st.integers(1, 40).map(lambda tenths: tenths / 10),
        elapsed_ms=st.none() | st.integers(1, 3000).map(lambda sevenths: sevenths / 7),
        iteration=st.none() | st.integers(0, 3),
        epoch=st.none() | st.integers(0, 2),
        seq=st.none() | st.integers(0, 3),
        group=st.sampled_from(["", "tp", "world"]),
        group_size=st.none() | st.integers(1, 3),
        peer=st.none() | st.integers(0, 2),
        thread=st.sampled_from(["a", "b"]),
    ),
    min_size=1,
    max_size=8,
)


@pytest.mark.slow("random processes; a slow rank and sums in parts are quick")
@few_examples(2)
@given(st.lists(rows, min_size=1, max_size=3), st.booleans())
def test_the_parts_of_any_processes_say_what_all_rows_say(
    processes: list[list[Record]], restarted: bool
) -> None:
    timings = table(*processes)
    if restarted:  # the last one was an earlier life of rank 0
        last = timings["rank"] == len(processes) - 1
        timings = timings.assign(
            incarnation=timings["incarnation"].mask(last & (timings["rank"] > 0), 2),
            rank=timings["rank"].mask(last, 0),
        ).sort_values(["rank", "incarnation"], kind="stable", ignore_index=True)
    assert_steps_are_the_same_in_parts(timings)
    assert_sums_are_the_same_in_parts(timings)


def test_sums_of_parts_are_those_of_all_rows() -> None:
    outside = record("SEND", 2.0, 1 / 7, iteration=None, group="", layer_name="b")
    ranks = [[record(start_s=1 + i, elapsed_ms=i / 7, iteration=i) for i in range(3)], [outside], [outside]]
    timings = table(*ranks, incarnations=[1, 1, 2])
    assert_sums_are_the_same_in_parts(timings.assign(rank=timings["rank"].clip(upper=1)))


def test_a_slow_rank_is_named_from_parts() -> None:
    slower = factors(60, 3, noise=0.05)
    slower[20:50, 2] *= 2
    assert assert_verdicts_are_the_same_in_parts(data_parallel(slower)).ranks == (2,)


@pytest.mark.slow("the verdict is quick, and what asks for steps of another run")
def test_what_is_said_of_the_steps_of_a_run_with_a_slow_rank_is_the_same_in_parts() -> None:
    slower = factors(60, 3, noise=0.05)
    slower[20:50, 2] *= 2
    assert_steps_are_the_same_in_parts(data_parallel(slower))


@pytest.mark.slow("in parts; roles themselves are quick")
def test_roles_are_those_of_the_files_or_of_the_caller() -> None:
    slower = factors(40, 4, noise=0.05)
    slower[:, 2:] *= 2
    timings = data_parallel(slower)
    for rank, rows in enumerate(tables := one_table_for_each_process(timings)):
        rows.attrs["files"] = [{"rank": rank, "sidecar": {"labels": {"stage": rank // 2}}}]
    timings.attrs["files"] = [rows.attrs["files"][0] for rows in tables]
    verdict = STRAGGLERS.reduce(list(map(STRAGGLERS.map, tables))).verdict
    assert verdict.as_dict() == analysis.stragglers(timings).as_dict()
    assert verdict.labels == "stage=1"
    stated = dict.fromkeys(range(4), "one")
    found = STRAGGLERS.reduce(list(map(STRAGGLERS.map, tables)), roles=stated).verdict
    assert found.as_dict() == analysis.stragglers(timings, roles=stated).as_dict()


@pytest.mark.slow("a rarer run, found at random; one that restarts is quick")
@pytest.mark.parametrize("iterations", [(None, 1), slow((1, None), "the same two ranks exchanged")])
def test_a_process_without_iterations_has_no_step_where_others_have(
    iterations: tuple[int | None, int | None],
) -> None:
    timings = table(
        *([record("FORWARD", 1 + i, 5.0, iteration=step) for i in range(3)] for step in iterations)
    )
    assert_steps_are_the_same_in_parts(timings)


def test_a_process_is_counted_anew_or_not_whatever_others_there_are() -> None:
    falls_in_the_file = [
        record("ALLREDUCE", 0.1, None, iteration=1, thread="a"),
        record("ALLREDUCE", 2.5, None, iteration=0, thread="b"),
    ]
    falls_in_time_alone = [
        record("SEND", 3.2, None, iteration=0, thread="a"),
        record("FORWARD", 0.9, 39.0, iteration=3, thread="a"),
    ]
    assert_steps_are_the_same_in_parts(table(falls_in_the_file, falls_in_time_alone))


@pytest.mark.slow("a rarer run, found at random; one that restarts is quick")
@pytest.mark.parametrize("longest", [2, slow(3, "the same with an epoch that is longer by one")])
def test_how_many_iterations_lie_between_two_epochs_is_asked_of_all_processes(longest: int) -> None:
    """Only rank 1 tells how long an epoch is."""
    begins_anew = [
        record("ALLREDUCE", 0.1, 1 / 7, iteration=2, group=""),
        record("ALLREDUCE", 4.0, 1 / 7, iteration=0, group=""),
    ]
    assert_steps_are_the_same_in_parts(table(begins_anew, [record("WAIT", 0.1, None, iteration=longest)]))


@pytest.mark.slow("a rarer run, found at random; one that restarts is quick")
def test_a_process_without_iterations_does_not_tell_how_long_an_epoch_is() -> None:
    begins_anew = [
        record("RECV", 1.0, 1 / 7, iteration=3),
        record("RECV", 3.0, 1 / 7, iteration=1),
    ]
    counted_from_0 = [record("RECV", 3.1, 18.0, iteration=None)]
    assert_steps_are_the_same_in_parts(table(begins_anew, counted_from_0))


def _work(*steps: tuple[int | None, int | None]) -> list[Record]:
    """Rows of these epochs and iterations, one after the other."""
    plain: dict[str, Any] = {"seq": None, "group": "", "group_size": None}
    return [
        record("FORWARD", 1 + i / 10, 90.0, epoch=epoch, iteration=iteration, **plain)
        for i, (epoch, iteration) in enumerate(steps)
    ]


RESTARTS = _work((0, 0), (1, 0))
IN_TWO_EPOCHS = _work((0, 0), (0, 1), (1, 1), (1, 2))
IN_ONE_ROW_NO_EPOCH = _work((0, 0), (None, 1), (1, 2), (None, 2))
OUTSIDE_ALONE = _work((None, 0), (0, None))
AND_ANOTHER_OUTSIDE = _work((2, 0), (None, None))
FALLS_BACK_IN_ONE_EPOCH = _work((0, 0), (0, 2), (0, 0), (0, 2))
COUNTED = _work((None, 0), (None, 2), (None, 0), (None, 2))
BEGINS_WITHOUT_EPOCH = _work((None, 0), (0, 0), (0, 2), (1, 0))


@pytest.mark.slow("beside ranks with other epochs, in parts; epochs themselves are quick")
def test_what_a_ranks_epochs_are_is_the_same_in_parts_whatever_those_of_others_are() -> None:
    """A rank of each kind in one run; below, those that were once taken for each other by themselves."""
    assert_steps_are_the_same_in_parts(
        table(
            RESTARTS, IN_TWO_EPOCHS, IN_ONE_ROW_NO_EPOCH, OUTSIDE_ALONE, AND_ANOTHER_OUTSIDE,
            FALLS_BACK_IN_ONE_EPOCH, COUNTED, BEGINS_WITHOUT_EPOCH,
        )
    )  # fmt: skip


@pytest.mark.slow("the test before this one has these ranks, and more, in one run")
@pytest.mark.parametrize(
    "ranks",
    [
        pytest.param((RESTARTS, IN_TWO_EPOCHS), id="an iteration in two epochs"),
        pytest.param((RESTARTS, IN_ONE_ROW_NO_EPOCH), id="an iteration that states no epoch in one row"),
        pytest.param(
            (OUTSIDE_ALONE, AND_ANOTHER_OUTSIDE, RESTARTS), id="an epoch of rows outside of any iteration"
        ),
        pytest.param((RESTARTS, FALLS_BACK_IN_ONE_EPOCH), id="recorded"),
        pytest.param((RESTARTS, COUNTED), id="counted"),
        pytest.param((COUNTED, BEGINS_WITHOUT_EPOCH), id="a row without epoch"),
    ],
)
def test_what_a_ranks_epochs_are_is_the_same_in_parts_beside(ranks: tuple[list[Record], ...]) -> None:
    assert_steps_are_the_same_in_parts(table(*ranks))


def epochs_of_rank_1(*ranks: list[Record]) -> list[int]:
    steps = analysis.overlap(table(*ranks)).query("rank == 1")
    return [int(epoch) for epoch in steps["epoch"].fillna(-1)]


def test_an_iteration_in_two_epochs_is_one_step_though_another_rank_restarts() -> None:
    assert len(epochs_of_rank_1(RESTARTS, IN_TWO_EPOCHS)) == 3


def test_an_iteration_that_states_no_epoch_in_one_row_is_one_step_though_another_rank_restarts() -> None:
    assert epochs_of_rank_1(RESTARTS, IN_ONE_ROW_NO_EPOCH) == [0, 0, 1]


def test_a_row_without_epoch_of_a_rank_that_restarts_is_of_no_epoch_though_another_rank_counts_them() -> None:
    assert epochs_of_rank_1(COUNTED, BEGINS_WITHOUT_EPOCH) == [0, 0, 1, -1]


def test_parts_know_how_many_ranks_the_run_has() -> None:
    sent = [record("SEND", 1.0, 1.0, group_size=3, seq=0, peer=2)]
    received = [record("RECV", 1.0, 1.0, group_size=3, seq=0, peer=0)]
    tables = one_table_for_each_process(table(sent, [], received))
    for rank, rows in zip((0, 2), tables, strict=True):
        rows.attrs["files"] = [{"rank": rank, "sidecar": {"world_size": 3}}]
    assert MESSAGES.reduce([MESSAGES.map(rows) for rows in tables])["count"].tolist() == [1]
