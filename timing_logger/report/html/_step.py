"""The chart of one step: what each rank did, and for whom it waited until when; and the colours of time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import pandas as pd

from timing_logger.report.pictured_step import PicturedStep
from timing_logger.results.plain import ShownStep
from timing_logger.schema.record import escape_text
from timing_logger.words.units import as_tenths

_LEAST_PART = 0.001
"""Of the chart's width: what is narrower than a pixel is drawn as what came before it."""

_LETTER_PX, _MARGIN_PX = 7.5, 16.0
_WIDE_PX, _NARROW_PX = 600.0, 260.0
"""How wide letters are, and the chart on a wide screen and on a phone: a text stands where it has room."""

_LEAST_LINKED = 0.03
_TIP = 0.15  # of a lane: how far a line leads into it
_MOST_TICKS = 6


class StepPart(NamedTuple):
    """A part of a lane.

    Attributes:
        kind: the class of its colour.
        begin, width: in percent of the chart's width.
        text, short: what is written in it on a wide screen, and on a narrow one; "" where there is no room.
        title: all that is to be said of it.
    """

    kind: str
    begin: float
    width: float
    text: str
    short: str
    title: str


class StepLane(NamedTuple):
    """What one rank did: its label, its parts, and the same in words."""

    label: str
    parts: list[StepPart]
    told: str


class StepLink(NamedTuple):
    """A line from a rank that waits to the one that it waits for, at the instant when that one had come.

    Attributes:
        at: that instant, in percent of the chart's width.
        top, height: from the middle of the lane of who waits to the edge of the other one, in lanes.
        goes_up: whether the rank waited for is the upper one.
    """

    at: float
    top: float
    height: float
    goes_up: bool


class StepChart(NamedTuple):
    """The input of the template.

    Attributes:
        title: which step it is.
        sentences: who waited for whom.
        lanes: one for each rank.
        links: who waited for whom until when.
        ticks: the labels of the axis, and where they are, in percent of its width.
        note: which ranks are not drawn; "" if all are.
    """

    title: str
    sentences: list[str]
    lanes: list[StepLane]
    links: list[StepLink]
    ticks: list[tuple[float, str]]
    note: str


class _Stretch(NamedTuple):
    """A stretch of time of a rank; begin and end as parts of the chart's width.

    ``ms`` is its own time, without that of others which are too narrow to be drawn beside it.
    """

    kind: str
    what: str
    operation: str
    waited_for: int | None
    begin: float
    end: float
    ms: float


def step_chart(step: ShownStep, kinds: TimeKinds) -> StepChart:
    """Draw a step in the colours of the account of the run."""
    picture = PicturedStep(*step)
    length_ms = picture.length_ms
    of_ranks = {rank: list(_stretches(picture, rank, kinds)) for rank in picture.ranks}
    return StepChart(
        picture.title,
        list(picture.sentences()),
        [_lane(rank, its, kinds) for rank, its in of_ranks.items()],
        sorted(set(_links(of_ranks))),
        list(_ticks(length_ms)),
        " ".join(picture.on_ranks_left_out()),
    )


def _stretches(picture: PicturedStep, rank: int, kinds: TimeKinds) -> Iterator[_Stretch]:
    """Yield the stretches of a rank; what follows its like belongs to it, and so does what is too narrow."""
    its = picture.stretches[picture.stretches["rank"] == rank]
    begin, end = its["start_ms"] / picture.length_ms, its["end_ms"] / picture.length_ms
    whom = [None if pd.isna(one) else int(one) for one in its["waited_for"]]
    found: _Stretch | None = None
    ms = its["end_ms"] - its["start_ms"]
    for one in map(_Stretch, kinds.of_rows(its), its["what"], its["operation"], whom, begin, end, ms):
        is_like = found is not None and one[:4] == found[:4]
        if found and (is_like or one.end - one.begin < _LEAST_PART):
            found = found._replace(end=one.end, ms=found.ms + one.ms * is_like)
        else:
            yield from [found] if found else []
            found = one
    yield from [found] if found else []


# -- lanes -------------------------------------------------------------------------------------------------


def _lane(rank: int, its: Sequence[_Stretch], kinds: TimeKinds) -> StepLane:
    parts = [_part(one) for one in its]
    ms = {kind: sum(one.ms for one in its if one.kind == kind) for kind in kinds.names}
    told = ", ".join(f"{name} {as_tenths(ms[kind])} ms" for kind, name in kinds.names.items() if ms[kind] > 0)
    return StepLane(f"rank {rank}", parts, told)


def _part(one: _Stretch) -> StepPart:
    width, ms = one.end - one.begin, f"{as_tenths(one.ms)} ms"
    name = escape_text(one.operation) if one.what == "own work" else one.what
    for_whom = "" if one.waited_for is None else f" for rank {one.waited_for}"
    texts = f"waits {ms}{for_whom}" if one.what == "waiting" else f"{name} {ms}", ms, ""
    where = f" in {escape_text(one.operation)}" if one.operation and name != one.operation else ""
    return StepPart(
        one.kind, round(100 * one.begin, 3), round(100 * width, 3),
        text=next(text for text in texts if _has_room(text, width, _WIDE_PX)),
        short=next(text for text in texts if _has_room(text, width, _NARROW_PX)),
        title=f"{name}{for_whom}{where}: {ms}",
    )  # fmt: skip


def _has_room(text: str, width: float, chart_px: float) -> bool:
    return not text or width * chart_px >= _LETTER_PX * len(text) + _MARGIN_PX


# -- links and axis ------------------------------------------------------------------------------------------


def _links(of_ranks: Mapping[int, Sequence[_Stretch]]) -> Iterator[StepLink]:
    place = {rank: lane for lane, rank in enumerate(of_ranks)}
    for rank, its in of_ranks.items():
        for one in its:
            if one.waited_for in place and one.waited_for != rank and one.end - one.begin >= _LEAST_LINKED:
                lane, whom = place[rank], place[one.waited_for]
                at = round(100 * one.end, 1)
                top = whom + 1 - _TIP if whom < lane else lane + 0.5
                yield StepLink(at, top, abs(lane - whom) - 0.5 + _TIP, goes_up=whom < lane)


def _ticks(length_ms: float) -> Iterator[tuple[float, str]]:
    """Yield where an axis from 0 on has labels, in percent of its width, and these."""
    magnitude = 10 ** math.floor(math.log10(length_ms))
    round_ms = (magnitude * factor for factor in (0.2, 0.5, 1, 2))
    step_ms = next(at for at in round_ms if length_ms / at <= _MOST_TICKS)
    for number in range(int(length_ms / step_ms) + 1):
        yield round(100 * number * step_ms / length_ms, 3), f"{number * step_ms:,.10g}"


# -- what a rank did with its time, as the colours of bars: the same in all charts of a page -------------


_SHADES = 3
"""The most names of own work, and ranks that were waited for, that have a shade of their own."""


class TimeKinds(NamedTuple):
    """The colours of bars: names by class, in the order in which a bar has them."""

    names: dict[str, str]
    work: list[str]
    whom: list[int]

    @classmethod
    def of(cls, main: pd.DataFrame) -> TimeKinds:
        """Give those names of own work, and ranks waited for, that take most time a shade each."""
        work = _most(main[main["what"] == "own work"], "operation")
        whom = [int(rank) for rank in _most(main[main["what"] == "waiting"], "waited_for")]
        names = {
            **{f"work-{i}": escape_text(name) for i, name in enumerate(work)},
            "work-rest": "other own work" if work else "own work",
            "not-timed": "not timed",
            "transfer": "transfer",
            **{f"wait-{i}": f"waiting for rank {rank}" for i, rank in enumerate(whom)},
            "wait-rest": "waiting for others" if whom else "waiting",
            "not-matched": "not matched",
        }
        return cls(names, work, whom)

    def of_rows(self, rows: pd.DataFrame) -> list[str]:
        """Return the class of each row of an account, by ``what``, ``operation`` and ``waited_for``."""
        whom = rows["waited_for"].astype("Int64")
        known = [int(rank) if told else None for rank, told in zip(whom.fillna(0), whom.notna(), strict=True)]
        return [self._of(*row) for row in zip(rows["what"], rows["operation"], known, strict=True)]

    def _of(self, what: str, operation: str, waited_for: int | None) -> str:
        if what == "own work":
            return f"work-{self.work.index(operation)}" if operation in self.work else "work-rest"
        if what == "waiting":
            return f"wait-{self.whom.index(waited_for)}" if waited_for in self.whom else "wait-rest"
        return what.replace(" ", "-")


def _most(rows: pd.DataFrame, name: str) -> list[str]:
    ms = rows.groupby(name, observed=True)["ms"].sum().sort_values(ascending=False, kind="stable")
    return list(ms.index[:_SHADES])
