"""What is kept of a run: how long its steps are, on what they are spent, and what its sidecars tell."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from places import ROOT
from simulated_runs import OPERATIONS_MS, TRANSFER_MS, data_parallel, factors

from timing_logger import read_timings
from timing_logger.analysis.comparison.quantities import (
    CountedSteps,
    StepLength,
    counted_steps,
    joined_quantities,
    spent_in,
)
from timing_logger.analysis.comparison.summarize_run import RUN_SUMMARY, _facts, summarize_run
from timing_logger.analysis.rows.analysis import COLUMNS_OF
from timing_logger.analysis.rows.tables import opened
from timing_logger.errors import TableError
from timing_logger.results.run_summary import MOST_LAYERS, MOST_OPERATIONS, Quantity, RunSummary

STEP_MS = sum(OPERATIONS_MS.values()) + TRANSFER_MS


@pytest.fixture(scope="module")
def sample() -> pd.DataFrame:
    return read_timings(ROOT / "logs" / "sample")


@pytest.fixture(scope="module")
def kept_of_sample(sample: pd.DataFrame) -> RunSummary:
    return summarize_run(sample)


def steady(n_steps: int = 40, n_ranks: int = 2, **fields: Any) -> pd.DataFrame:
    return data_parallel(factors(n_steps, n_ranks), **fields)


@functools.cache
def of_steady(n_steps: int) -> RunSummary:
    return summarize_run(steady(n_steps))


def steps_of(table: pd.DataFrame) -> CountedSteps:
    """Return the steps that count, without the rest of the summary."""
    return counted_steps(opened(table, COLUMNS_OF["summarize_run"]))


def length_of(table: pd.DataFrame) -> StepLength:
    """Return how long the steps of the first process are."""
    return steps_of(table).lengths[0]


def spent(table: pd.DataFrame) -> list[Quantity]:
    """Return on what steps are spent, without the rest of the summary."""
    frame, steps = opened(table, COLUMNS_OF["summarize_run"]), steps_of(table)
    return joined_quantities(spent_in(frame, steps), sum(one.n_steps for one in steps.lengths))[0]


def of(
    found: Sequence[Quantity], operation: str, kind: str = "operation", rank: int | None = None
) -> Quantity:
    (one,) = (one for one in found if (one.kind, one.operation, one.rank) == (kind, operation, rank))
    return one


def test_a_step_lasts_until_the_next_one_begins() -> None:
    found = of_steady(40)
    assert (found.step_mean_ms, found.step_median_ms) == pytest.approx((STEP_MS, STEP_MS))


def test_what_takes_longest_comes_first() -> None:
    spent_ms = [one.mean_ms for one in of_steady(40).quantities]
    assert spent_ms == sorted(spent_ms, reverse=True)
    assert spent_ms[0] > spent_ms[-1]


def test_what_was_lost_is_what_loggers_dropped_and_lines_that_were_not_read() -> None:
    files: list[Any] = [
        {"rank": 0, "sidecar": {"counters": {"dropped": 2}}}, {"rank": 1, "bad_lines": 3}, {"rank": 2},
        {"rank": 3, "sidecar": {"counters": None}, "bad_lines": 0},
    ]  # fmt: skip
    assert _facts(files)["n_lost"] == 5


def test_where_sidecars_disagree_all_is_kept_and_no_single_run_is_named() -> None:
    stated = [("a", "c0", "n1", "2.9"), ("b", "c1", "n0", "2.8")]
    files: list[Any] = [
        {"rank": rank, "span_unix_ns": (7 - rank, 8 + rank), "sidecar": {
            "run_id": run_id, "commit": commit, "host": host, "versions": {"torch": version},
            "options": {"ranks": [rank], "queue_size": 3},
        }}
        for rank, (run_id, commit, host, version) in enumerate(stated)
    ]  # fmt: skip
    found, alone = _facts(files), _facts(files[:1])
    assert (found["run_id"], found["commit"], found["hosts"]) == ("", "", ["n0", "n1"])
    assert (found["began_unix_ns"], found["ended_unix_ns"]) == (6, 9)
    assert (found["versions"], found["options"]) == ({"torch": "2.8, 2.9"}, {"ranks": "[0], [1]"})
    assert (alone["run_id"], alone["commit"], alone["versions"]) == ("a", "c0", {"torch": "2.9"})


def test_the_first_tenth_is_left_out_and_at_most_ten_steps() -> None:
    of_40, of_150 = of_steady(40), length_of(steady(150))
    assert (of_40.n_warm_up, of_40.n_steps) == (4, 36)
    assert (of_150.n_warm_up, of_150.n_steps) == (10, 140)


def test_slow_first_steps_and_what_is_of_no_step_are_not_in_it() -> None:
    slow = factors(40, 2)
    slow[:4] *= 50
    table = data_parallel(slow)
    set_up = table.iloc[:1].assign(operation="SET_UP", iteration=pd.NA, elapsed_ms=5e3)
    with_set_up = pd.concat([table, set_up], ignore_index=True)
    found = spent(with_set_up)
    assert length_of(with_set_up).mean_ms == pytest.approx(STEP_MS)
    assert of(found, "FORWARD").mean_ms == pytest.approx(OPERATIONS_MS["FORWARD"])
    assert "SET_UP" not in [one.operation for one in found]


def test_a_quantity_is_that_of_an_average_rank_in_an_average_step() -> None:
    uneven = factors(40, 2)
    uneven[:, 1] = 2.0
    table = data_parallel(uneven, slow_operations=["FORWARD"])
    table.loc[table["operation"] == "ALLREDUCE", "message_size_bytes"] = 1000
    found = spent(table)
    assert of(found, "FORWARD").mean_ms == pytest.approx(1.5 * OPERATIONS_MS["FORWARD"])
    assert of(found, "FORWARD").bytes is None
    assert (of(found, "ALLREDUCE").n_rows, of(found, "ALLREDUCE").bytes) == (1.0, 1000.0)


def test_the_median_counts_steps_without_the_operation_as_0() -> None:
    table = steady()
    seldom = table[(table["operation"] == "DATA") & (table["iteration"] % 4 == 0)].assign(operation="SAVE")
    found = of(spent(pd.concat([table, seldom], ignore_index=True)), "SAVE")
    assert found.median_ms == 0.0
    assert found.mean_ms == pytest.approx(OPERATIONS_MS["DATA"] / 4, rel=0.1)


def test_waits_that_share_an_interval_count_once() -> None:
    table = steady()
    twice = table[table["operation"] == "DATA"].assign(operation="WAIT")
    found = of(spent(pd.concat([table, twice, twice], ignore_index=True)), "WAIT")
    assert (found.n_rows, found.mean_ms) == (2.0, pytest.approx(OPERATIONS_MS["DATA"]))


@pytest.mark.slow("that they are all of the time is quick, of accounts")
def test_the_parts_of_the_account_are_the_step() -> None:
    uneven = factors(60, 4, noise=0.1)
    found = summarize_run(data_parallel(uneven))
    parts = [one.mean_ms for one in found.quantities if one.kind == "account"]
    assert len(parts) == 5
    assert sum(parts) == pytest.approx(found.step_mean_ms, rel=0.01)


def test_the_slow_rank_is_kept(kept_of_sample: RunSummary) -> None:
    found = kept_of_sample
    assert found.verdict is not None
    assert (found.verdict.verdict, found.verdict.ranks, found.verdict.operation) == ("rank", [2], "DATA")
    slow = of(found.quantities, "own work", "rank", 2).mean_ms
    assert slow > 3 * of(found.quantities, "own work", "rank", 0).mean_ms


def test_what_sidecars_state_is_kept(kept_of_sample: RunSummary) -> None:
    found = kept_of_sample
    assert (found.n_ranks, found.world_size, len(found.hosts)) == (4, 4, 1)
    assert "python" in found.versions
    assert found.began_unix_ns is not None
    assert found.options["record_every_n_steps"] == "1"


@pytest.mark.slow("of a whole folder; a made run in parts is quick")
def test_every_process_for_itself_gives_the_same(sample: pd.DataFrame, kept_of_sample: RunSummary) -> None:
    parts = []
    for rank, rows in sample.groupby("rank"):
        alone = rows.reset_index(drop=True)
        alone.attrs["files"] = [file for file in sample.attrs["files"] if file["rank"] == rank]
        parts.append(RUN_SUMMARY.map(alone))
    assert RUN_SUMMARY.reduce(parts) == kept_of_sample


@pytest.mark.slow("in polars; each analysis that it is made of is quick in polars")
def test_polars_gives_the_same() -> None:
    table = data_parallel(factors(40, 2, noise=0.05))
    assert summarize_run(pl.from_pandas(table)) == summarize_run(table)


def test_where_only_some_steps_are_recorded_a_step_is_one_iteration() -> None:
    table = steady(100)
    found = length_of(table[table["iteration"] % 10 == 0].reset_index(drop=True))
    assert found.n_steps == 9
    assert found.mean_ms == pytest.approx(STEP_MS)


def test_rounds_are_steps_where_no_iteration_is_recorded() -> None:
    table = steady(60).assign(iteration=pd.array([pd.NA] * (60 * 2 * 5), dtype="Int64"))
    found = steps_of(table)
    assert found.kind == "rounds"
    assert found.lengths[0].mean_ms == pytest.approx(STEP_MS)


def test_a_run_in_which_nothing_repeats_is_one_step() -> None:
    rows = steady(2, 1)
    table = rows[rows["operation"] != "ALLREDUCE"].assign(iteration=pd.array([pd.NA] * 8, dtype="Int64"))
    found = steps_of(table.reset_index(drop=True))
    assert (found.kind, found.lengths[0].n_steps) == ("run", 1)
    assert found.lengths[0].mean_ms == pytest.approx(2 * STEP_MS)


def test_a_run_without_a_step_of_known_length_is_refused() -> None:
    with pytest.raises(TableError, match="no step has a known length"):
        summarize_run(steady(1))


def test_many_layers_and_operations_stay_few_kilobytes(tmp_path: Path) -> None:
    table = steady(12, 2)
    n = len(table)
    table = table.assign(
        layer_name=[f"layer{at}" for at in range(n)],
        operation=np.where(table["operation"] == "DATA", [f"OP{at}" for at in range(n)], table["operation"]),
    )
    found = summarize_run(table)
    kinds = [one.kind for one in found.quantities]
    assert kinds.count("operation") <= MOST_OPERATIONS
    assert kinds.count("layer") <= MOST_LAYERS
    assert found.n_left_out > 0
