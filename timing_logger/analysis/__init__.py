"""Questions to a table of timings. Pure functions: a DataFrame in, a DataFrame of the same kind out.

The table is what ``read_timings`` returns, or a polars one with the same columns.
"""

from timing_logger.analysis.bandwidth import bandwidth
from timing_logger.analysis.columns import COLUMNS_OF
from timing_logger.analysis.compression import compression
from timing_logger.analysis.matching import match_collectives
from timing_logger.analysis.messages import message_waits
from timing_logger.analysis.operations import (
    base_operation,
    bus_bytes,
    is_collective,
    is_communication,
    synchronises_all_ranks,
)
from timing_logger.analysis.overlap import efficiencies, overlap
from timing_logger.analysis.per_rank import summarize_messages, summarize_overlap, summarize_waits
from timing_logger.analysis.scores import scores
from timing_logger.analysis.spread import spread_between_ranks
from timing_logger.analysis.stragglers import stragglers
from timing_logger.analysis.summary import (
    Summary,
    compare_counters,
    overview,
    summarize_ranks,
    summarize_statuses,
)
from timing_logger.analysis.totals import summarize
from timing_logger.analysis.verdict import Gate, Verdict
from timing_logger.analysis.waiting import waits
from timing_logger.analysis.windows import stragglers_and_windows, windows

__all__ = [
    "COLUMNS_OF",
    "Gate",
    "Summary",
    "Verdict",
    "bandwidth",
    "base_operation",
    "bus_bytes",
    "compare_counters",
    "compression",
    "efficiencies",
    "is_collective",
    "is_communication",
    "match_collectives",
    "message_waits",
    "overlap",
    "overview",
    "scores",
    "spread_between_ranks",
    "stragglers",
    "stragglers_and_windows",
    "summarize",
    "summarize_messages",
    "summarize_overlap",
    "summarize_ranks",
    "summarize_statuses",
    "summarize_waits",
    "synchronises_all_ranks",
    "waits",
    "windows",
]
