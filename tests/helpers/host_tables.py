"""Makes tables of what hosts counted, as ``read_host_counters`` returns them, for simulated runs."""

from __future__ import annotations

import numpy as np
import pandas as pd

from timing_logger.schema.host_counters import NAMES


def host_of(timings: pd.DataFrame, seconds: float, **counters: object) -> pd.DataFrame:
    """Return lines for each rank of a run, one after the other from its first row on.

    Args:
        timings: the run.
        seconds: the interval of a line, in s.
        counters: by name what the lines have of a counter, as ranks x lines; all others are not known.
    """
    shape = np.shape(next(iter(counters.values())))
    ranks = np.sort(timings["rank"].unique())[: shape[0]]
    first_s = timings.groupby("rank")["start_counter"].min()[ranks].to_numpy()
    start_s = first_s[:, None] + seconds * np.arange(shape[1])
    columns = dict.fromkeys(NAMES, np.full(shape, np.nan)) | {
        name: np.array(values, np.float64) for name, values in counters.items()
    }
    table = pd.DataFrame({name: values.ravel() for name, values in columns.items()})
    for name, values in {"start_counter": start_s, "end_counter": start_s + seconds}.items():
        table[name] = values.ravel()
    return table.assign(rank=np.repeat(ranks, shape[1]), incarnation=1)
