"""Draws what the analyses return, and computes nothing. Every report is a string."""

from timing_logger.report.json import summary_json
from timing_logger.report.text import summary_text

__all__ = ["summary_json", "summary_text"]
