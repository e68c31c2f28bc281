"""A run played again lasts as long as it did, or as long as it would have with other times of its ranks."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest
from account_rows import Row, row, table
from hypothesis import given
from hypothesis import strategies as st
from played_runs import lived, played, random_program
from seeds import few_examples
from simulated_runs import data_parallel, factors, pipeline
from slow import slow

from timing_logger.analysis.accounting.nodes import WAIT
from timing_logger.analysis.accounting.replay import Replay
from timing_logger.analysis.rows.arrays import Floats
from timing_logger.analysis.step_times.step_times import step_times
from timing_logger.analysis.verdict.who.pricing import ByReplay, Slowed


@few_examples(2)
@given(st.integers(0, 100_000))
def test_played_with_what_was_recorded_a_run_lasts_as_long_as_it_did(seed: int) -> None:
    lasted_ms, rows = lived(*random_program(seed))
    run = played(table(*rows))
    assert run.lasts_ms(run.program.own_s) == pytest.approx(lasted_ms)


@few_examples(2)
@given(st.integers(0, 100_000))
def test_a_run_of_collectives_played_with_other_times_lasts_as_long_as_the_run_with_those_times(
    seed: int,
) -> None:
    n, meetings, works_ms = random_program(seed)
    meetings = [meeting._replace(is_message=False) for meeting in meetings]
    _, rows = lived(n, meetings, works_ms)
    rng = random.Random(seed)
    other_ms = [[ms * rng.choice([1.0, 0.3, 2.0]) for ms in before] for before in works_ms]
    expected_ms, _ = lived(n, meetings, other_ms)
    run = played(table(*rows))
    own_s = run.program.own_s.copy()
    for rank in range(n):
        (line,) = np.flatnonzero(run.lines.rank == rank) if (run.lines.rank == rank).any() else (None,)
        if line is None:
            continue
        mine = [i for i, meeting in enumerate(meetings) if rank in meeting.members]
        nodes = np.flatnonzero((run.program.line == line) & (run.program.kind != WAIT))
        own_s[nodes] = [other_ms[i][rank] / 1e3 for i in [*mine, -1]]
    assert run.lasts_ms(own_s) == pytest.approx(expected_ms)


# -- prices ----------------------------------------------------------------------------------------------


def prices_of(timings: pd.DataFrame) -> ByReplay:
    times = step_times(timings)
    assert times.played is not None
    program, call, column, *_ = times.played
    return ByReplay(program, call, column, np.zeros(len(column), np.int64), min_alike=3)


ALL = np.arange(100)


def test_a_rank_costs_by_how_much_the_run_is_shorter_without_its_delay() -> None:
    healthy = factors(100, 8, noise=0.05)
    slow = healthy.copy()
    slow[:, 3] *= 1.4
    with_it, without = (data_parallel(factor) for factor in (slow, healthy))
    cost_ms = 1e3 * (with_it["end_counter"].max() - without["end_counter"].max())
    assert prices_of(with_it).saved_of_each_ms([[Slowed(3, ALL)]])[0] == pytest.approx(cost_ms, rel=0.1)


def test_two_ranks_that_are_equally_slow_do_not_hide_each_other() -> None:
    factor = factors(100, 8)
    factor[:, [2, 5]] = 1.5
    prices = prices_of(data_parallel(factor))
    alone_ms = prices.saved_of_each_ms([[Slowed(2, ALL)]])[0]
    both_ms = prices.saved_of_each_ms([[Slowed(2, ALL), Slowed(5, ALL)]])[0]
    harm_ms = prices.harm_ms([Slowed(2, ALL), Slowed(5, ALL)])
    assert alone_ms == pytest.approx(0.0, abs=1e-6)
    assert harm_ms == pytest.approx([both_ms, both_ms])


def test_a_rank_costs_as_much_in_steps_in_which_it_has_no_wait_as_all_was_done() -> None:
    """As in a training with buckets: who comes last finds the all-reduce done when it would wait for it."""
    rows, now = [], 0.0
    for step in range(40):
        came = [now + 2.0, now + 22.0]
        for rank, at in enumerate(came):
            of = {"group_size": 2, "seq": step, "iteration": step}
            rows.append(row(rank, "IALLREDUCE", at, now + 22.5, **of))
            if rank == 0 or step % 3:
                rows.append(row(rank, "WAIT", at + 0.1, now + 22.5, **of))
        now += 23.0
    prices = prices_of(table(*rows))
    assert prices.saved_of_each_ms([[Slowed(1, prices.steps)]])[0] == pytest.approx(40 * 20.0, rel=0.05)


def rounds(ranks: int, begins_ms: float, works_ms: Sequence[float], steps: range) -> tuple[list[Row], float]:
    """Steps of some ranks, each of which works so long; their rows, and when the last of them ended."""
    rows, now = [], begins_ms
    for step in steps:
        of = {"group": f"of {ranks}", "group_size": ranks, "seq": step, "iteration": step}
        done = now + max(works_ms) + 1.0
        for rank, ms in enumerate(works_ms):
            rows.append(row(rank, "work", now, now + ms, iteration=step))
            rows.append(row(rank, "ALLREDUCE", now + ms, done, **of))
        now = done
    return rows, now


@pytest.mark.parametrize("with_state", [slow(False, "with a broadcast of the state it is quick"), True])
def test_ranks_that_join_a_run_would_come_sooner_had_the_others_been_quicker(with_state: bool) -> None:
    few, ended_ms = rounds(3, 0.0, [20.0, 30.0, 20.0], range(40))
    at, state = ended_ms + 1000.0, []
    for rank in range(5 * with_state):
        of = {"group": "of 5", "group_size": 5, "seq": 0, "iteration": 40, "peer": 0}
        state.append(row(rank, "BCAST", at + 3 * (rank > 0), at + (5 if rank else 0.1), **of))
    all_of_them, _ = rounds(5, at + 5, [20.0] * 5, range(40, 80))
    prices = prices_of(table(*few, *state, *all_of_them))
    assert prices.saved_of_each_ms([[Slowed(1, prices.steps)]])[0] == pytest.approx(40 * 10.0, rel=0.05)


@pytest.mark.slow("a rarer beginning; ranks that join are quick")
def test_a_rank_that_the_others_wait_for_when_it_starts_comes_at_its_own_time() -> None:
    nobody = row(0, "SEND", 1990, 1991, iteration=0, peer=2)
    at_first = [row(0, "work", 0, 1990, iteration=0), nobody, row(1, "work", 0, 1000, iteration=0)]
    together = [row(2, "work", 3000, 3020, iteration=0)]
    for rank, came_ms in enumerate((2000, 1000, 3020)):
        of = {"group": "of 3", "group_size": 3, "seq": 0, "iteration": 0}
        together.append(row(rank, "ALLREDUCE", came_ms, 3021, **of))
    later, _ = rounds(3, 3021, [20.0] * 3, range(1, 20))
    run = played(table(*at_first, *together, *later))
    quicker_s = np.where((run.program.line == 0) & (run.program.kind != WAIT), 0.0, run.program.own_s)
    assert run.lasts_ms(quicker_s) == pytest.approx(run.lasts_ms(run.program.own_s))


def test_a_run_is_not_played_again_where_rows_do_not_tell_for_whom_ranks_waited() -> None:
    factor = factors(20, 4)
    factor[:, 2] = 1.5
    timings, _ = pipeline(factor, stages=4)
    assert prices_of(timings).error < 0.002
    waited_ms = timings.loc[timings["operation"] == "RECV"].groupby("rank")["elapsed_ms"].sum().max()
    run_ms = 1e3 * (timings["end_counter"].max() - timings["start_counter"].min())
    assert prices_of(timings.assign(peer=pd.NA)).error == pytest.approx(waited_ms / run_ms, rel=0.05)


@pytest.mark.slow("a rarer run; one without set-up is quick")
def test_the_set_up_of_communication_keeps_no_run_from_being_played_again() -> None:
    timings = data_parallel(factors(40, 4, 0.05))
    before = timings.groupby("rank").head(1).assign(operation="MPI_INIT", iteration=pd.NA, elapsed_ms=2000.0)
    before = before.assign(
        start_counter=before["start_counter"] - 2.0, end_counter=before["start_counter"]
    ).astype({"iteration": "Int64"})
    begun = pd.concat([before, timings], ignore_index=True)
    assert prices_of(begun).error < 0.001
    assert step_times(begun).waits.unmatched_ms.sum() == 0


def test_pauses_that_every_rank_has_now_and_then_are_no_part_of_what_ranks_cost() -> None:
    rng = np.random.default_rng(5)
    timings = data_parallel(factors(100, 8, noise=0.02) * np.where(rng.random((100, 8)) < 0.05, 3.0, 1.0))
    saved_ms = prices_of(timings).saved_of_each_ms([[Slowed(rank, ALL)] for rank in range(8)])
    run_ms = 1e3 * float(timings["end_counter"].max() - timings["start_counter"].min())
    assert abs(saved_ms.mean()) < 0.01 * run_ms


# -- what nothing explains -------------------------------------------------------------------------------


def in_a_ring(waits_ms: Floats) -> pd.DataFrame:
    """Each rank works 10 ms a step, then receives from the one before it; rank 1 waits for so long."""
    rows, now = [], np.zeros(4)
    for step, wait_ms in enumerate(waits_ms.tolist()):
        for rank in range(4):
            sends_at = now[rank] + 10 + (wait_ms if rank == 0 else 0)
            of = {"group_size": 4, "seq": step, "iteration": step}
            rows.append(row(rank, "work", now[rank], now[rank] + 10, iteration=step))
            rows.append(row(rank, "SEND", sends_at, sends_at + 0.01, peer=(rank + 1) % 4, **of))
            came = now[rank] + 10 + (wait_ms if rank == 1 else 0)
            rows.append(
                row(rank, "RECV", sends_at + 0.01, max(came, sends_at) + 0.1, peer=(rank - 1) % 4, **of)
            )
        now += 10 + wait_ms + 0.2
    return table(*rows)


def test_waiting_that_changes_from_step_to_step_is_not_explained_by_how_ranks_share_their_work() -> None:
    steady, now_and_then = np.full(40, 5.0), np.where(np.arange(40) % 4 == 0, 20.0, 0.0)
    assert step_times(in_a_ring(steady)).waits.varying_ms.sum() == pytest.approx(0.0, abs=1.0)
    waits = step_times(in_a_ring(now_and_then)).waits
    assert waits.varying_ms[0] == pytest.approx(200.0, rel=0.01)


def test_a_run_in_which_no_rank_communicates_can_be_played_too() -> None:
    program = played(table(row(0, "work", 0, 1))).program
    assert Replay(program).ends_s([program.own_s] * 2).tolist() == [[-math.inf, -math.inf]]


def test_with_other_times_of_its_meetings_a_run_lasts_longer_and_the_one_before_stays_as_it_was() -> None:
    rows = [row(rank, "ALLREDUCE", 5.0 * rank, 10.0, group_size=2, seq=0, iteration=0) for rank in range(2)]
    program = played(table(*rows)).program
    replay = Replay(program)
    before_s = replay.ends_s([program.own_s])
    longer = replay.with_times(program.done.took_s + 1.0, program.late_s + 0.25 * (program.kind == WAIT))
    assert longer.ends_s([program.own_s]) == pytest.approx(before_s + 1.25)
    assert replay.ends_s([program.own_s]).tolist() == before_s.tolist()


def test_with_other_times_a_run_that_had_to_be_played_as_a_whole_is_played_anew() -> None:
    rows = [row(rank, "ALLREDUCE", 5.0 * rank, 10.0, group_size=2, seq=0, iteration=0) for rank in range(2)]
    program = played(table(*rows)).program
    own_s = program.own_s + 0.5 * (program.kind == WAIT)  # work between coming and waiting
    replay = Replay(program)
    before_s = replay.ends_s([own_s])
    later = replay.with_times(program.done.took_s, program.late_s + 0.25 * (program.kind == WAIT))
    assert later.ends_s([own_s]) == pytest.approx(before_s + 0.25)


def test_a_step_in_which_nothing_is_done_ends_with_the_one_before() -> None:
    rows = [row(rank, "ALLREDUCE", 5.0 * rank, 10.0, group_size=2, seq=0, iteration=0) for rank in range(2)]
    program = played(table(*rows)).program
    ends_s = Replay(program._replace(n_steps=program.n_steps + 2)).ends_s([program.own_s])
    assert ends_s[-2:].tolist() == [ends_s[-3].tolist()] * 2
    assert np.isfinite(ends_s).all()
