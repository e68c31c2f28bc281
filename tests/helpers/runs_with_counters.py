"""Files of runs with what their hosts counted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from coinciding_counters.hosts import host_table
from coinciding_counters.runs import simulated
from timing_files import write_table

from timing_logger.schema.host_counters import NAMES

WAIT = "main_run_queue_wait_us"


def write_run_with_counters(folder: Path) -> Path:
    """Write the files of a run of four ranks in which rank 2 waits for a processor from some step on."""
    rng = np.random.default_rng(5)
    run = simulated(rng, course="from then on", step_ms=1500, run_s=150)
    blank = {"epoch": None, "layer_name": "", "phase": "train", "message_size_bytes": None, "peer": None}
    whole = run.timings.astype({"group_size": "Int64", "seq": "Int64"})
    made = write_table(folder, whole.assign(**blank))
    for rank, rows in host_table(run, rng, WAIT).groupby("rank"):
        columns = rows[["start_counter", "end_counter"]].join(rows.reindex(columns=list(NAMES)))
        columns.to_csv(made / f"host-rank{rank}.csv", index=False)
    return made
