"""The figure of one step: what each rank did, one under the other, and for whom it waited."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd
from narwhals.typing import IntoDataFrameT

from timing_logger.analysis.stragglers.typical_step import shown_in_table, typical_step
from timing_logger.report._wording import as_tenths
from timing_logger.report.figures._colours import marker
from timing_logger.report.figures._drawing import HOVER, empty, graph_objects, lanes, text
from timing_logger.report.figures._tables import judged, kinds_of
from timing_logger.report.html._time_kinds import TimeKinds
from timing_logger.report.pictured_step import PicturedStep

if TYPE_CHECKING:
    import plotly.graph_objects as go


class _Stretch(NamedTuple):
    """A stretch of time of a rank, in ms from when the first rank began the step."""

    rank: int
    kind: str
    what: str
    operation: str
    waited_for: int | None
    begin_ms: float
    end_ms: float

    @property
    def ms(self) -> float:
        return self.end_ms - self.begin_ms


def step_figure(timings: IntoDataFrameT, iteration: int | None = None) -> go.Figure:
    """Draw one step: what each rank did in it, instant by instant, and for whom it waited.

    Each rank has a lane, on one axis of time, the first rank at the top. Waiting is hatched; point at it to
    see for which rank, and how long. The stretches are those of
    :func:`timing_logger.analysis.account_of_step`. Of more than 16 ranks those are drawn that the verdict
    names, and of the others the one that waited least, the one in the middle, and the one that waited most.

    Args:
        timings: as ``read_timings`` returns.
        iteration: which step; where iterations restart, that of the last epoch. Default: a typical one of
            those in which time is lost.

    Returns:
        The figure; one that says so if there is no such step, or none that two ranks took on one time axis.

    Raises:
        ConfigurationError: plotly is not installed.
        TableError: the timings have no column ``rank``.
    """
    judgement = judged(timings)
    step = typical_step(judgement, iteration)
    if step is None:
        which = "step" if iteration is None else f"iteration {iteration}"
        return empty("What each rank did in a step", f"no {which} that two ranks took on one time axis")
    picture = PicturedStep(*shown_in_table(step, judgement.verdict.ranks_to_look_at, timings))
    labels = [f"rank {rank}" for rank in picture.ranks]
    notes = [" ".join(picture.sentences()), *picture.on_ranks_left_out()]
    title = _title(picture, chosen=iteration is not None)
    return lanes(
        _traces(picture, kinds_of(judgement)), title, notes, "time since the step began, in ms", labels,
        barmode="overlay",
    )  # fmt: skip


def _title(picture: PicturedStep, *, chosen: bool) -> str:
    """Return what step it is; one that somebody chose is not called typical."""
    kind, _, which = picture.title.partition(": ")
    return f"What each rank did in {which}" if chosen else f"{kind}, {which}: what each rank did"


def _traces(picture: PicturedStep, kinds: TimeKinds) -> Iterator[Any]:
    """Yield the bars of each kind of time, in the order of the legend."""
    stretches = list(_stretches(picture.stretches, kinds))
    for kind, name in kinds.names.items():
        its = [one for one in stretches if one.kind == kind]
        if its:
            yield graph_objects().Bar(
                orientation="h",
                name=text(name),
                y=[f"rank {one.rank}" for one in its],
                base=[one.begin_ms for one in its],
                x=[one.ms for one in its],
                marker=marker(kind),
                hovertext=[f"rank {one.rank} {_says(one)}" for one in its],
                hovertemplate=HOVER,
            )


def _stretches(table: pd.DataFrame, kinds: TimeKinds) -> Iterator[_Stretch]:
    """Yield the stretches of all ranks; what follows its like belongs to it."""
    whom = [None if pd.isna(one) else int(one) for one in table["waited_for"]]
    columns = table["rank"], kinds.of_rows(table), table["what"], table["operation"], whom
    found: _Stretch | None = None
    for one in map(_Stretch, *columns, table["start_ms"], table["end_ms"]):
        if found and found[:5] == one[:5]:
            found = found._replace(end_ms=one.end_ms)
        else:
            yield from [found] if found else []
            found = one
    yield from [found] if found else []


def _says(one: _Stretch) -> str:
    """Return what a rank did and for how long, such as ``waited 24.1 ms for rank 2 in WAIT``."""
    ms, where = f"{as_tenths(one.ms)} ms", f" in {text(one.operation)}" if one.operation else ""
    if one.what == "waiting":
        whom = "transfers between others" if one.waited_for is None else f"rank {one.waited_for}"
        return f"waited {ms} for {whom}{where}"
    if one.what == "own work":
        return f"worked {ms}{where}"
    return f"spent {ms} in code that no row times" if one.what == "not timed" else f"{one.what} {ms}{where}"
