"""Questions to a table of timings. Pure functions: a DataFrame in, a DataFrame of the same kind out.

The table is what ``read_timings`` returns, or a polars one with the same columns. The answers from a
DataFrame of Dask (``read_timings(engine="dask")``) are tables of pandas.
"""

from timing_logger.analysis.columns import COLUMNS_OF
from timing_logger.analysis.operations import (
    base_operation,
    bus_bytes,
    is_collective,
    is_communication,
    synchronises_all_ranks,
)
from timing_logger.analysis.partitioned import (
    bandwidth,
    compression,
    efficiencies,
    hang,
    match_collectives,
    message_waits,
    overlap,
    overview,
    scores,
    spread_between_ranks,
    stragglers,
    stragglers_and_windows,
    summarize,
    waits,
    windows,
)
from timing_logger.analysis.per_rank import summarize_messages, summarize_overlap, summarize_waits
from timing_logger.analysis.run_end import RankEnd, RunEnd
from timing_logger.analysis.summary import (
    Summary,
    compare_counters,
    summarize_ranks,
    summarize_statuses,
)
from timing_logger.analysis.verdict import Gate, Suspect, Verdict

__all__ = [
    "COLUMNS_OF",
    "Gate",
    "RankEnd",
    "RunEnd",
    "Summary",
    "Suspect",
    "Verdict",
    "bandwidth",
    "base_operation",
    "bus_bytes",
    "compare_counters",
    "compression",
    "efficiencies",
    "hang",
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
