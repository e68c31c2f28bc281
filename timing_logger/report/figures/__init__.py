"""The sections of the HTML report as plotly figures, for notebooks and pages of your own.

Each function takes what ``read_timings`` returns, or a polars table with the same columns, and returns a
``plotly.graph_objects.Figure``. plotly is imported by the first of them that is called:
``pip install timing_logger[figures]``.
"""

from timing_logger.report.figures._account import account_figure
from timing_logger.report.figures._bandwidth import bandwidth_figure
from timing_logger.report.figures._compression import compression_figure
from timing_logger.report.figures._heatmap import heatmap_figure
from timing_logger.report.figures._operations import operations_figure
from timing_logger.report.figures._overlap import overlap_figure
from timing_logger.report.figures._step import step_figure
from timing_logger.report.figures._timeline import timeline_figure

__all__ = [
    "account_figure",
    "bandwidth_figure",
    "compression_figure",
    "heatmap_figure",
    "operations_figure",
    "overlap_figure",
    "step_figure",
    "timeline_figure",
]
