"""Simulated runs of many ranks with all that is known of their files, and what a page shows of them."""

from __future__ import annotations

import json
import re
from typing import Any

import pandas as pd
from simulated_runs import data_parallel, factors

SLOW = 77
RANKS_PER_HOST = 8


class _Files(list[dict[str, Any]]):
    """What is known of each file; pandas, which copies it with every table and column, gets this one."""

    def __deepcopy__(self, memo: object) -> _Files:
        return self


def crowd(n_ranks: int, n_steps: int = 20, slow: int | None = SLOW, **sidecar: Any) -> pd.DataFrame:
    """Return a run of which one rank is twice as slow as the others, with eight ranks on each host."""
    factor = factors(n_steps, n_ranks, noise=0.02)
    if slow is not None:
        factor[:, slow] *= 2
    timings = data_parallel(factor)
    timings.attrs["files"] = _Files(file_of(rank, timings, **sidecar) for rank in range(n_ranks))
    return timings


def file_of(rank: int, timings: pd.DataFrame, **sidecar: Any) -> dict[str, Any]:
    """Return what ``read_timings`` tells of a rank's file: whole, and closed."""
    n_rows = len(timings) // int(timings["rank"].nunique())
    counters = {"accepted": n_rows, "written": n_rows, "dropped": 0, "pending": 0}
    known = {"host": f"node{rank // RANKS_PER_HOST}", "closed": True, "counters": counters, **sidecar}
    return {
        "path": f"logs/timing-rank{rank}.csv", "rank": rank, "incarnation": 1, "bytes": 100 * n_rows,
        "rows": n_rows, "cut": "", "bad_lines": 0, "bad_examples": [], "span_unix_ns": None, "second_run": "",
        "numbers": {}, "wall_minus_counter_s": None, "sidecar": known,
        "clock": {"alignment": "measured", "uncertainty_s": 1e-6},
    }  # fmt: skip


def data_in(page: str) -> Any:
    """Return the data of the page's scripts."""
    found = re.search(r'id="data">(.*?)</script>', page, re.DOTALL)
    assert found
    return json.loads(found[1])
