"""Who is named, on runs of which it is known who is slow; and above all who is not."""

from __future__ import annotations

import functools
import json
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from seeds import seeds
from simulated_runs import OPERATIONS_MS, _row, _table, data_parallel, factors, pipeline
from slow import slow

from timing_logger.analysis import Verdict, scores, stragglers, windows
from timing_logger.analysis.rows.files import roles_of
from timing_logger.report import evidence_sentences
from timing_logger.results.facts import (
    FewSteps,
    OneRank,
    SelfTimeBetween,
    SelfTimeUnknown,
    StepsCounted,
    TwoRanks,
)

TEN_COLUMNS = [
    "timestamp", "iteration", "epoch", "layer_name", "operation", "phase", "message_size_bytes",
    "elapsed_ms", "start_counter", "end_counter",
]  # fmt: skip


def slowed(rank: int | list[int], times: float, steps: slice = slice(None), **shape: int) -> Any:
    """Factors of a run of 200 steps and 8 ranks, with some noise, in which ``rank`` is slow in ``steps``."""
    factor = factors(shape.get("iterations", 200), shape.get("ranks", 8), noise=0.05, seed=7)
    factor[steps, rank] *= times
    return factor


@functools.cache
def with_slow_rank_3() -> pd.DataFrame:
    """A run whose rank 3 takes half as long again as the others."""
    return data_parallel(slowed(3, 1.5, iterations=60))


@functools.cache
def verdict_on_rank_3() -> Verdict:
    return stragglers(with_slow_rank_3())


SLOW_DATA_MS = {"DATA": 10.0, "FORWARD": 10.0, "BACKWARD": 20.0, "OPTIMIZER": 3.0}


def gate(verdict: Verdict, name: str) -> float:
    return next(gate.value for gate in verdict.gates if gate.name == name)


def test_what_is_found_speaks_of_operations_and_never_of_phases() -> None:
    """The column ``phase`` is dense or sparse, and another thing."""
    verdict = verdict_on_rank_3()
    assert verdict.as_dict()["operation"] == verdict.operation != ""
    assert "phase" not in repr(verdict.as_dict())
    no_rows = with_slow_rank_3().head(0)
    for table in (windows(no_rows), scores(no_rows)):
        assert "operation" in table.columns
        assert "phase" not in table.columns


# -- one slow rank -----------------------------------------------------------------------------------


def test_a_rank_that_is_always_slow_is_named_with_its_operation_and_cost() -> None:
    factor = factors(100, 4)
    factor[:, 2] = 2.0
    verdict = stragglers(data_parallel(factor, slow_operations=["BACKWARD"]))
    assert (verdict.verdict, verdict.ranks, verdict.operation) == ("rank", (2,), "BACKWARD")
    assert (verdict.window, verdict.first_iteration, verdict.last_iteration) == ("persistent", 0, 99)
    usual_ms = sum(OPERATIONS_MS.values())
    assert verdict.score == pytest.approx(usual_ms / (usual_ms + OPERATIONS_MS["BACKWARD"]))
    assert verdict.cost_ms == pytest.approx(100 * OPERATIONS_MS["BACKWARD"])


@pytest.mark.slow("the slow steps of such a run are counted below")
def test_a_rank_slow_for_a_while_is_named_with_that_while() -> None:
    verdict = stragglers(data_parallel(slowed(3, 2.0, slice(40, 61)), noise=0.1))
    assert (verdict.ranks, verdict.window) == ((3,), "bounded")
    assert verdict.first_iteration == pytest.approx(40, abs=2)
    assert verdict.last_iteration == pytest.approx(60, abs=2)


@pytest.mark.slow("one in two is quick below, and test_slow_steps_found.py has the kinds")
def test_a_rank_slow_in_every_seventh_iteration_is_named_as_intermittent() -> None:
    verdict = stragglers(data_parallel(slowed(3, 3.0, slice(None, None, 7)), noise=0.1))
    assert (verdict.ranks, verdict.window) == ((3,), "intermittent")
    assert (verdict.first_iteration, verdict.last_iteration) == (0, 196)


@pytest.mark.parametrize("every", [2, *(slow(every, "as every other step") for every in (3, 4))])
@pytest.mark.parametrize("ranks", [2, slow(8, "as of two ranks")])
def test_a_rank_slow_in_up_to_half_of_the_steps_is_named(ranks: int, every: int) -> None:
    """Its slow steps are not the noise that they stand out from."""
    factor = slowed(1, 1.6, slice(None, None, every), ranks=ranks)
    verdict = stragglers(data_parallel(factor, noise=0.05))
    assert verdict.ranks == (1,)
    assert every == 2 or verdict.window == "intermittent"  # half of the steps may as well be a stretch


@pytest.mark.slow("test_slow_steps_found.py has all kinds of stretches")
def test_a_rank_that_became_slow_and_still_is_is_named_as_ongoing() -> None:
    verdict = stragglers(data_parallel(slowed(3, 1.3, slice(150, None)), noise=0.05))
    assert (verdict.ranks, verdict.window, verdict.last_iteration) == ((3,), "ongoing", 199)
    assert verdict.first_iteration == pytest.approx(150, abs=2)


@pytest.mark.slow("test_slow_steps_found.py has what parts a stretch and what does not")
@pytest.mark.parametrize(
    "fast", [[150], slow([150, 151], "as of one step"), slow([110, 150, 190], "as of one step")]
)
def test_steps_that_are_fast_now_and_then_part_no_window(fast: list[int]) -> None:
    """Half of the run is slow, so that its median tells neither level."""
    factor = slowed(3, 2.0, slice(100, None))
    factor[fast, 3] /= 2.0
    verdict = stragglers(data_parallel(factor, noise=0.1))
    assert (verdict.ranks, verdict.window) == ((3,), "ongoing")
    assert (verdict.first_iteration, verdict.last_iteration) == (pytest.approx(100, abs=2), 199)


@pytest.mark.slow("test_slow_steps_found.py has what parts a stretch and what does not")
def test_three_fast_steps_in_a_row_part_two_windows() -> None:
    factor = slowed(3, 2.0, slice(100, None))
    factor[150:153, 3] /= 2.0
    timings = data_parallel(factor, noise=0.02)
    table = windows(timings)
    mine = table[table["operation"] == "SELF_TIME"].sort_values("first_iteration")
    assert mine["kind"].tolist() == ["bounded", "ongoing"]
    assert mine["first_iteration"].tolist() == [100, 153]
    assert mine["last_iteration"].tolist() == [149, 199]


@pytest.mark.slow("test_own_times_of_suspects.py has such a run")
def test_two_slow_ranks_of_eight_are_both_named() -> None:
    verdict = stragglers(data_parallel(slowed([1, 6], 1.5)))
    assert (verdict.verdict, set(verdict.ranks)) == ("rank", {1, 6})


@pytest.mark.slow("two ranks are quick above, and test_own_times.py has what the evidence says")
def test_of_two_ranks_the_slower_one_is_named_and_the_evidence_says_how() -> None:
    verdict = stragglers(data_parallel(slowed(1, 1.5, ranks=2)))
    assert (verdict.verdict, verdict.ranks) == ("rank", (1,))
    assert TwoRanks() in verdict.evidence


def test_only_a_few_steps_suffice_if_these_are_all_and_the_evidence_says_so() -> None:
    verdict = stragglers(data_parallel(slowed(1, 1.5, iterations=12)))
    assert verdict.ranks == (1,)
    assert FewSteps(12, nobody_is_slow=False) in verdict.evidence


@pytest.mark.slow("test_verdict_costs.py judges a sampled run")
def test_sampled_iterations_are_enough() -> None:
    timings = data_parallel(slowed(3, 1.5, iterations=300))
    verdict = stragglers(timings[timings["iteration"] % 10 == 0])
    assert (verdict.ranks, verdict.first_iteration, verdict.last_iteration) == ((3,), 0, 290)


@pytest.mark.slow("the long first steps below are such a warming up")
def test_a_rank_slow_while_warming_up_hides_no_later_window() -> None:
    factor = slowed(3, 2.0, slice(100, 130))
    factor[:3] *= 20
    factor[:3, 0] *= 5
    verdict = stragglers(data_parallel(factor))
    assert (verdict.ranks, verdict.first_iteration, verdict.last_iteration) == ((3,), 100, 129)


@pytest.mark.parametrize("seed", seeds(6))
def test_long_first_steps_hide_no_slow_rank(seed: int) -> None:
    """They are a hundred times as long, and not equally on all ranks: longer than all that comes after."""
    factor = factors(200, 8, noise=0.05, seed=seed)
    factor[:, 3] *= 1.5
    factor[:5] *= 100 * factors(1, 8, noise=0.2, seed=seed)
    verdict = stragglers(data_parallel(factor, noise=0.03))
    assert (verdict.ranks, verdict.window) == ((3,), "persistent")


@pytest.mark.slow("test_pricing.py has the waits in the steps that follow")
def test_who_is_late_after_the_last_collective_of_a_step_is_waited_for_in_the_next() -> None:
    factor = factors(200, 8, noise=0.05, seed=7)
    factor[::3, 5] *= 4
    operations_ms = {"FORWARD": 10.0, "BACKWARD": 20.0, "OPTIMIZER": 10.0}
    verdict = stragglers(data_parallel(factor, slow_operations=["OPTIMIZER"], operations_ms=operations_ms))
    assert (verdict.ranks, verdict.operation, verdict.window) == ((5,), "OPTIMIZER", "intermittent")
    assert gate(verdict, "longer steps, as a share of the run") == pytest.approx(verdict.cost_share, rel=0.1)


# -- only collectives are logged -----------------------------------------------------------------------


@pytest.mark.parametrize("every", [slow(1, "as of a sampled run"), 10])
def test_the_late_rank_is_named_from_collectives_alone(every: int) -> None:
    timings = data_parallel(slowed(5, 1.5, iterations=300), noise=0.05, logged=["ALLREDUCE"])
    verdict = stragglers(timings[timings["iteration"] % every == 0])
    assert (verdict.verdict, verdict.ranks, verdict.operation) == ("rank", (5,), "UNLOGGED")
    assert verdict.between == ("ALLREDUCE", "ALLREDUCE")
    assert SelfTimeBetween() in verdict.evidence


def test_unlogged_time_is_placed_between_the_rows_around_it() -> None:
    timings = data_parallel(
        slowed(5, 1.5, iterations=60),
        slow_operations=["BACKWARD"],
        logged=["DATA", "FORWARD", "OPTIMIZER", "ALLREDUCE"],
    )
    verdict = stragglers(timings)
    assert (verdict.operation, verdict.between) == ("UNLOGGED", ("FORWARD", "ALLREDUCE"))


def test_beside_a_device_unlogged_time_is_placed_between_its_rows_however_far_ahead_the_host_is() -> None:
    timings = data_parallel(
        slowed(5, 1.5, iterations=60),
        slow_operations=["BACKWARD"],
        logged=["DATA", "FORWARD", "OPTIMIZER", "ALLREDUCE"],
    )
    by_host = timings["operation"] == "DATA"
    timings["clock"] = np.where(by_host, "host", "device")
    timings["stream"] = np.where(by_host, "", "cuda:0/0")
    forward = timings[timings["operation"] == "FORWARD"].set_index(["rank", "iteration"])["end_counter"]
    ahead = pd.MultiIndex.from_frame(timings.loc[by_host, ["rank", "iteration"]])
    timings.loc[by_host, "start_counter"] = forward.loc[ahead].to_numpy() + 0.005  # in the backward pass
    timings.loc[by_host, "end_counter"] = timings["start_counter"] + 0.0001
    timings.loc[by_host, "elapsed_ms"] = 0.1
    verdict = stragglers(timings)
    assert (verdict.operation, verdict.between) == ("UNLOGGED", ("FORWARD", "ALLREDUCE"))


@functools.cache
def slow_for_a_while() -> pd.DataFrame:
    return data_parallel(slowed(3, 2.0, slice(40, 61), iterations=100), noise=0.02)


@functools.cache
def verdict_on_slow_for_a_while() -> Verdict:
    return stragglers(slow_for_a_while())


def test_the_slow_steps_are_counted() -> None:
    verdict = verdict_on_slow_for_a_while()
    assert (verdict.first_iteration, verdict.last_iteration, verdict.slow_steps) == (40, 60, 21)


@pytest.mark.slow("test_lockstep_hosts.py has verdicts with hosts")
@pytest.mark.parametrize(("n_hosts", "hosts"), [(2, ("node1",)), (1, ())])
def test_the_host_of_a_named_rank_is_told_where_there_are_several(
    n_hosts: int, hosts: tuple[str, ...]
) -> None:
    timings = data_parallel(slowed(5, 1.5, iterations=30))
    timings.attrs["files"] = [{"rank": r, "sidecar": {"host": f"node{r % n_hosts}"}} for r in range(8)]
    assert stragglers(timings).hosts == hosts


@pytest.mark.slow("unlogged time is placed between rows above, and named")
def test_work_that_is_not_logged_counts_where_the_logged_work_is_little() -> None:
    timings = data_parallel(
        slowed(5, 1.5, iterations=60), slow_operations=["BACKWARD"], logged=["DATA", "ALLREDUCE"]
    )
    assert stragglers(timings).ranks == (5,)


def as_ddp_logs(timings: pd.DataFrame) -> pd.DataFrame:
    """The all-reduce runs in the background; the end of ``BACKWARD`` waits for it, inside that row."""
    reduced = timings[timings["operation"] == "ALLREDUCE"]
    waited_ms = reduced.set_index(["rank", "iteration"])["elapsed_ms"]
    backward = timings[timings["operation"] == "BACKWARD"]
    inside_ms = waited_ms.reindex(pd.MultiIndex.from_frame(backward[["rank", "iteration"]])).to_numpy()
    backward = backward.assign(
        elapsed_ms=backward["elapsed_ms"] + inside_ms, end_counter=backward["end_counter"] + inside_ms / 1e3
    )
    others = timings[~timings["operation"].isin(["ALLREDUCE", "BACKWARD"])]
    issued, waits = reduced.assign(operation="IALLREDUCE"), reduced.assign(operation="WAIT")
    return pd.concat([others, backward, issued, waits], ignore_index=True)


@pytest.mark.slow("unlogged time counts in the tests above, and test_own_times.py has how much is enough")
def test_work_that_is_not_logged_counts_also_where_waits_lie_inside_a_logged_row() -> None:
    factor = slowed(5, 4.0, iterations=60)
    timings = as_ddp_logs(data_parallel(factor, slow_operations=["DATA"], operations_ms=SLOW_DATA_MS))
    verdict = stragglers(timings[timings["operation"] != "DATA"])
    assert (verdict.verdict, verdict.ranks, verdict.operation) == ("rank", (5,), "UNLOGGED")


@pytest.mark.slow("the policy's examples of min_outdoing_times have both delays")
def test_a_logged_delay_hides_no_longer_one_that_is_not_logged() -> None:
    factor = factors(200, 4, noise=0.05)
    factor[:, 2] *= 4.0
    timings = data_parallel(factor, slow_operations=["DATA"], operations_ms=SLOW_DATA_MS)
    of_rank_1 = (timings["rank"] == 1) & (timings["iteration"] < 40)
    longer_ms = 0.8 * OPERATIONS_MS["BACKWARD"]  # in the time that it would have waited for rank 2
    timings.loc[of_rank_1 & (timings["operation"] == "BACKWARD"), "elapsed_ms"] += longer_ms
    timings.loc[of_rank_1 & (timings["operation"] == "BACKWARD"), "end_counter"] += longer_ms / 1e3
    timings.loc[of_rank_1 & (timings["operation"] == "ALLREDUCE"), "elapsed_ms"] -= longer_ms
    timings.loc[of_rank_1 & (timings["operation"] == "ALLREDUCE"), "start_counter"] += longer_ms / 1e3
    assert stragglers(timings[timings["operation"] != "DATA"]).ranks == (2,)


@pytest.mark.slow("the policy's examples of min_outdoing_times have both delays")
def test_a_short_logged_delay_hides_no_longer_one_of_the_same_rank_that_is_not_logged() -> None:
    factor = factors(200, 4, noise=0.05)
    factor[:, 2] *= 4.0
    timings = data_parallel(factor, slow_operations=["DATA"], operations_ms=SLOW_DATA_MS)
    slow_forward = (timings["operation"] == "FORWARD") & timings["iteration"].between(100, 139)
    longer_ms = 0.8 * OPERATIONS_MS["FORWARD"]  # it begins in what else would not be logged
    timings.loc[slow_forward & (timings["rank"] == 2), "elapsed_ms"] += longer_ms
    timings.loc[slow_forward & (timings["rank"] == 2), "start_counter"] -= longer_ms / 1e3
    verdict = stragglers(timings[timings["operation"] != "DATA"])
    assert (verdict.ranks, verdict.operation, verdict.window, verdict.first_iteration) == (
        (2,),
        "UNLOGGED",
        "persistent",
        1,
    )


def test_what_the_backend_measured_of_a_collective_is_nobody_s_work() -> None:
    timings = with_slow_rank_3()
    measured = timings[timings["operation"] == "ALLREDUCE"].assign(operation="BACKEND")
    assert stragglers(pd.concat([timings, measured])).as_dict() == verdict_on_rank_3().as_dict()


@pytest.mark.slow("in all simulated runs each rank has a clock of its own")
def test_the_clocks_of_the_ranks_do_not_matter() -> None:
    timings = data_parallel(slowed(5, 1.5), logged=["ALLREDUCE"])
    shift_s = 1e5 * timings["rank"]
    elsewhere = timings.assign(
        start_counter=timings["start_counter"] + shift_s, end_counter=timings["end_counter"] + shift_s
    )
    assert stragglers(elsewhere).ranks == stragglers(timings).ranks == (5,)


# -- nobody ------------------------------------------------------------------------------------------


def healthy_factors(seed: int) -> Any:
    """Noise, at times with heavy tails, hiccups that all ranks share, and fair differences of 3%."""
    rng = np.random.default_rng(seed)
    n_steps, n_ranks = (60, 200)[seed % 2], (2, 3, 4, 8)[seed % 4]
    factor = factors(n_steps, n_ranks, noise=(0.05, 0.1, 0.2)[seed % 3], seed=seed)
    factor *= np.exp(rng.normal(0, 0.03, n_ranks))
    if seed % 5 < 2:
        factor *= 1 + 2 * (rng.random(factor.shape) < 0.01) * rng.pareto(1.5, factor.shape)
    factor[rng.random(n_steps) < 0.02] *= 5
    return factor


@pytest.mark.parametrize("seed", seeds(50))
def test_nobody_is_named_in_a_healthy_run(seed: int) -> None:
    logged = ["ALLREDUCE"] if seed % 7 == 0 else None
    verdict = stragglers(data_parallel(healthy_factors(seed), noise=0.05, seed=seed, logged=logged))
    assert verdict.verdict in ("healthy", "diffuse")
    assert verdict.ranks == ()


AS_OF_TWO = pytest.mark.slow("as of two ranks")


@pytest.mark.slow("test_windows.py has the error of a level where noise has a memory")
@pytest.mark.parametrize("seed", seeds(6))
@pytest.mark.parametrize(
    ("iterations", "ranks", "noise", "memory"),
    [
        (1000, 2, 0.05, 0.8),
        pytest.param(1000, 8, 0.05, 0.8, marks=AS_OF_TWO),
        pytest.param(1000, 8, 0.1, 0.5, marks=AS_OF_TWO),
    ],
)
def test_nobody_is_named_where_noise_has_a_memory(
    iterations: int, ranks: int, noise: float, memory: float, seed: int
) -> None:
    """It makes slow stretches by chance, and the more the longer a run is."""
    factor = factors(iterations, ranks, noise, seed, memory)
    assert stragglers(data_parallel(factor, noise=0.03, seed=seed)).ranks == ()


@pytest.mark.slow("test_windows.py has the error of a level where noise has a memory")
def test_a_slow_rank_is_named_also_where_noise_has_a_memory() -> None:
    factor = factors(200, 8, noise=0.05, seed=3, memory=0.8)
    factor[60:120, 5] *= 1.6
    verdict = stragglers(data_parallel(factor, noise=0.03))
    assert (verdict.ranks, verdict.window) == ((5,), "bounded")
    assert (verdict.first_iteration, verdict.last_iteration) == pytest.approx((60, 119), abs=2)


@pytest.mark.slow("test_culprits.py has ranks that are slow in turn")
def test_two_of_four_ranks_that_are_slow_one_after_the_other_are_both_named() -> None:
    factor = factors(200, 4, noise=0.05, seed=3)
    factor[:100, 0] *= 1.5
    factor[100:, 1] *= 1.5
    verdict = stragglers(data_parallel(factor))
    assert (verdict.verdict, sorted(verdict.ranks)) == ("rank", [0, 1])


@pytest.mark.slow("test_culprits.py has ranks that are slow in turn")
def test_ranks_that_are_slow_in_turn_are_no_single_rank_s_fault() -> None:
    """Each of them explains all that was lost while it was slow, and none of them the run."""
    factor = factors(320, 8, noise=0.05)
    for rank in range(8):
        factor[40 * rank : 40 * (rank + 1), rank] *= 1.6
    verdict = stragglers(data_parallel(factor, noise=0.03))
    assert (verdict.verdict, verdict.ranks) == ("diffuse", ())


@pytest.mark.slow("test_own_times_of_suspects.py has such a run")
def test_a_quiet_healthy_run_is_called_healthy() -> None:
    verdict = stragglers(data_parallel(factors(60, 4, noise=0.05), noise=0.1))
    assert (verdict.verdict, verdict.operation, verdict.cost_ms) == ("healthy", "", 0)


@pytest.mark.slow("test_systemic.py has time that is lost to nobody in particular")
def test_another_rank_slow_in_each_step_is_diffuse() -> None:
    factor = factors(200, 8, noise=0.05)
    factor[np.arange(200), np.random.default_rng(3).integers(0, 8, 200)] *= 2
    verdict = stragglers(data_parallel(factor))
    assert (verdict.verdict, verdict.ranks) == ("diffuse", ())


@pytest.mark.slow("test_culprits.py has ranks that all explain too little")
def test_ranks_each_slower_than_the_next_are_no_single_rank_s_fault() -> None:
    verdict = stragglers(data_parallel(factors(100, 4) * [1, 2, 3, 4]))
    assert (verdict.verdict, verdict.ranks) == ("diffuse", ())
    assert any("Rank 3" in text and "z among the peers" in text for text in evidence_sentences(verdict))


def test_a_rank_that_nobody_waits_for_is_not_named() -> None:
    """Its peers do the same, and do not log it."""
    timings = data_parallel(factors(60, 4, noise=0.02))
    unlogged = (timings["operation"] == "DATA") & (timings["rank"] != 2)
    verdict = stragglers(timings[~unlogged])
    assert verdict.ranks == ()
    assert any("longer steps, as a share of the run" in sentence for sentence in evidence_sentences(verdict))


def in_the_background(timings: pd.DataFrame, rank: int, operation: str, ms: float, every: int) -> Any:
    """With such a row in every so many steps, of a thread that the others do not wait for."""
    is_there = (timings["rank"] == rank) & (timings["operation"] == "FORWARD")
    rows = timings[is_there & (timings["iteration"] % every == 0)]
    ends = rows["start_counter"] + ms / 1000
    rows = rows.assign(operation=operation, thread="background", elapsed_ms=ms, end_counter=ends)
    return pd.concat([timings, rows], ignore_index=True)


@pytest.mark.parametrize(
    ("operation", "ms", "every"),
    [
        pytest.param("PREFETCH", 30.0, 1, marks=pytest.mark.slow("as of checkpoints")),
        ("CHECKPOINT", 300.0, 10),
    ],
)
def test_work_in_the_background_hides_no_slow_rank(operation: str, ms: float, every: int) -> None:
    busy = in_the_background(
        data_parallel(slowed(5, 1.5, iterations=60), noise=0.03), 0, operation, ms, every
    )
    verdict = stragglers(busy)
    assert (verdict.ranks, verdict.operation) == ((5,), "BACKWARD")
    alone = stragglers(data_parallel(slowed(5, 1.5, iterations=60), noise=0.03))
    assert verdict.cost_ms == pytest.approx(alone.cost_ms, rel=0.1)


@pytest.mark.slow("such checkpoints hide no slow rank in the test above")
def test_a_healthy_run_with_checkpoints_in_the_background_is_healthy() -> None:
    healthy = data_parallel(factors(200, 8, noise=0.05), noise=0.03)
    assert stragglers(in_the_background(healthy, 0, "CHECKPOINT", 300.0, 10)).verdict == "healthy"


@pytest.mark.slow("test_candidates_gates.py has how many steps are enough; test_facts.py what is said")
def test_a_window_of_fewer_than_20_steps_names_nobody_but_is_in_the_evidence() -> None:
    verdict = stragglers(data_parallel(slowed(3, 2.0, slice(40, 52))))
    assert verdict.ranks == ()
    assert any(
        sentence.startswith("Rank 3") and "steps 12" in sentence for sentence in evidence_sentences(verdict)
    )


@pytest.mark.slow("test_candidates_gates.py has the least difference")
def test_a_difference_of_8_percent_names_nobody_however_sure_it_is() -> None:
    factor = factors(200, 4, noise=0.005)
    factor[:, 1] *= 1.08
    assert stragglers(data_parallel(factor)).verdict == "healthy"


# -- all ranks, roles, pipelines ------------------------------------------------------------------------


ALL_SLOWER = pytest.mark.slow("test_systemic_all_slower.py has it by hand")


@ALL_SLOWER
@pytest.mark.parametrize(("until", "kind"), [(150, "bounded"), (200, "ongoing")])
def test_all_ranks_slow_for_a_while_is_group_wide(until: int, kind: str) -> None:
    verdict = stragglers(data_parallel(slowed(list(range(8)), 2.0, slice(100, until))))
    assert (verdict.verdict, verdict.ranks, verdict.window) == ("group-wide", (), kind)
    assert (verdict.first_iteration, verdict.last_iteration) == (100, until - 1)
    assert verdict.score == pytest.approx(0.5, rel=0.05)


@ALL_SLOWER
def test_what_grew_and_what_it_costs_is_told_of_all_ranks_together() -> None:
    factor = slowed(list(range(8)), 2.8, slice(100, 150))
    verdict = stragglers(data_parallel(factor, slow_operations=["DATA"], operations_ms=SLOW_DATA_MS))
    assert (verdict.verdict, verdict.operation) == (
        "group-wide",
        "DATA",
    )  # BACKWARD takes longer all the time
    assert verdict.cost_ms == pytest.approx(50 * 1.8 * SLOW_DATA_MS["DATA"], rel=0.1)


@ALL_SLOWER
def test_of_several_times_in_which_all_ranks_were_slow_the_costliest_is_told() -> None:
    factor = slowed(list(range(8)), 1.6, slice(60, 85))
    factor[120:170] *= 2.0
    verdict = stragglers(data_parallel(factor))
    assert (verdict.verdict, verdict.first_iteration, verdict.last_iteration) == ("group-wide", 120, 169)
    assert stragglers(data_parallel(factor[::-1])).first_iteration == 30


@ALL_SLOWER
@pytest.mark.parametrize("seed", seeds(3))
def test_all_ranks_a_fifth_slower_from_a_step_on_are_told_of_with_that_step(seed: int) -> None:
    factor = factors(200, 8, 0.02, seed) * factors(200, 1, 0.05, seed + 50)
    factor[100:] *= 1.2
    verdict = stragglers(data_parallel(factor))
    assert (verdict.verdict, verdict.window, verdict.last_iteration) == ("group-wide", "ongoing", 199)
    assert verdict.first_iteration == pytest.approx(100, abs=3)
    assert verdict.cost_ms == pytest.approx(100 * 0.2 * sum(OPERATIONS_MS.values()), rel=0.15)


@ALL_SLOWER
@pytest.mark.parametrize("seed", seeds(3))
def test_ranks_that_become_slower_little_by_little_are_told_of(seed: int) -> None:
    factor = factors(200, 8, 0.02, seed) * factors(200, 1, 0.05, seed + 50)
    factor *= np.linspace(1.0, 1.2, 200)[:, None]
    verdict = stragglers(data_parallel(factor))
    assert (verdict.verdict, verdict.first_iteration, verdict.last_iteration) == ("group-wide", 0, 199)
    assert verdict.cost_ms == pytest.approx(200 * 0.1 * sum(OPERATIONS_MS.values()), rel=0.25)


@ALL_SLOWER
@pytest.mark.parametrize("seed", seeds(5))
def test_work_that_varies_and_wanders_for_all_ranks_is_no_slowing_down(seed: int) -> None:
    factor = factors(300, 8, 0.02, seed) * factors(300, 1, 0.08, seed + 50, memory=0.9)
    assert stragglers(data_parallel(factor)).verdict == "healthy"


@ALL_SLOWER
def test_a_slow_start_of_all_ranks_is_not_group_wide() -> None:
    assert stragglers(data_parallel(slowed(list(range(8)), 5.0, slice(0, 30)))).verdict == "healthy"


@functools.cache
def pipeline_with_slow_rank_4() -> tuple[pd.DataFrame, dict[int, str]]:
    factor = factors(40, 12, noise=0.03)
    factor[:, 4] *= 1.6
    return pipeline(factor, stages=4)


def test_in_a_pipeline_the_origin_of_a_delay_is_named_and_not_who_passes_it_on() -> None:
    timings, roles = pipeline_with_slow_rank_4()
    verdict = stragglers(timings, roles=roles)
    assert (verdict.verdict, verdict.ranks, verdict.labels) == ("rank", (4,), "stage 1")
    waited = next(
        sentence for sentence in evidence_sentences(verdict) if sentence.endswith("the largest part.")
    )
    assert waited.startswith("Of the time that ranks waited in these steps, ")
    assert "was for rank 4, " in waited


@pytest.mark.slow("test_culprits.py has delays that rows do not tell of")
def test_where_a_delay_may_have_been_passed_on_unseen_nobody_is_named() -> None:
    timings, roles = pipeline_with_slow_rank_4()
    only_reductions = timings[timings["operation"] == "REDUCE_SCATTER"]
    assert stragglers(only_reductions, roles=roles).ranks == ()


def test_a_whole_stage_that_is_slower_is_a_role() -> None:
    factor = factors(60, 12, noise=0.03)
    factor[:, 3:6] *= 1.6
    timings, roles = pipeline(factor, stages=4)
    verdict = stragglers(timings, roles=roles)
    assert (verdict.verdict, verdict.labels, verdict.ranks) == ("role", "stage 1", (3, 4, 5))
    assert verdict.operation == "BACKWARD"
    assert verdict.cost_ms == pytest.approx(60 * 0.6 * 4 * (5 + 10), rel=0.05)
    assert evidence_sentences(verdict)[0].startswith("Role stage 1: 1.59 times")


@pytest.mark.slow("test_culprits.py and test_pricing.py compare ranks with those of their role")
def test_ranks_of_unequal_roles_are_not_compared() -> None:
    factor = factors(60, 8, noise=0.03)
    factor[:, 6:] *= 1.25  # the last stage has more to do
    timings, roles = pipeline(factor, stages=4)
    assert stragglers(timings, roles=roles).ranks == ()


@pytest.mark.slow("a whole stage is quick above, and test_systemic.py has slow roles")
def test_a_rank_alone_in_its_role_is_not_named_as_a_rank() -> None:
    factor = factors(40, 4, noise=0.03)
    factor[:, 2] *= 2
    timings, roles = pipeline(factor, stages=4)
    verdict = stragglers(timings, roles=roles)
    assert (verdict.verdict, verdict.ranks) == ("role", (2,))
    assert any("cannot be told" in sentence for sentence in evidence_sentences(verdict))


def test_roles_come_from_a_column_or_from_the_labels_of_the_loggers() -> None:
    timings = pd.DataFrame({"rank": [0, 0, 1, 2]})
    found = roles_of(timings.assign(role=["a", "a", "b", None]), range(4), None)
    assert found == {0: "a", 1: "b", 2: "", 3: ""}
    timings.attrs["files"] = [
        {"rank": rank, "sidecar": {"labels": {"pipeline_stage": rank // 2}}} for rank in range(3)
    ]
    found = roles_of(timings, range(3), None)
    assert found == {0: "pipeline_stage=0", 1: "pipeline_stage=0", 2: "pipeline_stage=1"}


@pytest.mark.slow("the test above has where roles come from")
def test_the_role_of_a_column_or_of_labels_is_in_the_verdict() -> None:
    timings, roles = pipeline_with_slow_rank_4()
    timings = timings.copy()
    assert stragglers(timings.assign(role=timings["rank"].map(roles))).labels == "stage 1"
    timings.attrs["files"] = [
        {"rank": rank, "sidecar": {"labels": {"pipeline_stage": rank // 3}}} for rank in range(12)
    ]
    assert stragglers(timings).labels == "pipeline_stage=1"


# -- tables as they come -------------------------------------------------------------------------------


def test_waiting_inside_an_operation_is_not_the_rank_s_own_time() -> None:
    timings = data_parallel(slowed(3, 1.5, iterations=60), slow_operations=["FORWARD"])
    reduced = timings[timings["operation"] == "ALLREDUCE"].set_index(["rank", "iteration"])["elapsed_ms"]
    is_backward = timings["operation"] == "BACKWARD"
    keys = pd.MultiIndex.from_frame(timings.loc[is_backward, ["rank", "iteration"]])
    timings.loc[is_backward, "elapsed_ms"] += reduced.reindex(keys).to_numpy()
    timings.loc[is_backward, "end_counter"] += reduced.reindex(keys).to_numpy() / 1000
    verdict = stragglers(timings)
    assert (verdict.ranks, verdict.operation) == ((3,), "FORWARD")
    assert verdict.score == pytest.approx(35 / 40, abs=0.02)


def test_ten_columns_are_enough() -> None:
    timings = with_slow_rank_3()[[*TEN_COLUMNS, "rank"]]
    bare = timings.assign(clock="host", status="ok", group="", thread="", group_size=pd.NA, seq=pd.NA)
    assert stragglers(bare.astype({"group_size": "Int64", "seq": "Int64"})).ranks == (3,)


def test_a_polars_table_gives_the_same_verdict() -> None:
    timings = with_slow_rank_3()
    plain = timings.astype(object).where(timings.notna(), None)
    as_polars = pl.DataFrame({name: plain[name].to_list() for name in plain.columns})
    assert stragglers(as_polars).as_dict() == verdict_on_rank_3().as_dict()


@pytest.mark.slow("as of a table of polars that is not lazy")
def test_a_lazy_table_gives_the_same_verdict() -> None:
    timings = pl.from_pandas(with_slow_rank_3().assign(role="all"))
    assert stragglers(timings.lazy()).as_dict() == stragglers(timings).as_dict()


def test_steps_are_counted_where_no_iteration_is_recorded() -> None:
    timings = data_parallel(slowed(3, 1.5, slice(20, None), iterations=60))
    verdict = stragglers(timings.assign(iteration=pd.array([pd.NA] * len(timings), "Int64")))
    assert (verdict.ranks, verdict.first_iteration, verdict.last_iteration) == ((3,), 20, 59)
    assert StepsCounted() in verdict.evidence


def test_missing_ranks_and_ranks_of_different_length_are_endured() -> None:
    timings = with_slow_rank_3()
    cut = timings[(timings["rank"] != 5) & ((timings["rank"] != 6) | (timings["iteration"] < 25))]
    assert stragglers(cut).ranks == (3,)


@pytest.mark.slow("the test above has a file that ends early, too")
@pytest.mark.parametrize("until", [40, slow(90, "as after 40 steps"), slow(160, "as after 40 steps")])
def test_a_file_that_ends_early_hides_no_slow_rank(until: int) -> None:
    """Its collectives are incomplete from there on: who waited for whom is known of the steps before."""
    timings = data_parallel(slowed(3, 1.5), noise=0.03)
    verdict = stragglers(timings[(timings["rank"] != 0) | (timings["iteration"] < until)])
    assert (verdict.ranks, verdict.window) == ((3,), "persistent")


@pytest.mark.slow("a short window that names nobody is in the evidence above")
def test_a_rank_that_was_cut_while_it_warmed_up_is_not_named() -> None:
    timings = data_parallel(slowed(6, 2.0, slice(5)))
    cut = timings[(timings["rank"] != 6) | (timings["iteration"] < 5)]
    verdict = stragglers(cut)
    assert verdict.ranks == ()
    assert any("Not named: slow steps 5, limit 20" in sentence for sentence in evidence_sentences(verdict))


@pytest.mark.slow("test_own_times.py has what the evidence says")
def test_the_evidence_says_of_whom_nothing_is_known() -> None:
    timings = data_parallel(slowed(3, 1.0, iterations=60))
    unresolved = timings["status"].where(timings["rank"] != 3, "unresolved")
    verdict = stragglers(timings.assign(status=unresolved))
    assert verdict.ranks == ()
    assert SelfTimeUnknown((3,)) in verdict.evidence


def test_a_rank_is_named_by_when_it_comes_where_how_long_its_work_took_is_not_known() -> None:
    timings = with_slow_rank_3()
    unresolved = timings["status"].where(timings["rank"] != 3, "unresolved")
    verdict = stragglers(timings.assign(status=unresolved))
    assert (verdict.ranks, verdict.operation) == ((3,), "UNLOGGED")


def test_unknown_times_are_endured() -> None:
    timings = with_slow_rank_3().copy()
    timings.loc[np.random.default_rng(1).random(len(timings)) < 0.05, "elapsed_ms"] = np.nan
    assert stragglers(timings).ranks == (3,)


def test_of_two_incarnations_of_a_rank_the_later_counts() -> None:
    before = data_parallel(slowed(3, 3.0, iterations=60))
    after = data_parallel(factors(60, 8, noise=0.05)).assign(incarnation=2)
    assert stragglers(pd.concat([before, after], ignore_index=True)).verdict == "healthy"


@pytest.mark.slow("test_own_times.py and test_verdict_coverage.py have one rank")
def test_one_rank_has_nobody_to_be_slower_than() -> None:
    verdict = stragglers(data_parallel(factors(50, 1, noise=0.05)))
    assert (verdict.verdict, verdict.ranks) == ("healthy", ())
    assert OneRank() in verdict.evidence


@pytest.mark.parametrize("rows", [0, 1, 5])
def test_next_to_no_rows_are_healthy(rows: int) -> None:
    assert stragglers(data_parallel(factors(2, 4)).head(rows)).verdict == "healthy"


def test_a_verdict_is_plain_json() -> None:
    for verdict in (verdict_on_rank_3(), stragglers(data_parallel(factors(10, 1)))):
        told = json.loads(json.dumps(verdict.as_dict(), allow_nan=False))
        assert told["ranks"] == list(verdict.ranks)
        assert [row["name"] for row in told["gates"]] == [gate.name for gate in verdict.gates]


def test_every_gate_of_a_named_rank_passed_and_is_stated_with_its_bound() -> None:
    verdict = verdict_on_rank_3()
    assert all(gate.passed for gate in verdict.gates)
    assert gate(verdict, "share of the lost time that is explained") >= 0.8
    assert gate(verdict, "part of its time by which its peers are quicker") == pytest.approx(
        1 - 1 / 1.5, abs=0.05
    )


def test_windows_and_verdict_agree() -> None:
    timings = slow_for_a_while()
    first = windows(timings).iloc[0]
    assert (first["rank"], first["operation"], first["kind"]) == (3, "SELF_TIME", "bounded")
    verdict = verdict_on_slow_for_a_while()
    assert first["first_iteration"] == verdict.first_iteration
    assert first["last_iteration"] == verdict.last_iteration


@pytest.mark.slow("40 runs a number of steps; test_candidates_gates.py has the larger gap of few steps")
@pytest.mark.parametrize("steps", [1, 2, 3, 5])
def test_noise_in_a_run_of_few_steps_names_nobody(steps: int) -> None:
    runs = [data_parallel(factors(steps, 4, 0.15, seed), noise=0.1) for seed in range(40)]
    assert {stragglers(run).verdict for run in runs} <= {"healthy", "diffuse"}


@pytest.mark.slow("a run of twelve steps is judged above, and test_candidates_gates.py has fewer")
def test_a_rank_of_twice_the_time_is_named_also_in_a_run_of_few_steps() -> None:
    factor = factors(5, 4, 0.05)
    factor[:, 2] *= 2
    verdict = stragglers(data_parallel(factor))
    assert (verdict.verdict, verdict.ranks) == ("rank", (2,))


def test_a_slow_rank_is_found_where_it_is_waited_for_in_messages_before_the_collective() -> None:
    now, rows, both = np.zeros(2), [], np.arange(2)
    for step in range(80):
        works_ms = np.array([20.0, 30.0]) * np.exp(np.random.default_rng(step).normal(0, 0.02, 2))
        rows.append(_row("FORWARD", step, now, works_ms))
        now = now + works_ms
        done = np.full(2, now.max() + 0.5)
        named = {"group": "world", "group_size": 2, "seq": step, "message_size_bytes": 4096}
        for name in ("SEND", "RECV"):
            rows.append(_row(name, step, now, done - now, peer=1 - both, **named))
        rows.append(_row("ALLREDUCE", step, done, np.full(2, 1.5), **named))
        now = done + 1.5
    verdict = stragglers(_table(rows, None))
    assert (verdict.verdict, verdict.ranks) == ("rank", (1,))
