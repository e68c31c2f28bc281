"""The network as a culprit: transfers that grew, or that take longer than others of their kind."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from seeds import seeds
from simulated_runs import _row, _table

from timing_logger.analysis import Verdict, stragglers
from timing_logger.report import evidence_sentences, verdict_sentence
from timing_logger.report.html._findings import Findings
from timing_logger.report.html._verdict import judgement
from timing_logger.results.facts import OthersInAllSlow
from timing_logger.words.not_told import reason

N_STEPS = 120


def run(
    groups: Sequence[Sequence[int]],
    times: npt.NDArray[np.float64],
    *,
    seed: int = 0,
    background: bool = False,
    work_ms: float = 40.0,
) -> pd.DataFrame:
    """Steps of work, and an all-reduce of 2 ms in each group, times ``times`` (steps x groups)."""
    rng = np.random.default_rng(seed)
    n_ranks = sum(map(len, groups))
    now = np.zeros(n_ranks)
    rows: list[dict[str, Any]] = []
    for step in range(N_STEPS):
        works_ms = work_ms * np.exp(rng.normal(0, 0.03, n_ranks))
        rows.append(_row("FORWARD", step, now, works_ms))
        begun, now = now, now + works_ms
        for number, members in enumerate(map(np.array, groups)):
            transfer_ms = 2.0 * times[step, number] * np.exp(rng.normal(0, 0.05))
            named = {"group": f"dp {number}", "group_size": len(members), "seq": step}
            named |= {"message_size_bytes": 1_000_000}
            if background:  # it is issued when half of the work is done
                issued = (begun + works_ms / 2)[members]
                done = np.maximum(issued.max() + transfer_ms, now[members])
                rows.append(_row("IALLREDUCE", step, issued, done - issued, members, **named))
                rows.append(_row("WAIT", step, now[members], done - now[members], members, **named))
            else:
                done = np.full(len(members), now[members].max() + transfer_ms)
                rows.append(_row("ALLREDUCE", step, now[members], done - now[members], members, **named))
            now[members] = done
    return _table(rows, None)


PAIRS = [[0, 1], [2, 3], [4, 5], [6, 7]]


def usual(n_groups: int) -> npt.NDArray[np.float64]:
    return np.ones((N_STEPS, n_groups))


@functools.cache
def with_slow_pair() -> pd.DataFrame:
    """A run of pairs, of which ranks 4 and 5 take 20 times as long to reduce."""
    times = usual(4)
    times[:, 2] = 20
    return run(PAIRS, times)


@functools.cache
def verdict_on_slow_pair() -> Verdict:
    return stragglers(with_slow_pair())


@functools.cache
def verdict_on_mostly_transfers() -> Verdict:
    return stragglers(run([range(4)], usual(1), work_ms=1.0))


def said(verdict: Verdict) -> str:
    return " ".join(evidence_sentences(verdict))


def test_transfers_that_grew_in_the_middle_of_a_run_are_named_from_there_on() -> None:
    times = usual(1)
    times[50:] = 20
    verdict = stragglers(run([range(4)], times))
    assert (verdict.verdict, verdict.ranks, verdict.operation) == ("communication", (), "ALLREDUCE")
    assert (verdict.window, verdict.first_iteration, verdict.last_iteration) == ("ongoing", 50, N_STEPS - 1)
    assert verdict.cost_ms == pytest.approx(70 * 19 * 2.0, rel=0.05)
    assert "All ranks take part" in said(verdict)


@pytest.mark.slow("a rarer run; transfers that grew are quick above")
def test_slow_transfers_are_named_in_a_run_that_a_rank_joins() -> None:
    times = usual(1)
    times[50:] = 20
    timings = run([range(4)], times)
    start_s = timings["start_counter"] - timings.groupby("rank")["start_counter"].transform("min")
    end_s = start_s + timings["elapsed_ms"] / 1000
    timings = timings.assign(start_s=start_s, end_s=end_s, clock_uncertainty_s=0.0)
    first = timings.index[(timings["rank"] == 1) & (timings["operation"] == "ALLREDUCE")][5]
    joined = timings[(timings["rank"] != 1) | (timings.index >= first)].reset_index(drop=True)
    assert stragglers(joined).verdict == "communication"


@pytest.mark.slow("test_communication_by_hand.py has the kinds of windows")
def test_transfers_that_were_slow_for_a_while_are_named_for_that_while() -> None:
    times = usual(1)
    times[50:80] = 20
    verdict = stragglers(run([range(4)], times))
    assert (verdict.verdict, verdict.window) == ("communication", "bounded")
    assert (verdict.first_iteration, verdict.last_iteration) == (50, 79)


def test_a_group_slower_than_others_of_its_kind_is_named_with_its_ranks() -> None:
    verdict = verdict_on_slow_pair()
    assert (verdict.verdict, verdict.labels, verdict.window) == ("communication", "dp 2", "persistent")
    assert "have ranks 4 and 5 in them" in said(verdict)


@pytest.mark.slow("test_communication_by_hand.py has the host of those in all slow links")
def test_the_host_of_the_ranks_that_all_slow_transfers_have_is_named() -> None:
    timings = with_slow_pair().copy()
    timings.attrs["files"] = [{"rank": rank, "sidecar": {"host": f"node{rank // 2}"}} for rank in range(8)]
    assert "That is the host node2." in said(stragglers(timings))


@pytest.mark.slow("test_slow_links.py has that no more is lost than ranks were blocked")
def test_slow_transfers_that_are_hidden_behind_work_cost_nothing() -> None:
    """They take 18 instead of 2 ms, and nobody waits for them."""
    times = usual(4)
    times[:, 2] = 9
    verdict = stragglers(run(PAIRS, times, background=True))
    assert verdict.verdict == "healthy"


def test_waiting_for_a_slow_rank_is_no_slow_transfer() -> None:
    timings = run([range(4)], usual(1))
    slow = (timings["rank"] == 1) & (timings["operation"] == "FORWARD") & (timings["iteration"] >= 50)
    others = (timings["rank"] != 1) & (timings["operation"] == "ALLREDUCE") & (timings["iteration"] >= 50)
    for rows in (slow, others):
        timings.loc[rows, "elapsed_ms"] += 40.0
    verdict = stragglers(timings.assign(start_counter=np.nan, end_counter=np.nan))
    assert (verdict.verdict, verdict.ranks) == ("rank", (1,))


def test_a_run_that_is_mostly_transfers_is_not_called_healthy() -> None:
    """Nothing in it says whether that is usual, so neither does the verdict."""
    verdict = verdict_on_mostly_transfers()
    assert (verdict.verdict, verdict.cost_ms) == ("communication", 0)
    assert "Nothing in this run says how long they should take." in said(verdict)


@pytest.mark.parametrize("seed", seeds(5))
def test_transfers_that_vary_by_chance_are_not_named(seed: int) -> None:
    rng = np.random.default_rng(seed)
    times = np.exp(rng.normal(0, 0.4, (N_STEPS, 4))) * (1 + 20 * (rng.random((N_STEPS, 4)) < 0.02))
    assert stragglers(run(PAIRS, times, seed=seed)).verdict != "communication"


@pytest.mark.slow("test_communication_by_hand.py has how few slow steps are enough for what they cost")
def test_transfers_that_were_slow_for_a_few_steps_are_named_where_they_cost_much() -> None:
    times = usual(1)
    times[60:75] = 40
    verdict = stragglers(run([range(4)], times))
    assert (verdict.verdict, verdict.window) == ("communication", "bounded")
    assert (verdict.first_iteration, verdict.last_iteration) == (60, 74)


@pytest.mark.slow("test_communication_by_hand.py has how few slow steps are enough for what they cost")
@pytest.mark.parametrize("groups", [[range(4)], PAIRS], ids=["all", "pairs"])
def test_an_outage_of_few_steps_is_named_where_it_costs_a_good_part_of_the_run(
    groups: Sequence[Sequence[int]],
) -> None:
    times = usual(len(groups))
    times[60:64, -1] = 400  # 3.2 s of 8.2
    verdict = stragglers(run(groups, times))
    assert (verdict.verdict, verdict.window) == ("communication", "bounded")
    assert (verdict.first_iteration, verdict.last_iteration) == (60, 63)
    assert verdict.cost_ms == pytest.approx(4 * 399 * 2.0, rel=0.05)


@pytest.mark.slow("test_communication_by_hand.py has how few slow steps are enough for what they cost")
def test_an_outage_of_few_steps_that_costs_little_is_not_named() -> None:
    times = usual(1)
    times[60:64] = 40  # 0.3 s of 5.3
    assert stragglers(run([range(4)], times)).verdict == "healthy"


@pytest.mark.slow("a rarer case: that waiting for a slow rank is no slow transfer is quick")
def test_messages_that_one_waitall_waited_for_are_not_taken_to_last_until_it_ends() -> None:
    """In a ring of three, the message between the two quick ranks ends where the slow one's do."""
    now, rows, ranks = np.zeros(3), [], np.arange(3)
    rng = np.random.default_rng(1)
    for step in range(N_STEPS):
        works_ms = np.array([20.0, 30.0, 20.0]) * np.exp(rng.normal(0, 0.02, 3))
        rows.append(_row("FORWARD", step, now, works_ms))
        now = now + works_ms
        named = {"group": "ring", "group_size": 3, "seq": step, "message_size_bytes": 4096}
        done = np.full(3, now.max() + 0.5)  # everybody exchanges with everybody
        for to in (1, 2):
            for name, other in (("ISEND", (ranks + to) % 3), ("IRECV", (ranks - to) % 3)):
                rows.append(_row(name, step, now, done - now, peer=other, **named))
                rows.append(_row("WAIT", step, now, done - now, peer=other, **named))
        rows.append(_row("ALLREDUCE", step, done, np.full(3, 1.0), **named))
        now = done + 1.0
    verdict = stragglers(_table(rows, None))
    assert (verdict.verdict, verdict.ranks) == ("rank", (1,))


# -- what is said ----------------------------------------------------------------------------------------


def test_the_sentence_names_the_group_the_operation_and_the_cost() -> None:
    sentence = verdict_sentence(verdict_on_slow_pair())
    assert sentence.startswith("Verdict: communication is slow in group dp 2 and costs this run ")
    assert sentence.endswith("throughout (iterations 0 to 119), in ALLREDUCE.")


def test_of_a_run_that_is_mostly_transfers_no_slowness_is_claimed() -> None:
    sentence = verdict_sentence(verdict_on_mostly_transfers())
    assert sentence.startswith("Verdict: most of the run is communication, and nothing in it says whether")


@pytest.mark.slow("test_verdict.py has the headlines, and the sentence is above")
def test_the_page_says_it_too() -> None:
    said = judgement(Findings.of(with_slow_pair())).headline
    assert "Communication is slow in group dp 2 and costs this run" in said


def mesh(kinds: Sequence[tuple[Sequence[Sequence[int]], float]]) -> pd.DataFrame:
    """Steps of work, and an all-reduce in each group of each kind, which takes so many ms."""
    rng = np.random.default_rng(0)
    n_ranks = 1 + max(rank for groups, _ in kinds for members in groups for rank in members)
    now, rows = np.zeros(n_ranks), []
    for step in range(N_STEPS):
        works_ms = 40.0 * np.exp(rng.normal(0, 0.03, n_ranks))
        rows.append(_row("FORWARD", step, now, works_ms))
        now = now + works_ms
        for kind, (groups, usual_ms) in enumerate(kinds):
            for number, members in enumerate(map(np.array, groups)):
                done = np.full(len(members), now[members].max() + usual_ms * np.exp(rng.normal(0, 0.05)))
                named = {"group": f"{kind}.{number}", "group_size": len(members), "seq": step}
                named |= {"message_size_bytes": 1_000_000}
                rows.append(_row("ALLREDUCE", step, now[members], done - now[members], members, **named))
                now[members] = done
    return _table(rows, None)


@pytest.mark.slow("test_slow_links.py has which links do the same")
def test_groups_of_another_kind_are_not_slow_for_what_they_are() -> None:
    tensor, data = np.arange(16).reshape(4, 4).tolist(), np.arange(16).reshape(4, 4).T.tolist()
    assert stragglers(mesh([(tensor, 0.5), (data, 8.0)])).verdict == "healthy"


@pytest.mark.slow("test_slow_links.py has which links do the same on as many hosts")
def test_groups_across_hosts_are_compared_with_such_alone() -> None:
    ranks = np.arange(16).reshape(4, 2, 2)  # host, and two ways to group its ranks
    kinds = [(ranks.reshape(-1, 2).tolist(), 0.5), (ranks.transpose(0, 2, 1).reshape(-1, 2).tolist(), 0.5)]
    across = [[0, 4], [8, 12], [1, 5], [9, 13], [2, 6], [10, 14]]
    timings = mesh([*kinds, (across, 8.0)])
    timings.attrs["files"] = [{"rank": r, "sidecar": {"host": f"node{r // 4}"}} for r in range(16)]
    assert stragglers(timings).verdict == "healthy"


def messages_in_a_ring(took_ms: npt.NDArray[np.float64], *, n_passes: int = 1) -> pd.DataFrame:
    """Steps of work, of passing a message to the next rank, and of a barrier.

    Args:
        took_ms: how long the message of each rank to the next takes (steps x ranks); its sender goes on.
        n_passes: how often the ranks work and pass on in a step.
    """
    rng, (n_steps, n_ranks) = np.random.default_rng(0), took_ms.shape
    now, rows, everybody = np.zeros(n_ranks), [], np.arange(n_ranks)
    named = {"group": "ring", "group_size": n_ranks, "message_size_bytes": 4096}
    for number, step in enumerate(np.repeat(np.arange(n_steps), n_passes).tolist()):
        works_ms = 40.0 / n_passes * np.exp(rng.normal(0, 0.01, n_ranks))
        rows.append(_row("FORWARD", step, now, works_ms))
        sent, posted = now + works_ms, np.full(n_ranks, 0.05)
        rows.append(_row("SEND", step, sent, posted, peer=np.roll(everybody, -1), seq=number, **named))
        now = np.maximum(sent + posted, np.roll(sent + took_ms[step], 1))
        waited = now - sent - posted
        rows.append(
            _row("RECV", step, sent + posted, waited, peer=np.roll(everybody, 1), seq=number, **named)
        )
        if (number + 1) % n_passes == 0:
            done = np.full(n_ranks, now.max() + 0.1)
            rows.append(_row("BARRIER", step, now, done - now, group="all", group_size=n_ranks, seq=step))
            now = done
    return _table(rows, None)


@pytest.mark.slow("test_communication_by_hand.py has who is in all slow links")
def test_a_slow_link_of_two_ranks_whose_other_links_are_fast_is_told_by_both() -> None:
    took_ms = np.ones((N_STEPS, 6))
    took_ms[:, 1] = 30
    verdict = stragglers(messages_in_a_ring(took_ms))
    assert verdict.verdict == "communication"
    assert OthersInAllSlow((1, 2)) in verdict.evidence
    assert verdict.cost_ms == pytest.approx(N_STEPS * 29.0, rel=0.02)


@pytest.mark.slow("a rarer case; the slow group of several is quick above")
def test_a_delay_that_is_passed_on_from_message_to_message_is_that_of_its_link() -> None:
    """A receiver that the slow message delayed finds the next one half on its way, and its row is short."""
    took_ms = np.ones((40, 6))
    took_ms[20:, 1] = 15
    verdict = stragglers(messages_in_a_ring(took_ms, n_passes=5))
    assert (verdict.verdict, verdict.first_iteration) == ("communication", 20)
    first = evidence_sentences(verdict)[0]
    assert first.startswith("Messages of up to 4096 bytes from rank 1 to rank 2 take 14.9 ms")
    unslowed_ms = lasted_ms(messages_in_a_ring(np.ones((40, 6)), n_passes=5))
    slow_ms = lasted_ms(messages_in_a_ring(took_ms, n_passes=5))
    assert verdict.cost_ms == pytest.approx(slow_ms - unslowed_ms, rel=0.05)


def lasted_ms(timings: pd.DataFrame) -> float:
    """Return how long a run lasts on its first rank, in ms."""
    of_one = timings[timings["rank"] == 0]
    return 1e3 * float(of_one["end_counter"].max() - of_one["start_counter"].min())


def test_what_is_slow_now_and_then_is_told_with_how_often() -> None:
    times = usual(1)
    times[np.random.default_rng(1).random(N_STEPS) < 0.2] = 10
    verdict = stragglers(run([range(4)], times))
    n_slow = int((times > 1).sum())
    assert (verdict.verdict, verdict.window) == ("communication", "intermittent")
    assert verdict.cost_ms == pytest.approx(n_slow * 9 * 2.0, rel=0.05)
    assert f"in {n_slow} of {N_STEPS} steps, 9.6 times what they take in the others" in said(verdict)


@pytest.mark.slow("as of what is slow now and then")
def test_what_is_slow_in_most_steps_is_not_said_to_be_quick_in_most() -> None:
    times = usual(1)
    times[np.random.default_rng(1).random(N_STEPS) < 0.7] = 10
    verdict = stragglers(run([range(4)], times))
    assert (verdict.verdict, verdict.window) == ("communication", "intermittent")
    assert "in the others" in said(verdict)


@pytest.mark.slow("test_slow_links.py has a link with more to transfer")
def test_larger_messages_now_and_then_are_not_slow_for_taking_longer() -> None:
    times = usual(1)
    is_large = np.random.default_rng(1).random(N_STEPS) < 0.3
    times[is_large] = 1.9
    timings = run([range(4)], 6 * times)
    large = timings["iteration"].isin(np.flatnonzero(is_large)) & (timings["operation"] == "ALLREDUCE")
    timings["message_size_bytes"] = timings["message_size_bytes"].mask(large, 1_040_000)
    small = ~large & (timings["operation"] == "ALLREDUCE")
    timings["message_size_bytes"] = timings["message_size_bytes"].mask(small, 547_000)
    assert stragglers(timings).verdict == "healthy"


# -- what cannot be told -----------------------------------------------------------------------------------


def test_of_two_groups_that_do_the_same_and_differ_it_is_said_that_neither_is_known_to_be_usual() -> None:
    times = usual(2)
    times[:, 1] = 6
    verdict = stragglers(run([[0, 1], [2, 3]], times))
    assert (verdict.verdict, verdict.judged) == ("healthy", False)
    why = reason(verdict.why)
    assert "transfers in group dp 1 take 6.1 times as long as in group dp 0 for the same bytes" in why
    assert "which of the two is usual cannot be told" in why


@pytest.mark.slow("test_communication_by_hand.py has links that may be meant to differ")
def test_of_two_groups_of_the_same_ranks_one_may_be_meant_to_take_longer() -> None:
    times = usual(2)
    times[:, 1] = 6
    verdict = stragglers(run([[0, 1], [0, 1]], times))
    assert (verdict.verdict, verdict.judged) == ("healthy", True)


@pytest.mark.slow("test_communication_by_hand.py has links that may be meant to differ")
def test_two_groups_that_send_unlike_amounts_may_differ() -> None:
    times = usual(2)
    times[:, 1] = 6
    timings = run([[0, 1], [2, 3]], times)
    less = timings["group"] == "dp 0"
    timings["message_size_bytes"] = timings["message_size_bytes"].mask(less, 600_000)
    assert stragglers(timings).judged


# -- what is too little ------------------------------------------------------------------------------------


def test_one_slow_message_of_a_run_shows_nothing() -> None:
    took_ms = np.full((1, 6), 10.0)
    took_ms[0, 2] = 300
    assert stragglers(messages_in_a_ring(took_ms)).verdict != "communication"


@pytest.mark.slow("test_communication_by_hand.py has the least time")
def test_microseconds_are_not_told_whatever_part_of_a_short_run_they_are() -> None:
    times = usual(1)
    times[50:] = 20
    timings = run([range(4)], times)
    for name in ("elapsed_ms", "start_counter", "end_counter"):
        timings[name] /= 1000
    assert stragglers(timings).verdict == "healthy"
