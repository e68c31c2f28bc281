"""Analyses of a table of timings: pure functions that take a DataFrame and return one of the same kind.

The table is what ``read_timings`` returns, or a polars one with the same columns.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from timing_logger.analysis.accounting.account import account, summarize_account, waiting_by_rank
    from timing_logger.analysis.accounting.stack_code import sampled_code
    from timing_logger.analysis.collectives.bandwidth import bandwidth
    from timing_logger.analysis.collectives.compression import compression
    from timing_logger.analysis.collectives.messages import message_waits, summarize_messages
    from timing_logger.analysis.collectives.problems import match_collectives
    from timing_logger.analysis.collectives.waits import summarize_waits, waits
    from timing_logger.analysis.comparison.compare import compare_runs
    from timing_logger.analysis.comparison.summarize_run import summarize_run
    from timing_logger.analysis.counterfactual.transfer_costs import transfer_costs
    from timing_logger.analysis.counterfactual.what_if import repairs, what_if
    from timing_logger.analysis.hangs.diagnosis import hang
    from timing_logger.analysis.rows.analysis import COLUMNS_OF
    from timing_logger.analysis.rows.operations import (
        base_operation,
        bus_bytes,
        is_collective,
        is_communication,
        synchronises_all_ranks,
    )
    from timing_logger.analysis.rows.overlap import efficiencies, overlap, summarize_overlap
    from timing_logger.analysis.rows.spread import spread_between_ranks
    from timing_logger.analysis.rows.summarize import summarize
    from timing_logger.analysis.verdict.overview import (
        Summary,
        compare_counters,
        overview,
        summarize_ranks,
        summarize_statuses,
    )
    from timing_logger.analysis.verdict.verdict import stragglers
    from timing_logger.analysis.verdict.windows import (
        account_of_step,
        scores,
        stragglers_and_windows,
        windows,
    )
    from timing_logger.results.comparison import Comparison
    from timing_logger.results.facts import Gate
    from timing_logger.results.policy import Policy
    from timing_logger.results.run_end import RankEnd, RunEnd
    from timing_logger.results.run_summary import RunSummary
    from timing_logger.results.verdict import Suspect, Verdict
    from timing_logger.results.what_if import Fix, Slowest, WhatIf

__all__ = [
    "COLUMNS_OF",
    "Comparison",
    "Fix",
    "Gate",
    "Policy",
    "RankEnd",
    "RunEnd",
    "RunSummary",
    "Slowest",
    "Summary",
    "Suspect",
    "Verdict",
    "WhatIf",
    "account",
    "account_of_step",
    "bandwidth",
    "base_operation",
    "bus_bytes",
    "compare_counters",
    "compare_runs",
    "compression",
    "efficiencies",
    "hang",
    "is_collective",
    "is_communication",
    "match_collectives",
    "message_waits",
    "overlap",
    "overview",
    "repairs",
    "sampled_code",
    "scores",
    "spread_between_ranks",
    "stragglers",
    "stragglers_and_windows",
    "summarize",
    "summarize_account",
    "summarize_messages",
    "summarize_overlap",
    "summarize_ranks",
    "summarize_run",
    "summarize_statuses",
    "summarize_waits",
    "synchronises_all_ranks",
    "transfer_costs",
    "waiting_by_rank",
    "waits",
    "what_if",
    "windows",
]

# Each name is imported on first access: most answers need few of them.
_NAMES_OF = {
    "analysis.accounting.account": ["account", "summarize_account", "waiting_by_rank"],
    "analysis.accounting.stack_code": ["sampled_code"],
    "analysis.collectives.bandwidth": ["bandwidth"],
    "analysis.collectives.compression": ["compression"],
    "analysis.collectives.problems": ["match_collectives"],
    "analysis.collectives.messages": ["message_waits", "summarize_messages"],
    "analysis.collectives.waits": ["summarize_waits", "waits"],
    "analysis.comparison.compare": ["compare_runs"],
    "results.comparison": ["Comparison"],
    "results.run_summary": ["RunSummary"],
    "analysis.comparison.summarize_run": ["summarize_run"],
    "analysis.counterfactual.transfer_costs": ["transfer_costs"],
    "analysis.counterfactual.what_if": ["repairs", "what_if"],
    "results.what_if": ["Fix", "Slowest", "WhatIf"],
    "analysis.hangs.diagnosis": ["hang"],
    "results.run_end": ["RankEnd", "RunEnd"],
    "analysis.rows.analysis": ["COLUMNS_OF"],
    "analysis.rows.operations": [
        "base_operation",
        "bus_bytes",
        "is_collective",
        "is_communication",
        "synchronises_all_ranks",
    ],
    "analysis.rows.overlap": ["efficiencies", "overlap", "summarize_overlap"],
    "analysis.rows.spread": ["spread_between_ranks"],
    "analysis.rows.summarize": ["summarize"],
    "analysis.verdict.overview": [
        "Summary",
        "compare_counters",
        "overview",
        "summarize_ranks",
        "summarize_statuses",
    ],
    "results.facts": ["Gate"],
    "results.policy": ["Policy"],
    "results.verdict": ["Suspect", "Verdict"],
    "analysis.verdict.verdict": ["stragglers"],
    "analysis.verdict.windows": ["account_of_step", "scores", "stragglers_and_windows", "windows"],
}
_DRAWS = "timing_logger.report.notebook"  # hands in how a notebook shows a verdict
_HOME = {name: f"timing_logger.{module}" for module, names in _NAMES_OF.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import_module(_DRAWS)
    value = globals()[name] = getattr(import_module(_HOME[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
