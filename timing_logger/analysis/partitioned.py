"""The analyses for whoever has a DataFrame of Dask too; with other tables they are what they were.

``read_timings(engine="dask")`` gives one: a file in each partition, so that a partition has all rows of its
processes. What ranks do by themselves is worked out where the partition is. What compares their rows with
each other needs them in one place: the columns that the analysis looks at are collected.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, TypeVar, cast

from timing_logger.analysis import _in_parts
from timing_logger.analysis._in_parts import InParts
from timing_logger.analysis._partitions import collected, is_partitioned, parts_of_partitions
from timing_logger.analysis.bandwidth import bandwidth as _bandwidth
from timing_logger.analysis.columns import COLUMNS_OF
from timing_logger.analysis.compression import compression as _compression
from timing_logger.analysis.hang import hang as _hang
from timing_logger.analysis.matching import match_collectives as _match_collectives
from timing_logger.analysis.messages import message_waits as _message_waits
from timing_logger.analysis.overlap import efficiencies as _efficiencies
from timing_logger.analysis.overlap import overlap as _overlap
from timing_logger.analysis.scores import scores as _scores
from timing_logger.analysis.spread import spread_between_ranks as _spread_between_ranks
from timing_logger.analysis.stragglers import stragglers as _stragglers
from timing_logger.analysis.summary import overview as _overview
from timing_logger.analysis.totals import BY_PROCESS
from timing_logger.analysis.totals import summarize as _summarize
from timing_logger.analysis.waiting import waits as _waits
from timing_logger.analysis.windows import stragglers_and_windows as _stragglers_and_windows
from timing_logger.analysis.windows import windows as _windows

AnalysisT = TypeVar("AnalysisT", bound=Callable[..., Any])


def _by_partition(analysis: AnalysisT, in_parts: InParts[Any, Any], answer: str = "") -> AnalysisT:
    """``answer`` names the attribute of what the parts make, where that is more than what is asked for."""

    @wraps(analysis)
    def analyse(timings: Any, *args: Any, **options: Any) -> Any:
        if not is_partitioned(timings):
            return analysis(timings, *args, **options)
        whole = in_parts.whole(parts_of_partitions(timings, in_parts.part), *args, **options)
        return getattr(whole, answer) if answer else whole

    return cast("AnalysisT", analyse)


@wraps(_summarize)
def summarize(timings: Any, by: Sequence[str] = BY_PROCESS) -> Any:
    if not is_partitioned(timings):
        return _summarize(timings, by)
    totals = _in_parts.totals(by)
    return totals.whole(parts_of_partitions(timings, totals.part))


def _collecting(analysis: AnalysisT, columns: str) -> AnalysisT:
    """``columns`` names those that the analysis looks at, in ``COLUMNS_OF``."""

    @wraps(analysis)
    def analyse(*tables: Any, **options: Any) -> Any:
        tables = tuple(_collected(table, columns) for table in tables)
        return analysis(*tables, **{name: _collected(value, columns) for name, value in options.items()})

    return cast("AnalysisT", analyse)


def _collected(table: Any, columns: str) -> Any:
    if not is_partitioned(table):
        return table
    needed = {*COLUMNS_OF[columns], "rank", "incarnation"}
    return collected(table[[name for name in table.columns if name in needed]])


efficiencies = _by_partition(_efficiencies, _in_parts.EFFICIENCIES)
hang = _by_partition(_hang, _in_parts.HANG)
overlap = _by_partition(_overlap, _in_parts.OVERLAP)
overview = _by_partition(_overview, _in_parts.OVERVIEW)
scores = _by_partition(_scores, _in_parts.SCORES)
stragglers = _by_partition(_stragglers, _in_parts.STRAGGLERS, "verdict")
stragglers_and_windows = _by_partition(_stragglers_and_windows, _in_parts.STRAGGLERS)
windows = _by_partition(_windows, _in_parts.STRAGGLERS, "windows")

bandwidth = _collecting(_bandwidth, "bandwidth")
compression = _collecting(_compression, "compression")
match_collectives = _collecting(_match_collectives, "match_collectives")
message_waits = _collecting(_message_waits, "waits")
spread_between_ranks = _collecting(_spread_between_ranks, "overview")
waits = _collecting(_waits, "waits")
