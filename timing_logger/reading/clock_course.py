"""Compute the course of a clock between its measurements: the offset and its uncertainty at any moment.

Two measurements, ``o0`` and ``o1``, are right to within ``u0`` and ``u1``, and from there clocks drift apart
by at most ``MAX_CLOCK_DRIFT``. So the offset lies in the cone that opens from the first measurement
forwards, and in the one that opens from the second backwards. The estimate is the straight line from ``o0``
to ``o1``, which removes the measured rate; the uncertainty is its distance to the farther end of the
intersection of the cones.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from timing_logger.results import criteria
from timing_logger.schema.sidecar import ClockOffset

Seconds: TypeAlias = "npt.NDArray[np.float64]"

_NS_PER_S = 1e9


class ClockContradiction(NamedTuple):
    """Two measurements of a clock whose difference no expected drift explains.

    The clock was stepped, stood still (as that of a paused virtual machine) or drifts too fast. It is unknown
    when it moved, and whether all at once.

    Attributes:
        after_s, before_s: when the two measurements were made, on the clock's own axis, in seconds.
        moved_s: how much larger the second offset is than the first, in seconds.
        explained_s: how much of that drift and both uncertainties explain, in seconds.
    """

    after_s: float
    before_s: float
    moved_s: float
    explained_s: float


def clock_trouble(file: Mapping[str, Any]) -> str:
    """State the worst contradiction of a file's clock in words; "" if there is none.

    Args:
        file: an entry of ``attrs["files"]`` of ``read_timings``.
    """
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


_MOST_CLOCKS = 4096


class ClockCourse(NamedTuple):
    """The offset of a clock and its uncertainty over time.

    Attributes:
        at_s: moments on the clock's own axis, increasing, in seconds.
        offset_s, uncertainty_s: values at these moments, in seconds; between them they are linear. Outside,
            the offset stays and the uncertainty grows.
        contradictions: neighbouring measurements that cannot both be of a clock that only drifts.
    """

    at_s: Seconds
    offset_s: Seconds
    uncertainty_s: Seconds
    contradictions: list[ClockContradiction]


@lru_cache(maxsize=_MOST_CLOCKS)
def course_of(measured: tuple[ClockOffset, ...]) -> ClockCourse:
    """Compute the course through at least one measurement; measurements come in the order of time.

    A run that is watched asks for the same ones again and again.
    """
    columns = np.array([offset[:3] for offset in measured], dtype=np.float64).T / _NS_PER_S
    at_s, offset_s, uncertainty_s = columns[:, np.diff(columns[0], prepend=-np.inf) > 0]
    pairs = _Pairs(at_s[:-1], np.diff(at_s), np.diff(offset_s), uncertainty_s[:-1], uncertainty_s[1:])
    since_s, between_s = pairs.knots()
    all_s = np.append(at_s, pairs.start_s + since_s)
    order = np.argsort(all_s, kind="stable")
    return ClockCourse(
        at_s=all_s[order],
        offset_s=np.interp(all_s, at_s, offset_s)[order],
        uncertainty_s=np.append(uncertainty_s, between_s)[order],
        contradictions=pairs.contradictions(),
    )


class _Pairs(NamedTuple):
    """Pairs of neighbouring measurements; one entry per pair, all values in seconds.

    Attributes:
        start_s, length_s: when the first was made, and how much later the second.
        moved_s: how much larger the second offset is.
        first_s, second_s: the uncertainty of the first and of the second.
    """

    start_s: Seconds
    length_s: Seconds
    moved_s: Seconds
    first_s: Seconds
    second_s: Seconds

    @property
    def explained_s(self) -> Seconds:
        return self.first_s + self.second_s + criteria.MAX_CLOCK_DRIFT * self.length_s

    def contradictions(self) -> list[ClockContradiction]:
        columns = self.start_s, self.start_s + self.length_s, self.moved_s, self.explained_s
        rows = np.stack(columns, axis=1)[abs(self.moved_s) > self.explained_s]
        return [ClockContradiction(*row) for row in rows.tolist()]

    def knots(self) -> tuple[Seconds, Seconds]:
        """Return when the uncertainty of a pair bends, after its first measurement, and its values there.

        In a pair that contradicts itself the uncertainty is, from one measurement to the other, the whole
        jump and what drift may add: the clock may have been stepped right after the first measurement, or
        right before the second.
        """
        contradicts = abs(self.moved_s) > self.explained_s
        beside_s = np.minimum(criteria.SAME_INSTANT_S, self.length_s / 4)
        edges_s = np.stack([beside_s, self.length_s / 2, self.length_s - beside_s])
        since_s = np.where(contradicts, edges_s, self._bends_s())
        jump_s = abs(self.moved_s) + self.explained_s
        return since_s, np.where(contradicts, jump_s, self._uncertainty_s(since_s))

    def _uncertainty_s(self, since_s: Seconds) -> Seconds:
        """Return the distance of the line to the farther end of the cones' intersection at these times."""
        rate, left_s = self.moved_s / self.length_s, self.length_s - since_s
        faster, slower = criteria.MAX_CLOCK_DRIFT + rate, criteria.MAX_CLOCK_DRIFT - rate
        below_s = np.minimum(self.first_s + faster * since_s, self.second_s + slower * left_s)
        above_s = np.minimum(self.first_s + slower * since_s, self.second_s + faster * left_s)
        return np.maximum(below_s, above_s)

    def _bends_s(self) -> Seconds:
        """Return when one cone gets narrower than the other, below and above the line, and the dip's time."""
        widening_s = self.second_s - self.first_s
        most_s = widening_s + criteria.MAX_CLOCK_DRIFT * self.length_s
        slack = np.maximum(
            criteria.MAX_CLOCK_DRIFT - abs(self.moved_s) / self.length_s, 1e-9 * criteria.MAX_CLOCK_DRIFT
        )
        bends_s = np.stack([
            (most_s - self.moved_s) / (2 * criteria.MAX_CLOCK_DRIFT),
            (most_s + self.moved_s) / (2 * criteria.MAX_CLOCK_DRIFT),
            self.length_s / 2 + widening_s / (2 * slack),
        ])  # fmt: skip
        return bends_s.clip(0.0, self.length_s)
