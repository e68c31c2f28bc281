"""Map the instants of all ranks to one time axis: which ranks share a clock, and how far apart clocks are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from timing_logger.reading.clock_course import ClockContradiction, ClockCourse, Seconds, course_of
from timing_logger.results import criteria
from timing_logger.schema.sidecar import ClockOffset, SidecarDict
from timing_logger.schema.timing_files import TimingFile

_NS_PER_S = 1e9


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

    @property
    def contradictions(self) -> list[ClockContradiction]:
        """The pairs of neighbouring measurements that are farther apart than drift explains."""
        return self.course.contradictions

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
            "contradictions": [found._asdict() for found in self.contradictions],
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
        return _Reference(rank, clock, _wall_offset_of(clock, files))
    for file in sorted(files, key=lambda file: file.clock is None):
        if file.clock is not None or file.wall_offset_ns is not None:
            return _Reference(file.name.rank, file.clock, file.wall_offset_ns)
    return _Reference(None, None, None)


def _wall_offset_of(clock: Clock, files: Sequence[_File]) -> int | None:
    stated = (file.wall_offset_ns for file in files if file.clock == clock)
    return next((offset_ns for offset_ns in stated if offset_ns is not None), None)


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
