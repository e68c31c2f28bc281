"""The course of the runs of two sides, stretch by stretch, and since when they differ."""

from __future__ import annotations

from typing import NamedTuple


class CourseOfSide(NamedTuple):
    """How long a step of a side was in each stretch, in ms.

    Attributes:
        median_ms: the median over the runs, of the medians of their steps.
        least_ms, most_ms: of the runs with the shortest and the longest.
    """

    median_ms: tuple[float, ...]
    least_ms: tuple[float, ...]
    most_ms: tuple[float, ...]


class Courses(NamedTuple):
    """The course of both sides, in the stretches that all runs have.

    Attributes:
        counted_by: what is counted: ``iterations``, or ``steps`` where iterations restart.
        width: how many of these a stretch has.
        first: the first of each stretch.
        here, against: the sides.
    """

    counted_by: str
    width: int
    first: tuple[int, ...]
    here: CourseOfSide
    against: CourseOfSide


class Since(NamedTuple):
    """From where on the sides differ otherwise than before.

    Attributes:
        counted_by: what is counted, as of :class:`Courses`.
        first: where the stretch begins from which on they do.
        earliest, latest: between the beginnings of which stretches that lies, with 95% confidence.
        before, after: by which fraction steps are longer than on the other side, until then and since.
        change, low, high: by which fraction they became longer beside the other side, with its interval.
    """

    counted_by: str
    first: int
    earliest: int
    latest: int
    before: float
    after: float
    change: float
    low: float
    high: float
