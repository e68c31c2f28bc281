"""The same run, timed by our process group and traced by torch.profiler at once, says the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pytest
from torch_runner import PROGRAMS, run_under_torchrun

from timing_logger import read_timings
from timing_logger.analysis import match_collectives, stragglers, waits
from timing_logger.importing import import_kineto

pytestmark = [
    pytest.mark.serial,  # it compares instants of processes
    pytest.mark.slow("profiles a training on two ranks; importing is tested on traces like those of torch"),
]

SLOW = 1
NEAR_MS = 0.2


class Both(NamedTuple):
    """The rows of one run: as it timed itself, and as its traces were imported."""

    timed: pd.DataFrame
    imported: pd.DataFrame


def run_of(folder: Path, slow_rank: int) -> Both:
    job = run_under_torchrun(2, PROGRAMS / "profiled_ddp.py", str(folder), str(slow_rank))
    assert job.returncode == 0, job.stderr
    made = import_kineto(folder / "traces", folder / "imported")
    assert (made.left_out, made.not_told) == ({}, ["end"])
    return Both(read_timings(folder / "timed"), read_timings(folder / "imported"))


@pytest.fixture(scope="module")
def with_a_slow_rank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    return run_of(tmp_path_factory.mktemp("slow"), SLOW)


def in_steps(table: pd.DataFrame) -> pd.DataFrame:
    """Return the all-reduces of the steps, each with its place in its step and rank."""
    rows = table[(table["operation"] == "ALLREDUCE") & table["iteration"].notna()]
    rows = rows.sort_values(["rank", "iteration", "seq"])
    return rows.assign(place=rows.groupby(["rank", "iteration"]).cumcount())


def side_by_side(both: Both, figures: Any) -> pd.DataFrame:
    keys = ["rank", "iteration", "place"]
    timed, imported = (in_steps(figures(table)) for table in both)
    assert len(timed) == len(imported) > 100
    return timed.merge(imported, on=keys, suffixes=("_timed", "_imported"), validate="one_to_one")


def test_the_same_collectives_match(with_a_slow_rank: Both) -> None:
    pairs = side_by_side(with_a_slow_rank, match_collectives)
    assert (pairs["state_imported"] == "complete").all()
    for column in ("group", "group_size", "message_size_bytes", "n_ranks"):
        if f"{column}_timed" in pairs:
            assert (pairs[f"{column}_timed"] == pairs[f"{column}_imported"]).all(), column


def test_nearly_all_waits_are_the_same_within_a_fifth_of_a_millisecond(with_a_slow_rank: Both) -> None:
    """Not all: where a host has more threads than cores, the two look at a thread that waits for a core."""
    pairs = side_by_side(with_a_slow_rank, waits)
    off_ms = (pairs["wait_ms_timed"] - pairs["wait_ms_imported"]).abs()
    assert off_ms.median() < NEAR_MS
    assert (off_ms <= NEAR_MS).mean() > 0.8
    assert (pairs["last_arriver_timed"] == pairs["last_arriver_imported"]).mean() > 0.95


def test_the_verdict_on_a_slow_rank_is_the_same(with_a_slow_rank: Both) -> None:
    timed, imported = (stragglers(table) for table in with_a_slow_rank)
    assert (timed.verdict, timed.ranks, timed.operation) == ("rank", (SLOW,), "DATA")
    assert (imported.verdict, imported.ranks, imported.operation) == ("rank", (SLOW,), "DATA")
    assert imported.cost_ms == pytest.approx(timed.cost_ms, rel=0.5)


def test_in_a_run_without_a_slow_rank_neither_names_one(tmp_path: Path) -> None:
    timed, imported = (stragglers(table) for table in run_of(tmp_path, -1))
    assert (timed.ranks, imported.ranks) == ((), ())
