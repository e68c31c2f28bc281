"""Own work on the device's clock contains its stream's waits for other ranks: nobody is blamed for these."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
from simulated_runs import _row, _table
from slow import slow

from timing_logger.analysis import Verdict, stragglers
from timing_logger.report import evidence_sentences
from timing_logger.words.not_told import reason

DELAY_MS = 15.0


def run(late_in: str, groups: Sequence[Sequence[int]], *, delay_ms: float = DELAY_MS) -> pd.DataFrame:
    """Training on devices: the all-reduce of a group goes on beside ``BACKWARD``, which ends after it.

    Rank 1 is late by ``delay_ms`` in ``late_in``, an operation or ``UNLOGGED``.
    """
    n_ranks = sum(map(len, groups))
    rng = np.random.default_rng(3)
    rows: list[dict[str, Any]] = []
    now = np.zeros(n_ranks)
    for step in range(60):
        usual = {"DATA": 2.0, "UNLOGGED": 0.0, "FORWARD": 10.0, "BACKWARD": 20.0}
        times = {name: ms * np.exp(rng.normal(0, 0.03, n_ranks)) for name, ms in usual.items()}
        times[late_in][1] += delay_ms
        rows += [_row("DATA", step, now, times["DATA"])]
        now = now + times["DATA"] + times["UNLOGGED"]
        rows += [_row("FORWARD", step, now, times["FORWARD"], clock="device")]
        now = now + times["FORWARD"]
        for number, ranks in enumerate(map(np.array, groups)):
            issued = (now + times["BACKWARD"])[ranks] - 2
            done = issued.max() + 3
            named = {"group": f"group {number}", "group_size": len(ranks), "seq": step}
            rows += [_row("ALLREDUCE", step, issued, done - issued, ranks, clock="device", **named)]
            rows += [_row("WAIT", step, issued + 0.5, np.full(len(ranks), 0.02), ranks, **named)]
            rows += [_row("BACKWARD", step, now[ranks], done - now[ranks], ranks, clock="device")]
            now[ranks] = done
    return _table(rows, None)


GROUPS = {"two": [[0, 1]], "four": [[0, 1, 2, 3]], "pairs": [[0, 1], [2, 3], [4, 5], [6, 7]]}


@functools.cache
def verdict_on(late_in: str, groups: str) -> Verdict:
    return stragglers(run(late_in, GROUPS[groups]))


AS_OF_ANOTHER = pytest.mark.slow("one group and several groups are quick")


@pytest.mark.parametrize(
    ("groups", "late_in"),
    [
        ("four", "DATA"),
        ("pairs", "UNLOGGED"),
        pytest.param("two", "BACKWARD", marks=AS_OF_ANOTHER),
        pytest.param("two", "DATA", marks=AS_OF_ANOTHER),
        pytest.param("two", "UNLOGGED", marks=AS_OF_ANOTHER),
        pytest.param("four", "BACKWARD", marks=AS_OF_ANOTHER),
        pytest.param("four", "UNLOGGED", marks=AS_OF_ANOTHER),
        pytest.param("pairs", "DATA", marks=AS_OF_ANOTHER),
        pytest.param("pairs", "BACKWARD", marks=AS_OF_ANOTHER),
    ],
)
def test_a_rank_whose_stream_waited_is_not_blamed(groups: str, late_in: str) -> None:
    assert verdict_on(late_in, groups).ranks in ((), (1,))


@pytest.mark.parametrize(
    "late_in", ["DATA", *(slow(name, "wherever it is late") for name in ("BACKWARD", "UNLOGGED"))]
)
def test_where_a_late_rank_looks_like_its_peers_the_run_is_not_called_healthy(late_in: str) -> None:
    verdict = verdict_on(late_in, "four")
    assert not verdict.judged
    assert reason(verdict.why).startswith("own work is timed on the device's clock")


@pytest.mark.slow("test_verdict_coverage_by_hand.py has how long waits must be to hide who is slow")
def test_where_ranks_hardly_wait_the_run_is_healthy() -> None:
    verdict = stragglers(run("DATA", [[0, 1, 2, 3]], delay_ms=0))
    assert (verdict.verdict, verdict.judged) == ("healthy", True)


def test_a_rank_that_waits_for_the_other_of_its_pair_is_held_back_by_the_gate_on_waiting() -> None:
    verdict = verdict_on("UNLOGGED", "pairs")
    said = next(sentence for sentence in evidence_sentences(verdict) if sentence.startswith("Rank 0"))
    assert "share of its extra time that others waited 0, limit 0.5" in said
