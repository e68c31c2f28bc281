"""The verdict of a comparison in words, and what explains it, in sentences."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

from timing_logger.analysis.comparison.result import Comparison, NewCause, PartChange, StepChange, Unlike
from timing_logger.analysis.comparison.run_summary import RunSummary
from timing_logger.analysis.comparison.settings import LEAST_BATCHES, LEAST_RUNS, STEP_CONFIDENCE
from timing_logger.analysis.step_times.step_times import UNLOGGED
from timing_logger.reading.named_ranks import capital, named_ranks
from timing_logger.record import COMPILE, GC, GRAPH_CAPTURE, IMPORT, escape_text
from timing_logger.report._wording import as_duration, count, quoted, size
from timing_logger.report.not_told import not_told_sentences

_SURE = f"{100 * STEP_CONFIDENCE:g}% sure"
_STEP_OF = {"iterations": "A step", "rounds": "A round", "run": "The run"}
_PARTS = {
    "own work": "The own work of the ranks", "not timed": "Code that no row covers",
    "transfer": "Transfers", "waiting": "Waiting for other ranks",
}  # fmt: skip
_PAUSES = {
    GC: "Garbage collections", COMPILE: "Compilations", IMPORT: "Imports", GRAPH_CAPTURE: "Captures of graphs"
}  # fmt: skip


def verdict_of_comparison(found: Comparison) -> str:
    """Return the verdict with what it rests on: ``Verdict: REGRESSED. A step takes 28.3 ms, ...``"""
    told = _by_parts(found) if found.basis == "account" else _by_step(found)
    return f"Verdict: {found.verdict.upper()}. {told}"


def _by_step(found: Comparison) -> str:
    step = found.step
    takes = f"{_a_step(found)} takes {as_duration(step.ms)} against {as_duration(step.against_ms)}"
    change = f"{takes}, {_longer(step.change)}"
    if found.why in ("few runs", "few batches", "different steps"):
        return f"{_WHY[found.why](found)} {change}."
    between = f"{change} (between {_between(step.low, step.high)}, {_SURE})."
    return " ".join(filter(None, [between, _why_undecided(found)]))


def _why_undecided(found: Comparison) -> str:
    if found.why == "small":
        return f"That is less than the {_percent(found.bound)} that count (--max-regression)."
    if found.why != "not shown":
        return ""
    bounds = ""
    if math.isfinite(found.step.high):
        bounds = f" A slowdown of more than {_percent(max(found.step.high, 0.0))} is excluded."
    return f"It may be chance.{bounds} {how_many_would_decide(found)}".rstrip()


def how_many_would_decide(found: Comparison) -> str:
    """Return how many runs would decide, and what these find; "" if that is not known."""
    step = found.step
    if not step.spread >= 0:
        return ""
    unit = "batches" if found.in_batches else "runs"
    apart = f"Equal {unit} lie {_percent(step.spread)} apart (a standard deviation)"
    effect = max(abs(step.change), found.bound)
    if step.runs_needed is None:
        return f"{apart}: a thousand on each side would not decide about {_percent(effect)}."
    needed = f"{apart}: to decide about {_percent(effect)} takes {step.runs_needed} on each side."
    if not math.isfinite(step.finds):
        return needed
    return f"{needed} With those here, a slowdown of {_percent(step.finds)} is found nine times in ten."


def _by_parts(found: Comparison) -> str:
    """Return what the parts show where the step does not."""
    shown = [part for part in found.parts if part.is_shown]
    step = found.step
    total = f"{_of_step(found.shown_ms, step)} of a step"
    parts = " ".join(map(_part_sentence, shown))
    whole = f"the step as a whole is {_longer(step.change)} (between {_between(step.low, step.high)})"
    return (
        f"{parts} That is {total}. Equal runs lie {_percent(step.spread)} apart, so that {whole} and shows "
        "nothing by itself, nor does it contradict."
    )


def _of_step(ms: float, step: StepChange) -> str:
    return _percent(abs(ms) / step.against_ms)


def _part_sentence(part: PartChange) -> str:
    more = "more" if part.change_ms > 0 else "less"
    low, high = sorted((abs(part.low_ms), abs(part.high_ms)))
    between = f"between {low:.2f} and {high:.2f} ms"
    verb = "take" if part.part == "transfer" else "takes"
    return f"{_PARTS[part.part]} {verb} {abs(part.change_ms):.2f} ms {more} in each step ({between})."


def _few_runs(found: Comparison) -> str:
    here, there = found.here.n_units, found.against.n_units
    told = (
        f"It takes {LEAST_RUNS} runs on each side to tell a change from chance, and these are {here} against "
        f"{there}: equal runs differ, too."
    )
    return f"{told} {how_many_would_decide(found)}".rstrip()


def _few_batches(found: Comparison) -> str:
    n = found.against.n_units
    there_are = "1 batch" if n == 1 else f"{n} batches"
    return (
        f"The history has {there_are} of runs, and it takes {LEAST_BATCHES} to know how far these lie apart."
    )


def _different_steps(found: Comparison) -> str:
    return (
        "What a step is differs between the runs, as only some record iterations: nothing can be compared. "
        "The figures are of no use."
    )


_WHY: Mapping[str, Callable[[Comparison], str]] = {
    "few runs": _few_runs, "few batches": _few_batches, "different steps": _different_steps
}  # fmt: skip


# -- what is compared --------------------------------------------------------------------------------


def what_is_compared(found: Comparison) -> Iterator[str]:
    """Yield what the sides are, and first in what they are not alike."""
    for one in found.unlike:
        yield f"Not alike: {_unlike(one)}."
    sides = [_side(side.runs) for side in (found.here, found.against)]
    if found.in_batches:
        sides[1] += f" of a history, in {found.against.n_units} batches"
    if found.paired:
        sides[1] += ", in pairs"
    yield f"{capital(sides[0])} against {sides[1]}."
    commits = [
        sorted({run.commit[:12] for run in side.runs if run.commit}) for side in (found.here, found.against)
    ]
    if any(commits):
        yield f"Commits: {' against '.join(', '.join(one) or 'unknown' for one in commits)}."
    if found.order in ("after", "before"):
        yield (
            f"All runs were recorded {found.order} those that they are compared with. So what changed on the "
            "machine in between is in the difference, too: record them in turn."
        )
    lost = sum(run.n_lost for side in (found.here, found.against) for run in side.runs)
    if lost:
        yield f"{count(lost, 'record')} of these runs were lost or could not be read."
    yield from not_told_sentences("compare", found.not_told)


def _unlike(one: Unlike) -> str:
    here, there = (escape_text("; ".join(side)) for side in (one.here, one.against))
    return f"{escape_text(one.about)} ({here} against {there})"


def _side(summaries: Sequence[RunSummary]) -> str:
    steps = sorted(run.n_steps for run in summaries)
    n = f"{steps[0]:,}" if steps[0] == steps[-1] else f"{steps[0]:,} to {steps[-1]:,}"
    ranks = sorted({run.n_ranks for run in summaries})
    of_ranks = ", ".join(f"{one:,}" for one in ranks) + (" rank" if ranks == [1] else " ranks")
    left_out = max(run.n_warm_up for run in summaries)
    after = f" after the first {left_out}" if left_out else ""
    return f"{count(len(summaries), 'run')} of {of_ranks}, {n} steps{after}"


# -- what explains it --------------------------------------------------------------------------------


def cause_sentences(found: Comparison) -> Iterator[str]:
    """Yield what explains the change, what says most first."""
    for cause in found.causes:
        yield _CAUSES[cause.kind](cause)


def _took(cause: NewCause) -> str:
    return f"{as_duration(cause.ms)} in each step against {as_duration(cause.against_ms)}"


def _rank(cause: NewCause) -> str:
    worse, where = cause.ms > cause.against_ms, ""
    if cause.operation:
        where = (
            " in code that no row covers"
            if cause.operation == UNLOGGED
            else f" in {escape_text(cause.operation)}"
        )
    who = capital(named_ranks(cause.ranks))
    verb = "fell behind" if worse else "caught up with"
    its = "its" if len(cause.ranks) == 1 else "their"
    return f"{who} {verb} {its} peers{where}: by {_took(cause)}."


def _pauses(cause: NewCause) -> str:
    name = _PAUSES.get(cause.operation, cause.operation)
    often = f"{cause.amount or 0:.2g} in a step against {cause.against_amount or 0:.2g}"
    return f"{name} ({escape_text(cause.operation)}) take {_took(cause)}; there are {often}."


def _bytes(cause: NewCause) -> str:
    layer = f", most of the difference in {quoted(cause.layer)}" if cause.layer else ""
    amounts = f"{size(cause.amount or 0.0)} against {size(cause.against_amount or 0.0)}"
    return f"{escape_text(cause.operation)} has {amounts} in a step{layer}. It takes {_took(cause)}."


def _count(cause: NewCause) -> str:
    amounts = f"{cause.amount or 0:.3g} times in a step against {cause.against_amount or 0:.3g}"
    return f"{escape_text(cause.operation)} is made {amounts}. It takes {_took(cause)}."


def _new(cause: NewCause) -> str:
    return f"{escape_text(cause.operation)} is new: it takes {as_duration(cause.ms)} in each step."


def _gone(cause: NewCause) -> str:
    return f"{escape_text(cause.operation)} is gone: it took {as_duration(cause.against_ms)} in each step."


def _work(cause: NewCause) -> str:
    return f"{escape_text(cause.operation)} takes {_took(cause)}."


def _part(cause: NewCause) -> str:
    verb = "take" if cause.kind == "transfer" else "takes"
    return f"{_PARTS[cause.kind]} {verb} {_took(cause)}."


_CAUSES: Mapping[str, Callable[[NewCause], str]] = {
    "rank": _rank, "pauses": _pauses, "bytes": _bytes, "count": _count, "new": _new, "gone": _gone,
    "work": _work, "not timed": _part, "transfer": _part, "waiting": _part,
}  # fmt: skip


# -- figures -----------------------------------------------------------------------------------------


def _a_step(found: Comparison) -> str:
    kinds = {run.steps_are for run in found.here.runs}
    return _STEP_OF.get(next(iter(kinds)), "A step") if len(kinds) == 1 else "A step"


def _percent(part: float) -> str:
    return f"{100 * part:.1f}%" if abs(part) < 10 else f"{100 * part:.0f}%"


def _longer(change: float) -> str:
    return f"{_percent(abs(change))} {'longer' if change >= 0 else 'shorter'}"


def _between(low: float, high: float) -> str:
    if low >= 0 or high <= 0:
        ends = sorted((abs(low), abs(high)))
        return f"{_percent(ends[0])} and {_longer(math.copysign(ends[1], low or high))}"
    return f"{_longer(low)} and {_longer(high)}"
