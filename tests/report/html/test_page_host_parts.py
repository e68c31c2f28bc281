"""What hosts counted comes into the page from files as from tables, without being asked, and stays small."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
from crowds import crowd, data_in
from host_tables import host_of
from simulated_runs import data_parallel, factors
from small_run import write_small_run

from timing_logger import read_host_counters, read_timings
from timing_logger.cli import main
from timing_logger.report.html import report_html, write_report
from timing_logger.schema.host_counters import HEADER, NAMES

pytestmark = pytest.mark.slow(
    "whole reports; the strip and the lines are tested by themselves, and that trace shows counters unasked"
)


def line(start_s: float, end_s: float, **counters: int) -> str:
    return ",".join([f"{start_s}", f"{end_s}", *(str(counters.get(name, "")) for name in NAMES)]) + "\n"


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """The small run, of which rank 2 waited for a processor from its second quarter of a second on."""
    folder = write_small_run(tmp_path / "logs")
    for rank in range(4):
        lines = [
            line(1 + at / 4, 1.25 + at / 4, main_run_queue_wait_us=100_000 if rank == 2 and at else 0)
            for at in range(2)
        ]
        (folder / f"host-rank{rank}.csv").write_text(HEADER + "".join(lines))
    return folder


def test_the_command_shows_what_the_files_have_without_being_asked(logs: Path, tmp_path: Path) -> None:
    assert main(["report", str(logs), "-o", str(tmp_path / "files.html")]) == 0
    data = data_in((tmp_path / "files.html").read_text(encoding="utf-8"))
    assert [cause["name"] for cause in data["causes"]["causes"]] == ["Processor wait"]
    assert [counter["name"] for counter in data["counters"]["counters"]] == ["Processor wait"]


def test_the_page_of_files_with_counters_is_that_of_their_tables(logs: Path, tmp_path: Path) -> None:
    assert main(["report", str(logs), "-o", str(tmp_path / "files.html")]) == 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the unfinished line of the small run
        write_report(read_timings(logs), tmp_path / "table.html", host=read_host_counters(logs))
    of_files, of_tables = (tmp_path / f"{name}.html" for name in ("files", "table"))
    assert of_files.read_text(encoding="utf-8") == of_tables.read_text(encoding="utf-8")


def test_a_folder_without_counters_has_the_page_that_it_had(tmp_path: Path) -> None:
    folder = write_small_run(tmp_path / "logs")
    assert main(["report", str(folder), "-o", str(tmp_path / "report.html")]) == 0
    data = data_in((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert (data["causes"], data["counters"]) == (None, None)


def test_of_many_ranks_the_counters_add_a_small_part_to_the_page() -> None:
    run = crowd(200, 60)
    rng = np.random.default_rng(0)
    counted = {
        name: rng.integers(0, 10**6, (200, 30))
        for name in ("main_run_queue_wait_us", "throttled_us", "io_pressure_some_us", "process_cpu_us")
    }
    host = host_of(run, 0.1, **counted)
    without, with_host = (len(report_html(run, host=given)) for given in (None, host))
    assert without < with_host < without + 250_000


def test_the_verdict_of_the_page_says_what_coincides() -> None:
    slow = factors(400, 4, noise=0.02)
    slow[:, 3] *= 1 + 0.8 * (np.arange(400) % 60 > 40)
    run = data_parallel(slow)
    its = run[run["rank"] == 3].groupby("iteration")[["start_counter", "end_counter"]]
    begin_s, end_s = its.min()["start_counter"].to_numpy(), its.max()["end_counter"].to_numpy()
    edges_s = np.arange(begin_s[0], end_s[-1], 0.25)
    is_slow = np.where(np.arange(400) % 60 > 40, 1.0, 0.0)
    waited_s = np.interp(edges_s, end_s, np.cumsum(0.45 * is_slow * (end_s - begin_s)))
    waits_us = np.zeros((4, len(edges_s) - 1))
    waits_us[3] = 1e6 * np.diff(waited_s)
    host = host_of(run, 0.25, main_run_queue_wait_us=waits_us)
    page = report_html(run, host=host)
    assert "What coincides: in" in page
    assert data_in(page)["causes"]["causes"][0]["named"]
    assert "What coincides" not in report_html(run)
