"""What host counters show of all ranks together, of runs and counters that are made by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hand_made_cases import case_of, steps, transfers_of

from timing_logger.analysis.rows.arrays import Floats
from timing_logger.analysis.verdict.case import Case
from timing_logger.analysis.verdict.causes import search
from timing_logger.analysis.verdict.causes.coincidence import Coincidence, Delay
from timing_logger.analysis.verdict.causes.search import (
    _lateness,
    _most_of_the_time,
    _some,
    _usual,
    cause_in_turn,
    cause_of_transfers,
    cause_together,
)
from timing_logger.analysis.verdict.causes.seen import Seen, Stretches
from timing_logger.results.cause import COUNTERS

QUOTA, WAIT = "throttled_us", "main_run_queue_wait_us"
N, RANKS = 100, 4
HOST = pd.DataFrame()
IS_SLOW = np.cumsum(np.random.default_rng(5).uniform(size=N) < 0.2) % 2 > 0


def seen_of(names: Sequence[str], shown: Any, *, runnable: float = 8.0, cores: float = 4.0) -> Seen:
    """Return what counters show of stretches of one step and one second each, in their order."""
    known = {counter.name: (cause, counter) for cause, counter in COUNTERS}
    shown = np.asarray(shown, np.float64)
    begin_s = np.tile(np.arange(float(shown.shape[1]))[:, None], (1, shown.shape[2]))
    stretches = Stretches(np.arange(shown.shape[1]), begin_s, begin_s + 1.0)
    return Seen(stretches, [known[name] for name in names], shown, runnable, cores)


@pytest.fixture
def counters(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Let counters show something, which is otherwise read from a table and brought to stretches."""

    def show(what: Seen | None) -> None:
        monkeypatch.setattr(search, "seen", lambda host, ranks, ends_s, self_ms: what)

    return show


def run(self_ms: Floats, **changed: Any) -> Case:
    ends_s = np.tile(1.0 + np.arange(len(self_ms))[:, None], (1, self_ms.shape[1]))
    return case_of(self_ms, ends_s=ends_s, wall_ms=1e3 * N, **changed)


# -- all slower together -----------------------------------------------------------------------------------


def all_slower(**changed: Any) -> Case:
    """Return a run in which all ranks take 800 ms of each second in slow steps, and else 500."""
    return run(np.tile(np.where(IS_SLOW, 800.0, 500.0)[:, None], (1, RANKS)), **changed)


def shows(per_second: float = 0.3, ranks: Sequence[int] = range(RANKS)) -> Floats:
    """Return what a counter shows that shows something in slow steps on these ranks."""
    found = np.zeros((1, N, RANKS))
    found[0][np.ix_(IS_SLOW, list(ranks))] = per_second
    return found


def test_what_all_ranks_have_while_all_are_slower_is_the_cause(counters: Any) -> None:
    counters(seen_of([WAIT], shows()))
    cause, sought = cause_together(all_slower(), np.flatnonzero(IS_SLOW), HOST)
    assert cause is not None
    assert (cause.name, cause.counter, cause.ranks, cause.how) == ("processor-wait", WAIT, (), "shared")
    assert (cause.slow, cause.slow_with) == (IS_SLOW.sum(), IS_SLOW.sum())
    assert (cause.other, cause.other_with) == (N - IS_SLOW.sum(), 0)
    assert (cause.delay_ms, cause.in_slow, cause.in_others) == pytest.approx((300.0, 300.0, 0.0))
    assert cause.covered_share == pytest.approx(1.0)
    assert sought is not None
    assert (sought.counters, sought.ranks, sought.stretches) == ((WAIT,), RANKS, N)
    assert sought.chance == cause.chance


def test_what_one_rank_has_while_all_are_slower_is_no_cause(counters: Any) -> None:
    counters(seen_of([WAIT], shows(ranks=[1])))
    cause, sought = cause_together(all_slower(), np.flatnonzero(IS_SLOW), HOST)
    assert cause is None
    assert sought is not None


def test_what_a_counter_shows_in_other_stretches_too_does_not_count(counters: Any) -> None:
    counters(seen_of([WAIT], 0.2 + shows()))
    cause, _ = cause_together(all_slower(), np.flatnonzero(IS_SLOW), HOST)
    assert cause is not None
    assert (cause.slow_with, cause.other_with) == (IS_SLOW.sum(), 0)
    assert (cause.in_slow, cause.in_others) == pytest.approx((500.0, 200.0))


def test_recorded_steps_stand_for_the_others_in_their_stretch(counters: Any) -> None:
    counters(seen_of([WAIT], shows(0.6)))
    cause, _ = cause_together(all_slower(recorded_every=2), np.flatnonzero(IS_SLOW), HOST)
    assert cause is not None
    assert (cause.delay_ms, cause.covered_share) == pytest.approx((600.0, 1.0))


def test_where_nothing_is_seen_nothing_is_said_to_be_sought(counters: Any) -> None:
    counters(None)
    assert cause_together(all_slower(), steps(1, 2), HOST) == (None, None)
    assert cause_in_turn(all_slower(), 1.0, HOST) == (None, None)
    assert cause_of_transfers(all_slower(), HOST) == (None, None)


def test_what_is_usual_is_of_the_stretches_that_are_not_slow() -> None:
    delay = Delay((), np.zeros(5), np.array([True, False, False, False, False]), np.full(5, 1.0))
    assert _usual(np.array([9.0, 1.0, math.nan, 3.0, 8.0]), delay) == 3.0
    assert _usual(np.array([9.0, *[math.nan] * 4]), delay) == 0.0


@pytest.mark.parametrize("n_ranks", [1, 5, 16])
def test_of_few_ranks_all_are_looked_at(n_ranks: int) -> None:
    assert _some(n_ranks).tolist() == list(range(n_ranks))


def test_of_many_ranks_sixteen_are_looked_at_from_the_first_to_the_last() -> None:
    found = _some(1000).tolist()
    assert (len(found), found[0], found[-1]) == (16, 0, 999)
    assert set(np.diff(found)) == {66, 67}


# -- transfers ---------------------------------------------------------------------------------------------


def slow_transfers() -> Case:
    mean_ms = np.where(IS_SLOW, 400.0, 100.0)[:, None]
    return run(
        np.full((N, RANKS), 300.0), transfers=transfers_of([(0, 1, 2, 3)], mean_ms),
        blocked_ms=np.full((N, RANKS), 900.0),
    )  # fmt: skip


@pytest.mark.parametrize(("having", "named"), [([2], (2,)), ([1, 3], (1, 3)), (range(RANKS), ())])
def test_slow_transfers_are_due_to_any_rank_that_has_the_cause(
    having: Sequence[int], named: tuple[int, ...], counters: Any
) -> None:
    counters(seen_of([WAIT], shows(ranks=having)))
    cause, _ = cause_of_transfers(slow_transfers(), HOST)
    assert cause is not None
    assert (cause.name, cause.ranks) == ("processor-wait", named)
    assert (cause.delay_ms, cause.covered_share) == pytest.approx((300.0, 1.0))
    assert cause.slow == IS_SLOW.sum()


def test_a_rank_is_named_if_it_has_half_of_what_the_one_with_most_has(counters: Any) -> None:
    shown = shows(ranks=[0]) + shows(0.16, ranks=[1]) + shows(0.14, ranks=[2])
    counters(seen_of([QUOTA, WAIT], np.concatenate([0 * shown, shown])))
    cause, _ = cause_of_transfers(slow_transfers(), HOST)
    assert cause is not None
    assert (cause.counter, cause.ranks) == (WAIT, (0, 1))


def test_transfers_that_go_with_no_counter_have_no_cause(counters: Any) -> None:
    counters(seen_of([WAIT], shows()[:, ::-1]))
    cause, sought = cause_of_transfers(slow_transfers(), HOST)
    assert cause is None
    assert sought is not None


# -- in turn -----------------------------------------------------------------------------------------------

LATE = np.zeros((N, RANKS))
LATE[IS_SLOW, np.random.default_rng(2).integers(0, RANKS, IS_SLOW.sum())] = 0.3
LOST_MS = float(1e3 * LATE.sum())


def in_turn(**changed: Any) -> Case:
    return run(500.0 + 1e3 * LATE, **changed)


def test_what_each_late_rank_has_in_its_turn_is_the_cause(counters: Any) -> None:
    counters(seen_of([WAIT], LATE[None]))
    cause, sought = cause_in_turn(in_turn(), LOST_MS, HOST)
    assert cause is not None
    assert (cause.name, cause.ranks, cause.how) == ("processor-wait", (), "shared")
    assert cause.covered_share == pytest.approx(1.0)
    assert cause.chance <= 0.01
    assert (cause.slow, cause.other) == (N, 0)
    assert cause.delay_ms == pytest.approx(LOST_MS / N)
    assert sought is not None
    assert sought.chance == cause.chance


def test_what_other_ranks_have_then_is_no_cause(counters: Any) -> None:
    counters(seen_of([WAIT], np.roll(LATE, 1, axis=1)[None]))
    cause, sought = cause_in_turn(in_turn(), LOST_MS, HOST)
    assert cause is None
    assert sought is not None


def test_what_all_ranks_do_and_have_at_once_does_not_count(counters: Any) -> None:
    together = np.random.default_rng(7).uniform(size=(2, N, 1))
    counters(seen_of([WAIT], (LATE + together[0])[None]))
    cause, _ = cause_in_turn(run(500.0 + 1e3 * (LATE + together[1])), LOST_MS, HOST)
    assert cause is not None
    assert cause.covered_share == pytest.approx(1.0)


def test_ranks_are_late_against_their_role(counters: Any) -> None:
    counters(seen_of([WAIT], LATE[None]))
    slow_role = np.array([0.0, 0.0, 200.0, 200.0])
    case = run(500.0 + 1e3 * LATE + slow_role, roles=["a", "a", "b", "b"])
    cause, _ = cause_in_turn(case, LOST_MS, HOST)
    assert cause is not None
    assert cause.name == "processor-wait"


# -- waiting for processors most of the time ----------------------------------------------------------------


def always(**of: float) -> Any:
    """Return what counters show that show the same in each second on each rank."""
    return list(of), np.array([np.full((N, RANKS), value) for value in of.values()])


def most_of_the_time(lost: float, **shown: float) -> Coincidence | None:
    beside = {name: shown.pop(name) for name in ("runnable", "cores") if name in shown}
    what = seen_of(*always(**shown), **beside)
    return _most_of_the_time(in_turn(), what, 1e3 * N * lost)


@pytest.mark.parametrize(("waited", "is_it"), [(0.3, True), (0.29, False)])
def test_ranks_that_wait_for_processors_for_as_long_as_is_lost_lose_it_so(waited: float, is_it: bool) -> None:
    found = most_of_the_time(0.3, main_run_queue_wait_us=waited)
    assert (found is not None) is is_it


def test_how_much_of_what_is_lost_the_wait_covers_is_stated_without_a_test() -> None:
    found = most_of_the_time(0.2, main_run_queue_wait_us=0.4)
    assert found is not None
    assert (found.counter, found.correlation, found.covered, found.worth) == (0, 0.0, pytest.approx(2.0), 0.0)
    assert math.isnan(found.chance)


def test_nothing_explains_that_nothing_is_lost() -> None:
    assert most_of_the_time(0.0, main_run_queue_wait_us=0.4) is None
    assert most_of_the_time(0.1, steal_us=0.4) is None


@pytest.mark.parametrize(
    ("runnable", "cores", "is_it"), [(4.0, 4.0, False), (4.5, 4.0, True), (8.0, math.nan, False)]
)
def test_ranks_wait_for_each_other_only_where_more_tasks_want_to_run_than_there_are_cores(
    runnable: float, cores: float, is_it: bool
) -> None:
    found = most_of_the_time(0.2, main_run_queue_wait_us=0.4, runnable=runnable, cores=cores)
    assert (found is not None) is is_it


@pytest.mark.parametrize(("stopped", "counter"), [(0.2, 1), (0.19, 0)])
def test_a_quota_is_named_that_stopped_ranks_for_half_of_their_wait(stopped: float, counter: int) -> None:
    found = most_of_the_time(0.3, main_run_queue_wait_us=0.4, throttled_us=stopped)
    assert found is not None
    assert found.counter == counter
    assert found.covered == pytest.approx((stopped if counter else 0.4) / 0.3)
    assert math.isnan(found.chance)


def test_the_wait_of_the_main_thread_comes_before_that_of_all_threads() -> None:
    found = most_of_the_time(0.2, run_queue_wait_us=0.9, main_run_queue_wait_us=0.4)
    assert found is not None
    assert found.counter == 1
    alone = most_of_the_time(0.2, run_queue_wait_us=0.9)
    assert alone is not None
    assert alone.covered == pytest.approx(4.5)


def test_a_wait_of_each_second_is_said_of_all_stretches(counters: Any) -> None:
    counters(seen_of(*always(main_run_queue_wait_us=0.4)))
    cause, sought = cause_in_turn(in_turn(), 1e3 * N * 0.2, HOST)
    assert cause is not None
    assert math.isnan(cause.chance)
    assert (cause.slow, cause.slow_with, cause.how) == (N, N, "shared")
    assert (cause.delay_ms, cause.in_slow, cause.covered_share) == pytest.approx((200.0, 400.0, 2.0))
    assert sought is not None


# -- how late each is --------------------------------------------------------------------------------------


def test_each_is_late_beyond_the_typical_rank_of_its_role_in_all_steps_that_recorded_ones_stand_for() -> None:
    self_ms = np.tile([10.0, 10.0, 30.0, 50.0, 50.0, 40.0], (3, 1))
    what = seen_of([WAIT], np.zeros((1, 3, 3)))
    for every in (1, 10):
        case = run(self_ms, roles=["a", "a", "a", "b", "b", "b"], recorded_every=every)
        late = _lateness(case, what, np.array([0, 2, 5]))
        assert late == pytest.approx(every * np.tile([0.0, 0.02, -0.01], (3, 1)))


def test_without_steps_that_are_usual_nothing_is_slower_than_usual(counters: Any) -> None:
    counters(seen_of([WAIT], np.full((1, N, RANKS), 0.1)))
    cause, sought = cause_together(run(np.full((N, RANKS), 10.0)), np.arange(N), HOST)
    assert cause is None
    assert sought is not None
