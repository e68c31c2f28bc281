"""What a verdict rests on is stated in values; sentences are made of them, and JSON has both."""

from __future__ import annotations

import ast
import json
import math
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

import pytest
from simulated_runs import data_parallel, factors

import timing_logger
from timing_logger.analysis import Gate, RunEnd, stragglers
from timing_logger.analysis.step_times.step_times import step_times
from timing_logger.analysis.verdict.case import Case, Judgement
from timing_logger.report import evidence_sentences, verdict_json
from timing_logger.results.facts import (
    ActAsOne,
    AllSlower,
    AloneInRole,
    CallCount,
    CommunicationNotTold,
    Costliest,
    DeviceClockHides,
    DifferentRuns,
    EachAlone,
    EndedBadly,
    EpochsCounted,
    EveryRankInSlow,
    ExplainedWithout,
    Fact,
    FewCompared,
    FewSteps,
    HostOrWork,
    LeavesLate,
    LostToSlowest,
    MoreRows,
    MostlyTransfers,
    MostWaitedFor,
    NobodyInAllSlow,
    NoRows,
    NoSelfTime,
    NotNamed,
    OneRank,
    OneWaitedFor,
    OnHost,
    OnlyInAllSlow,
    OthersInAllSlow,
    PassingOn,
    Pauses,
    RanksLacking,
    Reason,
    RolesMayWait,
    SelfTimeBetween,
    SelfTimeOfRows,
    SelfTimeUnknown,
    SlowHost,
    Slowness,
    SlowOperation,
    SlowRank,
    SlowRole,
    SlowTransfers,
    StepsCounted,
    Transfer,
    TwoRanks,
    UnevenWork,
    UnlikeLinks,
    UntimedCalls,
    VaryAlone,
    WorkOfRank,
    code_of,
    plain_fact,
)
from timing_logger.results.plain import StepRange
from timing_logger.results.policy import STANDARD
from timing_logger.results.verdict import Verdict
from timing_logger.words.evidence import sentence
from timing_logger.words.not_told import reason

SLOWNESS = Slowness(1.5, "ongoing", StepRange(10, 39), 30)
MESSAGES = Transfer("SEND", "world", 0, 1, 4096)
RAIL = Transfer("ALLREDUCE", "rail0", None, None, None)

EXAMPLES: dict[str, tuple[Fact, str]] = {
    "slow-rank": (SlowRank(2, SLOWNESS), "Rank 2: 1.50 times the median of its peers (ongoing, iterations"),
    "slow-host": (SlowHost("node17", SLOWNESS), "The typical rank of node17: 1.50 times the median of the"),
    "not-named": (
        NotNamed(2, SLOWNESS, (Gate("slow steps", 5.0, 20.0, False),)),
        "Not named: slow steps 5, limit 20.",
    ),
    "explained-without": (ExplainedWithout(2, SLOWNESS, 0.9), "Without it 90% of the lost time is"),
    "act-as-one": (ActAsOne((4, 5), "waiting", 1, "node17", 2, True), "or node17, of which they are all"),
    "vary-alone": (VaryAlone("UNLOGGED"), "Apart from that, UNLOGGED, the code that is not timed, varies"),
    "host-or-work": (HostOrWork(), "whether their host or their work is slow cannot be told."),
    "slow-operation": (
        SlowOperation("DATA", 2, 0.8),
        "DATA holds 80% of what rank 2 spent beyond its peers.",
    ),
    "most-waited-for": (MostWaitedFor(2, 0.8), "80% was for rank 2, the largest part."),
    "passing-on": (PassingOn((1, 3)), "so passing on a delay: ranks 1 and 3."),
    "costliest": (
        Costliest(0.97),
        "The likelihood that it is the costliest, as costs vary, is 97%.",
    ),
    "slow-role": (SlowRole("stage 1", (3,), 1.6), "Whether the rank or the work of its role is slow cannot"),
    "all-slower": (AllSlower(0.9, 1.2, "little by little"), "after a growth that went on little by little."),
    "lost-to-slowest": (LostToSlowest(0.3, ()), "of each step, most of that to no one in particular."),
    "work-of-rank": (
        WorkOfRank(2, 1.4, 0.65, 1.2),
        "Rank 2 has 1.40 times the work of its peers, which explains 65% of its delay; for the work ",
    ),
    "more-rows": (MoreRows(2, "FORWARD", 1.25, 0.8), "Rank 2 does FORWARD 1.25 times as often as its peers"),
    "uneven-work": (UnevenWork(0.12), "in each step, the run would be 12% shorter."),
    "pauses": (Pauses("GC", 0.19), "the pauses of Python's garbage collector, the run would be 19% "),
    "ended-badly": (EndedBadly("hang", "The run hung."), "The run hung."),
    "slow-transfers": (SlowTransfers(MESSAGES, 15.0, 1.0, "usual", 4, 90), " in 4 of 90 steps, 15.0 times"),
    "mostly-transfers": (MostlyTransfers(0.6, RAIL), "most of it in ALLREDUCE in group rail0."),
    "only-in-all-slow": (OnlyInAllSlow((2,)), "and no others of their kind, have rank 2 in them."),
    "on-host": (OnHost("node17"), "That is the host node17."),
    "every-rank-in-slow": (EveryRankInSlow(), "All ranks take part in them"),
    "others-in-all-slow": (OthersInAllSlow((2,)), "but so have others of their kind."),
    "nobody-in-all-slow": (NobodyInAllSlow(), "They have no rank in common"),
    "self-time-between": (SelfTimeBetween(), "Self time is the time between communication"),
    "self-time-of-rows": (SelfTimeOfRows(()), "the rows of own work: there are none."),
    "self-time-unknown": (SelfTimeUnknown((3,)), "No step of rank 3 has a self time that is known"),
    "alone-in-role": (AloneInRole(tuple("abcdef")), "so no peer to compare it with: a; b; c; d; e; ...."),
    "two-ranks": (TwoRanks(), "Two ranks: compared by their ratio"),
    "steps-counted": (StepsCounted(), "No iteration is recorded"),
    "epochs-counted": (EpochsCounted(), "no epoch tells them apart"),
    "few-steps": (FewSteps(12, True), "Only 12 steps are recorded: a rank that is a little slow would not"),
    "no-rows": (NoRows(), "There are no rows."),
    "one-rank": (OneRank(), "Only one rank is recorded: nobody to compare it with."),
    "each-alone": (EachAlone(), "Every rank is alone in its role"),
    "no-self-time": (NoSelfTime(), "Of no step it is known how long a rank worked"),
    "few-compared": (FewCompared(8), "Fewer than 8 steps are known of any two"),
    "device-clock-hides": (DeviceClockHides(14.96), "(15.0 ms in a typical step)"),
    "roles-may-wait": (RolesMayWait(), "so a slow role looks like the others."),
    "leaves-late": (LeavesLate(1, 5.0, 0.2), "Rank 1 leaves collectives later than its peers, by 5.0 ms a"),
    "one-waited-for": (OneWaitedFor(1, 0.8, 0.06), "80% of all waiting was for rank 1, and the run would"),
    "untimed-calls": (UntimedCalls((CallCount("Rput", 12),)), "calls that are not timed (12 x Rput)."),
    "communication-not-told": (CommunicationNotTold("steps"), "The rows were imported (steps) from what"),
    "ranks-lacking": (RanksLacking((1,), "the file of rank 1 is empty"), "The file of rank 1 is empty."),
    "different-runs": (DifferentRuns("..."), "The files look like those of different runs: ..."),
    "unlike-links": (
        UnlikeLinks((RAIL,), (MESSAGES,), 6.1, 0.2),
        "in group rail0 take 6.1 times as long as from rank 0 to rank 1 for the same bytes, 20% of the run",
    ),
}  # fmt: skip
"""A fact of each kind by its code, and a part of its sentence."""

FACTS = [pytest.param(*example, id=code) for code, example in EXAMPLES.items()]


def test_each_kind_of_fact_has_a_code_and_an_example_here() -> None:
    kinds = {code: type(fact) for code, (fact, _) in EXAMPLES.items()}
    assert kinds == {code_of(kind): kind for kind in get_args(Fact)}


@pytest.mark.parametrize(("fact", "part"), FACTS)
def test_each_kind_of_fact_has_a_sentence(fact: Fact, part: str) -> None:
    told = sentence(fact)
    assert part in told
    assert told.endswith(".")
    assert told[0] == told[0].upper()


@pytest.mark.parametrize("kind", get_args(Reason))
def test_each_reason_goes_on_a_sentence(kind: type[Fact]) -> None:
    fact, _ = EXAMPLES[code_of(kind)]
    told = reason(fact)
    assert told[0] == told[0].lower()
    assert not told.endswith(".") or isinstance(fact, DifferentRuns)


@pytest.mark.parametrize(("fact", "part"), FACTS)
def test_json_can_hold_each_fact_beside_its_code_and_its_sentence(fact: Fact, part: str) -> None:
    assert not {"fact", "text"} & {one.name for one in fields(fact)}
    told = json.loads(json.dumps(plain_fact(fact), allow_nan=False))
    assert set(told) == {"fact", *(one.name for one in fields(fact))}
    assert EXAMPLES[told["fact"]][0] == fact


def test_an_unknown_value_is_null() -> None:
    assert plain_fact(SlowOperation("DATA", 2, math.nan))["excess_share"] is None


def test_facts_are_equal_by_kind_and_value() -> None:
    assert OnlyInAllSlow((1, 2)) == OnlyInAllSlow((1, 2))
    assert OnlyInAllSlow((1, 2)) != OthersInAllSlow((1, 2))
    assert OnlyInAllSlow((1, 2)) != OnlyInAllSlow((1, 3))


# -- of a verdict ------------------------------------------------------------------------------------------


def test_the_json_of_a_verdict_has_each_fact_with_its_sentence() -> None:
    factor = factors(60, 4)
    factor[:, 2] *= 2
    timings = data_parallel(factor)
    verdict = stragglers(timings)
    told = json.loads(verdict_json(verdict, timings[:0]))
    assert told["why"] is None
    assert [fact.pop("text") for fact in told["evidence"]] == [*evidence_sentences(verdict)]
    assert told["evidence"] == verdict.as_dict()["evidence"]


def test_the_json_of_a_run_that_is_not_judged_says_why() -> None:
    verdict = stragglers(data_parallel(factors(5, 1)))
    assert verdict.why == OneRank()
    assert verdict.as_dict()["why"] == {"fact": "one-rank"}


@pytest.mark.parametrize(("epoch", "told"), [(None, {}), (0, {"first_epoch": 0, "last_epoch": 2})])
def test_the_values_of_a_verdict_have_epochs_only_where_iterations_restart(
    epoch: int | None, told: dict[str, int]
) -> None:
    verdict = Verdict(verdict="rank", first_epoch=epoch, last_epoch=None if epoch is None else 2)
    values = verdict.as_dict()
    assert {name: value for name, value in values.items() if "epoch" in name} == told


def test_the_warning_of_a_bad_end_comes_first() -> None:
    timings = data_parallel(factors(5, 2))
    end = RunEnd(state="unfinished", sentences=("The run was cut off.",))
    verdict = judged(timings).ending_in(end).verdict
    assert verdict.evidence[0] == EndedBadly("unfinished", "The run was cut off.")
    assert evidence_sentences(verdict)[0] == "The run was cut off."


def judged(timings: Any) -> Judgement:
    return Judgement(Case(step_times(timings), {}, STANDARD), stragglers(timings))


# -- no sentences in the analysis --------------------------------------------------------------------------

PACKAGE = Path(timing_logger.__file__).parent
TABLES = ("seen.py",)
"""Host counters have their units beside them; and ``results/cause.py`` has what to look at next."""

STATING = [
    *(path for path in (PACKAGE / "analysis" / "verdict").rglob("*.py") if path.name not in TABLES),
    *(PACKAGE / "results" / f"{name}.py" for name in ("facts", "run_end", "verdict")),
]


def test_the_analysis_words_nothing_but_the_names_of_conditions_and_kinds() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}: {text}"
        for path in sorted(STATING)
        for text in worded(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert found == []


def worded(tree: ast.Module) -> Iterator[str]:
    """Yield the texts of a module with a space in them, other than docstrings and names."""
    names = {id(node) for named in ast.walk(tree) for node in names_in(named)}
    texts = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in names)
    for node in texts:
        if isinstance(node.value, str) and " " in node.value:
            yield node.value


def names_in(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the texts in a node that are no sentence by where they stand.

    They are docstrings, the name of a gate (given to it, or a constant in capitals without a full stop), and
    the members of a ``Literal``, wherever they occur.
    """
    if isinstance(node, ast.Expr):
        yield node.value
    elif isinstance(node, ast.Call) and first_name(node.func) == "Gate":
        yield from node.args[:1]
    elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]).isupper():
        yield from [] if ast.unparse(node.value).rstrip("'\"").endswith(".") else [node.value]
    elif isinstance(node, ast.Constant) and node.value in ("part of host", "little by little"):
        yield node


def first_name(node: ast.AST) -> str:
    """Return the name before the first full stop of what is called; "" if it begins with another thing."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
