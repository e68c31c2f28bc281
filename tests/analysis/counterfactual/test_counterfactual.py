"""A run with something repaired is as long as the same run without the fault."""

from __future__ import annotations

import functools
from collections.abc import Mapping

import numpy as np
import pandas as pd
import polars as pl
import pytest
from simulated_runs import OPERATIONS_MS, data_parallel, factors, of_operations, on_hosts, pipeline, with_work
from slow import slow

from timing_logger.analysis import Fix, WhatIf, repairs, what_if
from timing_logger.analysis.counterfactual.repaired import Repairing, judgement_to_repair
from timing_logger.analysis.counterfactual.what_if import parsed
from timing_logger.analysis.rows.arrays import Floats
from timing_logger.errors import FixError
from timing_logger.results.policy import STANDARD

SHAPE = 60, 4
NOISE = 0.02
ALL = slice(None)


def times_ms(**others: Floats) -> dict[str, Floats]:
    """Return the times of the usual operations with noise; others replace them, or come before the last."""
    rng = np.random.default_rng(3)
    usual = {name: ms * np.exp(rng.normal(0, NOISE, SHAPE)) for name, ms in OPERATIONS_MS.items()}
    last = usual.pop("OPTIMIZER")
    return {**usual, **others, "OPTIMIZER": last}


def longer(operation: str, steps: slice, ranks: slice, ms: float) -> dict[str, Floats]:
    """Return the usual times, in which an operation takes longer in some steps of some ranks."""
    its_ms = times_ms()[operation].copy()
    its_ms[steps, ranks] += ms
    return times_ms(**{operation: its_ms})


def length_ms(timings: pd.DataFrame) -> float:
    """Return how long rank 0 was there."""
    its = timings[timings["rank"] == 0]
    end_s = its["start_counter"] + its["elapsed_ms"] / 1e3
    return 1e3 * float(end_s.max() - its["start_counter"].min())


HEALTHY = of_operations(times_ms())
HEALTHY_MS = length_ms(HEALTHY)


def off(answer: WhatIf, faulty: pd.DataFrame) -> float:
    """Return by how much a gain is wrong, as a fraction of the run."""
    true_ms = length_ms(faulty) - HEALTHY_MS
    return abs(answer.gain_ms - true_ms) / length_ms(faulty)


AS_OF_ONE_RANK = [
    pytest.param(
        longer("DATA", slice(0, None, every), ranks, ms),
        "operation=DATA",
        marks=pytest.mark.slow("as of one rank"),
    )
    for every, ranks, ms in ((1, slice(1, 3), 20.0), (4, slice(None), 50.0))
]

LATER = pytest.param(
    longer("DATA", slice(30, None), slice(2, 3), 30.0),
    "rank=2",
    marks=pytest.mark.slow("as of all steps"),
)
OF_AN_OPERATION = pytest.param(
    longer("DATA", slice(0, None, 5), slice(2, 3), 60.0),
    "operation=DATA",
    marks=pytest.mark.slow("of an operation that one rank has at times, another test is quick"),
)
OF_ALL_RANKS = pytest.param(
    longer("OPTIMIZER", slice(15, 45), slice(None), 12.0),
    "operation=OPTIMIZER",
    marks=pytest.mark.slow("as of one rank"),
)


@pytest.mark.parametrize(
    ("faulty", "fix"),
    [
        (longer("FORWARD", slice(None), slice(2, 3), 8.0), "rank=2"),
        LATER,
        OF_AN_OPERATION,
        *AS_OF_ONE_RANK,
        OF_ALL_RANKS,
    ],
)
def test_a_run_with_its_fault_repaired_is_as_long_as_one_without_the_fault(
    faulty: Mapping[str, Floats], fix: str
) -> None:
    timings = of_operations(faulty)
    answer = what_if(timings, fix)
    assert answer.plays_again
    assert off(answer, timings) < 0.01


def test_a_run_without_an_operation_that_one_rank_has_after_the_last_collective_is_as_if_it_had_not() -> None:
    saves_ms = np.zeros(SHAPE)
    saves_ms[5::10, 0] = 500.0
    faulty = times_ms()
    last = faulty.pop("OPTIMIZER")
    timings = of_operations({**faulty, "OPTIMIZER": last + saves_ms})
    assert off(what_if(timings, "operation=OPTIMIZER"), timings) < 0.01


def test_who_costs_most_is_named_unless_that_is_what_is_repaired() -> None:
    timings = of_operations(longer("FORWARD", ALL, slice(2, 3), 8.0))
    named = what_if(timings, "operation=DATA").slowest
    assert named is not None
    assert (named.rank, named.operation) == (2, "FORWARD")
    assert what_if(timings, "rank=2").slowest is None


def test_without_garbage_collections_a_run_is_as_if_there_were_none() -> None:
    paused_ms = np.zeros(SHAPE)
    paused_ms[5::7, 1] = paused_ms[3::7, 3] = 40.0
    timings = of_operations(times_ms(GC=paused_ms))
    assert off(what_if(timings, "cause=GC"), timings) < 0.01


def test_with_transfers_as_usual_a_slow_link_costs_nothing() -> None:
    transfer_ms = np.exp(np.random.default_rng(0).normal(0, 0.03, len(times_ms()["DATA"])))
    usual = of_operations(times_ms(), transfer_ms=transfer_ms)
    transfer_ms[30:] *= 12
    slow = of_operations(times_ms(), transfer_ms=transfer_ms)
    gained_ms = length_ms(slow) - length_ms(usual)
    assert what_if(slow, "transfers=usual").gain_ms == pytest.approx(gained_ms, abs=0.01 * length_ms(slow))


@functools.cache
def uneven(exponent: float, *, more: float = 1.5) -> pd.DataFrame:
    """Return a run in which rank 2 always has more to do, and FORWARD goes with a power of the work."""
    work = np.ones(SHAPE)
    work[:, 2] = more
    return with_work(of_operations(times_ms(FORWARD=_forward_ms(work**exponent))), "FORWARD", work)


@functools.cache
def with_even_work(exponent: float) -> WhatIf:
    return what_if(uneven(exponent), "work=even")


def shared(exponent: float, *, more: float = 1.5) -> pd.DataFrame:
    """Return the same run with as much to do in all, shared evenly."""
    return of_operations(times_ms(FORWARD=_forward_ms(np.full(SHAPE, (3 + more) / 4) ** exponent)))


def _forward_ms(longer: Floats) -> Floats:
    return 10.0 * longer * np.exp(np.random.default_rng(1).normal(0, NOISE, SHAPE))


@pytest.mark.parametrize(
    "exponent",
    [slow(0.0, "times that grow with the work are quick"), slow(0.5, "between the other two"), 1.0],
)
def test_with_work_shared_evenly_ranks_take_what_ranks_with_as_much_work_would(exponent: float) -> None:
    timings = uneven(exponent)
    true_ms = length_ms(timings) - length_ms(shared(exponent))
    assert with_even_work(exponent).gain_ms == pytest.approx(true_ms, abs=0.01 * length_ms(timings))


@pytest.mark.parametrize("exponent", [1.0, *(slow(other, "the same of other runs") for other in (0.5, 2.0))])
def test_where_work_never_changes_the_interval_spans_all_that_may_be_so(exponent: float) -> None:
    timings = uneven(exponent)
    answer = with_even_work(exponent)
    assert answer.assumed_gain_ms is not None
    least_ms, most_ms = answer.assumed_gain_ms
    assert answer.gain_low_ms < least_ms <= answer.gain_ms <= most_ms < answer.gain_high_ms
    assert least_ms == pytest.approx(0.0, abs=1.0)
    assert answer.gain_low_ms <= length_ms(timings) - length_ms(shared(exponent)) <= answer.gain_high_ms


@pytest.mark.slow("the interval itself is quick, and so is the table of repairs")
@pytest.mark.parametrize("exponent", [1.0, *(slow(other, "the same of other runs") for other in (0.5, 2.0))])
def test_in_the_table_of_repairs_work_shared_evenly_has_the_same_interval(exponent: float) -> None:
    in_table = repairs(uneven(exponent)).query("fix == 'work=even'")
    if len(in_table):
        assert in_table["gain_low_ms"].iloc[0] == pytest.approx(with_even_work(exponent).gain_low_ms)


@pytest.mark.slow("the interval of work shared evenly is quick, and so are several repairs")
def test_a_slow_rank_with_more_to_do_may_be_only_slow() -> None:
    answer = what_if(uneven(1.0), "work=even", "rank=2")
    assert answer.assumed_gain_ms is not None
    alone = what_if(uneven(1.0), "rank=2")
    assert alone.assumed_gain_ms is None
    assert answer.gain_low_ms <= alone.gain_ms <= answer.gain_high_ms


@pytest.mark.slow("where the work never changes it is quick")
def test_where_ranks_have_now_more_and_now_less_to_do_nothing_is_assumed() -> None:
    work = np.exp(np.random.default_rng(2).normal(0, 0.3, SHAPE))
    timings = with_work(of_operations(times_ms(FORWARD=_forward_ms(work))), "FORWARD", work)
    assert what_if(timings, "work=even").assumed_gain_ms is None


@pytest.mark.slow("all ranks of a host are repaired together, too")
def test_repairs_are_made_together() -> None:
    two = times_ms()
    two["FORWARD"] = two["FORWARD"].copy()
    two["FORWARD"][:, 1] += 6.0
    two["FORWARD"][:, 2] += 9.0
    timings = of_operations(two)
    first, second, both = (
        what_if(timings, *fixes) for fixes in (["rank=2"], ["rank=1"], ["rank=1", "rank=2"])
    )
    assert off(both, timings) < 0.01
    assert second.gain_ms < 0.01 * second.run_ms  # the other is slower still
    assert first.slowest is not None
    assert (first.slowest.rank, first.slowest.operation) == (1, "FORWARD")
    assert first.slowest.cost_ms == pytest.approx(both.gain_ms - first.gain_ms, abs=1e-6)
    assert both.slowest is None


@pytest.mark.slow("repairs that are made together are quick, of ranks")
def test_operations_that_are_all_slow_for_a_time_gain_together_what_that_costs() -> None:
    slow = {name: ms.copy() for name, ms in times_ms().items()}
    for its_ms in slow.values():
        its_ms[25:] *= 1.5
    timings = of_operations(slow)
    answer = what_if(timings, *(f"operation={name}" for name in slow))
    assert off(answer, timings) < 0.01


def test_a_healthy_run_gains_nothing_by_any_repair() -> None:
    assert len(repairs(HEALTHY)) == 0


def test_repairs_come_by_what_they_gain_and_in_part_of_all_that_can_be_gained() -> None:
    found = repairs(of_operations(longer("DATA", slice(None), slice(2, 3), 30.0)))
    assert set(found["fix"][:2]) == {"rank=2", "operation=DATA"}
    assert found["gain_ms"].is_monotonic_decreasing
    assert (found["of_all"][:2] > 0.9).all()


@pytest.mark.parametrize("n_runs", [1, slow(40, "more of the same")])
def test_a_run_made_again_is_within_what_is_stated_in_95_of_100_runs(n_runs: int) -> None:
    inside = 0
    for seed in range(n_runs):
        noise = factors(150, 4, 0.05, seed=seed, memory=0.5)
        slower = noise.copy()
        slower[:, 1] *= 1.4
        answer = what_if(data_parallel(slower), "rank=1")
        again_ms = length_ms(data_parallel(factors(150, 4, 0.05, seed=1000 + seed, memory=0.5)))
        gained_ms = answer.run_ms - again_ms
        inside += answer.gain_low_ms <= gained_ms <= answer.gain_high_ms
    assert inside >= 0.9 * n_runs


@pytest.mark.slow("by steps is quick where no communication is recorded")
def test_where_rows_do_not_show_who_waits_a_gain_is_by_steps_and_says_so() -> None:
    usual = factors(30, 8, 0.02)
    slower = usual.copy()
    slower[:, 2] *= 1.5
    timings, roles = pipeline(slower, 4)  # of which only receives are recorded
    answer = what_if(timings, "rank=2", roles=roles)
    assert not answer.plays_again
    assert answer.gain_ms == pytest.approx(length_ms(timings) - length_ms(pipeline(usual, 4)[0]), rel=0.05)
    with pytest.raises(FixError, match="transfers=usual: the rows do not show"):
        what_if(timings, "transfers=usual", roles=roles)


def test_a_rank_that_is_alone_in_its_role_has_nobody_to_be_like() -> None:
    timings, roles = pipeline(factors(10, 4, 0.02), 4)
    with pytest.raises(FixError, match="rank=1: no other rank has its role"):
        what_if(timings, "rank=1", roles=roles)


@pytest.fixture(scope="module")
def short() -> Repairing:
    """Return a short run without a fault, which can be played with something repaired."""
    timings = of_operations({name: ms[:20] for name, ms in times_ms().items()})
    return Repairing(judgement_to_repair(timings, None, STANDARD, None))


@pytest.mark.parametrize(
    ("fix", "said"),
    [
        ("rank=9", "rank=9: there is no such rank; there are 0, 1, 2, 3"),
        ("host=a", "host=a: there is no such host; hosts are not known"),
        ("operation=LOAD", "operation=LOAD: no such operation is recorded; there are BACKWARD, FORWARD"),
        ("cause=GC", "cause=GC: no time is known to be lost to it; no pause is recorded"),
        ("work=even", "work=even: no row states how much there was to do"),
        ("bytes=0.5", "bytes=0.5: ALLREDUCE among 4 ranks was measured at one size only"),
        ("rank=two", "say a number, such as rank=2"),
        ("transfers=fast", "say transfers=usual"),
        ("everything", "say what is repaired, such as rank=2"),
    ],
)
def test_what_the_run_tells_nothing_of_is_refused_with_what_it_tells(
    fix: str, said: str, short: Repairing
) -> None:
    with pytest.raises(FixError, match=said):
        short.repair(parsed([fix]))


def test_a_repair_is_given_as_a_text_or_as_what_it_stands_for() -> None:
    assert parsed(["phase=DATA"]) == parsed([Fix("operation", "DATA")]) == [Fix("operation", "DATA")]
    assert str(Fix("bucket", "25MB")) == "bucket=25MB"
    assert Fix.parse("bucket=25MB").number == 25e6


def test_all_ranks_of_a_host_are_repaired_together() -> None:
    usual = factors(30, 6, 0.03)
    slow = usual.copy()
    slow[:, 2:4] *= 1.4
    timings = on_hosts(data_parallel(slow), size=2)
    gained_ms = length_ms(timings) - length_ms(data_parallel(usual))
    assert what_if(timings, "host=node1").gain_ms == pytest.approx(gained_ms, abs=0.01 * length_ms(timings))


@pytest.mark.slow("the gain of a host is quick, and so is the table of repairs")
def test_the_best_repair_of_a_slow_host_is_that_of_all_its_ranks() -> None:
    slow = factors(30, 6, 0.03)
    slow[:, 2:4] *= 1.4
    best = repairs(on_hosts(data_parallel(slow), size=2))
    assert best["fix"][0] == "host=node1"
    assert best["of_all"][0] > 0.8


@pytest.mark.slow("as of a rank that is alone in its role")
def test_a_host_on_which_all_ranks_run_has_none_to_be_like() -> None:
    timings = on_hosts(data_parallel(factors(30, 6, 0.03)), size=6)
    with pytest.raises(FixError, match="all ranks run on this host"):
        what_if(timings, "host=node0")


@pytest.mark.slow("the second library of tables")
def test_a_polars_table_has_the_same_answers() -> None:
    timings = of_operations(longer("DATA", slice(None), slice(2, 3), 30.0))
    in_polars = pl.from_pandas(timings)
    assert what_if(in_polars, "rank=2").gain_ms == pytest.approx(what_if(timings, "rank=2").gain_ms)
    assert isinstance(repairs(in_polars), pl.DataFrame)


def test_an_operation_is_repaired_by_steps_where_no_communication_is_recorded() -> None:
    timings = data_parallel(factors(80, 4, 0.02), logged=["DATA", "FORWARD"])
    late = (timings["rank"] == 2) & (timings["operation"] == "DATA")
    timings.loc[late, "elapsed_ms"] += 6.0
    answer = what_if(timings, "operation=DATA")
    assert not answer.plays_again
    assert answer.gain_ms == pytest.approx(80 * 6.0, rel=0.1)
    assert set(repairs(timings)["fix"]) == {"rank=2", "operation=DATA"}
