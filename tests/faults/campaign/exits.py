"""Checks what is left of a run for every way out of the interpreter. (P11)"""

from __future__ import annotations

import json
import signal

from processes import rows, run_python

from campaign.trial import Trial

_SIGTERM_SEEN = """
import signal, sys, time
from timing_logger import init_timing_logger
logger = init_timing_logger(0, sys.argv[1], flush_interval=3600, handle_sigterm=True)
for i in range(1000):
    logger.record_timing("A", 1.0, iteration=i)
signal.raise_signal(signal.SIGTERM)
time.sleep(30)
"""

_ABORT = "from mpi4py import MPI; MPI.COMM_WORLD.Abort(9)"


def exits(trial: Trial) -> str:
    """Check that exit codes stay, and that no row is lost that the way out allows to keep.

    If the interpreter ends by itself, that is every row; else it is every row that was flushed.
    """
    from test_exit import ABRUPT, FLUSH, HEALTHY, RECORD_1000

    ways = {
        **{way: (RECORD_1000 + act, code, True) for way, (act, code) in HEALTHY.items()},
        "SIGTERM, handle_sigterm=True": (_SIGTERM_SEEN, -signal.SIGTERM, True),
        **{
            way: (RECORD_1000 + FLUSH + "logger.record_timing('LATE', 1.0)\n" + act, code, False)
            for way, (act, code) in ABRUPT.items()
        },
        "MPI_Abort": (RECORD_1000 + FLUSH + _ABORT, 9, False),
    }
    for number in range(trial.times(10, 1)):
        for way, (program, code, closes) in ways.items():
            with trial.new_folder() as folder, trial.one(f"{way}, {number}"):
                run = run_python(program, folder, environment=_as_root())
                assert run.returncode == code, f"exit code {run.returncode}: {run.stderr}"
                assert [int(row[1]) for row in rows(folder / "timing-rank0.csv")] == list(range(1000))
                sidecar = json.loads((folder / "timing-rank0.meta.json").read_text())
                assert sidecar["closed"] is closes
    return ", ".join(ways)


def _as_root() -> dict[str, str]:
    from mpi_runner import OPEN_MPI

    return OPEN_MPI
