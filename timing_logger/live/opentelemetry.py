"""The figures of a run in progress for OpenTelemetry: sent to a collector over HTTP, as metrics.

Names are those of the table with ``timing_logger.`` before them, and the unit is stated apart. What the
environment tells exporters holds here too, as ``OTEL_RESOURCE_ATTRIBUTES``. Secrets belong there
(``OTEL_EXPORTER_OTLP_HEADERS``), as everybody on a machine can read a command line.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from timing_logger.live.figures import Figure, Figures
from timing_logger.live.series import PREFIX

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import Metric, MetricsData
    from opentelemetry.sdk.resources import Resource

    from timing_logger.engine.changes import Change
    from timing_logger.live.series import Series
    from timing_logger.live.watcher import Snapshot

_ITS_LOG = "opentelemetry.exporter.otlp.proto.http.metric_exporter"


class OpenTelemetryMetrics:
    """Sends the figures of each look to a collector.

    Args:
        endpoint: the whole URL, which mostly ends in ``/v1/metrics``.
        timeout_s: how long one look may take to arrive, in seconds, tried anew where that may help.
        labels: further attributes of each figure.
    """

    def __init__(self, endpoint: str, timeout_s: float, labels: Mapping[str, str]) -> None:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

        self._figures = Figures()
        self._labels = dict(labels)
        self._since_ns = time.time_ns()
        self._resource = _resource()
        self._host = urlsplit(endpoint).netloc.rpartition("@")[2]
        self._said = _FirstWords()
        self._exporter = OTLPMetricExporter(endpoint=endpoint, timeout=timeout_s)

    def show(self, snapshot: Snapshot, change: Change | None) -> None:
        """Send these figures, and return when the collector has them.

        Raises:
            OSError: it did not take them in time, or refused them.
        """
        from opentelemetry.sdk.metrics.export import MetricExportResult

        self._said.first = ""
        data = self._data(self._figures.of(snapshot, change))
        if self._exporter.export(data) is not MetricExportResult.SUCCESS:
            raise ConnectionError(f"{self._host} did not take the figures. {self._said.first}")

    def close(self) -> None:
        """Close the connection."""
        self._exporter.shutdown()
        self._said.close()

    def _data(self, figures: list[Figure]) -> MetricsData:
        from opentelemetry.sdk.metrics.export import MetricsData, ResourceMetrics, ScopeMetrics
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope

        by_series = groupby(figures, key=lambda figure: figure.series)
        metrics = [self._metric(series, of_series) for series, of_series in by_series]
        scope = ScopeMetrics(InstrumentationScope(PREFIX), metrics, schema_url="")
        return MetricsData([ResourceMetrics(self._resource, [scope], schema_url="")])

    def _metric(self, series: Series, figures: Iterable[Figure]) -> Metric:
        from opentelemetry.sdk.metrics import export

        now_ns = time.time_ns()
        points = [
            export.NumberDataPoint({**self._labels, **figure.labels}, self._since_ns, now_ns, figure.value)
            for figure in figures
        ]
        since_begin = export.AggregationTemporality.CUMULATIVE
        data = export.Sum(points, since_begin, is_monotonic=True) if series.counts else export.Gauge(points)
        return export.Metric(f"{PREFIX}.{series.name}", series.help, series.unit, data)


def _resource() -> Resource:
    """Return what the environment says of the service, and our name if it names none."""
    from opentelemetry.sdk.resources import SERVICE_NAME, Resource

    stated = Resource.create()
    if str(stated.attributes.get(SERVICE_NAME, "")).startswith("unknown_service"):
        return stated.merge(Resource({SERVICE_NAME: PREFIX}))
    return stated


class _FirstWords(logging.Handler):
    """Keeps what the exporter logs first, which tells why it fails, and keeps all of it from the terminal."""

    def __init__(self) -> None:
        super().__init__()
        self.first = ""
        self._log = logging.getLogger(_ITS_LOG)
        self._propagates = self._log.propagate
        self._log.propagate = False
        self._log.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a message if it is the first."""
        self.first = self.first or record.getMessage()

    def close(self) -> None:
        """Let the exporter log as before."""
        self._log.removeHandler(self)
        self._log.propagate = self._propagates
        super().close()
