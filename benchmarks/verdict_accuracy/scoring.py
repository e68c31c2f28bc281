"""What one verdict is worth, held against the truth; and two rules that people use instead."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from timing_logger.analysis.operations import synchronises_all_ranks
from verdict_accuracy.faults import Truth
from verdict_accuracy.simulation import SimulatedRun

NAN = float("nan")
NVRX_BOUND = 0.75


@dataclass(frozen=True)
class Outcome:
    """One verdict.

    Attributes:
        exact: right in kind, and the ranks are exactly the culprits.
        probable: a ``suspect``, and the first has a culprit in it and is a minority; or only culprits are
            named, but not all, or under another kind than is right.
        wrong_name: an innocent is among ``ranks``, not as a suspect.
        wrong_suspect: a ``suspect``, and the first has no culprit in it.
        other: the run's fault is taken for one of another kind, without a name.
        false_alarm: a name or a suspect in a healthy run.
        not_judged: the verdict says of itself that it says nothing.
        cost_share: what the fault truly costs, as a part of the run.
        window_error_steps: the greater of those of its ends; NaN unless ``exact`` with a window.
        cost_error: relative to the true cost; NaN unless ``exact`` with a cost.
        claimed: the cost that the verdict states, as a part of the run; NaN unless it is a false alarm.
        likelihood: that the verdict gives its first suspect; NaN unless it is a ``suspect``.
        nvrx_exact, nvrx_wrong: of ranks with a relative score below 0.75; NaN where no own work is logged.
        least_exact, least_wrong: of the rank with the least time in collectives, which is always named.
    """

    exact: bool
    probable: bool
    wrong_name: bool
    wrong_suspect: bool
    other: bool
    false_alarm: bool
    not_judged: bool
    cost_share: float = NAN
    window_error_steps: float = NAN
    cost_error: float = NAN
    claimed: float = NAN
    likelihood: float = NAN
    nvrx_exact: float = NAN
    nvrx_wrong: float = NAN
    least_exact: float = NAN
    least_wrong: float = NAN


def scored(verdict: Any, run: SimulatedRun) -> Outcome:
    """The outcome of a verdict on a run, and of the two rules on the same."""
    found = judged(verdict, run.truth, run.n_ranks, run.cost_ms, run.run_ms)
    return Outcome(**{**vars(found), **rules(run)})


def judged(verdict: Any, truth: Truth, n_ranks: int, cost_ms: float = 0.0, run_ms: float = NAN) -> Outcome:
    """The outcome of a verdict.

    Args:
        verdict: as ``stragglers`` returns; one without ``suspects`` suspects nobody.
        n_ranks: of the run.
        cost_ms: by how much it would have been shorter with the culprits healthy.
        run_ms: how long it took.
    """
    kind = verdict.verdict
    names = set() if kind == "suspect" else set(verdict.ranks)
    wrong_name = _names_an_innocent(kind, names, truth)
    exact = not wrong_name and _is_exact(verdict, names, truth)
    first = next(iter(getattr(verdict, "suspects", ())), None) if kind == "suspect" else None
    hit = first is not None and bool(set(first.ranks) & truth.ranks)
    wrong_suspect = kind == "suspect" and not hit
    probable = (_is_minority(first.ranks, n_ranks) if hit else bool(names)) and not (exact or wrong_name)
    false_alarm = truth.kind == "healthy" and (wrong_name or wrong_suspect)
    has_cost = exact and kind == "rank" and cost_ms > 0
    return Outcome(
        exact=exact,
        probable=probable,
        wrong_name=wrong_name,
        wrong_suspect=wrong_suspect,
        other=kind not in ("healthy", "suspect") and not (exact or probable or wrong_name),
        false_alarm=false_alarm,
        not_judged=not verdict.judged,
        cost_share=cost_ms / run_ms,
        window_error_steps=_window_error(verdict, truth) if exact else NAN,
        cost_error=abs(verdict.cost_ms / cost_ms - 1) if has_cost else NAN,
        claimed=verdict.cost_ms / run_ms if false_alarm else NAN,
        likelihood=float(getattr(first, "likelihood", NAN)),
    )


def _is_exact(verdict: Any, names: Collection[int], truth: Truth) -> bool:
    """Of ranks and roles all must be named; of all other kinds the kind counts, and that it was judged."""
    if verdict.verdict in ("rank", "role"):
        return verdict.verdict == truth.kind and set(names) == truth.ranks
    return verdict.verdict == truth.kind and bool(verdict.judged)


def _names_an_innocent(kind: str, names: Collection[int], truth: Truth) -> bool:
    """A link has two ends, and either may be named. Where all ranks are slow, no rank is."""
    if kind == truth.kind == "communication":
        return bool(names) and not set(names) & truth.ranks
    return bool(set(names) - truth.ranks) or (truth.kind == "group-wide" and kind in ("rank", "role"))


def _is_minority(ranks: Collection[int], n_ranks: int) -> bool:
    return len(ranks) == 1 or 2 * len(ranks) < n_ranks


def _window_error(verdict: Any, truth: Truth) -> float:
    if truth.first is None or truth.last is None or verdict.first_iteration is None:
        return NAN
    return float(max(abs(verdict.first_iteration - truth.first), abs(verdict.last_iteration - truth.last)))


# -- the rules that people use instead -------------------------------------------------------------


def rules(run: SimulatedRun) -> dict[str, float]:
    """What both rules are worth on this run, as fields of an ``Outcome``."""
    found = {"nvrx": _low_scores(run), "least": _least_time_in_collectives(run)}
    return {
        f"{rule}_{field}": NAN if names is None else float(value)
        for rule, names in found.items()
        for field, value in (
            ("exact", names == run.truth.ranks and run.truth.kind in ("healthy", "rank", "role")),
            (
                "wrong",
                bool(names and names - run.truth.ranks) or bool(names and run.truth.kind == "group-wide"),
            ),
        )
    }


def _low_scores(run: SimulatedRun) -> set[int] | None:
    """NVRx: least median of all ranks / own median, below 0.75."""
    if run.self_ms is None:
        return None
    medians = np.median(run.self_ms, axis=0)
    return set(np.flatnonzero(medians.min() / medians < NVRX_BOUND).tolist())


def _least_time_in_collectives(run: SimulatedRun) -> set[int] | None:
    """Who waits least is taken to be waited for."""
    rows = run.timings
    names = [name for name in rows["operation"].unique() if synchronises_all_ranks(name)]
    spent_ms = rows[rows["operation"].isin(names)].groupby("rank")["elapsed_ms"].sum()
    return {int(spent_ms.idxmin())} if len(spent_ms) else None
