"""Where no iteration is recorded, rounds of the collectives that repeat are the steps."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rank_tables import quick_table as table
from simulated_runs import _row, _table
from slow import slow
from timing_files import record

from timing_logger.analysis import stragglers
from timing_logger.analysis.rows.rounds import _period, _rounds, _size_in_which_it_loops, rounds_of
from timing_logger.analysis.rows.tables import opened
from timing_logger.analysis.verdict.verdict import map_judgement, reduce_judgement
from timing_logger.results.facts import StepsCounted

N_RANKS, N_ROUNDS = 4, 100
EVERYBODY = np.arange(N_RANKS)


class Loop:
    """Ranks that call MPI in a loop, as a solver does: two messages and three all-reduces in each round."""

    def __init__(self) -> None:
        self.now = np.zeros(N_RANKS)
        self.rows: list[dict[str, Any]] = []
        self._rng = np.random.default_rng(0)
        self._collectives = 0

    def work(self, ms: float, extra_of_rank_2: float = 0.0) -> None:
        works_ms = ms * np.exp(self._rng.normal(0, 0.05, N_RANKS))
        works_ms[2] += extra_of_rank_2
        self.now = self.now + works_ms

    def send_on(self) -> None:
        for operation, peer in (("SEND", -1), ("RECV", 1)):
            took = np.full(N_RANKS, 0.1)
            named = {"peer": np.roll(EVERYBODY, peer), "group": "world", "group_size": N_RANKS}
            self.rows.append(_row(operation, 0, self.now, took, EVERYBODY, **named))
            self.now = self.now + took

    def meet(self, operation: str, size: int) -> None:
        done = np.full(N_RANKS, self.now.max() + 0.3)
        named = {"group": "world", "group_size": N_RANKS, "seq": self._collectives}
        took = done - self.now
        self.rows.append(_row(operation, 0, self.now, took, EVERYBODY, message_size_bytes=size, **named))
        self.now, self._collectives = done, self._collectives + 1

    def round(self, extra_of_rank_2: float) -> None:
        self.work(3.0, extra_of_rank_2)
        self.send_on()
        self.meet("ALLREDUCE", 8)
        self.work(1.0)
        self.meet("ALLREDUCE", 8)
        self.work(0.5)
        self.meet("ALLREDUCE", 1024)

    def table(self) -> pd.DataFrame:
        table = _table(self.rows, None)
        return table.assign(iteration=pd.array([pd.NA] * len(table), "Int64"))


def solver(slow_from: int = 0, barrier_every: int = N_ROUNDS + 1) -> pd.DataFrame:
    """A loop in which rank 2 takes 1.5 ms longer from a round on, and some rounds end with a barrier."""
    loop = Loop()
    loop.meet("ALLGATHER", 64)
    for number in range(N_ROUNDS):
        loop.round(1.5 if number >= slow_from else 0.0)
        if number % barrier_every == barrier_every - 1:
            loop.meet("BARRIER", 0)
    return loop.table()


@pytest.mark.parametrize(
    "barrier_every",
    [slow(N_ROUNDS + 1, "never; as of every 7th round"), slow(10, "as of every 7th round"), 7],
)
def test_a_rank_that_becomes_slow_is_named_from_that_round_on(barrier_every: int) -> None:
    verdict = stragglers(solver(slow_from=50, barrier_every=barrier_every))
    assert (verdict.verdict, verdict.ranks, verdict.slow_steps) == ("rank", (2,), 50)
    assert (verdict.first_iteration, verdict.last_iteration) == (50, 99)
    assert StepsCounted() in verdict.evidence


@pytest.mark.slow("of runs with iterations it is quick, and so are rounds")
def test_equal_ranks_are_healthy() -> None:
    assert stragglers(solver(slow_from=N_ROUNDS)).verdict == "healthy"


def test_what_comes_before_the_first_round_is_in_none() -> None:
    timings = solver()
    number = rounds_of(opened(timings), timings["rank"].to_numpy())
    assert np.isnan(number[timings["operation"] == "ALLGATHER"]).all()
    counts = np.bincount(number[timings["operation"] == "ALLREDUCE"].astype(int))
    assert counts.tolist() == [3 * N_RANKS] * N_ROUNDS


def test_work_belongs_to_the_collective_that_it_leads_to() -> None:
    timings = solver()
    sends = timings[timings["operation"] == "SEND"]
    number = rounds_of(opened(timings), timings["rank"].to_numpy())[sends.index]
    assert number[sends["rank"] == 0].tolist() == list(range(N_ROUNDS))


@pytest.mark.slow("rounds of the whole are quick, and a slow rank is named from parts")
def test_each_process_by_itself_has_the_rounds_of_the_whole() -> None:
    timings = solver(slow_from=50, barrier_every=10)
    parts = [map_judgement(rows) for _, rows in timings.groupby("rank")]
    verdict = reduce_judgement(parts).verdict
    assert (verdict.ranks, verdict.first_iteration, verdict.slow_steps) == ((2,), 50, 50)


def test_collectives_that_never_repeat_are_a_round_each() -> None:
    loop = Loop()
    for number in range(30):
        loop.work(3.0, 1.5)
        loop.meet("ALLREDUCE", 8 * (number + 1))
    timings = loop.table()
    assert set(rounds_of(opened(timings), timings["rank"].to_numpy())) == set(range(30))


def test_two_fences_and_a_reduction_are_one_round_also_in_a_short_run() -> None:
    """And not a round for each fence, in every other of which rank 2 is slow."""
    loop = Loop()
    for _ in range(40):
        loop.work(3.0, 1.5)
        loop.meet("WIN_FENCE", 0)
        loop.work(0.5)
        loop.meet("WIN_FENCE", 0)
        loop.meet("ALLREDUCE", 8)
    timings = loop.table()
    assert set(rounds_of(opened(timings), timings["rank"].to_numpy())) == set(range(40))
    verdict = stragglers(timings)
    assert (verdict.verdict, verdict.ranks) == ("rank", (2,))


@pytest.mark.slow("a rarer loop; one that reduces as often in each round is quick")
def test_rounds_of_a_solver_that_reduces_more_or_less_often_are_found() -> None:
    """As when an iteration converges after three steps, or after seven."""
    loop, often = Loop(), np.random.default_rng(1).integers(3, 8, N_ROUNDS)
    for n in often.tolist():
        loop.work(10.0)
        for _ in range(n):
            loop.work(3.0, extra_of_rank_2=1.5)
            loop.meet("ALLREDUCE", 8)
        loop.meet("ALLGATHER", 8000)
    verdict = stragglers(loop.table())
    assert (verdict.verdict, verdict.ranks, verdict.window) == ("rank", (2,), "persistent")
    assert verdict.slow_steps == pytest.approx(N_ROUNDS, abs=2)
    assert 0.75 < verdict.cost_ms / (1.5 * often.sum()) < 1  # the others are late now and then, too


@pytest.mark.slow("a rarer loop; one in which all ranks meet is quick")
def test_the_loop_of_a_smaller_group_counts_where_all_ranks_meet_seldom() -> None:
    """As of the workers of a server, which reduce among themselves."""
    loop = Loop()
    for size in (8, 16):
        loop.meet("ALLREDUCE", size)
    server_waits_from = loop.now[0]
    for _ in range(N_ROUNDS):
        loop.work(5.0, extra_of_rank_2=5.0)
        loop.meet("ALLREDUCE", 24)
    loop.now[0] = server_waits_from
    loop.meet("BARRIER", 0)
    timings = loop.table()
    of_workers = (timings["message_size_bytes"] == 24) & (timings["rank"] > 0)
    of_server = (timings["message_size_bytes"] == 24) & (timings["rank"] == 0)
    timings["group"] = timings["group"].mask(of_workers, "workers")
    timings["group_size"] = timings["group_size"].mask(of_workers, 3)
    verdict = stragglers(timings[~of_server].reset_index(drop=True))
    assert (verdict.verdict, verdict.ranks) == ("rank", (2,))
    assert verdict.slow_steps == pytest.approx(N_ROUNDS, abs=2)


@pytest.mark.slow("a rarer loop; rounds of two fences are quick")
def test_a_program_of_pickled_reductions_keeps_its_steps_beside_the_making_of_a_communicator() -> None:
    """Below MPI they are messages to a root and broadcasts from it, as a library sees that is preloaded."""
    loop = Loop()
    loop.meet("COMM_DUP", 0)
    for _ in range(N_ROUNDS):
        loop.work(0.05, extra_of_rank_2=10.0)
        loop.meet("BCAST", 8)
        loop.meet("BCAST", 5)
    verdict = stragglers(loop.table())
    assert (verdict.verdict, verdict.ranks, verdict.window) == ("rank", (2,), "persistent")
    assert verdict.slow_steps == pytest.approx(N_ROUNDS, abs=2)
    assert verdict.cost_ms == pytest.approx(N_ROUNDS * 10.0, rel=0.1)


def rounds(*rows: tuple[str, int | None]) -> list[float]:
    """Return the rounds of rows of an operation and a size of its group, in order of time."""
    made = [record(name, 1.0 + at, group_size=size) for at, (name, size) in enumerate(rows)]
    return rounds_of(opened(table(made)), np.zeros(len(rows), np.int64)).tolist()


def test_a_round_ends_where_all_synchronise_or_else_with_what_all_ranks_take_part_in() -> None:
    cast, reduce = ("BCAST", 4), ("ALLREDUCE", 4)
    assert rounds(*[cast] * 3) == [0, 1, 2]
    assert rounds(*[cast, reduce] * 3) == [0, 0, 1, 1, 2, 2]
    assert rounds(*[reduce, cast] * 3) == pytest.approx([0, 1, 1, 2, 2, math.nan], nan_ok=True)


def test_what_is_no_collective_ends_no_round() -> None:
    assert rounds(*[("SEND", 4), ("FORWARD", 4)] * 3) == pytest.approx([math.nan] * 6, nan_ok=True)


@pytest.mark.parametrize(
    ("n_of_size", "size"),
    [
        ({}, 0), ({4: 1}, 4), ({4: 19, 2: 76}, 4), ({4: 19, 2: 77}, 2), ({4: 20, 2: 1000}, 4),
        ({8: 2, 4: 9, 2: 36}, 4), ({8: 2, 4: 9, 2: 37}, 2), ({math.inf: 5, 8: 10}, math.inf),
    ],
)  # fmt: skip
def test_a_process_loops_in_its_largest_groups_or_where_these_meet_seldom_in_smaller_ones(
    n_of_size: dict[float, int], size: float
) -> None:
    sizes = np.array([one for one, n in n_of_size.items() for _ in range(n)], np.float64)
    assert _size_in_which_it_loops(sizes) == size


@pytest.mark.parametrize(
    ("kinds", "found"),
    [
        ([], (0, 0)), ([0, 0], (0, 0)), ([0, 0, 0], (0, 1)), ([0, 1] * 3, (0, 2)),
        ([2, 0, 1, 0, 1, 0, 1], (1, 2)), ([0, 1, 2, 3, 4, 5], (0, 0)), ([0, 1, 2] * 3 + [3], (0, 3)),
    ],
)  # fmt: skip
def test_kinds_repeat_after_a_period_from_where_on_they_do(kinds: list[int], found: tuple[int, int]) -> None:
    assert _period(np.array(kinds, np.int64)) == found


@pytest.mark.parametrize(("n", "n_in_round"), [(60, 6), (40, 1)])
def test_fifty_rounds_need_not_be_finer(n: int, n_in_round: int) -> None:
    kinds = np.tile([0, 1, 1, 1, 1, 1], n)
    _, _, period = _rounds(kinds)
    assert period == n_in_round
