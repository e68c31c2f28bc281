"""Reports drawn from the results of analyses, without computing any. A report is a string, a trace a file."""

from timing_logger.report.account_text import account_text
from timing_logger.report.comparison_text import comparison_text
from timing_logger.report.hang_text import hang_text
from timing_logger.report.json import (
    comparison_json,
    hang_json,
    rows_json,
    summary_json,
    verdict_json,
    what_if_json,
)
from timing_logger.report.notebook import inline
from timing_logger.report.question_text import (
    bandwidth_text,
    clocks_text,
    compression_text,
    different_runs_text,
    overlap_text,
    reading_text,
    totals_text,
    waits_text,
)
from timing_logger.report.summary_text import summary_text
from timing_logger.report.trace import TraceCounts, write_trace
from timing_logger.report.verdict_text import stragglers_text
from timing_logger.report.what_if_text import what_if_text
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
