"""Jobs under ``timing-logger run`` have what their hosts counted, unless it is switched off."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import warm
from processes import run_warm
from timed_jobs import PROGRAMS, timed_warm

from timing_logger import read_host_counters

pytestmark = pytest.mark.slow("that a job asks for them is quick, and so is what a logger does that is asked")

UNTIL_COUNTED = """
import runpy, sys, time
from pathlib import Path
folder, program = sys.argv[1:]
sys.argv[1:] = []
runpy.run_path(program)
while not list(Path(folder).glob("host-*")):
    time.sleep(0.01)
"""


def test_a_job_has_the_counters_of_its_ranks(tmp_path: Path) -> None:
    """A job that is over at once has none where its thread got no core before."""
    program = [warm.python(), "-c", UNTIL_COUNTED, tmp_path, PROGRAMS / "alone.py"]
    job = timed_warm(tmp_path, program, "--quiet")
    assert job.returncode == 0, job.stderr
    table = read_host_counters(tmp_path)
    assert set(table["rank"]) == {0}
    assert table["process_cpu_us"].sum() > 0


def test_without_them_there_is_no_file_and_the_sidecar_says_that_they_were_off(tmp_path: Path) -> None:
    job = timed_warm(tmp_path, [warm.python(), PROGRAMS / "alone.py"], "--quiet", "--no-host-counters")
    assert job.returncode == 0, job.stderr
    sidecar = json.loads((tmp_path / "timing-rank0.meta.json").read_text())
    assert (sidecar["options"]["host_counters"], sidecar["host_counters"]) == (False, None)
    assert not list(tmp_path.glob("host-*"))


AUTOLOG = """
import sys, timing_logger
timing_logger.autolog(sys.argv[1], host_counters={wanted})
import runpy
sys.argv[1:] = []
runpy.run_path({program!r})
"""


@pytest.mark.parametrize("wanted", [True, False])
def test_autolog_takes_the_same_switch(tmp_path: Path, wanted: bool) -> None:
    program = AUTOLOG.format(wanted=wanted, program=str(PROGRAMS / "alone.py"))
    done = run_warm(program, tmp_path)
    assert done.returncode == 0, done.stderr
    sidecar = json.loads((tmp_path / "timing-rank0.meta.json").read_text())
    assert (sidecar["options"]["host_counters"], sidecar["host_counters"] is not None) == (wanted, wanted)
    assert wanted or not list(tmp_path.glob("host-*"))
