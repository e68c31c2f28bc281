"""A published trace of pipeline-parallel training: it is known who is slow, and who passes it on."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from places import ROOT
from straggler_trace import load, readers

from timing_logger.analysis import stragglers, stragglers_and_windows
from timing_logger.analysis.step_times.step_times import step_times
from timing_logger.analysis.verdict.windows import StragglersAndWindows
from timing_logger.results.facts import PassingOn

TRACE = Path(
    os.environ.get("TIMING_LOGGER_STRAGGLER_TRACE")
    or ROOT.parent / "shared" / "data" / "straggler-AR.parquet"
)

pytestmark = [
    pytest.mark.slow("a long trace; test_verdict.py names who is slow in a small pipeline"),
    pytest.mark.skipif(not TRACE.is_file(), reason="no trace; TIMING_LOGGER_STRAGGLER_TRACE can name it"),
    pytest.mark.skipif(not readers(), reason="neither polars nor pyarrow to read Parquet"),
]


@pytest.fixture(scope="module")
def trace() -> pd.DataFrame:
    return load(TRACE)


@pytest.fixture(scope="module")
def found(trace: pd.DataFrame) -> StragglersAndWindows:
    return stragglers_and_windows(trace)


def test_the_rank_whose_own_computation_is_slow_is_named(found: StragglersAndWindows) -> None:
    verdict = found.verdict
    assert (verdict.verdict, verdict.ranks, verdict.labels) == ("rank", (0,), "pipeline_stage=0")
    assert verdict.window == "persistent"
    explained = next(gate.value for gate in verdict.gates if "explained" in gate.name)
    assert explained == pytest.approx(1.0, abs=0.01)


def test_its_own_time_is_2_35_times_that_of_its_peers_and_the_next_rank_s_1_05(trace: pd.DataFrame) -> None:
    own_ms = np.nanmedian(step_times(trace).self_ms, axis=0)
    ratios = np.sort(own_ms / np.median(own_ms))
    assert ratios[-1] == pytest.approx(2.35, abs=0.01)
    assert ratios[-2] == pytest.approx(1.05, abs=0.01)


def test_the_ranks_that_arrive_last_are_told_apart_from_the_one_that_is_slow(
    found: StragglersAndWindows,
) -> None:
    assert PassingOn((16, 32)) in found.verdict.evidence


def test_the_verdict_does_not_hang_on_the_stages(trace: pd.DataFrame) -> None:
    assert stragglers(trace, roles=dict.fromkeys(range(64), "any")).ranks == (0,)


def test_no_other_rank_has_a_window_of_self_time(found: StragglersAndWindows) -> None:
    windows = found.windows
    assert windows.loc[windows["operation"] == "SELF_TIME", "rank"].tolist() == [0]
