"""What is said of a run that loses time: where it is, what coincides with it, or that nothing is known to."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest
from coinciding_counters.hosts import host_table
from coinciding_counters.runs import Run, lived, simulated, slow_transfers
from slow import slow

from timing_logger.analysis import Verdict, stragglers
from timing_logger.report.verdict import stragglers_text
from timing_logger.results.cause import Cause, Sought
from timing_logger.words.cause import cause_sentence, what_was_sought
from timing_logger.words.verdict import particulars, verdict_sentence, what_next

WAIT = "main_run_queue_wait_us"


def _lost_share(run: Run) -> float:
    """Return by which part of it a run would be shorter with each step as long as its typical rank works."""
    works_s = run.end_s - run.begin_s
    typical_s = np.sort(works_s, axis=1)[:, (works_s.shape[1] - 1) // 2]
    return float((works_s.max(axis=1) - typical_s).sum() / (run.end_s[-1, 0] - run.begin_s[0, 0]))


def _jittering(seed: int) -> Run:
    """Return a run in which all ranks vary, some more than others, or are late now and then, or unequal."""
    rng = np.random.default_rng(seed)
    n_ranks, n_steps = int(rng.choice([2, 3, 4, 8, 16])), int(rng.choice([60, 200]))
    sigma = rng.choice([0.02, 0.05, 0.1, 0.2]) * rng.choice([1.0, rng.uniform(0.5, 1.5)], size=n_ranks)
    own_ms = 100 * np.exp(rng.normal(0.0, 1.0, (n_steps, n_ranks)) * sigma)
    own_ms *= 1 + rng.choice([0.0, 0.1]) * rng.uniform(size=n_ranks)
    late_ms = np.where(rng.uniform(size=own_ms.shape) < rng.choice([0.0, 0.01, 0.05]), 80.0, 0.0)
    return lived(own_ms, late_ms)


@pytest.mark.parametrize("seed", [0, *(slow(seed, "more random runs") for seed in range(1, 15))])
def test_a_run_that_loses_a_twentieth_is_never_said_to_have_no_slow_rank_and_nothing_more(seed: int) -> None:
    run = _jittering(seed)
    said = verdict_sentence(stragglers(run.timings))
    assert (said == "Verdict: no rank is slow.") <= (_lost_share(run) < 0.055)  # what is known of first steps


def test_a_loss_to_nobody_says_what_was_looked_at() -> None:
    lost = Verdict(verdict="healthy", lost_in_turn=0.12)
    assert particulars(lost).endswith("Why is not known: no host counters were looked at.")
    sought = Sought(("cpu_mhz", WAIT), ranks=8, stretches=30, stretch_s=1.0, chance=0.5)
    said = particulars(replace(lost, sought=sought))
    assert said.endswith("none of 2 host counters goes with it more than by chance.")


@pytest.mark.slow("a whole run; what is said of such a verdict is tried above")
def test_a_run_that_loses_time_to_nobody_is_said_to_have_no_counters() -> None:
    rng = np.random.default_rng(1)
    own_ms = 100 * np.exp(rng.normal(0.0, 0.2, (100, 8)))
    said = particulars(stragglers(lived(own_ms, np.zeros_like(own_ms)).timings))
    assert said.endswith("Why is not known: no host counters were looked at.")


@pytest.mark.slow("a whole run; what is said of such a verdict is tried above")
def test_a_run_that_loses_time_to_nobody_says_how_many_counters_do_not_go_with_it() -> None:
    rng = np.random.default_rng(1)
    own_ms = 100 * np.exp(rng.normal(0.0, 0.2, (300, 8)))
    run = lived(own_ms, np.zeros_like(own_ms))
    host = host_table(run, rng)[["rank", "incarnation", "start_counter", "end_counter", "cpu_mhz", WAIT]]
    verdict = stragglers(run.timings, host=host)
    assert particulars(verdict).endswith("none of 2 host counters goes with it more than by chance.")


class Explained(NamedTuple):
    """A run of which one rank waits for processors, and the verdict on it."""

    run: Run
    verdict: Verdict


@pytest.fixture(scope="module")
def explained() -> Explained:
    rng = np.random.default_rng(5)
    run = simulated(rng, course="from then on", step_ms=2000, run_s=200)
    return Explained(run, stragglers(run.timings, host=host_table(run, rng, WAIT)))


def test_what_coincides_stands_in_the_sentence_of_the_verdict_once_and_says_where_to_look(
    explained: Explained,
) -> None:
    run, verdict = explained
    assert verdict.cause is not None
    slow, other = verdict.cause.slow, verdict.cause.other
    assert f"slow steps, rank 2 waited for a processor, typically {verdict.cause.in_slow:.0f} of the" in (
        said := verdict_sentence(verdict)
    )
    assert f"of its {slow} slow steps" in said
    assert said.endswith(f"as much in none of its {other} others.")
    assert what_next(verdict).startswith("Look at what else runs on its cores")
    from timing_logger.analysis import windows

    text = stragglers_text(verdict, windows(run.timings), 2000)
    assert text.count("What coincides") == 1


def test_why_says_what_was_looked_at_also_if_nothing_was(explained: Explained) -> None:
    assert what_was_sought(None) == "No host counters were looked at."
    said = what_was_sought(explained.verdict.sought)
    assert said.startswith("Looked at for what coincides: ")
    assert "of 4 ranks in " in said


NAN = float("nan")
EVENTS = Cause(
    "network-loss", "tcp_retransmits", (2,), "coincides", states_time=False, slow=8, slow_with=7, other=90,
    other_with=0, delay_ms=5.0, in_slow=12.5, in_others=0.0, covered_share=NAN, time_share=NAN, chance=0.001,
    stretch_steps=1, stretch_s=1.0, runnable=NAN, usable_cores=NAN,
)  # fmt: skip
"""A cause that a counter of events shows."""


def test_events_are_told_per_second_and_bytes_have_their_unit() -> None:
    assert cause_sentence(EVENTS) == (
        "What coincides: in 7 of its 8 slow steps, rank 2 had TCP segments sent again, typically 12.5 per "
        "second (tcp_retransmits); as much in none of its 90 others."
    )
    written = cause_sentence(EVENTS._replace(counter="process_written_kb", in_slow=2.5e6))
    assert "typically 2.5 GB per second (process_written_kb)" in written


@pytest.mark.slow("a whole run; how events are told is tried above")
def test_what_goes_with_slow_transfers_is_said_of_the_rank_that_has_it() -> None:
    rng = np.random.default_rng(10)
    run = slow_transfers(rng, run_s=200)
    host = host_table(run, rng, "tcp_retransmits")
    host.loc[host["rank"] != 2, "tcp_retransmits"] = 0.0
    said = particulars(stragglers(run.timings, host=host))
    assert "rank 2 had TCP segments sent again, typically" in said
    assert "per second (tcp_retransmits)" in said


@pytest.mark.slow("a whole run; the unit of bytes is tried above")
def test_bytes_of_a_run_have_their_unit() -> None:
    run, rng = simulated(np.random.default_rng(5), course="coming and going"), np.random.default_rng(6)
    host = host_table(run, rng, "process_written_kb")
    host["process_written_kb"] *= 1e4
    assert re.search(
        r"typically \S+ GB per second \(process_written_kb\)", particulars(stragglers(run.timings, host=host))
    )


WAITING = EVENTS._replace(
    name="processor-wait", counter=WAIT, ranks=(), how="shared", states_time=True, other=0, time_share=0.25,
    runnable=12.0, usable_cores=8.0,
)  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "end"),
    [
        ({}, ", where 12 tasks wanted 8 cores."), ({"runnable": 8.0}, "of its time."),
        ({"runnable": NAN}, "of its time."),
        ({"name": "memory-wait"}, "of its time."),
    ],
)  # fmt: skip
def test_where_more_tasks_wanted_to_run_than_there_are_cores_that_is_said(
    changed: dict[str, Any], end: str
) -> None:
    said = cause_sentence(WAITING._replace(**changed))
    assert said.startswith("What coincides: the typical rank waited for a processor for 25% of its time")
    assert said.endswith(end)


@pytest.mark.parametrize(
    ("in_slow", "delay_ms", "told"),
    [
        (9.94, 12.4, "9.9 of the 12 ms that it was late"), (10.4, 20.4, "10 of the 20 ms that it was late"),
        (5.04, 5.04, "5.0 of the 5.0 ms that it was late"), (30.0, 9.0, "30 ms where it was 9.0 ms late"),
    ],
)  # fmt: skip
def test_from_ten_ms_on_time_is_told_without_decimals(in_slow: float, delay_ms: float, told: str) -> None:
    its = WAITING._replace(how="coincides", in_slow=in_slow, delay_ms=delay_ms)
    assert f", typically {told};" in cause_sentence(its)


@pytest.mark.parametrize(
    ("in_slow", "told"), [(12.34, "12.3"), (99.94, "99.9"), (123.4, "123"), (4321.0, "4,321")]
)
def test_a_large_rate_has_no_decimals(in_slow: float, told: str) -> None:
    assert f", typically {told} per second" in cause_sentence(EVENTS._replace(in_slow=in_slow))


@pytest.mark.parametrize(
    ("chance", "end"),
    [(NAN, "30 stretches of about 1 s, against the peers."), (0.5, "by chance with a probability of 0.5.")],
)
def test_how_likely_the_best_goes_with_it_by_chance_is_said_where_that_is_known(
    chance: float, end: str
) -> None:
    said = what_was_sought(Sought(("cpu_mhz", WAIT), ranks=8, stretches=30, stretch_s=1.0, chance=chance))
    assert said.startswith("Looked at for what coincides: 2 host counters of 8 ranks in 30 stretches of ")
    assert said.endswith(end)
