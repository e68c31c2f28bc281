"""Jobs under ``timing-logger run`` are told the line of code in which a slow rank loses its time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import warm
from processes import run_warm
from timed_jobs import PROGRAMS, timed_warm, torchrun

pytestmark = pytest.mark.slow("what samples, what is said of samples and that a job asks for none are quick")

SLOW = """
import os, time, torch, torch.distributed as dist

def fetch():
    time.sleep(0.05 if os.environ["RANK"] == "1" else 0.001)

dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(80):
    fetch()  # in no row
    optimizer.zero_grad()
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
dist.destroy_process_group()
"""


def test_the_line_of_a_slow_rank_is_named_though_no_row_covers_it(tmp_path: Path) -> None:
    program = tmp_path / "slow.py"
    program.write_text(SLOW)
    job = timed_warm(tmp_path / "logs", [*torchrun(warm.python()), program], "--sample-stacks")
    assert job.returncode == 0, job.stderr
    line = SLOW.splitlines().index('    time.sleep(0.05 if os.environ["RANK"] == "1" else 0.001)') + 1
    assert f"are in fetch ({tmp_path.name}/slow.py:{line})" in job.stderr


def test_unless_asked_for_there_is_no_file_and_the_sidecar_says_that_they_were_off(tmp_path: Path) -> None:
    job = timed_warm(tmp_path, [warm.python(), PROGRAMS / "alone.py"], "--quiet")
    assert job.returncode == 0, job.stderr
    sidecar = json.loads((tmp_path / "timing-rank0.meta.json").read_text())
    assert (sidecar["options"]["stack_samples"], sidecar["stack_samples"]) == (False, None)
    assert not list(tmp_path.glob("stacks-*"))


AUTOLOG = """
import sys, timing_logger
timing_logger.autolog(sys.argv[1], stack_samples={wanted})
import runpy
sys.argv[1:] = []
runpy.run_path({program!r})
"""


@pytest.mark.parametrize("wanted", [True, False])
def test_autolog_takes_the_same_switch_for_stacks(tmp_path: Path, wanted: bool) -> None:
    program = AUTOLOG.format(wanted=wanted, program=str(PROGRAMS / "alone.py"))
    done = run_warm(program, tmp_path)
    assert done.returncode == 0, done.stderr
    sidecar = json.loads((tmp_path / "timing-rank0.meta.json").read_text())
    assert sidecar["options"]["stack_samples"] == (sidecar["stack_samples"] is not None) == wanted
