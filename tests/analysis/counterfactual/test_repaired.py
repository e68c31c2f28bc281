"""What is repaired in a run that is made by hand: who is like its peers, and what is said of the gain."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hand_made_cases import POLICY, case_of, steps

from timing_logger.analysis.counterfactual.repaired import (
    Gain,
    GainOfFixes,
    Repairing,
    _error_of_sum,
    _lengths_s,
    _listed,
    _listed_or,
    _of_all,
)
from timing_logger.analysis.counterfactual.what_if import parsed
from timing_logger.analysis.verdict.case import Case
from timing_logger.errors import FixError

WORK_MS = np.tile([10.0, 10.0, 14.0, 10.0], (6, 1))


def repairing(case: Case | None = None, *, cause: Any = None, **slow: Any) -> Repairing:
    """Return a run, step by step, with what the verdict on it says."""
    judgement: Any = SimpleNamespace(
        case=case or case_of(WORK_MS), verdict=SimpleNamespace(cause=cause), slow=slow
    )
    return Repairing(judgement)


def slowed(case: Case | None, fix: str, **judged: Any) -> list[tuple[int, list[int]]]:
    """Return the columns and steps of those who are like their peers with a repair."""
    found = repairing(case, **judged).repair(parsed([fix])).slowed
    return [(one.column, one.steps.tolist()) for one in found]


# -- who is repaired -------------------------------------------------------------------------------------


def test_a_rank_is_like_its_peers_in_all_steps() -> None:
    case = case_of(WORK_MS, ranks=[3, 5, 7, 9], roles=[""] * 10)
    assert slowed(case, "rank=7") == [(2, [0, 1, 2, 3, 4, 5])]
    assert repairing(case).column_of(9) == 3


def test_all_ranks_of_a_host_are_like_those_of_others() -> None:
    case = case_of(WORK_MS, hosts=["a", "b", "b", "a"])
    assert [column for column, _ in slowed(case, "host=b")] == [1, 2]


def test_ranks_of_a_cause_are_like_their_peers_in_their_slow_steps_or_all() -> None:
    judgement: Any = SimpleNamespace(
        case=case_of(WORK_MS), slow={2: steps(1, 4)},
        verdict=SimpleNamespace(cause=SimpleNamespace(name="processor-wait", ranks=(2, 0))),
    )  # fmt: skip
    found = Repairing(judgement).repair(parsed(["cause=processor-wait"])).slowed
    assert [(one.column, one.steps.tolist()) for one in found] == [(2, [1, 4]), (0, [0, 1, 2, 3, 4, 5])]


def test_several_repairs_are_made_together() -> None:
    found = repairing(case_of(WORK_MS, in_gaps_ms={"FORWARD": WORK_MS})).repair(
        parsed(["rank=2", "without=FORWARD", "rank=0"])
    )
    assert [one.column for one in found.slowed] == [2, 0]
    assert (found.quicker > 1e3).all()
    assert not found.all_usual
    assert found.transfers_s == ()


def test_without_an_operation_a_rank_is_as_much_quicker_as_it_took() -> None:
    half = case_of(WORK_MS, operations=["DATA", "FORWARD"], operation_ms=np.stack([WORK_MS / 2, WORK_MS / 2]),
                   in_gaps_ms={"DATA": WORK_MS / 2, "FORWARD": WORK_MS / 2})  # fmt: skip
    assert repairing(half).repair(parsed(["without=DATA"])).quicker == pytest.approx(2.0)


def test_a_pause_is_repaired_by_what_is_recorded_of_it() -> None:
    gc_ms = np.zeros((6, 4))
    gc_ms[3, 1] = 5.0
    case = case_of(
        WORK_MS + gc_ms, operations=["FORWARD", "GC"], operation_ms=np.stack([WORK_MS, gc_ms]),
        in_gaps_ms={"GC": gc_ms},
    )  # fmt: skip
    found = repairing(case, cause=SimpleNamespace(name="GC", ranks=(0,))).repair(parsed(["cause=GC"]))
    assert found.slowed == ()
    assert found.quicker[3].tolist() == pytest.approx([1.0, 1.5, 1.0, 1.0])


def test_all_as_usual_is_without_transfers_where_the_run_cannot_be_played() -> None:
    run = repairing()
    assert not run.may_change_transfers
    assert run.all_usual().all_usual
    assert run.all_usual().transfers_s == ()


# -- what is refused ---------------------------------------------------------------------------------------

NAMED: Any = SimpleNamespace(name="steal", ranks=(1,))


@pytest.mark.parametrize(
    ("fix", "said"),
    [
        ("rank=9", r"rank=9: there is no such rank; there are 0, 1, 2, 3$"),
        ("host=c", r"host=c: there is no such host; there are a, b$"),
        ("cause=swap", r"cause=swap: no time is known to be lost to it; there are GC, steal$"),
        ("operation=X", r"operation=X: no such operation is recorded; there are FORWARD$"),
        ("work=even", r"work=even: no row states how much there was to do \(work=\)$"),
        ("transfers=usual", r"transfers=usual: the rows do not show in all of the run who waits for whom$"),
        ("bytes=0.5", r"bytes=0.5: the rows do not show in all of the run who waits for whom$"),
    ],
)
def test_what_is_not_there_is_refused_with_what_is(fix: str, said: str) -> None:
    case = case_of(WORK_MS, hosts=["a", "b", "b", "a"], in_gaps_ms={"FORWARD": WORK_MS, "GC": 0 * WORK_MS})
    with pytest.raises(FixError, match=said):
        repairing(case, cause=NAMED).repair(parsed([fix]))


def test_where_nothing_is_known_to_be_lost_that_is_said() -> None:
    said = r"pause_rows=True\), and the verdict names no cause$"
    with pytest.raises(FixError, match=said):
        slowed(None, "cause=GC")
    with pytest.raises(FixError, match="hosts are not known"):
        slowed(None, "host=a")


def test_a_rank_or_host_that_is_alone_has_nobody_to_be_like() -> None:
    roles = case_of(WORK_MS, roles=["a", "b", "a", "a"], hosts=["x"] * 4)
    with pytest.raises(FixError, match="rank=1: no other rank has its role"):
        slowed(roles, "rank=1")
    assert slowed(roles, "rank=2")
    with pytest.raises(FixError, match="host=x: all ranks run on this host"):
        slowed(roles, "host=x")
    assert slowed(case_of(WORK_MS, hosts=["x", "y", "y", "y"]), "host=x")


# -- what is gained ----------------------------------------------------------------------------------------


def test_a_gain_is_what_the_slowest_rank_of_each_step_takes_longer() -> None:
    run = repairing()
    (of_rank,) = run.gains_of([parsed(["rank=2"])])
    assert of_rank.gain.ms == pytest.approx(6 * 4.0)
    assert of_rank.assumed_ms is None
    rank, nothing = (run.repair(parsed([fix])) for fix in ("rank=2", "rank=0"))
    assert [gain.ms for gain in run.gains([rank, nothing])] == pytest.approx([24.0, 0.0])
    assert run.gains([nothing], beside=rank)[0].ms == pytest.approx(-24.0)
    assert run.gains([]) == []


def test_a_gain_is_of_all_steps_that_the_recorded_ones_stand_for() -> None:
    (gain,) = repairing(case_of(WORK_MS, recorded_every=10)).gains_of([parsed(["rank=2"])])
    assert gain.gain.ms == pytest.approx(240.0)


def test_a_gain_lies_in_the_middle_of_its_interval_which_noise_widens() -> None:
    noisy = WORK_MS * np.exp(np.random.default_rng(0).normal(0, 0.1, WORK_MS.shape))
    (gain,) = repairing(case_of(noisy)).gains_of([parsed(["rank=2"])])
    ms, low_ms, high_ms = gain.gain
    assert low_ms < ms < high_ms
    assert high_ms - ms == pytest.approx(ms - low_ms)


def test_the_interval_has_what_1_96_standard_errors_of_the_sum_are() -> None:
    noisy = WORK_MS * np.exp(np.random.default_rng(0).normal(0, 0.1, WORK_MS.shape))
    run = repairing(case_of(noisy))
    repair = run.repair(parsed(["rank=2"]))
    with_it_s = np.diff(run.pricing.ends_s([repair])[:, 0], prepend=0.0)
    (gain,) = run.gains([repair])
    assert gain.high_ms - gain.ms == pytest.approx(1.96e3 * _error_of_sum(with_it_s, POLICY))


def test_fewer_than_four_steps_show_no_error() -> None:
    assert _error_of_sum(np.array([1.0, 3.0, 2.0]), POLICY) == 0.0
    assert _error_of_sum(np.array([1.0, 3.0, 2.0, 5.0]), POLICY) > 0.0


def test_the_error_of_a_sum_is_as_of_the_longest_stretches_that_are_compared() -> None:
    of_steps = np.random.default_rng(1).normal(10.0, 1.0, 400)
    longest = 400 // POLICY.min_compared_stretches  # how far the level wanders in a longer one is not seen
    error = _error_of_sum(of_steps, POLICY)
    assert error == pytest.approx(400 / longest**0.5, rel=0.1)
    assert _error_of_sum(3 * of_steps, POLICY) == pytest.approx(3 * error)


def test_a_step_lasts_from_when_all_before_it_had_ended() -> None:
    assert _lengths_s(np.array([[1.0, 2.0], [3.0, 5.0]])).tolist() == [[1.0, 2.0], [2.0, 3.0]]


FIRST, LESS = Gain(10.0, 8.0, 12.0), Gain(4.0, 1.0, 5.0)


def test_where_gains_depend_on_what_is_assumed_the_interval_has_them_all() -> None:
    more = Gain(11.0, 9.0, 20.0)
    assert _of_all([FIRST, LESS, more], 1000.0) == GainOfFixes(Gain(10.0, 1.0, 20.0), (4.0, 11.0))
    assert _of_all([FIRST, Gain(5.0, 9.0, 11.0)], 1000.0) == GainOfFixes(FIRST, (5.0, 10.0))


def test_gains_that_differ_by_less_than_half_a_percent_of_the_run_are_alike() -> None:
    assert _of_all([FIRST, Gain(5.1, 1.0, 20.0)], 1000.0) == GainOfFixes(FIRST, None)
    assert _of_all([FIRST], 1000.0) == GainOfFixes(FIRST, None)


# -- lists -------------------------------------------------------------------------------------------------


def test_of_what_is_known_twelve_are_listed() -> None:
    assert _listed(range(12)) == "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11"
    assert _listed(range(13)) == "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, ... (13)"


def test_where_nothing_is_known_that_is_said() -> None:
    assert _listed_or(["a"], "none is") == "there are a"
    assert _listed_or([], "none is") == "none is"
