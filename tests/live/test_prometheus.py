"""Prometheus gets the latest figures, at an endpoint or in a file, in a form that it reads."""

from __future__ import annotations

import os
import socket
import urllib.request
from collections.abc import Iterator
from functools import partialmethod
from pathlib import Path
from socketserver import BaseServer

import pytest
from limits import LIMIT_S
from snapshots import BEGINS, SLOW, snapshot_of

pytest.importorskip("prometheus_client", reason="prometheus-client is not installed (pip install '.[test]')")

from prometheus_client.parser import text_string_to_metric_families

from timing_logger.live.figures import Figures
from timing_logger.live.prometheus import PrometheusEndpoint, PrometheusFile

ON_LOOPBACK = "127.0.0.1"


@pytest.fixture(autouse=True)
def _ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server looks often whether it is to end: by default, each half of a second."""
    often = partialmethod(BaseServer.serve_forever, poll_interval=0.01)
    monkeypatch.setattr(BaseServer, "serve_forever", often)


@pytest.fixture
def endpoint() -> Iterator[PrometheusEndpoint]:
    endpoint = PrometheusEndpoint(0, ON_LOOPBACK, {"slurm_job_id": "1670760"})
    yield endpoint
    endpoint.close()


def scraped(port: int) -> str:
    with urllib.request.urlopen(f"http://{ON_LOOPBACK}:{port}/metrics", timeout=LIMIT_S) as answer:
        return str(answer.read().decode())


def samples(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    families = text_string_to_metric_families(text)
    return {(s.name, frozenset(s.labels.items())): s.value for family in families for s in family.samples}


def test_a_scrape_gets_each_figure_once_under_its_name_and_with_the_labels_of_the_job(
    endpoint: PrometheusEndpoint,
) -> None:
    snapshot = snapshot_of(20, SLOW)
    endpoint.show(snapshot, BEGINS)
    found = samples(scraped(endpoint.port))
    job = ("slurm_job_id", "1670760")
    expected = {
        (figure.series.full_name, frozenset({*figure.labels.items(), job})): figure.value
        for figure in Figures().of(snapshot, BEGINS)
    }
    now = ("timing_logger_look_timestamp_seconds", frozenset({job}))
    assert found.pop(now) <= expected.pop(now)
    assert found == expected


def test_a_scrape_before_the_first_snapshot_gets_nothing(endpoint: PrometheusEndpoint) -> None:
    assert samples(scraped(endpoint.port)) == {}


def test_a_scrape_gets_the_latest_snapshot(endpoint: PrometheusEndpoint) -> None:
    for n_ranks in (4, 3):
        endpoint.show(snapshot_of(n_ranks), None)
    text = scraped(endpoint.port)
    assert 'timing_logger_ranks{slurm_job_id="1670760"} 3.0' in text
    assert 'rank="3"' not in text


def test_an_endpoint_that_is_closed_has_left_its_port() -> None:
    endpoint = PrometheusEndpoint(0, ON_LOOPBACK, {})
    place = (ON_LOOPBACK, endpoint.port)
    with pytest.raises(OSError, match="in use"):
        socket.create_server(place)
    endpoint.close()
    with socket.create_server(place) as another:
        assert another.getsockname() == place


def test_a_port_that_is_in_use_is_an_error() -> None:
    with socket.create_server((ON_LOOPBACK, 0)) as taken, pytest.raises(OSError, match="in use"):
        PrometheusEndpoint(taken.getsockname()[1], ON_LOOPBACK, {})


def test_a_file_holds_the_latest_figures_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    file = PrometheusFile(tmp_path / "job.prom", {})
    for n_ranks in (4, 3):
        file.show(snapshot_of(n_ranks), None)
    assert samples((tmp_path / "job.prom").read_text())["timing_logger_ranks", frozenset()] == 3
    assert os.listdir(tmp_path) == ["job.prom"]


def test_who_reads_the_file_while_it_is_replaced_reads_one_whole_file(tmp_path: Path) -> None:
    file = PrometheusFile(tmp_path / "job.prom", {})
    file.show(snapshot_of(4), None)
    with (tmp_path / "job.prom").open() as reader:
        first = reader.read(100)
        file.show(snapshot_of(5), None)
        whole = first + reader.read()
    assert samples(whole)["timing_logger_ranks", frozenset()] == 4


def test_the_file_goes_when_the_run_is_no_longer_followed(tmp_path: Path) -> None:
    file = PrometheusFile(tmp_path / "job.prom", {})
    file.show(snapshot_of(4), None)
    file.close()
    file.close()
    assert os.listdir(tmp_path) == []


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        PrometheusFile(tmp_path / "nowhere" / "job.prom", {}).show(snapshot_of(1), None)
