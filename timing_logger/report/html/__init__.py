"""One HTML file that says where the time went: it opens offline and sends nothing anywhere."""

from timing_logger.report.html.page import report_html, write_report

__all__ = ["report_html", "write_report"]
