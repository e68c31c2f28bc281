"""What host counters show of a verdict: what coincides with the slowness, and nothing that does by chance."""

from __future__ import annotations

import functools

import numpy as np
import pandas as pd
import pytest
from coinciding_counters.hosts import host_table
from coinciding_counters.runs import Course, Run, all_slower, late_in_turn, lived, simulated, slow_transfers
from hand_made_cases import case_of
from slow import slow

from timing_logger.analysis import Policy, stragglers
from timing_logger.analysis.verdict.case import Judgement
from timing_logger.analysis.verdict.causes.search import _is_asked
from timing_logger.results.verdict import Verdict

WAIT = "main_run_queue_wait_us"


def _run(course: Course | None, seed: int = 5) -> tuple[Run, np.random.Generator]:
    rng = np.random.default_rng(seed)
    return simulated(rng, course=course), rng


@functools.cache
def _judged(course: Course | None, planted: str | None, seed: int = 5) -> Verdict:
    run, rng = _run(course, seed)
    return stragglers(run.timings, host=host_table(run, rng, planted))


@pytest.mark.parametrize(
    "course",
    [
        "from then on",
        *(slow(course, "as from then on") for course in ("for a while", "now and then", "coming and going")),
    ],
)
def test_a_counter_that_goes_with_the_slow_steps_is_the_cause(course: Course) -> None:
    cause = _judged(course, WAIT).cause
    assert cause is not None
    assert (cause.name, cause.counter, cause.ranks, cause.how) == ("processor-wait", WAIT, (2,), "coincides")
    assert cause.slow_with >= 0.6 * cause.slow > 0
    assert cause.other_with / cause.other <= 0.5 * cause.slow_with / cause.slow
    assert 0.5 <= cause.covered_share <= 1.1
    assert cause.chance <= 0.01


def test_of_a_rank_that_is_slow_throughout_time_beyond_its_peers_is_stated_without_a_test() -> None:
    cause = _judged("throughout", WAIT).cause
    assert cause is not None
    assert (cause.how, cause.other, np.isnan(cause.chance)) == ("throughout", 0, True)


@pytest.mark.slow("test_coincidence_figures_by_hand.py has what the peers have too")
def test_of_a_rank_that_is_slow_throughout_a_time_above_that_of_a_single_peer_says_nothing() -> None:
    rng = np.random.default_rng(5)
    run = simulated(rng, n_ranks=2, course="throughout", rank=1)
    host = host_table(run, rng)
    host[WAIT] = np.where(host["rank"] == 1, 3e5, 1e5) * rng.uniform(0.9, 1.1, len(host))
    assert stragglers(run.timings, host=host).cause is None


@pytest.mark.slow("test_coincidence_figures_by_hand.py has what the peers have too")
def test_of_a_rank_that_is_slow_throughout_a_time_by_which_its_peers_differ_as_much_says_nothing() -> None:
    run, rng = _run("throughout")
    host = host_table(run, rng)
    levels = np.array([0.0, 5e5, 8e5, 3e5])[host["rank"]]
    host[WAIT] = levels * rng.uniform(0.9, 1.1, len(host))
    assert stragglers(run.timings, host=host).cause is None
    host[WAIT] -= np.where(host["rank"] == 2, 0.0, levels)
    assert stragglers(run.timings, host=host).cause is not None


@pytest.mark.slow("causes are held against chance by hand, and where a rank is slow now and then")
def test_of_a_rank_that_is_slow_throughout_what_follows_its_delay_is_tested_against_chance() -> None:
    cause = _judged("throughout", WAIT, seed=6).cause
    assert cause is not None
    assert (cause.how, cause.counter) == ("throughout", WAIT)
    assert cause.chance <= 0.01


@pytest.mark.slow("test_coincidence_figures_by_hand.py has which of several counters is stated")
def test_of_a_rank_that_is_slow_throughout_the_counter_that_states_its_delay_best_is_the_cause() -> None:
    run, rng = _run("throughout")
    host = host_table(run, rng, "memory_pressure_some_us")
    host[WAIT] = 3 * host["memory_pressure_some_us"]
    cause = stragglers(run.timings, host=host).cause
    assert cause is not None
    assert cause.counter == "memory_pressure_some_us"


@pytest.mark.slow("test_coincidence_figures_by_hand.py has events, which cover no share of the time")
def test_of_a_rank_that_is_slow_throughout_events_say_nothing() -> None:
    assert _judged("throughout", "major_faults").cause is None


BY_HAND = pytest.mark.slow("test_coincidence_figures_by_hand.py has what states most of the delay")


@BY_HAND
@pytest.mark.parametrize("course", ["throughout", "coming and going"])
@pytest.mark.parametrize(("part", "name"), [(0.7, "cpu-quota"), (0.3, "processor-wait")])
def test_a_quota_is_the_cause_of_a_wait_for_processors_if_it_is_most_of_it(
    course: Course, part: float, name: str
) -> None:
    run, rng = _run(course)
    host = host_table(run, rng, WAIT)
    host["throttled_us"] = part * host[WAIT] * rng.uniform(0.8, 1.2, len(host))
    cause = stragglers(run.timings, host=host).cause
    assert cause is not None
    assert cause.name == name


@pytest.mark.slow("test_coincidence_figures_by_hand.py has which stretches are slow")
def test_a_few_slow_steps_among_usual_ones_do_not_make_a_stretch_slow() -> None:
    rng = np.random.default_rng(5)
    n_steps = 1500
    usual_ms = 40 * np.exp(rng.normal(0.0, 0.03, (n_steps, 4)))
    delay_ms = np.zeros_like(usual_ms)
    step = np.arange(n_steps)
    delay_ms[(step % 300 < 150) | (step % 10 == 0), 2] = 20.0
    run = lived(usual_ms, delay_ms)
    cause = stragglers(run.timings, host=host_table(run, rng, WAIT)).cause
    assert cause is not None
    assert (cause.how, cause.counter) == ("coincides", WAIT)
    assert 0.4 <= cause.slow / (cause.slow + cause.other) <= 0.6


@pytest.mark.slow("a slower clock is the cause where all ranks became slower")
def test_a_slower_clock_states_time() -> None:
    cause = _judged("coming and going", "cpu_mhz").cause
    assert cause is not None
    assert (cause.name, cause.states_time) == ("processor-clock", True)
    assert cause.in_slow == pytest.approx(cause.delay_ms, rel=0.2)


@pytest.mark.parametrize(
    "course",
    ["from then on", *(slow(course, "as from then on") for course in ("throughout", "now and then"))],
)
def test_counters_that_have_nothing_to_do_with_it_are_no_cause_but_were_looked_at(course: Course) -> None:
    verdict = _judged(course, None)
    assert (verdict.ranks, verdict.cause) == ((2,), None)
    assert verdict.sought is not None
    assert len(verdict.sought.counters) > 10


@pytest.mark.slow("test_coincidence_figures_by_hand.py has what the peers have too")
def test_a_counter_that_is_as_high_on_the_peers_is_no_cause_of_a_rank() -> None:
    run, rng = _run("coming and going")
    host = host_table(run, rng, WAIT)
    its = host.loc[host["rank"] == 2, WAIT].to_numpy()
    for rank in (0, 1, 3):
        host.loc[host["rank"] == rank, WAIT] = its
    assert stragglers(run.timings, host=host).cause is None


@pytest.mark.slow("test_coincidence_figures_by_hand.py has what the peers have too")
def test_a_single_peer_on_which_it_is_as_high_is_enough_against_it() -> None:
    run, rng = _run("coming and going")
    host = host_table(run, rng, WAIT)
    host.loc[host["rank"] == 0, WAIT] = host.loc[host["rank"] == 2, WAIT].to_numpy()
    assert stragglers(run.timings, host=host).cause is None


@pytest.mark.parametrize(
    "course",
    [
        "throughout",
        slow(None, "a healthy run has no cause below"),
        *(slow(course, "as throughout") for course in ("for a while", "now and then")),
    ],
)
def test_a_cause_changes_nothing_else_of_a_verdict(course: Course | None) -> None:
    without = stragglers(_run(course)[0].timings).as_dict()
    with_counters = _judged(course, WAIT).as_dict()
    del without["cause"], without["sought"], with_counters["cause"], with_counters["sought"]  # type: ignore[misc]
    assert with_counters == without


def test_a_healthy_run_has_no_cause() -> None:
    verdict = _judged(None, WAIT)
    assert (verdict.verdict, verdict.cause) == ("healthy", None)


def test_ranks_that_are_late_in_turn_have_a_cause_in_common() -> None:
    rng = np.random.default_rng(7)
    run = late_in_turn(rng, each_second=False)
    cause = stragglers(run.timings, host=host_table(run, rng, WAIT)).cause
    assert cause is not None
    assert (cause.name, cause.how, cause.ranks) == ("processor-wait", "shared", ())


def test_ranks_that_wait_for_processors_in_every_second_do_so_where_more_tasks_want_to_run() -> None:
    rng = np.random.default_rng(8)
    run = late_in_turn(rng, step_ms=20, run_s=10)
    host = host_table(run, rng)
    host[WAIT], host["throttled_us"], host["runnable_tasks"], host["usable_cores"] = 4e5, 0.0, 5.0, 2.0
    cause = stragglers(run.timings, host=host).cause
    assert cause is not None
    assert cause.name == "processor-wait"
    assert (cause.time_share, cause.runnable, cause.usable_cores) == pytest.approx((0.4, 5, 2), rel=0.01)
    assert stragglers(run.timings, host=host.assign(runnable_tasks=2.0)).cause is None


@pytest.mark.slow("the verdict is found without counters, and with them it stays in the test above")
def test_where_a_rank_never_communicated_counters_say_nothing_and_the_verdict_stands() -> None:
    rng = np.random.default_rng(8)
    run = late_in_turn(rng, step_ms=20, run_s=20)
    alone = run.timings["operation"].isin(["ALLREDUCE", "BARRIER"]) & (run.timings["rank"] == 0)
    timings = run.timings[~alone]
    assert stragglers(timings, host=host_table(run, rng, WAIT)).verdict == stragglers(timings).verdict


@pytest.mark.filterwarnings("error")
def test_a_counter_that_one_rank_lacks_is_taken_from_the_others_without_a_warning() -> None:
    rng = np.random.default_rng(8)
    run = late_in_turn(rng, step_ms=20, run_s=10)
    host = host_table(run, rng)
    host["throttled_us"], host["runnable_tasks"], host["usable_cores"] = 0.0, 5.0, 2.0
    host[WAIT] = np.where(host["rank"] == 1, np.nan, 4e5)
    cause = stragglers(run.timings, host=host).cause
    assert cause is not None
    assert (cause.name, cause.time_share) == ("processor-wait", pytest.approx(0.4, rel=0.01))


def test_what_coincides_with_all_ranks_having_become_slower_is_their_cause() -> None:
    rng = np.random.default_rng(9)
    run = all_slower(rng, run_s=200)
    verdict = stragglers(run.timings, host=host_table(run, rng, "cpu_mhz"))
    assert verdict.verdict == "group-wide"
    assert verdict.cause is not None
    assert (verdict.cause.name, verdict.cause.ranks) == ("processor-clock", ())


@pytest.mark.parametrize(
    ("where", "ranks"),
    [([2], (2,)), pytest.param([0, 1, 2, 3], (), marks=pytest.mark.slow("as of one rank"))],
)
def test_what_coincides_with_slow_transfers_is_their_cause_and_said_of_the_ranks_that_have_it(
    where: list[int], ranks: tuple[int, ...]
) -> None:
    rng = np.random.default_rng(10)
    run = slow_transfers(rng, run_s=200)
    host = host_table(run, rng, "tcp_retransmits")
    host.loc[~host["rank"].isin(where), "tcp_retransmits"] = 0.0
    verdict = stragglers(run.timings, host=host)
    assert verdict.verdict == "communication"
    assert verdict.cause is not None
    assert (verdict.cause.name, verdict.cause.ranks) == ("network-loss", ranks)
    assert verdict.cause.slow_with >= 0.6 * verdict.cause.slow


@pytest.mark.slow("no counter goes with a slow rank above")
def test_slow_transfers_with_which_no_counter_goes_have_no_cause() -> None:
    rng = np.random.default_rng(10)
    run = slow_transfers(rng)
    verdict = stragglers(run.timings, host=host_table(run, rng))
    assert (verdict.verdict, verdict.cause) == ("communication", None)
    assert verdict.sought is not None


@pytest.mark.slow("events are the cause of slow transfers above, and by hand")
def test_events_of_which_a_few_take_most_of_the_time_are_a_cause() -> None:
    rng = np.random.default_rng(10)
    run = slow_transfers(rng, run_s=200)
    host = host_table(run, rng, "tcp_retransmits")
    host["tcp_retransmits"] *= np.exp(rng.normal(0, 1.5, len(host)))
    cause = stragglers(run.timings, host=host).cause
    assert cause is not None
    assert cause.counter == "tcp_retransmits"


@pytest.mark.slow("the policy's example of max_cause_chance decides, too")
def test_the_level_of_the_policy_decides() -> None:
    run, rng = _run("from then on")
    host = host_table(run, rng, WAIT)
    assert stragglers(run.timings, host=host, policy=Policy(max_cause_chance=0.0005)).cause is None


OF_RANK_9 = {"rank": [9], "incarnation": [1], "start_counter": [0.0], "end_counter": [1.0], "cpu_mhz": [1.0]}


@pytest.mark.parametrize("host", [slow(pd.DataFrame(), "as of another rank"), pd.DataFrame(OF_RANK_9)])
def test_counters_of_no_rank_of_the_run_say_nothing(host: pd.DataFrame) -> None:
    verdict = stragglers(_run("from then on")[0].timings, host=host)
    assert (verdict.ranks, verdict.cause, verdict.sought) == ((2,), None, None)


@pytest.mark.parametrize(
    ("verdict", "is_asked"),
    [
        (Verdict(verdict="healthy", not_explained=0.05), True),
        (Verdict(verdict="healthy", not_explained=0.049), False),
        (Verdict(verdict="healthy", lost_in_turn=0.05), True),
        (Verdict(verdict="healthy", recurring=0.05), True),
        (Verdict(verdict="healthy", not_explained=0.2, judged=False), False),
        (Verdict(verdict="diffuse"), True),
        (Verdict(verdict="diffuse", owner="work"), False),
        (Verdict(verdict="role", owner="role"), False),
        (Verdict(verdict="rank", owner="machine"), True),
        (Verdict(verdict="rank", owner="work"), False),
        (Verdict(verdict="suspect", owner=""), False),
    ],
)
def test_counters_are_asked_where_visible_time_is_lost_of_which_it_is_not_known_why(
    verdict: Verdict, is_asked: bool
) -> None:
    assert _is_asked(Judgement(case_of(np.ones((3, 2))), verdict)) is is_asked
