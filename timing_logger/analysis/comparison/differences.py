"""What each thing takes on both sides, paired by what it is, and what explains that a step takes longer."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Container, Iterator, Sequence
from typing import TypeAlias

import numpy as np

from timing_logger.analysis.comparison.between_runs import shift_between, shown_beyond_chance, time_shift
from timing_logger.analysis.rows.operations import PAUSES, is_communication, is_own_work, is_wait
from timing_logger.results import criteria
from timing_logger.results.comparison import CauseKind, Difference, Does, NewCause, Shift
from timing_logger.results.plain import UNLOGGED
from timing_logger.results.run_summary import MOST_LAYERS, MOST_OPERATIONS, OF_RANK, Quantity, RunSummary

Members: TypeAlias = Sequence[Sequence[RunSummary]]
"""The runs of each unit of a side."""

What: TypeAlias = tuple[str, str, str, str, str, "int | None"]
_OfRun: TypeAlias = "dict[What, Quantity]"


def differences_of(
    here: Members, there: Members, *, paired: bool, with_intervals: bool
) -> tuple[Difference, ...]:
    """Return what each thing takes on both sides, the largest difference first.

    Their differences are in ms per step, and not factors as that of the step, since something may not be
    there on one side.

    Args:
        here, there: the units of both sides.
        paired: whether the units are pairs.
        with_intervals: whether there are enough of them to tell chance from change.
    """
    sides = [[[_by_what(run) for run in unit] for unit in side] for side in (here, there)]
    names = dict.fromkeys(what for side in sides for unit in side for run in unit for what in run)
    floor_ms = floor_of(here, there)
    found = [
        _difference(what, *sides, floor_ms=floor_ms, paired=paired, with_intervals=with_intervals)
        for what in names
    ]
    found = _with_divided(found)
    if with_intervals:
        named = shown_beyond_chance([one.shift.p for one in found], criteria.FALSE_DISCOVERIES_SHARE)
        found = [one._replace(is_named=is_named) for one, is_named in zip(found, named, strict=True)]
    return tuple(sorted(found, key=lambda one: -abs(one.shift.estimate)))


def floor_of(here: Members, there: Members) -> float:
    """Return what is added to times before their logarithms are compared: a small part of a step, in ms."""
    steps_ms = [run.step_mean_ms for side in (here, there) for unit in side for run in unit]
    return criteria.TRIFLE_SHARE * float(np.median(steps_ms))


def _by_what(run: RunSummary) -> _OfRun:
    return {one.what: one for one in run.quantities}


def _difference(
    what: What,
    here: Sequence[Sequence[_OfRun]],
    there: Sequence[Sequence[_OfRun]],
    *,
    floor_ms: float,
    paired: bool,
    with_intervals: bool,
) -> Difference:
    ms, against_ms = (_values(side, what, lambda one: one.mean_ms) for side in (here, there))
    took = time_shift(ms, against_ms, floor_ms, paired=paired)
    shift = (
        took.shift if with_intervals else Shift(took.shift.estimate, -math.inf, math.inf, math.nan, math.nan)
    )
    found, others = (_found(side, what) for side in (here, there))
    n_rows, against_rows = (_mean(_values(side, what, lambda one: one.n_rows)) for side in (here, there))
    n_bytes, against_bytes = (_mean_bytes(of) for of in (found, others))
    does = _does(found, others, here, there)
    return Difference(
        *what, len(found), len(others), took.ms, took.against_ms, shift, False, does, n_rows,
        against_rows, n_bytes, against_bytes,
    )  # fmt: skip


def _found(side: Sequence[Sequence[_OfRun]], what: What) -> list[Quantity]:
    return [run[what] for unit in side for run in unit if what in run]


def _does(
    found: Sequence[Quantity],
    others: Sequence[Quantity],
    here: Sequence[Sequence[_OfRun]],
    there: Sequence[Sequence[_OfRun]],
) -> Does:
    """Return what is done otherwise in every run of one side than in any of the other."""
    if not others:
        return "new" if _only(found, here, there) else ""
    if not found:
        return "gone" if _only(others, there, here) else ""
    if _apart([one.bytes for one in found], [one.bytes for one in others]):
        return "bytes"
    return "count" if _apart([one.n_rows for one in found], [one.n_rows for one in others]) else ""


def _with_divided(found: Sequence[Difference]) -> list[Difference]:
    """Say of calls, layers and buckets of communication that differ only in how as many bytes are divided."""
    operations = [one for one in found if one.kind == "operation" and is_communication(one.operation)]
    # Those that both sides make for the same purposes, with as many bytes for each.
    as_many = {one.operation for one in operations} - {
        one.operation
        for one in operations
        if one.does in ("bytes", "new", "gone") or not one.bytes or not one.against_bytes
    }
    layers = {
        one.layer
        for one in found
        if one.kind == "layer" and one.operation in as_many and one.does in _DIVIDES
    }
    return [one._replace(does="divided") if _is_divided(one, as_many, layers) else one for one in found]


_DIVIDES = ("bytes", "count", "new", "gone")


def _is_divided(one: Difference, as_many: Container[str], layers: Container[str]) -> bool:
    if one.kind == "layer":  # also of the waits for a bucket that only one side has
        of_wait = one.does in _DIVIDES and is_wait(one.operation) and one.layer in layers
        return of_wait or (one.does in _DIVIDES and one.operation in as_many)
    return one.does == "count" and one.operation in as_many


def _only(
    found: Sequence[Quantity], here: Sequence[Sequence[_OfRun]], there: Sequence[Sequence[_OfRun]]
) -> bool:
    """Tell whether all runs of a side have a thing, and all of the other would have kept it if they had
    it."""
    if len(found) < sum(map(len, here)):
        return False
    kind = found[0].kind
    kept = [[one.mean_ms for one in run.values() if one.kind == kind] for unit in there for run in unit]
    least_ms = max((min(ms) for ms in kept if len(ms) >= _MOST_KEPT.get(kind, len(ms) + 1)), default=0.0)
    return _mean([one.mean_ms for one in found]) > least_ms


_MOST_KEPT = {"operation": MOST_OPERATIONS, "layer": MOST_LAYERS}


def _apart(here: Sequence[float | None], there: Sequence[float | None]) -> bool:
    """Tell whether all of one side lie beyond all of the other, by more than the end of a run explains."""
    known, others = ([one for one in side if one is not None] for side in (here, there))
    if not known or not others:
        return False
    gap = max(min(known) - max(others), min(others) - max(known))
    return gap > criteria.MIN_AMOUNT_CHANGE_SHARE * max(max(known), max(others))


def _values(side: Sequence[Sequence[_OfRun]], what: What, value: Callable[[Quantity], float]) -> list[float]:
    """Return for each unit the mean over its runs; 0 of a run in which it does not occur."""
    return [_mean([value(run[what]) if what in run else 0.0 for run in unit]) for unit in side]


def _mean_bytes(found: Sequence[Quantity]) -> float | None:
    stated = [one.bytes for one in found if one.bytes is not None]
    return _mean(stated) if stated else None


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))


# -- what explains that a step takes longer or shorter: what changed with it, what says most first -------


_SAYS_MOST: tuple[CauseKind, ...] = (
    "rank", "pauses", "bytes", "divided", "count", "new", "gone", "work", "not timed", "transfer", "waiting"
)  # fmt: skip
"""What an author can look up at once comes before what could have many reasons."""

_OF_ACCOUNT: tuple[CauseKind, ...] = ("not timed", "transfer", "waiting")
_DONE: tuple[CauseKind, ...] = ("bytes", "divided", "count", "new", "gone")


def causes_of(
    here: Members, there: Members, differences: Sequence[Difference], step_ms: float
) -> tuple[NewCause, ...]:
    """Return what explains the change of the step.

    Rows may lie in each other, as a garbage collection in a backward pass, so that the causes do not add up:
    one may be the reason of another.

    Args:
        here, there: the units of both sides.
        differences: between them.
        step_ms: by how much the step changed; 0 if that is not decided: then only what is done otherwise is
            returned, that has a part in the difference that is seen.
    """
    found = [*_ranks(here, there, step_ms)] if step_ms else []
    found += [cause for one in differences if (cause := _cause(one, differences, step_ms))]
    return tuple(sorted(found, key=lambda one: (_SAYS_MOST.index(one.kind), -abs(one.ms - one.against_ms))))


def _cause(one: Difference, differences: Sequence[Difference], step_ms: float) -> NewCause | None:
    kind = _kind(one, differences)
    if kind is None or not (_explains(one.shift.estimate, step_ms) if step_ms else kind in _DONE):
        return None
    if one.kind == "account":
        return NewCause(kind, "", "", (), one.ms, one.against_ms)
    amounts: tuple[float | None, float | None] = (None, None)
    if kind == "bytes":
        amounts = one.bytes, one.against_bytes
    if kind in ("count", "divided", "pauses"):
        amounts = one.n_rows, one.against_rows
    layer = _layer(one, differences) if kind == "bytes" else ""
    return NewCause(kind, one.operation, layer, (), one.ms, one.against_ms, *amounts)


def _kind(one: Difference, differences: Sequence[Difference]) -> CauseKind | None:
    """Return what changed in an operation, or a part of the account; None if that is not sure."""
    if one.kind == "account":
        return next((kind for kind in _OF_ACCOUNT if kind == one.operation), None) if _is_shown(one) else None
    if one.kind != "operation" or is_wait(one.operation):  # what is waited for has rows of its own
        return None
    if one.operation in PAUSES:
        return "pauses" if _is_shown(one) else None
    if one.does and (one.does != "bytes" or is_communication(one.operation)):
        return one.does
    if any(of.does == "divided" for of in _layers(one, differences)):
        return "divided"
    return "work" if is_own_work(one.operation) and _is_shown(one) else None


def _is_shown(one: Difference) -> bool:
    return one.is_named and one.shift.is_shown


def _explains(ms: float, step_ms: float) -> bool:
    """Tell whether a difference goes the way of the step, and is no trifle."""
    return ms * step_ms > 0 and abs(ms) >= criteria.WORTH_NAMING_SHARE * abs(step_ms)


def _layer(one: Difference, differences: Sequence[Difference]) -> str:
    """Return the layer in which the bytes of an operation changed most; "" if rows name none."""
    changed = [
        (abs((of.bytes or 0.0) - (of.against_bytes or 0.0)), of.layer) for of in _layers(one, differences)
    ]
    most, name = max(changed, default=(0.0, ""))
    return name if most > 0 else ""


def _layers(one: Difference, differences: Sequence[Difference]) -> list[Difference]:
    return [of for of in differences if of.kind == "layer" and of.operation == one.operation]


# -- ranks -------------------------------------------------------------------------------------------


def _ranks(here: Members, there: Members, step_ms: float) -> Iterator[NewCause]:
    """Yield the ranks that fell behind their peers, or caught up with them.

    They are those that the verdicts on most runs of the slower side name, and not on most of the other. If
    that is nobody, it is the rank that takes more time of its own, beyond the median of the others.
    """
    slower, faster = (here, there) if step_ms > 0 else (there, here)
    found = _named_by_verdicts(slower, faster) or _behind_its_peers(slower, faster)
    if found is None or not _explains(found.ms - found.against_ms, abs(step_ms)):
        return
    if step_ms > 0:
        yield found
    else:
        yield found._replace(
            ms=found.against_ms, against_ms=found.ms, amount=found.against_amount, against_amount=found.amount
        )


def _named_by_verdicts(slower: Members, faster: Members) -> NewCause | None:
    named, others = (_named(side) for side in (slower, faster))
    ranks = [rank for rank, part in named.items() if part > criteria.MOST_SHARE >= others.get(rank, 0.0)]
    if not ranks:
        return None
    cost_ms, before_ms = (_cost_ms(side, ranks) for side in (slower, faster))
    parts = min(named[rank] for rank in ranks), max(others.get(rank, 0.0) for rank in ranks)
    return NewCause("rank", _operation(slower, ranks), "", tuple(sorted(ranks)), cost_ms, before_ms, *parts)


def _behind_its_peers(slower: Members, faster: Members) -> NewCause | None:
    """Return the rank whose own work, or untimed code, grew most beyond that of its peers, beyond chance."""
    sides = [[_beyond_peers_ms(unit) for unit in side] for side in (slower, faster)]
    keys = sorted(set.intersection(*(set(unit) for side in sides for unit in side)))
    shifts = [shift_between(*([unit[key] for unit in side] for side in sides)) for key in keys]
    named = shown_beyond_chance([shift.p for shift in shifts], criteria.FALSE_DISCOVERIES_SHARE)
    shown = [
        (shift.estimate, key)
        for key, shift, is_named in zip(keys, shifts, named, strict=True)
        if is_named and shift.low > 0
    ]
    if not shown:
        return None
    _, most = max(shown)
    ms, before_ms = (float(np.mean([unit[most] for unit in side])) for side in sides)
    return NewCause("rank", "" if most[0] == OF_RANK[0] else UNLOGGED, "", (most[1],), ms, before_ms)


def _beyond_peers_ms(unit: Sequence[RunSummary]) -> dict[tuple[str, int], float]:
    """Return how much longer each rank takes of its own than the median of the others, on average over
    runs."""
    found: dict[tuple[str, int], list[float]] = {}
    for run in unit:
        for what in OF_RANK:
            ms_of = {
                one.rank: one.mean_ms for one in run.quantities if (one.kind, one.operation) == ("rank", what)
            }
            for rank, ms in ms_of.items() if len(ms_of) > 1 else ():
                others = [of for other, of in ms_of.items() if other != rank]
                found.setdefault((what, rank or 0), []).append(ms - float(np.median(others)))
    return {key: float(np.mean(values)) for key, values in found.items()}


def _runs(side: Members) -> list[RunSummary]:
    return [run for unit in side for run in unit]


def _ranks_of(run: RunSummary) -> set[int]:
    said = run.verdict
    return set(said.ranks) if said and said.judged and said.verdict in ("rank", "role") else set()


def _named(side: Members) -> dict[int, float]:
    """Return for each rank that some run names in which part of the runs it is."""
    runs = _runs(side)
    return {rank: n / len(runs) for rank, n in Counter(r for run in runs for r in _ranks_of(run)).items()}


def _cost_ms(side: Members, ranks: Sequence[int]) -> float:
    """Return what these ranks cost in a step, on average over the runs; nothing where none is named."""
    costs = [run.verdict.cost_ms for run in _runs(side) if run.verdict and _ranks_of(run) & set(ranks)]
    return sum(costs) / len(_runs(side))


def _operation(side: Members, ranks: Sequence[int]) -> str:
    """Return in which operation these ranks are slow in most runs."""
    named = [run.verdict.operation for run in _runs(side) if run.verdict and _ranks_of(run) & set(ranks)]
    return Counter(named).most_common(1)[0][0]
