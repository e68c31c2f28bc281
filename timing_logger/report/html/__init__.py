"""The HTML report: a single file about where the time went, which opens offline and sends no data."""

from timing_logger.report.html.comparison_page import comparison_html, write_comparison
from timing_logger.report.html.page import report_html, write_report

__all__ = ["comparison_html", "report_html", "write_comparison", "write_report"]
