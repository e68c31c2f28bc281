"""What a verdict claims beside its kind and ranks, against the truth: how sure it is, the cost, where."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from timing_logger.words.verdict import verdict_sentence

if TYPE_CHECKING:
    from verdict_accuracy.scoring import Outcome
    from verdict_accuracy.simulation import SimulatedRun

NAN = float("nan")

WORTH_TELLING = 0.01
"""A fault that costs less than this fraction of the run need not be found."""

NOTHING_SAID = "Verdict: no rank is slow."
"""All that is said where nothing is found."""

LARGE = 0.05
"""A fault that costs more than this fraction of the run must not go unmentioned."""

STATE_A_COST = frozenset({"rank", "role", "suspect", "communication", "group-wide"})
"""Verdicts whose cost is that of what they name."""


def claims(verdict: Any, run: SimulatedRun, found: Outcome) -> dict[str, float]:
    """Return what a verdict claims, as fields of an ``Outcome``; NaN where it claims nothing."""
    stated = _stated(verdict_sentence(verdict))
    is_right = not (found.wrong_name or found.wrong_suspect)
    costs = run.truth.kind != "healthy" and found.cost_share > LARGE
    ratio = _cost_ratio(verdict, run, found)
    return {
        "fine": float(_is_fine(verdict, run, found)),
        "stated": stated,
        "stated_right": NAN if stated != stated else float(is_right),
        "certain_right": float(is_right) if stated == 1.0 else NAN,
        "certain_wrong": float(stated == 1.0 and not is_right),
        "silent": float(_says_nothing(verdict)) if costs else NAN,
        "operation_right": _operation_right(verdict, run, found),
        "cost_ratio": ratio,
        "cost_near": NAN if ratio != ratio else float(abs(ratio - 1) <= 0.1),
        "cost_far": NAN if ratio != ratio else float(ratio >= 2 or ratio <= 0.5),
    }


def _stated(sentence: str) -> float:
    """Return the likelihood that a sentence states, 1 for "Certain."; NaN if it states none."""
    if sentence.endswith(" Certain."):
        return 1.0
    likelihood = re.search(r" Likelihood (\d+)%\.$", sentence)
    return int(likelihood[1]) / 100 if likelihood else NAN


def _is_fine(verdict: Any, run: SimulatedRun, found: Outcome) -> bool:
    """Tell whether a verdict is right or acceptable."""
    if found.wrong_name or found.wrong_suspect:
        return False
    kind = verdict.verdict if verdict.judged else "not judged"
    accepted = run.truth.acceptable
    if run.truth.kind != "healthy" and found.cost_share < WORTH_TELLING:
        accepted = accepted | {"healthy", "diffuse"}
    return found.exact or found.probable or kind in accepted


def _says_nothing(verdict: Any) -> bool:
    """Tell whether a verdict says that no rank is slow, and nothing else."""
    return bool(verdict.judged and verdict_sentence(verdict) == NOTHING_SAID)


def _operation_right(verdict: Any, run: SimulatedRun, found: Outcome) -> float:
    if not (found.exact and run.truth.operation):
        return NAN
    return float(verdict.operation == run.truth.operation)


def _cost_ratio(verdict: Any, run: SimulatedRun, found: Outcome) -> float:
    """Return the stated cost divided by the true one, where the culprits or the right kind are told.

    A suspect's cost is that of one rank, and counts if there is one culprit.
    """
    kind = verdict.verdict
    hit = kind == "suspect" and found.probable and len(run.truth.ranks) == 1
    states_one = kind in STATE_A_COST and verdict.cost_ms > 0
    if not (states_one and (found.exact or hit) and found.cost_share >= WORTH_TELLING):
        return NAN
    return float(verdict.cost_ms / run.cost_ms)
