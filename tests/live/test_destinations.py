"""The options of exporters are checked when they are made, and pass through JSON as they are."""

from __future__ import annotations

import json
import re
import socket
import urllib.request
from collections.abc import Callable
from dataclasses import fields
from functools import partialmethod
from pathlib import Path
from socketserver import BaseServer
from typing import Any

import pytest
from conditions import wait_for
from places import ROOT
from processes import run_python
from snapshots import snapshot_of

from timing_logger.errors import ConfigurationError
from timing_logger.live.destinations import (
    KINDS,
    TAKEN_LABELS,
    Destination,
    MLflow,
    OpenTelemetry,
    Prometheus,
    PrometheusTextfile,
    TensorBoard,
    WandB,
    from_json,
    started,
)
from timing_logger.live.series import SERIES

EXAMPLES: list[Destination] = [
    Prometheus(port=9401, address="0.0.0.0", labels={"slurm_job_id": "7"}),
    PrometheusTextfile("/var/lib/node_exporter/job.prom"),
    OpenTelemetry("https://collector:4318/v1/metrics", timeout_s=2.5, labels={"team": "speech"}),
    TensorBoard("runs/timing"),
    WandB("speech", entity="team", name="timing", group="run-7", mode="offline", folder="/tmp"),
    MLflow("sqlite:///runs.db", run_id="0123456789abcdef"),
]


PAGE = (ROOT / "docs" / "dashboards.md").read_text(encoding="utf-8")
(INSTALLED, NO_EXTRA) = re.findall(
    r"^From a checkout, `pip install .*? -e '(.*?) what they need;(.*?)\. ", PAGE, re.M | re.S
)[0]


def test_there_is_an_example_of_each_kind() -> None:
    assert {type(each) for each in EXAMPLES} ^ set(KINDS.values()) == set(), "EXAMPLES lacks a kind"


def test_the_page_has_each_kind_with_its_options() -> None:
    shown = re.findall(r"^\| `(\w+)\((.*)\)` \|", PAGE, re.MULTILINE)
    kinds = [(kind.__name__, ", ".join(one.name for one in fields(kind))) for kind in KINDS.values()]
    assert shown == kinds, "the table of options in docs/dashboards.md"


def test_the_page_says_of_each_kind_how_to_install_what_it_needs() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    extras = set(re.findall(r"^([\w-]+) = \[", project.partition("optional-dependencies]")[2], re.MULTILINE))
    by_extra = set(re.findall(r"[\[`]([\w-]+)[\]`]", INSTALLED))
    by_hand = set(re.findall(r"`([\w-]+)`", NO_EXTRA))
    assert by_extra - extras == set(), "pyproject.toml has no such extra"
    needed = {kind.removesuffix("-textfile") for kind in KINDS}
    assert needed - by_extra - by_hand == set(), "docs/dashboards.md, From a checkout: no extra, no package"


@pytest.mark.parametrize("destination", EXAMPLES, ids=lambda each: each.kind)
def test_options_pass_through_json_as_they_are(destination: Destination) -> None:
    assert from_json(json.loads(json.dumps(destination.to_json()))) == destination


@pytest.mark.parametrize(
    ("plain", "said"),
    [
        ({"kind": "prometheus", "prot": 9400}, "^prot is no option of prometheus, which has address, "),
        ({"kind": "carbon"}, "^kind must be one of prometheus, "),
        ({}, "^kind must be one of"),
        ({"kind": "prometheus-textfile"}, "^prometheus-textfile lacks an option: .*'path'"),
        ({"kind": "prometheus", "port": "9400"}, "^port must be an integer from 1 to 65535, and is '9400'"),
    ],
)
def test_what_json_has_wrong_is_said(plain: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        from_json(plain)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Prometheus(port=0), "^port must be an integer from 1 to 65535, and is 0"),
        (lambda: Prometheus(port=True), "^port must be"),
        (lambda: Prometheus(address=""), "^address must be a text that is not empty"),
        (lambda: Prometheus(labels={"job-id": "7"}), "^labels has the name 'job-id'"),
        (lambda: Prometheus(labels={"__name__": "x"}), "^labels has the name '__name__'"),
        (lambda: Prometheus(labels={"rank": "7"}), "^labels has the name 'rank', which figures have"),
        (lambda: Prometheus(labels={"id": 7}), r"^labels\['id'\] must be a text, and is 7"),
        (lambda: PrometheusTextfile("job.txt"), "^path must end in .prom"),
        (lambda: PrometheusTextfile(""), "^path must be a text that is not empty"),
        (lambda: PrometheusTextfile("job.prom", {"rank": "7"}), "^labels has the name 'rank'"),
        (lambda: OpenTelemetry(labels={"rank": "7"}), "^labels has the name 'rank'"),
        (lambda: WandB(""), "^project must be a text that is not empty"),
        (lambda: WandB("speech", folder=""), "^folder must be a text that is not empty"),
        (lambda: MLflow(""), "^tracking_uri must be a text that is not empty"),
        (lambda: MLflow("sqlite:///runs.db", ""), "^experiment must be a text that is not empty"),
        (lambda: MLflow("sqlite:///runs.db", run_id=None), "^run_id must be a text, which may be empty"),  # type: ignore[arg-type]
        (lambda: OpenTelemetry("localhost:4318/v1/metrics"), "^endpoint must begin with http:// or https://"),
        (
            lambda: OpenTelemetry("http://localhost:4318"),
            "^endpoint must be the whole URL.*append /v1/metrics",
        ),
        (lambda: OpenTelemetry(timeout_s=0), "^timeout_s must be seconds > 0"),
        (lambda: TensorBoard(""), "^folder must be a text that is not empty"),
        (lambda: WandB("speech", mode="ofline"), "^mode must be 'online' or 'offline', and is 'ofline'"),  # type: ignore[arg-type]
        (lambda: WandB("speech", entity=None), "^entity must be a text, which may be empty"),  # type: ignore[arg-type]
        (lambda: MLflow("sqlite:///runs.db", name="a", run_id="b"), "^name is that of a new run"),
    ],
)
def test_a_wrong_option_is_refused_when_it_is_made(make: Callable[[], object], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        make()


def test_what_is_left_out_is_as_documented() -> None:
    assert Prometheus() == Prometheus(9400, "127.0.0.1", {})
    assert OpenTelemetry() == OpenTelemetry("http://localhost:4318/v1/metrics", 5.0, {})
    assert WandB("speech") == WandB("speech", "", "", "", "online", ".")
    assert MLflow("sqlite:///runs.db") == MLflow("sqlite:///runs.db", "timing_logger", "", "")


def test_labels_of_the_job_cannot_be_called_like_those_of_figures() -> None:
    assert {label for series in SERIES for label in series.labels} == TAKEN_LABELS


def test_options_are_made_without_anything_heavy() -> None:
    run = run_python(
        """
        import sys
        from timing_logger.live.destinations import Prometheus
        Prometheus()
        heavy = {"torch", "numpy", "pandas", "prometheus_client", "opentelemetry", "tensorboard"}
        print(sorted(heavy & set(sys.modules)))
        """
    )
    assert run.stdout == "[]\n", run.stderr


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def test_a_run_is_shown_where_its_options_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("prometheus_client")
    often = partialmethod(BaseServer.serve_forever, poll_interval=0.01)  # looks whether it is to end
    monkeypatch.setattr(BaseServer, "serve_forever", often)
    port, said = free_port(), list[str]()
    file = started(PrometheusTextfile(str(tmp_path / "job.prom"), {"job_id": "7"}), said.append)
    endpoint = started(Prometheus(port), said.append)
    for exporting in (file, endpoint):
        exporting.show(snapshot_of(4))
    wait_for(lambda: said or (file.shown and endpoint.shown))
    assert not said, said
    assert 'timing_logger_ranks{job_id="7"} 4.0' in (tmp_path / "job.prom").read_text()
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        assert b"timing_logger_ranks 4.0" in answer.read()
    for exporting in (file, endpoint):
        exporting.close()
    assert (file.errors, endpoint.errors) == (0, 0)


def test_a_dead_folder_costs_nothing_and_is_said_once(tmp_path: Path) -> None:
    pytest.importorskip("prometheus_client")
    said: list[str] = []
    exporting = started(PrometheusTextfile(str(tmp_path / "nowhere" / "job.prom")), said.append)
    for n_errors in (1, 2):
        exporting.show(snapshot_of(4))
        wait_for(lambda n=n_errors: exporting.errors == n)  # type: ignore[misc]
    exporting.close()
    assert len(said) == 1
    assert said[0].startswith("prometheus-textfile cannot show the job: [Errno 2] No such file")
