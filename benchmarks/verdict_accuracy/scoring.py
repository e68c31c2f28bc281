"""Scores a verdict against the truth, and two simple rules that are in common use instead."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from timing_logger.analysis.rows.operations import synchronises_all_ranks
from verdict_accuracy.claims import claims
from verdict_accuracy.faults import Truth
from verdict_accuracy.simulation import SimulatedRun

NAN = float("nan")
NVRX_BOUND = 0.75


@dataclass(frozen=True)
class Outcome:
    """The score of one verdict. Culprits are the ranks with the fault, all others are innocent.

    Attributes:
        exact: the verdict is right in kind, and its ranks are exactly the culprits.
        probable: the verdict is ``suspect``, and its first suspect contains a culprit and is a minority; or
            only culprits are named, but not all, or under another kind than is right.
        wrong_name: an innocent is among ``ranks``, not as a suspect.
        wrong_suspect: the verdict is ``suspect``, and its first suspect contains no culprit.
        other: the run's fault is taken for one of another kind, and no rank is named.
        false_alarm: a rank is named or suspected in a healthy run.
        not_judged: the verdict itself says that it could not judge.
        cost_share: the true cost of the fault, as a fraction of the run.
        window_error_steps: the larger error of the window's two ends, in steps; NaN unless ``exact`` with a
            window.
        cost_error: the error of the stated cost relative to the true one; NaN unless ``exact`` with a cost.
        claimed: the stated cost, as a fraction of the run; NaN unless it is a false alarm.
        likelihood: the stated likelihood of the first suspect; NaN unless the verdict is ``suspect``.
        nvrx_exact, nvrx_wrong: the score of a rule that names ranks with a relative score below 0.75; NaN if
            no own work is logged.
        least_exact, least_wrong: the score of a rule that always names the rank with the least time in
            collectives; NaN if there are none.
        fine: the verdict is right or acceptable.
        stated: the likelihood that the verdict's sentence states, 1 for "Certain."; NaN if it states none.
        stated_right: no innocent is named or suspected; NaN if no likelihood is stated.
        certain_right: the same; NaN unless the sentence says "Certain.".
        certain_wrong: an innocent is named, and the sentence says "Certain.".
        silent: the verdict says that no rank is slow, and nothing else; NaN unless a fault costs much.
        operation_right: the operation is the only one with the delay; NaN unless ``exact`` and there is one.
        cost_ratio: the stated cost divided by the true one; NaN if no cost is stated, or not of the culprits.
        cost_near: the stated cost is within 10% of the true one; NaN as before.
        cost_far: the stated cost is off by a factor of 2 or more; NaN as before.
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
    fine: float = NAN
    stated: float = NAN
    stated_right: float = NAN
    certain_right: float = NAN
    certain_wrong: float = NAN
    silent: float = NAN
    operation_right: float = NAN
    cost_ratio: float = NAN
    cost_near: float = NAN
    cost_far: float = NAN


def scored(verdict: Any, run: SimulatedRun) -> Outcome:
    """Return the outcome of a verdict on ``run``, including its claims and the scores of the two rules."""
    found = judged(verdict, run.truth, run.n_ranks, run.cost_ms, run.run_ms)
    return Outcome(**{**vars(found), **claims(verdict, run, found), **rules(run)})


def judged(verdict: Any, truth: Truth, n_ranks: int, cost_ms: float = 0.0, run_ms: float = NAN) -> Outcome:
    """Return the outcome of a verdict, without its claims and the scores of the two rules.

    Args:
        verdict: what ``stragglers`` returns; without ``suspects`` it suspects no rank.
        truth: the truth about the run.
        n_ranks: the number of ranks in the run.
        cost_ms: by how much the run would have been shorter with the culprits healthy, in ms.
        run_ms: how long the run took, in ms.
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
    """Tell whether a verdict is exactly right.

    Verdicts on ranks and roles must name all culprits; for other kinds only the kind counts, and that the
    run was judged.
    """
    if verdict.verdict in ("rank", "role"):
        return verdict.verdict == truth.kind and set(names) == truth.ranks
    return verdict.verdict == truth.kind and bool(verdict.judged)


def _names_an_innocent(kind: str, names: Collection[int], truth: Truth) -> bool:
    """Tell whether an innocent is named.

    A link has two ends, and either may be named. If all ranks are slow, naming single ranks is wrong.
    """
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
    """Return the scores of both rules on ``run``, as fields of an ``Outcome``."""
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
    """Return the ranks with a relative score of NVRx, least median / own median, below 0.75."""
    if run.self_ms is None:
        return None
    medians = np.median(run.self_ms, axis=0)
    return set(np.flatnonzero(medians.min() / medians < NVRX_BOUND).tolist())


def _least_time_in_collectives(run: SimulatedRun) -> set[int] | None:
    """Return the rank with the least time in collectives, for which the others are taken to wait."""
    rows = run.timings
    names = [name for name in rows["operation"].unique() if synchronises_all_ranks(name)]
    spent_ms = rows[rows["operation"].isin(names)].groupby("rank")["elapsed_ms"].sum()
    return {int(spent_ms.idxmin())} if len(spent_ms) else None
