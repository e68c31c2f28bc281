"""Runs scenarios on the asynchronous device (``async_device``), for tests, in child processes.

Torch allows one such device per process, and it cannot be removed, so the test process itself has none. A
program in ``tests/async_device_programs`` is a set of scenarios: functions whose names the tests know. All
of them run one after the other in one start of the program, as importing torch takes longer than most.
"""

from __future__ import annotations

import functools
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import async_device
import group_in_cpp
import pytest
import warm
from limits import JOB_S
from places import ROOT, TESTS
from processes import run_job

PROGRAMS = TESTS / "async_device_programs"
_PATHS = [ROOT, TESTS]


def on_device(
    program: str, scenario: str, *, ranks: int = 1, devices: int = 3, group: str = "", limit_s: float = JOB_S
) -> list[Any]:
    """Return what ``scenario`` of ``tests/async_device_programs/{program}`` returned on each rank.

    The test is skipped if the device cannot be built for want of a compiler, and fails if the scenario
    raises.

    Args:
        program: the program's file name.
        scenario: the scenario's name.
        ranks: the number of processes; more than one are started by ``torchrun``.
        devices: how many devices each of them sees.
        group: which process group times, "python" or "native"; by default as in the test process.
        limit_s: seconds after which the program is ended.
    """
    outcome = _run(program, ranks, devices, group or os.environ.get("TIMING_LOGGER_GROUP", ""), limit_s)
    assert not isinstance(outcome, str), outcome
    results = [of_rank[scenario] for of_rank in outcome]
    raised = [result["raised"] for result in results if "raised" in result]
    assert not raised, "\n".join(raised)
    return [result["found"] for result in results]


@functools.cache
def _run(program: str, ranks: int, devices: int, group: str, limit_s: float) -> list[dict[str, Any]] | str:
    """Run a program; return what each scenario returned or raised, per rank, or a text if the run failed."""
    if lacking := async_device.missing():
        pytest.skip(f"the asynchronous device cannot be built here: {lacking}")
    async_device.build()
    if group == "native":
        group_in_cpp.build()
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", ranks] if ranks > 1 else []
    with tempfile.TemporaryDirectory() as directory:
        job = run_job(
            [warm.python(), *launcher, PROGRAMS / program, directory],
            environment={
                "PYTHONPATH": os.pathsep.join(map(str, _PATHS)),
                "ASYNC_DEVICE_COUNT": str(devices),
                "OMP_NUM_THREADS": "1",
                "TIMING_LOGGER_GROUP": group,
                "GLOO_SOCKET_IFNAME": "lo",
            },
            limit_s=limit_s,
            name=f"{program} on {ranks} ranks",
        )
        if job.returncode:
            return f"exit status {job.returncode}:\n{job.stdout}\n{job.stderr}"
        return [json.loads((Path(directory) / f"{rank}.json").read_text()) for rank in range(ranks)]
