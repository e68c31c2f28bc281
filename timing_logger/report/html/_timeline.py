"""The data of the timeline: every row as a span, by rank and thread, for the canvas of timeline.js."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypedDict

import numpy as np
import pandas as pd

from timing_logger.analysis.collectives.matching import find_instances
from timing_logger.analysis.collectives.messages import find_messages
from timing_logger.analysis.rows.arrays import Floats, Frame, Ints, Record
from timing_logger.analysis.rows.operations import (
    COPIES,
    base_operation,
    is_communication,
    is_own_work,
    is_wait,
)
from timing_logger.analysis.rows.tables import opened
from timing_logger.reading.sources import joined
from timing_logger.report._limits import SPANS_OF_MANY
from timing_logger.report.html._crowd import InTimeline
from timing_logger.report.html._tables import Packed, packed
from timing_logger.schema.record import HOST_CLOCK, LARGEST
from timing_logger.words.units import process_name

LINKED_BY = ["group", "group_size", "seq", "peer"]
"""The columns by which rows are matched, besides rank, incarnation and operation."""

NOT_LINKED = -(2**31)
"""The entry of a row that is part of nothing."""


def linked(spans: pd.DataFrame, world_size: int | None) -> Ints:
    """Return for each row the number of the collective or message that it is part of; -1 for nothing.

    Rows without a ``seq`` are part of nothing: where rows are left out, their order says nothing.

    Args:
        spans: the rows that are drawn, with ``begin_s``.
        world_size: the number of ranks of the run; None if unknown.
    """
    number = np.full(len(spans), -1)
    numbered = np.flatnonzero(spans["seq"].notna())
    number[numbered] = _numbers(opened(_timings(spans, numbered)), world_size)
    return number


def packed_links(number: Ints) -> Packed:
    """Return for each row how much its number is above that of the row before that has one.

    Numbers are counted anew, in the order of the rows. Ranks mostly do the same again and again, so that
    these differences take little room.
    """
    of_row = np.flatnonzero(number >= 0)
    _, first, code = np.unique(number[of_row], return_index=True, return_inverse=True)
    steps = np.full(len(number), NOT_LINKED)
    steps[of_row] = np.diff(np.argsort(np.argsort(first))[code], prepend=0)
    return packed(steps, "int32")


def _timings(spans: pd.DataFrame, chosen: Ints) -> pd.DataFrame:
    names = ["rank", "incarnation", "operation", "iteration", "epoch", *LINKED_BY]
    rows: pd.DataFrame = spans[[*names, "begin_s"]].iloc[chosen].reset_index(drop=True)
    rows.columns = [*names, "start_counter"]
    return rows


def _numbers(frame: Frame, world_size: int | None) -> Ints:
    """Return the number of the collective or message of each row; -1 for a row that has no counterpart."""
    number = np.full(len(frame), -1)
    parts = find_instances(frame)
    if len(parts.row):
        least, most = (f.reduceat(parts.operation, parts.first) for f in (np.minimum, np.maximum))
        alike = parts.for_parts((least == most) & (parts.n_parts > 1))
        number[parts.row[alike]] = parts.instance[alike]
    messages = find_messages(frame, world_size)
    of_message = number.max(initial=-1) + 1 + np.arange(len(messages.send))
    number[messages.send], number[messages.receive] = of_message, of_message
    return number


MAX_SPANS = 500_000
"""The most spans that are drawn; of more rows the longest are chosen.

The others are narrower than a pixel until far zoomed in.
"""

_MAX_TICK = 2**32 - 1

_DRAWN = [
    "rank", "incarnation", "thread", "clock", "operation", "layer_name", "epoch", "iteration", *LINKED_BY,
]  # fmt: skip


class TimelineData(TypedDict):
    """The data for timeline.js: one entry for each span, unless it says otherwise.

    Attributes:
        tick_s: the unit of ``begin`` and ``duration``, in seconds.
        lanes: the rank and the thread of each lane; of many ranks also why it is shown.
        lane_starts: the first span of each lane; last, the number of spans.
        is_common: whether the ranks are on one time axis.
        link: what the span is part of, see ``packed_links``.
        operations, layers: the texts that ``operation`` and ``layer`` count; operations with their kind.
    """

    tick_s: float
    lanes: list[dict[str, str]]
    lane_starts: list[int]
    is_common: bool
    operations: list[list[str]]
    layers: list[str]
    begin: Packed
    duration: Packed
    operation: Packed
    layer: Packed
    iteration: Packed
    epoch: Packed | None
    link: Packed


class Timeline(NamedTuple):
    """The input of the template, and the data for timeline.js.

    Attributes:
        n_spans: the number of rows that are drawn.
        left_out: the number of rows of these ranks that are left out because there are too many; none is
            longer than ``shortest_ms``.
        shortest_ms: the duration in ms of the shortest row that is drawn; 0 if none is left out.
        without_instants: the number of rows without a start or an end.
        is_common: whether the ranks are on one time axis; otherwise each begins at its own first row.
        kinds: the kinds of operations that occur, in the order of the legend.
        whose: of many ranks those that are drawn; None if all are.
        length_s: from where the timeline begins to the end of its last row.
        origins_s: where the timeline begins, for each process (rank, incarnation) on the axis that it is
            drawn on: ``start_s`` if that is common, else ``start_counter``.
        data: the data for timeline.js; None if there is nothing to draw.
    """

    n_spans: int
    left_out: int
    shortest_ms: float
    without_instants: int
    is_common: bool
    kinds: list[str]
    whose: InTimeline | None
    length_s: float
    origins_s: Mapping[tuple[int, int], float]
    data: TimelineData | None


class _Placed(NamedTuple):
    """The rows that have a place on an axis.

    Attributes:
        n_rows: the number of rows.
        firsts_s: the start of the first row of each process (rank, incarnation), in s.
        of_rank: the number of rows of each rank.
    """

    n_rows: int
    firsts_s: dict[tuple[int, int], float]
    of_rank: dict[int, int]

    def of_these(self, ranks: Sequence[int]) -> int:
        """Return the number of rows of some ranks."""
        return sum(self.of_rank.get(rank, 0) for rank in ranks)


class Spans(NamedTuple):
    """The part of a timeline that comes from some of the processes.

    Attributes:
        rows: the rows that may be drawn, on either axis, in their order; none if they will be read when it is
            known which. ``begin_s`` and ``duration_s`` are on the axis of all ranks; the columns with
            ``own_`` are on an axis that begins at the process's first row.
        n_rows: the number of all rows of these processes.
        common, own: the rows that have a place on each of these axes.
        is_common: whether these processes are on the axis of all ranks.
    """

    rows: pd.DataFrame
    n_rows: int
    common: _Placed
    own: _Placed
    is_common: bool


def timeline(timings: pd.DataFrame) -> Timeline:
    """Return the timeline of all rows of a table."""
    return timeline_of([spans_of(timings)])


def spans_of(timings: pd.DataFrame, *, with_rows: bool = True) -> Spans:
    """Return the part of a timeline that comes from complete processes, such as those of one file.

    Args:
        timings: all rows of these processes.
        with_rows: False to count the rows, without keeping any.
    """
    uncertainty = timings.get("clock_uncertainty_s")
    is_common = "start_s" in timings and uncertainty is not None and not uncertainty.isna().any()
    own_begin_s, own_duration_s = _interval_s(timings, "start_counter", "end_counter")
    begin_s, duration_s = (
        _interval_s(timings, "start_s", "end_s") if is_common else (own_begin_s, own_duration_s)
    )
    common, own = _with_place(begin_s, duration_s), _with_place(own_begin_s, own_duration_s)
    kept = (
        np.union1d(_may_be_drawn(timings, common, duration_s), _may_be_drawn(timings, own, own_duration_s))
        if with_rows
        else common[:0]
    )
    rows = timings[_DRAWN].iloc[kept].reset_index(drop=True).apply(_narrow).assign(
        begin_s=begin_s[kept], duration_s=duration_s[kept],
        own_begin_s=(own_begin_s - _first_of_process(timings, own_begin_s, own))[kept],
        own_duration_s=own_duration_s[kept],
    )  # fmt: skip
    on_common, on_own = _placed(timings, begin_s, common), _placed(timings, own_begin_s, own)
    return Spans(rows, len(timings), on_common, on_own, is_common)


def timeline_of(
    parts: Sequence[Spans],
    world_size: int | None = None,
    whose: InTimeline | None = None,
    drawn: Sequence[Spans] | None = None,
) -> Timeline:
    """Return the timeline of all parts. Each rank begins at its own first row if not all share an axis.

    Args:
        parts: as ``spans_of`` returned them.
        world_size: the number of ranks of the run; None if unknown.
        whose: the ranks to draw; None for all.
        drawn: parts with the rows of these ranks; None if ``parts`` have them.
    """
    is_common = all(part.is_common for part in parts)
    placed = [part.common if is_common else part.own for part in parts]
    n_rows, n_placed = sum(part.n_rows for part in parts), sum(one.n_rows for one in placed)
    n_theirs = n_placed if whose is None else sum(one.of_these(whose.ranks) for one in placed)
    if not n_theirs:
        return Timeline(0, 0, 0.0, n_rows - n_placed, is_common, [], whose, 0.0, {}, None)
    rows = [part.rows for part in (parts if drawn is None else drawn)]
    spans = _drawn(rows, "" if is_common else "own_", whose)
    origins_s = {process: first_s for one in placed for process, first_s in one.firsts_s.items()}
    if is_common:
        origins_s = dict.fromkeys(origins_s, min(origins_s.values()))
        spans["begin_s"] -= min(origins_s.values())
    length_s = float((spans["begin_s"] + spans["duration_s"]).max())
    data = _data(spans, is_common, world_size, whose)
    kinds = [kind for kind in _KINDS if any(kind == its for _, its in data["operations"])]
    left_out = n_theirs - len(spans)
    shortest_s = float(spans["duration_s"].min()) if left_out else 0.0
    return Timeline(
        len(spans), left_out, 1e3 * shortest_s, n_rows - n_placed, is_common, kinds, whose, length_s,
        origins_s, data,
    )  # fmt: skip


def _interval_s(timings: pd.DataFrame, start: str, end: str) -> tuple[Floats, Floats]:
    """Return the start and the duration of each row, in s."""
    begin_s, end_s = (timings[name].to_numpy(np.float64, na_value=np.nan) for name in (start, end))
    return begin_s, end_s - begin_s


def _with_place(begin_s: Floats, duration_s: Floats) -> Ints:
    return np.flatnonzero(~np.isnan(begin_s) & (duration_s >= 0))


def _placed(timings: pd.DataFrame, begin_s: Floats, placed: Ints) -> _Placed:
    of_process = timings[["rank", "incarnation"]].iloc[placed].assign(begin_s=begin_s[placed])
    firsts_s = of_process.groupby(["rank", "incarnation"])["begin_s"].min()
    ranks, counts = np.unique(of_process["rank"].to_numpy(), return_counts=True)
    of_rank = dict(zip(ranks.tolist(), counts.tolist(), strict=True))
    return _Placed(len(placed), firsts_s.to_dict(), of_rank)


def _narrow(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return an integer column in the smallest type that holds it; other columns are returned unchanged.

    The parts of all processes are held at once, with up to half a million rows on either axis for each.
    """
    from pandas import to_numeric
    from pandas.api.types import is_integer_dtype

    return to_numeric(column, downcast="integer") if is_integer_dtype(column.dtype) else column


def _first_of_process(timings: pd.DataFrame, begin_s: Floats, placed: Ints) -> Floats:
    """Return for each row the start of the first row of its process."""
    process = timings.groupby(["rank", "incarnation"]).ngroup().to_numpy()
    first_s = np.full(int(process.max(initial=-1)) + 1, np.inf)
    np.minimum.at(first_s, process[placed], begin_s[placed])
    first_of_row: Floats = first_s[process]
    return first_of_row


def _may_be_drawn(timings: pd.DataFrame, placed: Ints, duration_s: Floats) -> Ints:
    """Return the placed rows that a timeline of all ranks draws, and those that one of some of them does."""
    if len(placed) <= MAX_SPANS:
        return placed
    rank = timings["rank"].to_numpy()[placed]
    order = np.argsort(rank, kind="stable")
    of_each = np.split(placed[order], np.flatnonzero(np.diff(rank[order])) + 1)
    of_some = [_longest(its, duration_s, SPANS_OF_MANY) for its in of_each]
    return np.unique(np.concatenate([_longest(placed, duration_s, MAX_SPANS), *of_some]))


def _longest(placed: Ints, duration_s: Floats, most: int) -> Ints:
    """Return at most so many placed rows, in their order: the longest, and of equally long ones the first."""
    if len(placed) <= most:
        return placed
    shorter_s = -duration_s[placed]
    shortest_s = np.partition(shorter_s, most - 1)[most - 1]
    is_drawn = shorter_s < shortest_s
    last = np.flatnonzero(shorter_s == shortest_s)
    is_drawn[last[: most - np.count_nonzero(is_drawn)]] = True
    drawn: Ints = placed[is_drawn]
    return drawn


def _drawn(tables: Sequence[pd.DataFrame], axis: str, whose: InTimeline | None) -> pd.DataFrame:
    """Return the rows to draw of all tables, with the instants of this axis."""
    if whose is not None:
        tables = [table[table["rank"].isin(whose.ranks)] for table in tables]
    begin_s, duration_s = (
        np.concatenate([table[axis + name].to_numpy() for table in tables])
        for name in ("begin_s", "duration_s")
    )
    drawn = _longest(
        _with_place(begin_s, duration_s), duration_s, MAX_SPANS if whose is None else SPANS_OF_MANY
    )
    first = np.cumsum([0, *map(len, tables)])
    at = np.searchsorted(drawn, first)
    taken = [table[_DRAWN].iloc[drawn[at[i] : at[i + 1]] - first[i]] for i, table in enumerate(tables)]
    rows: pd.DataFrame = joined([{name: table[name] for name in _DRAWN} for table in taken], _DRAWN)
    rows["begin_s"], rows["duration_s"] = begin_s[drawn], duration_s[drawn]
    return rows


def _data(
    spans: pd.DataFrame, is_common: bool, world_size: int | None, whose: InTimeline | None
) -> TimelineData:
    number = linked(spans, world_size)
    spans = spans.drop(columns=LINKED_BY).assign(device=spans["clock"] != HOST_CLOCK)
    role_of = {} if whose is None else whose.role_of()
    spans["place"] = spans["rank"].map({rank: place for place, rank in enumerate(role_of)}).fillna(0)
    lane = spans.groupby(["place", "rank", "incarnation", "thread", "device"], sort=True).ngroup().to_numpy()
    order = np.lexsort((-spans["duration_s"].to_numpy(), spans["begin_s"].to_numpy(), lane))
    spans, lane = spans.iloc[order], lane[order]
    begin_s, duration_s = spans["begin_s"].to_numpy(), spans["duration_s"].to_numpy()
    # Integer ticks resolve an hour to a microsecond, for which a float32 has too few digits.
    tick_s = max(1e-9, float((begin_s + duration_s).max()) / _MAX_TICK)
    operation, operations = _coded(spans["operation"])
    layer, layers = _coded(spans["layer_name"])
    starts = np.flatnonzero(np.diff(lane, prepend=-1))
    return {
        "tick_s": tick_s,
        "lanes": [_lane(row, role_of) for row in spans.iloc[starts].to_dict("records")],
        "lane_starts": [*starts.tolist(), len(spans)],
        "is_common": is_common,
        "operations": [[name, kind_of(name)] for name in operations],
        "layers": layers,
        "begin": packed(np.minimum(np.rint(begin_s / tick_s), _MAX_TICK), "uint32"),
        "duration": packed(np.minimum(np.rint(duration_s / tick_s), _MAX_TICK), "uint32"),
        "operation": packed(operation, "uint16"),
        "layer": packed(layer, "uint32"),
        "iteration": _counted(spans["iteration"]),
        "epoch": _counted(spans["epoch"]) if spans["epoch"].notna().any() else None,
        "link": packed_links(number[order]),
    }


def _counted(column: pd.Series[float]) -> Packed:
    values = column.where(column.between(-LARGEST, LARGEST)).fillna(-1).to_numpy(np.float64)
    return packed(values, "int32" if np.abs(values).max(initial=0) < 2**31 else "float64")


def _coded(column: pd.Series[str]) -> tuple[Ints, list[str]]:
    codes, texts = column.factorize(sort=True)
    return codes, [str(text) for text in texts]


def _lane(row: Record, role_of: Mapping[int, str]) -> dict[str, str]:
    thread = f"{row['thread']} (device)" if row["device"] else str(row["thread"])
    role = {"role": role_of[row["rank"]]} if role_of else {}
    return {"rank": process_name(row["rank"], row["incarnation"]), "thread": thread, **role}


_KINDS = ("own work", "communication", "waiting", "copies", "others")


def kind_of(name: str) -> str:
    """Return the kind of an operation, which has a colour of its own."""
    if is_communication(name):
        return "communication"
    if is_wait(name):
        return "waiting"
    if base_operation(name) in COPIES:
        return "copies"
    return "own work" if is_own_work(name) else "others"
