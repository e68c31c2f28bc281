"""A collector of OpenTelemetry gets the figures of each look, under names that become those of Prometheus."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
from conditions import wait_for
from limits import LIMIT_S
from places import SAMPLE
from processes import run_warm
from snapshots import BEGINS, SLOW, snapshot_of

pytest.importorskip(
    "opentelemetry.exporter.otlp.proto.http",
    reason="the exporter of OpenTelemetry is not installed (pip install '.[test]')",
)

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from timing_logger.live.destinations import OpenTelemetry, started
from timing_logger.live.figures import Figures
from timing_logger.live.opentelemetry import OpenTelemetryMetrics


class Collector(ThreadingHTTPServer):
    """A collector on a free port, which keeps what it gets, and answers with ``status``."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Requests)
        self.got: list[ExportMetricsServiceRequest] = []
        self.status = 200
        self.endpoint = f"http://127.0.0.1:{self.server_port}/v1/metrics"

    def metrics(self) -> dict[str, Any]:
        """Return what came last, by name."""
        (of_resource,) = self.got[-1].resource_metrics
        (of_scope,) = of_resource.scope_metrics
        return {metric.name: metric for metric in of_scope.metrics}


class _Requests(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.server.status == 200:
            self.server.got.append(ExportMetricsServiceRequest.FromString(body))
        self.send_response(self.server.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None: ...


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as collector:
        thread = threading.Thread(target=collector.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield collector
        collector.shutdown()
        thread.join(LIMIT_S)


@pytest.fixture
def metrics(collector: Collector) -> Iterator[OpenTelemetryMetrics]:
    metrics = OpenTelemetryMetrics(collector.endpoint, LIMIT_S, {"slurm_job_id": "7"})
    yield metrics
    metrics.close()


def attributes(point: Any) -> dict[str, str]:
    return {each.key: each.value.string_value for each in point.attributes}


def test_a_collector_gets_each_figure_with_its_unit_and_the_labels_of_the_job(
    collector: Collector, metrics: OpenTelemetryMetrics
) -> None:
    snapshot = snapshot_of(20, SLOW)
    metrics.show(snapshot, BEGINS)
    found = {
        (
            name.removeprefix("timing_logger."),
            metric.unit,
            frozenset(attributes(point).items()),
        ): point.as_double
        for name, metric in collector.metrics().items()
        for point in (metric.sum if metric.HasField("sum") else metric.gauge).data_points
    }
    job = ("slurm_job_id", "7")
    expected = {
        (figure.series.name, figure.series.unit, frozenset({*figure.labels.items(), job})): figure.value
        for figure in Figures().of(snapshot, BEGINS)
    }
    now = ("look_timestamp", "s", frozenset({job}))
    assert found.pop(now) <= expected.pop(now)
    assert found == expected


def test_what_only_grows_is_a_sum_since_one_instant(
    collector: Collector, metrics: OpenTelemetryMetrics
) -> None:
    starts = set()
    for _ in range(2):
        metrics.show(snapshot_of(2), None)
        written = collector.metrics()["timing_logger.rows_written"].sum
        assert written.is_monotonic
        assert written.aggregation_temporality == 2  # cumulative
        starts.add(written.data_points[0].start_time_unix_nano)
    assert len(starts) == 1


def test_the_service_has_the_name_of_the_environment_or_else_ours(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    for stated, name in (("", "timing_logger"), ("speech", "speech")):
        monkeypatch.setenv("OTEL_SERVICE_NAME", stated)
        metrics = OpenTelemetryMetrics(collector.endpoint, LIMIT_S, {})
        metrics.show(snapshot_of(1), None)
        metrics.close()
        (of_resource,) = collector.got[-1].resource_metrics
        assert attributes(of_resource.resource)["service.name"] == name


def test_a_collector_that_refuses_is_an_error_that_says_why(
    collector: Collector, metrics: OpenTelemetryMetrics
) -> None:
    collector.status = 403
    with pytest.raises(ConnectionError, match=r"^127.0.0.1:\d+ did not take .*code: 403"):
        metrics.show(snapshot_of(1), None)
    collector.status = 200
    metrics.show(snapshot_of(1), None)
    assert len(collector.got) == 1


@pytest.mark.slow("what another library prints")
def test_the_library_writes_nothing_to_the_terminal() -> None:
    run = run_warm(
        """
        import logging
        import sys
        from pathlib import Path
        from timing_logger.live.watcher import Watcher
        from timing_logger.live.opentelemetry import OpenTelemetryMetrics
        logging.basicConfig()
        metrics = OpenTelemetryMetrics("http://127.0.0.1:9/v1/metrics", 0.1, {})
        try:
            metrics.show(Watcher(Path(sys.argv[1])).snapshot(), None)
        except OSError:
            print("dead")
        """,
        SAMPLE,
    )
    assert (run.stdout, run.stderr) == ("dead\n", "")


def test_the_log_of_the_library_is_as_before_afterwards(collector: Collector) -> None:
    log = logging.getLogger("opentelemetry.exporter.otlp.proto.http.metric_exporter")
    handlers = list(log.handlers)
    OpenTelemetryMetrics(collector.endpoint, LIMIT_S, {}).close()
    assert log.propagate
    assert log.handlers == handlers


def test_a_dead_endpoint_costs_nothing_and_is_said_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    said: list[str] = []
    dead = started(OpenTelemetry(f"http://127.0.0.1:{port}/v1/metrics", timeout_s=0.1), said.append)
    for n_errors in (1, 2):
        dead.show(snapshot_of(4))
        wait_for(lambda n=n_errors: dead.errors == n)  # type: ignore[misc]
    dead.close()
    assert len(said) == 1
    assert said[0].startswith("opentelemetry cannot show the job: ")


def test_an_endpoint_that_never_answers_is_given_up_after_the_time_it_has() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}/v1/metrics"
        metrics = OpenTelemetryMetrics(endpoint, 0.05, {})
        with pytest.raises(OSError, match=r"did not take|timed out"):
            metrics.show(snapshot_of(1), None)
        metrics.close()


def test_each_look_that_fails_is_told_with_its_own_reason() -> None:
    """The exporter logs why it fails; here it logs a number of its own each time."""
    metrics = OpenTelemetryMetrics("http://127.0.0.1:9/v1/metrics", 0.1, {})
    log, reasons = logging.getLogger("opentelemetry.exporter.otlp.proto.http.metric_exporter"), count(1)
    metrics._exporter = SimpleNamespace(  # type: ignore[assignment]
        export=lambda data: log.error("reason %d", next(reasons)), shutdown=lambda: None
    )
    for reason in ("reason 1", "reason 2"):
        with pytest.raises(ConnectionError, match=reason):
            metrics.show(snapshot_of(1), None)
    metrics.close()


def test_who_does_not_take_the_figures_is_named_without_the_password() -> None:
    metrics = OpenTelemetryMetrics("http://me:secret@collector:4318/v1/metrics", 0.1, {})
    done: list[str] = []
    metrics._exporter = SimpleNamespace(  # type: ignore[assignment]
        export=lambda data: None, shutdown=lambda: done.append("shut down")
    )
    with pytest.raises(ConnectionError, match=r"^collector:4318 did not take the figures"):
        metrics.show(snapshot_of(1), None)
    metrics.close()
    assert done == ["shut down"]
