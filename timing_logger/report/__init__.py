"""Reports drawn from the results of analyses, without computing any. A report is a string, a trace a file."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from timing_logger.report.account import account_text
    from timing_logger.report.comparison import comparison_text
    from timing_logger.report.hang import hang_text
    from timing_logger.report.json import (
        comparison_json,
        hang_json,
        rows_json,
        summary_json,
        verdict_json,
        what_if_json,
    )
    from timing_logger.report.notebook import inline
    from timing_logger.report.questions import (
        bandwidth_text,
        clocks_text,
        compression_text,
        different_runs_text,
        overlap_text,
        reading_text,
        totals_text,
        waits_text,
    )
    from timing_logger.report.summary import summary_text
    from timing_logger.report.trace import TraceCounts, write_trace
    from timing_logger.report.verdict import stragglers_text
    from timing_logger.report.what_if import what_if_text
    from timing_logger.words.evidence import evidence_sentences
    from timing_logger.words.not_told import not_told_text, not_told_values
    from timing_logger.words.units import size
    from timing_logger.words.verdict import verdict_sentence

__all__ = [
    "TraceCounts",
    "account_text",
    "bandwidth_text",
    "clocks_text",
    "comparison_json",
    "comparison_text",
    "compression_text",
    "different_runs_text",
    "evidence_sentences",
    "hang_json",
    "hang_text",
    "inline",
    "not_told_text",
    "not_told_values",
    "overlap_text",
    "reading_text",
    "rows_json",
    "size",
    "stragglers_text",
    "summary_json",
    "summary_text",
    "totals_text",
    "verdict_json",
    "verdict_sentence",
    "waits_text",
    "what_if_json",
    "what_if_text",
    "write_trace",
]

# Each name is imported on first access: most answers need few of them.
_NAMES_OF = {
    "report.account": ["account_text"],
    "report.comparison": ["comparison_text"],
    "report.hang": ["hang_text"],
    "report.json": [
        "comparison_json",
        "hang_json",
        "rows_json",
        "summary_json",
        "verdict_json",
        "what_if_json",
    ],
    "report.notebook": ["inline"],
    "report.questions": [
        "bandwidth_text",
        "clocks_text",
        "compression_text",
        "different_runs_text",
        "overlap_text",
        "reading_text",
        "totals_text",
        "waits_text",
    ],
    "report.summary": ["summary_text"],
    "report.trace": ["TraceCounts", "write_trace"],
    "report.verdict": ["stragglers_text"],
    "report.what_if": ["what_if_text"],
    "words.evidence": ["evidence_sentences"],
    "words.not_told": ["not_told_text", "not_told_values"],
    "words.units": ["size"],
    "words.verdict": ["verdict_sentence"],
}
_HOME = {name: f"timing_logger.{module}" for module, names in _NAMES_OF.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOME[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
