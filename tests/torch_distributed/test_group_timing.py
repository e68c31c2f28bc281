"""The accounts of a logger over process groups that threads use while it is closed."""

from __future__ import annotations

import json
from pathlib import Path

import group_in_cpp
import pytest
import warm
from processes import run_job
from torch_runner import PROGRAMS

pytestmark = pytest.mark.both_groups


@pytest.mark.slow("threads against close, by chance; that the cores account for each block is quick")
@pytest.mark.parametrize("runs", [8, 30])
def test_each_call_is_accounted_for_once_if_the_logger_is_closed_meanwhile(tmp_path: Path, runs: int) -> None:
    """One in four was off by one."""
    group_in_cpp.build_if_it_times()
    job = run_job(
        [warm.python(), PROGRAMS / "closes_beside_calls.py", tmp_path, runs],
        environment={"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"},
        name="closes beside calls",
    )
    found = json.loads(job.stdout.partition("RESULTS ")[2])
    assert len(found) == runs, job.stderr
    for run in found:
        assert run["accepted"] == run["made"]
        assert (run["rows"], run["twice"]) == (run["written"], 0)
        assert run["pending"] <= 4  # of each thread one, if it had room just before the queue was closed
