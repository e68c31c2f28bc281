"""The figures of a run in progress for Prometheus: at an endpoint of their own, or in a file.

Both hold the latest figures alone: Prometheus keeps them. When the run is no longer followed both are gone,
so that no figure of a run outlives it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from timing_logger.live.figures import Figure, Figures
from timing_logger.process.shared_files import remove, replace

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

    from timing_logger.engine.changes import Change
    from timing_logger.live.series import Series
    from timing_logger.live.watcher import Snapshot


class LatestFigures:
    """What Prometheus' client asks for the present figures; any thread may ask.

    Attributes:
        registry: holds nothing else, as no figures of this process.

    Args:
        labels: further labels of each series.
    """

    def __init__(self, labels: Mapping[str, str]) -> None:
        from prometheus_client import CollectorRegistry

        self._figures = Figures()
        self._labels = dict(labels)
        self._families: Sequence[Metric] = ()
        self.registry = CollectorRegistry()
        self.registry.register(self)

    def update(self, snapshot: Snapshot, change: Change | None) -> None:
        """Replace the figures by those of a further look."""
        by_series = groupby(self._figures.of(snapshot, change), key=lambda figure: figure.series)
        self._families = [self._family(series, of_series) for series, of_series in by_series]

    def collect(self) -> Iterable[Metric]:
        """Return the present figures, those of one series together."""
        return self._families

    def _family(self, series: Series, figures: Iterable[Figure]) -> Metric:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        kind = CounterMetricFamily if series.counts else GaugeMetricFamily
        family = kind(series.full_name, series.help, labels=(*self._labels, *series.labels))
        for figure in figures:
            values = (figure.labels[name] for name in series.labels)
            family.add_metric((*self._labels.values(), *values), figure.value)
        return family


class PrometheusEndpoint:
    """Answers whoever scrapes ``http://address:port/metrics``.

    Attributes:
        port: the one that it listens on.

    Args:
        port: 0 for any that is free.
        address: of the interface.
        labels: further labels of each series.

    Raises:
        OSError: the port is in use, or the address is not of this machine.
    """

    def __init__(self, port: int, address: str, labels: Mapping[str, str]) -> None:
        from prometheus_client import start_http_server

        self._latest = LatestFigures(labels)
        self._server, self._thread = start_http_server(port, address, self._latest.registry)
        self.port = self._server.server_port

    def show(self, snapshot: Snapshot, change: Change | None) -> None:
        """Answer with these figures from now on."""
        self._latest.update(snapshot, change)

    def close(self) -> None:
        """Listen no longer."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class PrometheusFile:
    """Writes a file that node exporter's textfile collector reads; readers see it whole, never half written.

    Args:
        path: of the file.
        labels: further labels of each series.
    """

    def __init__(self, path: Path, labels: Mapping[str, str]) -> None:
        self._path = path
        self._latest = LatestFigures(labels)

    def show(self, snapshot: Snapshot, change: Change | None) -> None:
        """Replace the file.

        Raises:
            OSError: it cannot be written.
        """
        from prometheus_client import generate_latest

        self._latest.update(snapshot, change)
        replace(self._path, generate_latest(self._latest.registry))

    def close(self) -> None:
        """Remove the file: node exporter would serve it for ever."""
        remove(self._path)
