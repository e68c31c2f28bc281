"""Loads a published trace of a pipeline-parallel training job into the schema of this project.

The trace is not part of the repository. It has one row per operation: rank, stage and data-parallel
rank, step, kind of operation, start and duration in seconds.
"""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pandas as pd

from timing_logger.schema.record import COLUMNS

# The scope says which ranks an operation joins: the data-parallel ranks of a stage, neighbours in the
# pipeline, or its first and last stage.
_OPERATIONS = {
    "forward-compute": ("FORWARD", None),
    "backward-compute": ("BACKWARD", None),
    "optimizer": ("OPTIMIZER", None),
    "forward-send": ("SEND", "pipeline"),
    "backward-send": ("SEND", "pipeline"),
    "forward-recv": ("RECV", "pipeline"),
    "backward-recv": ("RECV", "pipeline"),
    "grads-reduce-scatter": ("REDUCE_SCATTER", "stage"),
    "params-all-gather": ("ALLGATHER", "stage"),
    "embedding-grads-all-reduce": ("ALLREDUCE", "embedding"),
}

STEP_S = 47.0
"""The distance of two steps in the table, in s: a little longer than any step of the trace."""

_INTEGERS = ["epoch", "message_size_bytes", "group_size", "seq", "peer"]
_TEXTS = {"clock": "host", "status": "ok"}


def readers() -> list[str]:
    """Return the names of the installed libraries that read Parquet."""
    return [name for name in ("polars", "pyarrow") if importlib.util.find_spec(name)]


def load(path: Path) -> pd.DataFrame:
    """Return the trace as ``read_timings`` would return it; a rank's label is its stage."""
    trace = _columns(str(path))
    trace["start_ts"] += STEP_S * trace["step"]  # in the trace, times count from the start of each step
    trace = trace[trace["optype"].isin(list(_OPERATIONS))].sort_values(["rank", "start_ts"], kind="stable")
    kinds = trace["optype"].map(_OPERATIONS)
    scope = kinds.str[1]
    timings = pd.DataFrame(
        {
            "iteration": trace["step"].astype("Int64"),
            "layer_name": trace["optype"],
            "operation": kinds.str[0],
            "elapsed_ms": trace["duration"] * 1000,
            "start_counter": trace["start_ts"],
            "end_counter": trace["start_ts"] + trace["duration"],
            "group": scope.fillna("") + trace["stage"].where(scope == "stage", trace["dp_rank"]).astype(str),
            "rank": trace["rank"],
            "incarnation": 1,
        }
    )
    sizes = {"stage": trace["dp_rank"].nunique(), "embedding": 2}
    timings["group_size"] = scope.map(sizes)
    # Communication goes on beside the computation in this job, each kind in a stream of its own.
    timings["thread"] = np.where(scope.isna(), "MainThread", trace["optype"])
    for name in COLUMNS:
        if name not in timings:
            timings[name] = _TEXTS.get(name, pd.NA if name in _INTEGERS else "")
    timings = timings.astype(dict.fromkeys(_INTEGERS, "Int64"))
    labels = trace.drop_duplicates("rank").set_index("rank")["stage"]
    timings.attrs["files"] = [
        {"rank": int(rank), "sidecar": {"labels": {"pipeline_stage": int(stage)}}}
        for rank, stage in labels.items()
    ]
    columns = [*COLUMNS, "rank", "incarnation"]
    return timings[columns].reset_index(drop=True)


def _columns(path: str) -> pd.DataFrame:
    reader = readers()[0]
    if reader == "polars":
        trace = importlib.import_module("polars").read_parquet(path)
        return pd.DataFrame({name: trace[name].to_list() for name in trace.columns})
    return pd.read_parquet(path, engine="pyarrow")
