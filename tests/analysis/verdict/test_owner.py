"""Whose fault a delay is: of a slow rank, of the work that it has, or of both; as far as rows tell."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hand_made_cases import case_of, times_of
from seeds import seeds
from simulated_runs import Floats, _row, _table, of_operations, with_work
from slow import slow

from timing_logger.analysis import Verdict, stragglers, windows
from timing_logger.analysis.step_times.workload import Workload
from timing_logger.analysis.verdict.owner import _Excess
from timing_logger.report.verdict import stragglers_text
from timing_logger.results.facts import MoreRows, UnevenWork, WorkOfRank
from timing_logger.words.verdict import verdict_sentence, what_next

GROWING_MS = {"FORWARD": 8.0, "BACKWARD": 14.0}
FIXED_MS = 1.0  # of each operation, whatever there is to do


def lengths(n_steps: int, n_ranks: int, spread: float, seed: int = 0) -> Floats:
    """How much each rank has to do in each step: 1 on average, up to ``spread`` more or less."""
    return np.random.default_rng(seed).uniform(1 - spread, 1 + spread, (n_steps, n_ranks))


def operations_ms(work: Floats, slower: Mapping[int, float], seed: int = 0) -> dict[str, Floats]:
    factor = np.exp(np.random.default_rng(1000 + seed).normal(0, 0.03, work.shape))
    for rank, times in slower.items():
        factor[:, rank] *= times
    growing = {name: (FIXED_MS + ms * work) * factor for name, ms in GROWING_MS.items()}
    return {**growing, "OPTIMIZER": 2.0 * factor}


def run(
    work: Floats, slower: Mapping[int, float] | None = None, seed: int = 0, stated: str = "FORWARD"
) -> Any:
    timings = of_operations(operations_ms(work, slower or {}, seed))
    return with_work(timings, stated, 1000 * work) if stated else timings


def lasted_ms(timings: pd.DataFrame) -> float:
    of_rank = timings[timings["rank"] == 0]
    return 1000 * float(of_rank["end_counter"].max() - of_rank["start_counter"].min())


@functools.cache
def with_more_work() -> pd.DataFrame:
    """A run whose rank 2 has 1.4 times as much to do."""
    work = lengths(100, 4, 0.1)
    work[:, 2] *= 1.4
    timings: pd.DataFrame = run(work)
    return timings


@functools.cache
def verdict_on_more_work() -> Verdict:
    return stragglers(with_more_work())


def only_fact(verdict: Verdict, kind: type) -> Any:
    (fact,) = (fact for fact in verdict.evidence if isinstance(fact, kind))
    return fact


# -- a rank with more to do --------------------------------------------------------------------------------


def test_a_rank_with_more_work_is_no_slow_machine() -> None:
    verdict = verdict_on_more_work()
    assert (verdict.owner, verdict.ranks_to_look_at) == ("work", (2,))


@pytest.mark.slow("a rank with more work is quick above")
@pytest.mark.parametrize("spread", [0.0, 0.1, 0.4])
@pytest.mark.parametrize("n_ranks", [3, 8])
@pytest.mark.parametrize("seed", range(3))
def test_a_rank_with_more_work_at_equal_speed_is_no_slow_machine(
    spread: float, n_ranks: int, seed: int
) -> None:
    work = lengths(100, n_ranks, spread, seed)
    work[:, 2] *= 1.4
    verdict = stragglers(run(work, seed=seed))
    assert verdict.owner == "work"
    assert set(verdict.ranks_to_look_at) <= {2}


def test_it_is_told_how_much_more_it_has_and_what_to_do() -> None:
    verdict = verdict_on_more_work()
    fact = only_fact(verdict, WorkOfRank)
    assert fact.times_as_much == pytest.approx(1.4, abs=0.03)
    assert fact.times_as_long == pytest.approx(1.0, abs=0.03)
    assert "Rank 2 has 1.4" in verdict_sentence(verdict)
    assert what_next(verdict) == "Give all ranks as much to do: batches of equal lengths, or packed ones."


@pytest.mark.slow("a sentence only, and the one above holds what it says")
def test_what_the_verdict_says_of_work_is_not_said_again_below_it() -> None:
    text = stragglers_text(verdict_on_more_work(), windows(with_more_work()), 200)
    assert text.count("times the work of its peers") == 1


def test_what_more_work_costs_is_the_time_by_which_the_run_is_longer() -> None:
    cost_ms = lasted_ms(with_more_work()) - lasted_ms(run(lengths(100, 4, 0.1)))
    assert verdict_on_more_work().cost_ms == pytest.approx(cost_ms, rel=0.05)


# -- a rank that is slow for its work ----------------------------------------------------------------------


@pytest.mark.parametrize("seed", seeds(5))
@pytest.mark.parametrize("n_ranks", [3, slow(4, "as of three ranks"), slow(8, "as of three ranks")])
def test_a_rank_slow_by_a_fifth_is_named_however_much_lengths_vary(n_ranks: int, seed: int) -> None:
    work = lengths(100, n_ranks, 0.4, seed)
    verdict = stragglers(run(work, {2: 1.2}, seed))
    assert (verdict.verdict, verdict.ranks, verdict.owner) == ("rank", (2,), "machine")
    cost_ms = lasted_ms(run(work, {2: 1.2}, seed)) - lasted_ms(run(work, {}, seed))
    assert verdict.cost_ms == pytest.approx(cost_ms, rel=0.15)
    assert "For the work that it has, rank 2 takes 1." in verdict_sentence(verdict)


@pytest.mark.slow("such a rank is named by its work above")
def test_without_its_work_such_a_rank_is_not_known() -> None:
    assert stragglers(run(lengths(100, 4, 0.4), {2: 1.2}, stated="")).verdict != "rank"


@pytest.mark.slow("test_owner_at_equal_work.py has the owner by the part that more work explains")
def test_a_slow_rank_with_more_work_has_both() -> None:
    work = lengths(100, 4, 0.1)
    work[:, 2] *= 1.4
    verdict = stragglers(run(work, {2: 1.2}))
    fact = only_fact(verdict, WorkOfRank)
    assert (verdict.ranks, verdict.owner) == ((2,), "both")
    assert fact.times_as_long == pytest.approx(1.2, abs=0.03)
    assert 0.5 < fact.explained_share < 0.75


@pytest.mark.slow("test_owner_at_equal_work.py has what grows with the work and what does not")
def test_an_operation_that_does_not_grow_with_the_work_is_not_explained_by_it() -> None:
    work = lengths(100, 4, 0.2)
    work[:, 2] *= 1.4
    constant = operations_ms(np.ones_like(work), {2: 1.3})
    verdict = stragglers(with_work(of_operations(constant), "FORWARD", work))
    assert (verdict.ranks, verdict.owner) == ((2,), "machine")


@pytest.mark.slow("test_owner_at_equal_work.py has what grows with the work and what does not")
def test_a_rank_with_less_to_do_and_no_quicker_is_not_called_slow_where_this_is_not_known_to_matter() -> None:
    work = np.ones((100, 4))
    work[:, 1] = 0.6  # as in the last, smaller shard of the data; nobody's work varies
    timings = with_work(of_operations(operations_ms(np.ones_like(work), {})), "FORWARD", work)
    assert stragglers(timings).verdict == "healthy"


# -- where nobody is slow ----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", seeds(3))
def test_uneven_work_of_ranks_in_turn_is_told_with_what_it_costs(seed: int) -> None:
    work = lengths(60, 4, 0.4, seed)
    even = np.repeat(work.mean(axis=1, keepdims=True), 4, axis=1)
    verdict = stragglers(run(work, seed=seed))
    cost_ms = lasted_ms(run(work, seed=seed)) - lasted_ms(run(even, seed=seed))
    assert (verdict.verdict, verdict.ranks, verdict.owner) == ("diffuse", (), "work")
    assert verdict.cost_ms == pytest.approx(cost_ms, rel=0.1)
    assert only_fact(verdict, UnevenWork).run_share == verdict.cost_share > 0.05


@pytest.mark.slow("test_owner_at_equal_work.py has what grows with the work and what does not")
def test_work_that_varies_by_little_is_healthy() -> None:
    assert stragglers(run(lengths(150, 4, 0.03))).verdict == "healthy"


# -- what tells how much there is to do --------------------------------------------------------------------


@pytest.mark.slow("test_owner_at_equal_work.py scales all times by the work of the step")
def test_the_work_of_the_batch_counts_for_all_that_is_done_with_it() -> None:
    work = lengths(100, 4, 0.4)
    times_ms = {"DATA": np.full(work.shape, 0.5), **operations_ms(work, {2: 1.2})}
    verdict = stragglers(with_work(of_operations(times_ms), "DATA", work))
    assert (verdict.ranks, verdict.owner) == ((2,), "machine")


@pytest.mark.slow("test_owner_at_equal_work.py scales the time between rows by the work of the step")
def test_work_stated_in_communication_alone_counts_for_the_time_between() -> None:
    work = lengths(100, 4, 0.4)
    timings = of_operations(operations_ms(work, {2: 1.2}), logged=["ALLREDUCE"])
    verdict = stragglers(with_work(timings, "ALLREDUCE", work))
    assert (verdict.ranks, verdict.operation, verdict.owner) == ((2,), "UNLOGGED", "machine")


def test_a_rank_that_copies_more_bytes_has_more_to_do_and_no_slow_link() -> None:
    size = np.ones((60, 4))
    size[:, 2] = 1.5
    timings = of_operations({"H2D": 10.0 * size, "OPTIMIZER": np.ones((60, 4))})
    is_copy = timings["operation"] == "H2D"
    rows = timings.loc[is_copy]
    n_bytes = 1_000_000 * size[rows["iteration"].astype(int), rows["rank"].astype(int)]
    timings.loc[is_copy, "message_size_bytes"] = n_bytes.astype(int)
    verdict = stragglers(timings)
    assert (verdict.ranks, verdict.operation, verdict.owner) == ((2,), "H2D", "work")


def test_what_slow_ranks_take_beyond_their_peers_is_told_of_each_operation_together() -> None:
    """Ranks 0 and 3 of five are slow: at equal work by half as much in the first of two operations."""
    recorded_ms, equal_ms = np.full((2, 10, 5), 10.0), np.full((2, 10, 5), 10.0)
    recorded_ms[0, :, 0], recorded_ms[0, :, 3], recorded_ms[1, :, 3] = 12.0, 16.0, 11.0
    equal_ms[0, :, 0], equal_ms[0, :, 3], equal_ms[1, :, 3] = 11.0, 13.0, 11.0
    recorded, equal = (
        {"operations": ["A", "B"], "operation_ms": its_ms, "self_ms": its_ms.sum(axis=0)}
        for its_ms in (recorded_ms, equal_ms)
    )
    work = np.tile([1.0, 1.0, 1.0, 1.5, 1.0], (10, 1))
    case = case_of(**recorded, workload=Workload({"A": work}, None, {}))
    slow_steps = {0: np.arange(10), 3: np.arange(5)}
    found = _Excess.of(case, slow_steps, times_of(**equal))
    assert (found.rank, found.steps.tolist()) == (3, [0, 1, 2, 3, 4])
    assert (found.recorded_ms.tolist(), found.equal_ms.tolist()) == ([50.0, 5.0], [25.0, 5.0])
    assert (found.work.times_as_much, found.times_as_long) == (1.5, 24 / 20.25)
    unknown = _Excess.of(case, slow_steps, None)
    assert unknown.equal_ms.tolist() == [50.0, 5.0]
    assert not unknown.work.is_more


def test_where_no_work_is_recorded_the_way_to_record_it_is_told() -> None:
    verdict = stragglers(run(np.ones((60, 4)), {2: 1.3}, stated=""))
    assert (verdict.ranks, verdict.owner) == ((2,), "unknown")
    assert "logger.set_current_work(n)" in what_next(verdict)


def test_an_operation_done_more_often_is_more_work() -> None:
    n_forward = np.array([4, 4, 5, 4])
    forward_ms = np.tile(2.0 * n_forward, (60, 1))
    timings = of_operations({"FORWARD": forward_ms, "OPTIMIZER": np.ones_like(forward_ms)})
    is_forward = timings["operation"] == "FORWARD"
    parts = [
        part
        for rank, n_rows in enumerate(n_forward)
        for part in in_parts(timings[is_forward & (timings["rank"] == rank)], int(n_rows))
    ]
    verdict = stragglers(pd.concat([timings[~is_forward], *parts], ignore_index=True))
    fact = only_fact(verdict, MoreRows)
    assert (verdict.ranks, verdict.owner) == ((2,), "work")
    assert (fact.operation, fact.times_as_many) == ("FORWARD", 1.25)


def in_parts(rows: pd.DataFrame, n_parts: int) -> list[pd.DataFrame]:
    """Return each row as so many rows that follow each other."""
    part_ms = rows["elapsed_ms"] / n_parts
    starts = [rows["start_counter"] + number * part_ms / 1000 for number in range(n_parts)]
    return [
        rows.assign(elapsed_ms=part_ms, start_counter=start, end_counter=start + part_ms / 1000)
        for start in starts
    ]


@pytest.mark.slow("test_verdict.py has a slow role")
def test_a_role_that_is_slower_than_the_others_has_an_owner_of_its_own() -> None:
    factor = np.ones((60, 8))
    factor[:, 4:] = 1.5
    verdict = stragglers(run(factor, stated=""), roles={rank: f"stage {rank // 4}" for rank in range(8)})
    assert (verdict.verdict, verdict.owner) == ("role", "role")


# -- what exchanges bring ----------------------------------------------------------------------------------


def of_experts(received: Floats, slower: Mapping[int, float] | None = None) -> pd.DataFrame:
    """A run whose experts work on what an exchange brings them, steps x ranks, and send it back."""
    n_steps, n_ranks = received.shape
    ms = np.exp(np.random.default_rng(3).normal(0, 0.02, received.shape))
    for rank, times in (slower or {}).items():
        ms[:, rank] *= times
    rows: list[dict[str, Any]] = []
    now = np.zeros(n_ranks)
    for step in range(n_steps):
        for number, (name, work_ms, sent) in enumerate(
            [
                ("DATA", ms[step], np.full(n_ranks, 4.0)),
                ("EXPERT", 20 * ms[step] * received[step], 4 * received[step]),
            ]
        ):
            rows.append(_row(name, step, now, work_ms))
            now = now + work_ms
            done = now.max() + 1.0
            columns = {"group": "world", "group_size": n_ranks, "message_size_bytes": np.round(1000 * sent)}
            rows.append(_row("ALLTOALLV", step, now, done - now, seq=2 * step + number, **columns))
            now = np.full(n_ranks, done)
    return _table(rows, None)


def test_what_an_exchange_brings_is_the_work_of_experts() -> None:
    received = lengths(150, 4, 0.2)
    received[:, 2] *= 1.5
    verdict = stragglers(of_experts(received))
    assert (verdict.owner, verdict.ranks) == ("work", (2,))
    assert only_fact(verdict, WorkOfRank).times_as_much == pytest.approx(1.5, rel=0.05)


@pytest.mark.slow("a rarer case of work that exchanges bring")
def test_a_slow_rank_is_named_however_uneven_what_exchanges_bring() -> None:
    verdict = stragglers(of_experts(lengths(150, 4, 0.4), {1: 1.3}))
    assert (verdict.owner, verdict.ranks) == ("machine", (1,))


@pytest.mark.slow("a rarer case of work that exchanges bring")
def test_exchanges_of_equal_pieces_tell_nothing_of_the_work() -> None:
    verdict = stragglers(of_experts(np.ones((150, 4)), {1: 1.3}))
    assert (verdict.owner, verdict.ranks) == ("unknown", (1,))


@pytest.mark.slow("a rarer case of work that exchanges bring")
def test_less_even_than_the_batches_what_exchanges_bring_is_the_work() -> None:
    received = lengths(150, 4, 0.2)
    received[:, 2] *= 1.5
    timings = with_work(of_experts(received), "DATA", np.full(received.shape, 1000.0))
    assert stragglers(timings).owner == "work"
