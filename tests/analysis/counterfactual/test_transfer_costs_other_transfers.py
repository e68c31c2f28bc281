"""Transfers of other sizes take what the run measured at those sizes, or the question is refused."""

from __future__ import annotations

import functools

import numpy as np
import pandas as pd
import pytest
from simulated_runs import OPERATIONS_MS, of_operations

from timing_logger.analysis import transfer_costs, what_if
from timing_logger.analysis.counterfactual.repaired import Repairing, judgement_to_repair
from timing_logger.analysis.counterfactual.what_if import parsed
from timing_logger.errors import FixError
from timing_logger.results.policy import STANDARD

STEPS, RANKS = 60, 4
LATENCY_MS, MS_PER_MB = 0.5, 2.0
SIZES_MB = np.array([1.0, 2.0, 4.0, 8.0])[np.arange(STEPS) % 4]


@functools.cache
def usual_run() -> pd.DataFrame:
    return run()


@functools.cache
def usual_run_to_repair() -> Repairing:
    return Repairing(judgement_to_repair(usual_run(), None, STANDARD, None))


def run(took_ms: np.ndarray | None = None) -> pd.DataFrame:  # type: ignore[type-arg]
    """Return a run whose steps reduce 1, 2, 4 and 8 MB in turn."""
    noise = np.random.default_rng(5).normal(0, 0.02, (2, STEPS, RANKS))
    times = {name: ms * np.exp(noise[i % 2]) for i, (name, ms) in enumerate(OPERATIONS_MS.items())}
    took_ms = LATENCY_MS + MS_PER_MB * SIZES_MB if took_ms is None else took_ms
    timings = of_operations(times, transfer_ms=took_ms * np.exp(noise[0, :, 0]))
    reduces = timings["operation"] == "ALLREDUCE"
    size = 1e6 * SIZES_MB[timings["iteration"].astype(int)]
    return timings.assign(message_size_bytes=pd.Series(np.where(reduces, size, np.nan)).astype("Int64"))


def test_latency_and_bandwidth_are_those_of_the_transfers() -> None:
    (cost,) = transfer_costs(usual_run()).to_dict("records")
    assert (cost["operation"], cost["ranks"], cost["count"]) == ("ALLREDUCE", RANKS, STEPS)
    assert (cost["least_bytes"], cost["most_bytes"]) == (1e6, 8e6)
    assert cost["latency_us"] == pytest.approx(1e3 * LATENCY_MS, rel=0.1)
    assert cost["gb_per_s"] == pytest.approx(1 / MS_PER_MB, rel=0.05)
    assert cost["error"] < 0.02


def test_collectives_in_messages_of_another_size_cost_latency_more_or_less_often() -> None:
    fixes = [parsed([f"bucket={size}"]) for size in ("1MB", "8MB")]
    many, few = (found.gain.ms for found in usual_run_to_repair().gains_of(fixes))
    n_bytes_mb = float(SIZES_MB.sum())
    recorded_ms = LATENCY_MS * STEPS + MS_PER_MB * n_bytes_mb
    assert many == pytest.approx(recorded_ms - (LATENCY_MS + MS_PER_MB) * n_bytes_mb, rel=0.1)
    assert few == pytest.approx(recorded_ms - (LATENCY_MS / 8 + MS_PER_MB) * n_bytes_mb, rel=0.2)


@pytest.mark.parametrize(
    ("fix", "said"),
    [
        ("bytes=0.5", "measured with 1,000,000 to 8,000,000 bytes only, and would have 500,000 bytes"),
        pytest.param(
            "bucket=25MB",
            "measured with 1,000,000 to 8,000,000 bytes only, and would have 25,000,000 bytes",
            marks=pytest.mark.slow("too large, beside too small"),
        ),
        ("group=8", "ALLREDUCE among 4 ranks was measured among 4 ranks only"),
    ],
)
def test_what_was_not_measured_is_refused(fix: str, said: str) -> None:
    with pytest.raises(FixError, match=said):
        usual_run_to_repair().repair(parsed([fix]))


@pytest.mark.slow(
    "test_transfer_costs_transfer_models.py holds the error of a model; other refusals are quick"
)
def test_transfers_that_no_latency_and_bandwidth_describe_are_refused() -> None:
    strange_ms = np.array([1.0, 9.0, 2.0, 20.0])[np.arange(STEPS) % 4]
    with pytest.raises(FixError, match="no latency and bandwidth tell what ALLREDUCE among 4 ranks takes"):
        what_if(run(strange_ms), "bucket=2MB")
