"""The verdict in words: who, what it costs, when, where, how sure, and what to look at next."""

from __future__ import annotations

import math

import pytest

from timing_logger.analysis import Gate, RunEnd, Verdict
from timing_logger.results.facts import OneRank
from timing_logger.results.run_end import StuckGroup
from timing_logger.results.verdict import Suspect
from timing_logger.words.verdict import _when, headline, particulars, side_of_limit, what_next

COST = {"cost_ms": 840.0, "cost_share": 0.5}
COSTS = "costs this run 0.84 s, 50% of the recorded time"
ONE_FAILED = StuckGroup(
    group="world", group_size=2, seq=9, operation="ALLREDUCE", missing=(1,), failed={0: "error:RuntimeError"}
)
BROKEN_OFF = RunEnd(state="hang", groups=(ONE_FAILED,))


def of_rank(**further: object) -> Verdict:
    """Return the verdict that rank 2 is slow in 32 steps."""
    known = {
        "ranks": (2,), "operation": "DATA", "window": "persistent", "first_iteration": 1,
        "last_iteration": 32, "slow_steps": 32, "suspects": (Suspect((2,), "DATA", 0.99, 1.0),), **COST,
    }  # fmt: skip
    return Verdict(verdict="rank", **{**known, **further})  # type: ignore[arg-type]


def test_that_no_counters_were_looked_at_is_said_only_from_where_they_are_looked_at() -> None:
    assert "Why is not known" not in particulars(Verdict(verdict="healthy", lost_in_turn=0.045))
    assert "Why is not known" in particulars(Verdict(verdict="healthy", lost_in_turn=0.055))


@pytest.mark.parametrize(
    ("verdict", "said"),
    [
        (Verdict(verdict="healthy"), "No rank is slow."),
        (
            Verdict(verdict="healthy", unjudged_ranks=(4, 5)),
            "No rank that could be judged is slow; ranks 4 and 5 could not be judged.",
        ),
        (Verdict(verdict="healthy", not_explained=0.03, waited_for=(3,)), "No rank is slow."),
        (  # what is known is an estimate, and 5% is not to go untold
            Verdict(verdict="healthy", lost_in_turn=0.048),
            "No rank is slow, but the slowest of each step worked longer than the typical one, for 5% of the "
            "run together.",
        ),
        (
            Verdict(verdict="healthy", not_explained=0.12, waited_for=(3, 5)),
            "No rank is slow, but 12% of the run was waiting that nothing found here explains, mostly for "
            "ranks 3 and 5.",
        ),
        (
            Verdict(verdict="healthy", not_explained=0.12),
            "No rank is slow, but 12% of the run was waiting that nothing found here explains, for no rank "
            "in particular.",
        ),
        (
            Verdict(verdict="healthy", judged=False, why=OneRank()),
            "Nobody could be judged: only one rank is recorded.",
        ),
        (of_rank(), f"Rank 2 {COSTS}."),
        (of_rank(hosts=("node17",)), f"Rank 2 on node17 {COSTS}."),
        (of_rank(ranks=(3, 1)), f"Ranks 1 and 3 {COSTS.replace('costs', 'cost')}."),
        (of_rank(cost_share=0.0123), "Rank 2 costs this run 0.84 s, 1.2% of the recorded time."),
        (
            Verdict(
                verdict="suspect", bond="waiting", suspects=(Suspect((4, 5), "DATA", 0.9, 0.8),), **COST
            ),
            "Probably one of ranks 4 and 5, which wait for each other in something that is not logged, "
            f"{COSTS}.",
        ),
        (
            Verdict(
                verdict="suspect", bond="something", suspects=(Suspect((4, 5), "DATA", 0.9, 0.8),), **COST
            ),
            f"Probably one of ranks 4 and 5, or something that they share, {COSTS}.",
        ),
        (
            of_rank(ranks=(4, 5), hosts=("node2",), bond="host"),
            f"The 2 ranks of node2 (ranks 4 and 5), likely the host, {COSTS.replace('costs', 'cost')}.",
        ),
        (
            Verdict(verdict="role", ranks=(4, 5), hosts=("node2",), bond="host", **COST),
            "The 2 ranks of node2 (ranks 4 and 5), or their work, are slow and "
            f"{COSTS.replace('costs', 'cost')}.",
        ),
        (
            Verdict(verdict="role", ranks=(4, 5), labels="pipeline_stage=2", **COST),
            f"The role pipeline_stage=2 (ranks 4 and 5) is slower than the others and {COSTS}.",
        ),
        (Verdict(verdict="group-wide", **COST), f"All ranks slowed down together, which {COSTS}."),
        (
            Verdict(verdict="diffuse", **COST),
            "No rank in particular, but much time is lost to late ranks in turn: "
            "0.84 s, 50% of the recorded time.",
        ),
        (
            Verdict(verdict="diffuse", waited_for=(3,), **COST),
            "No rank can be named, but much time is lost, most of it to rank 3: "
            "0.84 s, 50% of the recorded time.",
        ),
        (Verdict(verdict="hang"), "The run hung, and until then no rank is known to have been slow."),
        (
            Verdict(verdict="hang", end=BROKEN_OFF),
            "The run broke off in a collective that failed, and until then no rank is known to have been "
            "slow.",
        ),
    ],
)  # fmt: skip
def test_each_verdict_has_a_headline(verdict: Verdict, said: str) -> None:
    assert headline(verdict) == said


def test_control_characters_in_a_name_do_not_reach_the_terminal() -> None:
    assert "\x1b" not in headline(of_rank(hosts=("node\x1b[31m",)))


@pytest.mark.parametrize(
    ("changed", "when"),
    [
        ({}, "throughout (iterations 1 to 32)"),
        ({"window": "ongoing"}, "to the end of the run (iterations 1 to 32)"),
        ({"window": "bounded"}, "in iterations 1 to 32 only"),
        ({"window": "intermittent"}, "now and then (iterations 1 to 32)"),
        ({"first_iteration": 32, "slow_steps": 1, "window": "bounded"}, "in iteration 32 only"),
    ],
)
def test_the_particulars_say_since_when(changed: dict[str, object], when: str) -> None:
    assert f", {when}, in DATA. Certain." in particulars(of_rank(**changed))


def test_the_particulars_share_the_cost_out_over_the_slow_steps() -> None:
    assert particulars(of_rank()).startswith("26 ms in each of 32 steps, ")


@pytest.mark.parametrize(
    ("between", "where"),
    [
        (("FORWARD", "BACKWARD"), "in code that is not timed, between FORWARD and BACKWARD."),
        (("WAIT", "WAIT"), "in code that is not timed, between one WAIT and the next."),
        ((), "in code that is not timed."),
    ],
)
def test_unlogged_time_is_told_by_the_rows_around_it(between: tuple[str, ...], where: str) -> None:
    assert where in particulars(of_rank(operation="UNLOGGED", between=between))


def test_a_suspect_is_told_with_the_condition_that_it_misses() -> None:
    missed = Gate("z among the peers", 2.1, 3.5, False)
    suspect = of_rank(gates=(Gate("slow steps", 32, 20, True), missed))
    assert particulars(suspect).endswith("in DATA. Not certain: z among the peers is below the limit.")


@pytest.mark.parametrize(
    ("likelihood", "said"), [(0.996, "Certain."), (0.994, "Likelihood 99%."), (math.nan, "")]
)
def test_only_what_is_known_for_certain_is_called_so(likelihood: float, said: str) -> None:
    words = particulars(of_rank(suspects=(Suspect((2,), "DATA", 0.99, likelihood),)))
    assert words.partition("in DATA.")[2].strip() == said


@pytest.mark.parametrize(
    ("verdict", "hint"),
    [
        (of_rank(operation="UNLOGGED"), "logger.operation("),
        (of_rank(hosts=("node17",)), "Look on node17 at where its batches come from"),
        (of_rank(operation="BACKWARD"), "what its peers do not have"),
        (Verdict(verdict="diffuse"), "timing-logger waits"),
        (Verdict(verdict="healthy", judged=False, why=OneRank()), "timing-logger summary"),
        (Verdict(verdict="hang"), "timing-logger hang"),
        (Verdict(verdict="communication", **COST), "timing-logger bandwidth"),
    ],
)
def test_any_other_verdict_has_a_next_thing_to_look_at(verdict: Verdict, hint: str) -> None:
    assert hint in what_next(verdict)


def test_a_run_in_which_nothing_is_slow_has_none() -> None:
    assert what_next(Verdict(verdict="healthy")) == ""


@pytest.mark.parametrize(
    ("gate", "said"),
    [
        (Gate("slow steps", 20.0, 20.0, True), "at or above the limit"),
        (Gate("share of the time lost", 0.22, 0.25, False), "below the limit"),
        (Gate("score of the role", 0.5, 0.75, True), "below the limit"),
        (Gate("share of its extra time that others waited", math.nan, 0.5, False), "not known"),
    ],
)
def test_a_condition_says_on_which_side_of_its_limit_it_is(gate: Gate, said: str) -> None:
    assert side_of_limit(gate) == said


def test_waits_that_recur_and_those_for_nobody_knows_whom_are_told_of_a_run_without_slow_ranks() -> None:
    verdict = Verdict(verdict="healthy", recurring=0.23, recurring_for=(4, 5), unmatched=0.3)
    assert particulars(verdict) == (
        "23% of the run was waiting that recurs in most steps, mostly for ranks 4 and 5, as where ranks have "
        "unequal work. 30% of the run was communication of which the rows do not tell for whom ranks waited."
    )
    assert what_next(verdict) == "timing-logger waits shows who waited for whom."


@pytest.mark.parametrize(("cost_ms", "is_told"), [(840.0, True), (0.5, True), (0.0, False)])
def test_what_each_step_costs_is_told_where_that_is_known(cost_ms: float, is_told: bool) -> None:
    assert any(" ms in each of 32 steps" in said for said in _when(of_rank(cost_ms=cost_ms))) is is_told


@pytest.mark.parametrize(("cost_ms", "is_told"), [(0.5, True), (0.0, False)])
def test_lost_time_is_told_however_little_it_is(cost_ms: float, is_told: bool) -> None:
    assert ("ranks in turn: " in headline(Verdict(verdict="diffuse", cost_ms=cost_ms))) is is_told


def test_of_suspects_the_likelihood_of_the_first_one_is_told() -> None:
    suspects = (Suspect((2,), "DATA", 0.7, 0.9), Suspect((5,), "DATA", 0.1, 0.3))
    assert "Likelihood 90%." in particulars(Verdict(verdict="suspect", suspects=suspects, **COST))
    named = of_rank(ranks=(2, 5), suspects=suspects)
    assert "Likelihood 30%." in particulars(named)
