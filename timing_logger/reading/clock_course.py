"""The course of a clock between its measurements: the offset, and how far off that may be at any moment.

Two measurements, ``o0`` and ``o1``, are each right to within ``u0`` and ``u1``, and from there clocks part by
at most ``DRIFT_BOUND``. So the offset lies in the cone that opens from the first forwards, and in the one
that opens from the second backwards. The estimate is the straight line from ``o0`` to ``o1``, which takes out
the rate that was measured; the uncertainty is its distance to the farther end of what both cones leave.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from timing_logger.run_info import DRIFT_BOUND, ClockOffset

Seconds: TypeAlias = "npt.NDArray[np.float64]"

_NS_PER_S = 1e9

_BESIDE_S = 1e-6
"""How near to a measurement the clock may have been stepped."""


class Contradiction(NamedTuple):
    """Two measurements between which no drift that is to be expected carries the clock.

    It was stepped, stood still (as that of a paused virtual machine) or runs off. When, and whether all at
    once, nothing tells.

    Attributes:
        after_s, before_s: when they were made, on the clock's own axis.
        moved_s: by how much the second offset is larger than the first.
        explained_s: how much drift, and what both may be off, explain.
    """

    after_s: float
    before_s: float
    moved_s: float
    explained_s: float


def clock_trouble(file: Mapping[str, Any]) -> str:
    """What an entry of ``attrs["files"]`` says against its clock; "" if nothing does."""
    contradictions = (file.get("clock") or {}).get("contradictions")
    if not contradictions:
        return ""
    worst = max(contradictions, key=lambda found: abs(found["moved_s"]) - found["explained_s"])
    others = f"; {len(contradictions) - 1} more such" if len(contradictions) > 1 else ""
    return (
        f"its clock moved by {1e3 * abs(worst['moved_s']):.3g} ms against the reference's within "
        f"{worst['before_s'] - worst['after_s']:.4g} s, between two measurements, where drift explains "
        f"{1e3 * worst['explained_s']:.3g} ms: it was stepped, stood still or runs off{others}"
    )


class Course(NamedTuple):
    """What is known of a clock's offset.

    Attributes:
        at_s: moments on the clock's own axis, increasing.
        offset_s, uncertainty_s: at these moments, and between them on the lines that join them. Outside, the
            offset stays and the uncertainty grows.
        contradictions: neighbouring measurements that cannot both be of a clock that only drifts.
    """

    at_s: Seconds
    offset_s: Seconds
    uncertainty_s: Seconds
    contradictions: list[Contradiction]


def course_of(measured: Sequence[ClockOffset]) -> Course:
    """The course through one measurement or more, in the order of time."""
    columns = np.array([offset[:3] for offset in measured], dtype=np.float64).T / _NS_PER_S
    at_s, offset_s, uncertainty_s = columns[:, np.diff(columns[0], prepend=-np.inf) > 0]
    pairs = _Pairs(at_s[:-1], np.diff(at_s), np.diff(offset_s), uncertainty_s[:-1], uncertainty_s[1:])
    since_s, between_s = pairs.knots()
    all_s = np.append(at_s, pairs.start_s + since_s)
    order = np.argsort(all_s, kind="stable")
    return Course(
        at_s=all_s[order],
        offset_s=np.interp(all_s, at_s, offset_s)[order],
        uncertainty_s=np.append(uncertainty_s, between_s)[order],
        contradictions=pairs.contradictions(),
    )


class _Pairs(NamedTuple):
    """Neighbouring measurements, one entry for each two.

    Attributes:
        start_s, length_s: when the first was made, and how much later the second.
        moved_s: by how much the second offset is larger.
        first_s, second_s: how far off each may be.
    """

    start_s: Seconds
    length_s: Seconds
    moved_s: Seconds
    first_s: Seconds
    second_s: Seconds

    @property
    def explained_s(self) -> Seconds:
        return self.first_s + self.second_s + DRIFT_BOUND * self.length_s

    def contradictions(self) -> list[Contradiction]:
        columns = self.start_s, self.start_s + self.length_s, self.moved_s, self.explained_s
        rows = np.stack(columns, axis=1)[abs(self.moved_s) > self.explained_s]
        return [Contradiction(*row) for row in rows.tolist()]

    def knots(self) -> tuple[Seconds, Seconds]:
        """When after its first measurement the uncertainty of a pair bends, and what it is there.

        Of a pair that contradicts itself it is the whole jump and what drift may add, all the while: the
        clock may have been stepped right after the first measurement, or right before the second.
        """
        contradicts = abs(self.moved_s) > self.explained_s
        beside_s = np.minimum(_BESIDE_S, self.length_s / 4)
        edges_s = np.stack([beside_s, self.length_s / 2, self.length_s - beside_s])
        since_s = np.where(contradicts, edges_s, self._bends_s())
        jump_s = abs(self.moved_s) + self.explained_s
        return since_s, np.where(contradicts, jump_s, self._uncertainty_s(since_s))

    def _uncertainty_s(self, since_s: Seconds) -> Seconds:
        """How far the line is from the farther end of what both cones leave, so long after the first."""
        rate, left_s = self.moved_s / self.length_s, self.length_s - since_s
        faster, slower = DRIFT_BOUND + rate, DRIFT_BOUND - rate
        below_s = np.minimum(self.first_s + faster * since_s, self.second_s + slower * left_s)
        above_s = np.minimum(self.first_s + slower * since_s, self.second_s + faster * left_s)
        return np.maximum(below_s, above_s)

    def _bends_s(self) -> Seconds:
        """Where one cone takes over from the other, below the line and above it, and the dip between."""
        widening_s = self.second_s - self.first_s
        most_s = widening_s + DRIFT_BOUND * self.length_s
        slack = np.maximum(DRIFT_BOUND - abs(self.moved_s) / self.length_s, 1e-9 * DRIFT_BOUND)
        bends_s = np.stack([
            (most_s - self.moved_s) / (2 * DRIFT_BOUND),
            (most_s + self.moved_s) / (2 * DRIFT_BOUND),
            self.length_s / 2 + widening_s / (2 * slack),
        ])  # fmt: skip
        return bends_s.clip(0.0, self.length_s)
