"""Map the instants of all ranks to one time axis: which ranks share a clock, and how far apart clocks are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from timing_logger.results import criteria
from timing_logger.schema.sidecar import ClockOffset, SidecarDict
from timing_logger.schema.timing_files import TimingFile

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


class Clock(NamedTuple):
    """The clock that ``perf_counter`` reads: one for all processes of a host since it booted."""

    host: str
    boot_id: str


@dataclass(frozen=True)
class Alignment:
    """The mapping of the instants of one file to the time axis of the reference.

    Attributes:
        how: "same host" (one clock, nothing to add), "measured", or "unaligned": mapped by the wall
            clocks of both hosts, or not at all.
        reference_rank: the rank whose axis it is; None where the instants stay as recorded, since nothing
            tells how to map them.
        measurements: the number of measurements of the offset.
        course: the clock's offset and its uncertainty, on the file's own axis.
    """

    how: Literal["same host", "measured", "unaligned"]
    reference_rank: int | None
    measurements: int
    course: ClockCourse

    def on_the_axis(self, counter_s: Seconds) -> Seconds:
        """Map instants of the file to the reference's axis.

        The offset is linear between measurements, and constant outside.

        Args:
            counter_s: instants on the file's own axis, in seconds.
        """
        offset_s: Seconds = np.interp(counter_s, self.course.at_s, self.course.offset_s)
        return counter_s + offset_s

    def uncertainty_at(self, counter_s: Seconds) -> Seconds:
        """Return how far off the results of :meth:`on_the_axis` may be at most, in seconds.

        Clocks are taken to drift apart no faster than ``MAX_CLOCK_DRIFT``. It is NaN where the offset was not
        measured.

        Args:
            counter_s: instants on the file's own axis, in seconds.
        """
        if self.how != "measured":
            return np.repeat(self.course.uncertainty_s, len(counter_s))
        at_s = self.course.at_s
        outside_s: Seconds = abs(counter_s - counter_s.clip(at_s[0], at_s[-1]))
        inside_s: Seconds = np.interp(counter_s, at_s, self.course.uncertainty_s)
        return inside_s + criteria.MAX_CLOCK_DRIFT * outside_s

    def description(self, first_s: float = np.nan, last_s: float = np.nan) -> dict[str, Any]:
        """Return the entry ``clock`` of ``attrs["files"]``, see ``read_timings``.

        Args:
            first_s, last_s: the first and the last instant of the file, in seconds; NaN if unknown.
        """
        mapped = self.reference_rank is not None
        known = self.how != "unaligned"
        at_the_ends_s = self.uncertainty_at(np.array([first_s, last_s]))
        largest_s = np.fmax.reduce([*self.course.uncertainty_s, *at_the_ends_s])
        return {
            "alignment": self.how,
            "reference_rank": self.reference_rank,
            "measurements": self.measurements,
            "offset_s": float(self.course.offset_s[-1]) if mapped else None,
            "uncertainty_s": float(largest_s) if known else None,
            "contradictions": [found._asdict() for found in self.course.contradictions],
        }


def alignments(files: Sequence[tuple[TimingFile, SidecarDict | None]]) -> list[Alignment]:
    """Find for each file how its instants are mapped to the axis of the reference rank.

    The reference is the rank that most files were measured against; without measurements it is the first rank
    whose sidecar names its clock. Ranks that share a clock share one rank's measurements of it, so that
    their instants stay exact relative to each other.

    Args:
        files: the name and the sidecar of each file.

    Returns:
        The alignment of each file.
    """
    described = [_File.of(name, sidecar) for name, sidecar in files]
    reference = _reference(described)
    measured = _measured_clocks(described, reference)
    courses = {clock: course_of(tuple(offsets)) for clock, offsets in measured.items() if offsets}
    return [
        _alignment(file, len(measured[file.clock_of_run]), courses.get(file.clock_of_run), reference)
        for file in described
    ]


# -- what the sidecars say -------------------------------------------------------------------------


class _File(NamedTuple):
    """The clock of a file by its sidecar; ``wall_offset_ns`` is Unix time minus ``perf_counter``."""

    name: TimingFile
    clock: Clock | None
    offsets: list[ClockOffset]
    wall_offset_ns: int | None

    @classmethod
    def of(cls, name: TimingFile, sidecar: SidecarDict | None) -> _File:
        sidecar = sidecar or {}
        stated = sidecar.get("clock_offsets", [])
        offsets = [ClockOffset(*(entry[field] for field in ClockOffset._fields)) for entry in stated]
        return cls(name, _stated_clock(sidecar), sorted(offsets), wall_offset_ns(sidecar))

    @property
    def clock_of_run(self) -> tuple[Clock | TimingFile, int]:
        """The clock, or the file where its clock is unknown, with the incarnation.

        A restart runs at another time, so it has its own measurements.
        """
        return self.clock or self.name, self.name.incarnation

    def towards(self, reference: Clock | None) -> list[ClockOffset]:
        return [offset for offset in self.offsets if _clock_of(offset) == reference]


def _stated_clock(sidecar: dict[str, Any]) -> Clock | None:
    clock = Clock(sidecar.get("host", ""), sidecar.get("boot_id", ""))
    return clock if all(clock) else None


def wall_offset_ns(sidecar: Mapping[str, Any]) -> int | None:
    """Return Unix time minus ``perf_counter`` in ns; None if the sidecar does not tell.

    The latest anchor counts: if the wall clock was set meanwhile, it was probably set right.
    """
    anchors = sidecar.get("clock_anchors")
    return anchors[-1]["unix_ns"] - anchors[-1]["perf_counter_ns"] if anchors else None


# -- whose axis ------------------------------------------------------------------------------------


class _Reference(NamedTuple):
    """The rank whose time axis is the common one; values are None where unknown."""

    rank: int | None
    clock: Clock | None
    wall_offset_ns: int | None


def _reference(files: Sequence[_File]) -> _Reference:
    votes = Counter(
        vote for file in files for vote in {(o.reference_rank, _clock_of(o)) for o in file.offsets}
    )
    if votes:
        rank, clock = min(votes, key=lambda vote: (-votes[vote], vote))
        stated = (file.wall_offset_ns for file in files if file.clock == clock)
        return _Reference(rank, clock, next((at for at in stated if at is not None), None))
    for file in sorted(files, key=lambda file: file.clock is None):
        if file.clock is not None or file.wall_offset_ns is not None:
            return _Reference(file.name.rank, file.clock, file.wall_offset_ns)
    return _Reference(None, None, None)


def _clock_of(offset: ClockOffset) -> Clock:
    return Clock(offset.reference_host, offset.reference_boot_id)


# -- one file --------------------------------------------------------------------------------------


def _alignment(file: _File, n_measured: int, course: ClockCourse | None, reference: _Reference) -> Alignment:
    if file.clock is not None and file.clock == reference.clock:
        return _constant("same host", reference.rank, offset_s=0.0, uncertainty_s=0.0)
    if course is not None:
        return Alignment("measured", reference.rank, n_measured, course)
    if file.wall_offset_ns is not None and reference.wall_offset_ns is not None:
        between_s = (file.wall_offset_ns - reference.wall_offset_ns) / _NS_PER_S
        return _constant("unaligned", reference.rank, offset_s=between_s, uncertainty_s=np.nan)
    return _constant("unaligned", None, offset_s=0.0, uncertainty_s=np.nan)


def _measured_clocks(
    files: Sequence[_File], reference: _Reference
) -> dict[tuple[Clock | TimingFile, int], list[ClockOffset]]:
    """Return for each clock the measurements of the rank that measured it best."""
    best: dict[tuple[Clock | TimingFile, int], list[ClockOffset]] = {}
    for file in files:
        known = best.get(file.clock_of_run, [])
        best[file.clock_of_run] = max(known, file.towards(reference.clock), key=_knowledge)
    return best


def _knowledge(offsets: Sequence[ClockOffset]) -> tuple[int, int]:
    """Return a key that ranks measurements: more are better, then more exact ones."""
    return len(offsets), -max((offset.uncertainty_ns for offset in offsets), default=0)


def _constant(
    how: Literal["same host", "unaligned"], rank: int | None, *, offset_s: float, uncertainty_s: float
) -> Alignment:
    return Alignment(
        how, rank, 0, ClockCourse(np.zeros(1), np.array([offset_s]), np.array([uncertainty_s]), [])
    )
