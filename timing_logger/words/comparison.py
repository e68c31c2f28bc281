"""The verdict of a comparison in sentences, and what is compared."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

from timing_logger.reading.named_ranks import capital, named_ranks
from timing_logger.results import criteria
from timing_logger.results.comparison import (
    Comparison,
    Difference,
    NewCause,
    PartChange,
    Since,
    StepChange,
    Unlike,
)
from timing_logger.results.plain import UNLOGGED
from timing_logger.results.run_summary import RunSummary
from timing_logger.schema.record import COMPILE, GC, GRAPH_CAPTURE, IMPORT, escape_text
from timing_logger.words.not_told import not_told_sentences
from timing_logger.words.units import as_duration, count, quoted, size

_SURE = f"{100 * criteria.STEP_CONFIDENCE:g}% sure"
_STEP_OF = {"iterations": "A step", "rounds": "A round", "run": "The run"}
PARTS = {
    "own work": "The own work of the ranks", "not timed": "Code that no row covers",
    "transfer": "Transfers", "waiting": "Waiting for other ranks",
}  # fmt: skip


def verdict_of_comparison(found: Comparison) -> str:
    """Return the verdict with what it rests on: ``Verdict: REGRESSED. A step takes 28.3 ms, ...``"""
    return " ".join([f"Verdict: {found.verdict.upper()}.", *told_of_comparison(found)])


def told_of_comparison(found: Comparison) -> list[str]:
    """Return what the verdict rests on, what says most first."""
    told = _by_parts(found) if found.basis == "account" else _by_step(found)
    return [one for one in [*told, since_sentence(found)] if one]


def _by_step(found: Comparison) -> Iterator[str]:
    step = found.step
    takes = f"{a_step(found)} takes {as_duration(step.ms)} against {as_duration(step.against_ms)}"
    change = f"{takes}, {_longer(step.change)}"
    if found.why in ("few runs", "few batches", "different steps"):
        yield from _WHY[found.why](found)
        yield f"{change}."
        return
    yield f"{change} (between {_between(step.low, step.high)}, {_SURE})."
    yield from _why_undecided(found)


def _why_undecided(found: Comparison) -> Iterator[str]:
    if found.why == "small":
        yield f"That is less than the {_percent(found.bound)} that count (--max-regression)."
    if found.why != "not shown":
        return
    yield "It may be chance."
    if math.isfinite(found.step.high):
        yield f"A slowdown of more than {_percent(max(found.step.high, 0.0))} is excluded."
    yield from how_many_would_decide(found)


def how_many_would_decide(found: Comparison) -> Iterator[str]:
    """Yield how many runs would decide, and what these find, as far as that is known."""
    step = found.step
    if not step.spread >= 0:
        return
    unit = "batches" if found.in_batches else "runs"
    apart = f"Equal {unit} lie {_percent(step.spread)} apart (a standard deviation)"
    effect = max(abs(step.change), found.bound)
    if step.runs_needed is None:
        yield f"{apart}: a thousand on each side would not decide about {_percent(effect)}."
        return
    yield f"{apart}: to decide about {_percent(effect)} takes {step.runs_needed} on each side."
    if math.isfinite(step.finds):
        yield f"With those here, a slowdown of {_percent(step.finds)} is found nine times in ten."


def _by_parts(found: Comparison) -> Iterator[str]:
    """Yield what the parts show where the step does not."""
    step = found.step
    yield from (_part_sentence(part) for part in found.parts if part.is_shown)
    yield f"That is {_of_step(found.shown_ms, step)} of a step."
    whole = f"the step as a whole is {_longer(step.change)} (between {_between(step.low, step.high)})"
    yield (
        f"Equal runs lie {_percent(step.spread)} apart, so that {whole} and shows nothing by itself, nor "
        "does it contradict."
    )


def _of_step(ms: float, step: StepChange) -> str:
    return _percent(abs(ms) / step.against_ms)


def _part_sentence(part: PartChange) -> str:
    more = "more" if part.change_ms > 0 else "less"
    low, high = sorted((abs(part.low_ms), abs(part.high_ms)))
    between = f"between {low:.2f} and {high:.2f} ms"
    verb = "take" if part.part == "transfer" else "takes"
    return f"{PARTS[part.part]} {verb} {abs(part.change_ms):.2f} ms {more} in each step ({between})."


def _few_runs(found: Comparison) -> Iterator[str]:
    here, there = found.here.n_units, found.against.n_units
    yield (
        f"It takes {criteria.MIN_RUNS} runs on each side to tell a change from chance, and these are {here} "
        f"against {there}: equal runs differ, too."
    )
    yield from how_many_would_decide(found)


def _few_batches(found: Comparison) -> Iterator[str]:
    n = found.against.n_units
    there_are = "1 batch" if n == 1 else f"{n} batches"
    yield (
        f"The history has {there_are} of runs, and it takes {criteria.MIN_BATCHES} to know how far these lie "
        "apart."
    )


def _different_steps(found: Comparison) -> Iterator[str]:
    yield "What a step is differs between the runs, as only some record iterations: nothing can be compared."
    yield "The figures are of no use."


_WHY: Mapping[str, Callable[[Comparison], Iterator[str]]] = {
    "few runs": _few_runs, "few batches": _few_batches, "different steps": _different_steps
}  # fmt: skip


# -- since when ------------------------------------------------------------------------------------


def since_sentence(found: Comparison) -> str:
    """Return from where on the sides differ otherwise than before; "" if that is not shown."""
    since = found.since
    if since is None:
        return ""
    name = what_is_counted(found)
    before, after = (f"{_longer(one)} than on the other side" for one in (since.before, since.after))
    between = f"between {_between(since.low, since.high)}, {_SURE}"
    return (
        f"The sides do not differ alike all along: before {name} {since.first:,} steps are {before}, and "
        f"from there on {after}. By that change they became {_longer(since.change)} "
        f"({between}){_where(since, name)}."
    )


def what_is_counted(found: Comparison) -> str:
    """Return what is counted in the course of these runs."""
    if found.courses is not None and found.courses.counted_by == "steps":
        return "step"  # iterations restart
    return "round" if found.here.runs[0].steps_are == "rounds" else "iteration"


def _where(since: Since, name: str) -> str:
    if since.earliest == since.latest:
        return ""
    return f", anywhere from {name} {since.earliest:,} to {since.latest:,}"


# -- what is compared --------------------------------------------------------------------------------


def what_is_compared(found: Comparison) -> Iterator[str]:
    """Yield what the sides are, and first in what they are not alike."""
    yield from (f"Not alike: {sentence}" for sentence in unlike_sentences(found))
    yield from sides_sentences(found)


def unlike_sentences(found: Comparison) -> Iterator[str]:
    """Yield in what the sides are not alike."""
    for one in found.unlike:
        yield f"{_unlike(one)}."


def sides_sentences(found: Comparison) -> Iterator[str]:
    """Yield what the sides are."""
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


# -- figures -----------------------------------------------------------------------------------------


def a_step(found: Comparison) -> str:
    """Return what a step of these runs is called."""
    kinds = {run.steps_are for run in found.here.runs}
    return _STEP_OF.get(next(iter(kinds)), "A step") if len(kinds) == 1 else "A step"


def _percent(part: float) -> str:
    if abs(part) < 10:
        return f"{100 * part:.1f}%"
    return f"{100 * part:,.0f}%" if abs(part) < _MOST_IN_DIGITS else f"{100 * part:.0e}%"


_MOST_IN_DIGITS = 1e4
"""Of the ends of intervals that are all noise, the digits tell nothing."""


def _longer(change: float) -> str:
    return f"{_percent(abs(change))} {'longer' if change >= 0 else 'shorter'}"


def _between(low: float, high: float) -> str:
    if low >= 0 or high <= 0:
        ends = sorted((abs(low), abs(high)))
        return f"{_percent(ends[0])} and {_longer(math.copysign(ends[1], low or high))}"
    return f"{_longer(low)} and {_longer(high)}"


_PAUSES = {
    GC: "Garbage collections", COMPILE: "Compilations", IMPORT: "Imports", GRAPH_CAPTURE: "Captures of graphs"
}  # fmt: skip


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


def _divided(cause: NewCause) -> str:
    often = f"{cause.amount or 0:.3g} times in a step against {cause.against_amount or 0:.3g}"
    return (
        f"{escape_text(cause.operation)} has as many bytes in all, divided otherwise: it is made {often}, in "
        f"other layers or buckets. It takes {_took(cause)}."
    )


def _new(cause: NewCause) -> str:
    return f"{escape_text(cause.operation)} is new: it takes {as_duration(cause.ms)} in each step."


def _gone(cause: NewCause) -> str:
    return f"{escape_text(cause.operation)} is gone: it took {as_duration(cause.against_ms)} in each step."


def _work(cause: NewCause) -> str:
    return f"{escape_text(cause.operation)} takes {_took(cause)}."


def _part(cause: NewCause) -> str:
    verb = "take" if cause.kind == "transfer" else "takes"
    return f"{PARTS[cause.kind]} {verb} {_took(cause)}."


_CAUSES: Mapping[str, Callable[[NewCause], str]] = {
    "rank": _rank, "pauses": _pauses, "bytes": _bytes, "divided": _divided, "count": _count, "new": _new,
    "gone": _gone, "work": _work, "not timed": _part, "transfer": _part, "waiting": _part,
}  # fmt: skip


# -- one difference between two sides in words, as tables and charts have it -----------------------------


def what_differs(one: Difference) -> str:
    """Return the name of what differs, marked if only one side has it, or if it is divided otherwise."""
    return f"{escape_text(one.operation)}{_mark(one)}"


def _mark(one: Difference) -> str:
    if one.does == "divided":
        return " (divided)"
    if one.n_runs and one.n_against:
        return ""
    return " (new)" if one.n_runs else " (gone)"


def of_what(one: Difference) -> str:
    """Return of what it is: its rank, or phase, group and layer; "" where nothing tells it apart."""
    if one.kind == "rank":
        return f"rank {one.rank}"
    if one.kind == "account":
        return "part of the step"
    return escape_text(", ".join(filter(None, (one.phase, one.group, one.layer))))


def is_sure(one: Difference) -> bool:
    """Tell whether a difference is beyond chance, as one of all that were compared."""
    return one.is_named and one.shift.is_shown


def signed(ms: float) -> str:
    """Return a difference in ms with its sign; of ends of intervals that are all noise, the magnitude."""
    return f"{ms:+.2f}" if abs(ms) < _MOST_MS else f"{ms:+.0e}"


_MOST_MS = 1e7

DIVIDED = "Divided: as many bytes in all, divided otherwise, among other calls, layers or buckets."
"""What the mark means."""
