"""A real Prometheus reads the endpoint, with the configuration, the rules and the dashboard of the page."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conditions import LIMIT_S, wait_for
from places import ROOT
from snapshots import BEGINS, SLOW, snapshot_of

pytest.importorskip("prometheus_client", reason="prometheus-client is not installed (pip install '.[test]')")
if not shutil.which("prometheus"):
    pytest.skip("Prometheus is not installed (Debian: prometheus)", allow_module_level=True)

from timing_logger.live.prometheus import PrometheusEndpoint

BLOCKS = re.findall(
    r"^```yaml\n(.*?)^```$", (ROOT / "docs" / "dashboards.md").read_text("utf-8"), re.MULTILINE | re.DOTALL
)
DASHBOARD: dict[str, Any] = json.loads((ROOT / "docs" / "grafana-dashboard.json").read_text(encoding="utf-8"))
QUERIES = sorted({target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]})


class Server:
    """A Prometheus that scrapes a port."""

    def __init__(self, folder: Path, scraped_port: int) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]
        configuration, rules = BLOCKS
        (folder / "rules.yml").write_text(rules)
        scrapes = configuration.replace(":9400", f":{scraped_port}").replace("5s", "1s")
        every_second = 'rule_files: ["rules.yml"]\nglobal: {evaluation_interval: 1s}\n'
        (folder / "prometheus.yml").write_text(every_second + scrapes)
        self._log = (folder / "log").open("wb")
        command = [
            "prometheus",
            f"--config.file={folder}/prometheus.yml",
            f"--storage.tsdb.path={folder}/data",
        ]
        address = f"--web.listen-address=127.0.0.1:{self._port}"
        self._process = subprocess.Popen([*command, address], stdout=self._log, stderr=self._log)

    def ask(self, path: str, **parameters: str) -> Any:
        """Return the data of an answer of the API; None while the server begins."""
        url = f"http://127.0.0.1:{self._port}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=LIMIT_S) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            if error.code != 503:
                raise AssertionError(error.read().decode()) from None
        except ConnectionError:
            pass
        except urllib.error.URLError as error:
            if not isinstance(error.reason, ConnectionError):
                raise
        return None

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Return the result of an instant query."""
        data = self.ask("query", query=expression)
        return data["result"] if data else []

    def stop(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        self._log.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Yield a server that has scraped a run in which rank 3 is slow."""
    endpoint = PrometheusEndpoint(0, "127.0.0.1", {"slurm_job_id": "7"})
    endpoint.show(snapshot_of(20, SLOW), BEGINS)
    server = Server(tmp_path_factory.mktemp("prometheus"), endpoint.port)
    try:
        wait_for(lambda: server.query("rate(timing_logger_rows_written_total[1m])"))
        yield server
    finally:
        server.stop()
        endpoint.close()


def test_it_has_the_figures_with_their_labels(server: Server) -> None:
    (named,) = server.query("timing_logger_rank_named == 1")
    labels = {name: named["metric"][name] for name in ("rank", "slurm_job_id", "job")}
    assert labels == {"rank": "3", "slurm_job_id": "7", "job": "training"}
    (info,) = server.query("timing_logger_verdict_info")
    assert (info["metric"]["operation"], info["metric"]["owner"]) == ("DATA", "machine")


def test_it_knows_their_types_and_meanings(server: Server) -> None:
    ((about,),) = server.ask("metadata", metric="timing_logger_rows_written").values()
    assert (about["type"], about["help"]) == ("counter", "Rows written since the run began, of all ranks.")


@pytest.mark.parametrize("expression", QUERIES)
def test_each_query_of_the_dashboard_returns_data(server: Server, expression: str) -> None:
    assert server.query(expression.replace("$instance", ".*"))


def test_the_alert_of_what_is_slow_fires_and_the_others_do_not(server: Server) -> None:
    wait_for(lambda: server.ask("alerts")["alerts"])
    fires = {one["labels"]["alertname"]: one["state"] for one in server.ask("alerts")["alerts"]}
    assert fires == {"SomethingIsSlow": "firing"}
    rules = [rule for group in server.ask("rules")["groups"] for rule in group["rules"]]
    assert {rule["health"] for rule in rules} == {"ok"}
    assert len(rules) == 4
