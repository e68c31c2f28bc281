"""What is seen of ranks: which counters vary, in which units, of which ranks and stretches."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from timing_logger.analysis.rows.arrays import Floats
from timing_logger.analysis.verdict.causes.seen import Seen, _comparable, median_of_known, seen
from timing_logger.schema.host_counters import BY_NAME

ENDS_S = np.stack([np.arange(5.0)] * 3, axis=1)
WAIT, FAULTS = "main_run_queue_wait_us", "major_faults"


def host(ranks: tuple[int, ...] = (0, 1, 2), **columns: Any) -> pd.DataFrame:
    """Return counters of ranks in intervals of a second; a column has one value per interval, or per row."""
    rows = [
        {"rank": rank, "incarnation": 0, "start_counter": float(at), "end_counter": at + 1.0,
         **{name: values(rank, at) if callable(values) else values[at] for name, values in columns.items()}}
        for rank in ranks for at in range(4)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def seen_of(table: pd.DataFrame, ranks: tuple[int, ...] = (0, 1, 2), self_ms: Floats | None = None) -> Seen:
    self_ms = np.full((5, len(ranks)), 500.0) if self_ms is None else self_ms
    found = seen(table, ranks, ENDS_S[:, : len(ranks)], self_ms)
    assert found is not None
    return found


def test_counters_are_shown_by_counter_stretch_and_rank() -> None:
    found = seen_of(host(**{WAIT: lambda rank, at: 1e5 * rank * at, FAULTS: [0.0, 3.0, 0.0, 1.0]}))
    assert [counter.name for _, counter in found.counters] == [WAIT, FAULTS]
    assert found.shown.shape == (2, 4, 3)
    assert found.shown[0].tolist() == [
        pytest.approx([0.1 * rank * at for rank in range(3)]) for at in range(4)
    ]
    assert found.shown[1, :, 0].tolist() == pytest.approx([0.0, 3.0, 0.0, 1.0])


def test_what_was_looked_at_are_counters_ranks_and_stretches() -> None:
    found = seen_of(host(**{WAIT: [1e5] * 4}), self_ms=np.full((5, 3), 500.0)).sought(0.25)
    assert found == ((WAIT,), 3, 4, 1.0, 0.25)


def test_a_counter_that_never_counted_shows_nothing() -> None:
    found = seen_of(host(**{WAIT: [0.0] * 4, FAULTS: [0.0, 0.5, 0.0, 0.0]}))
    assert [counter.name for _, counter in found.counters] == [FAULTS]


def test_of_a_rank_without_counters_nothing_is_known() -> None:
    found = seen_of(host((0, 2), **{WAIT: [1e5] * 4}))
    assert np.isnan(found.shown).tolist() == [[[False, True, False]] * 4]


def test_without_counters_or_steps_of_the_first_rank_nothing_is_seen() -> None:
    self_ms = np.zeros((5, 3))
    table = host((1, 2), **{WAIT: [1e5] * 4})
    assert seen(table, (0, 1, 2), ENDS_S, self_ms) is None
    assert seen(table, (1, 2), ENDS_S[:, :2], self_ms[:, :2]) is not None
    assert seen(host(unknown=[1e5] * 4), (0, 1, 2), ENDS_S, self_ms) is None
    assert seen(host(**{WAIT: [0.0] * 4}), (0, 1, 2), ENDS_S, self_ms) is None
    assert seen(host(**{WAIT: [1e5] * 4}), (0, 1, 2), ENDS_S * math.nan, self_ms) is None


def test_only_work_takes_longer_at_a_low_clock() -> None:
    clock = {"gpu_sm_mhz": lambda rank, at: 1000.0 if rank else 2000.0}
    self_ms = np.full((5, 3), 500.0)
    self_ms[:, 2] = 3000.0
    found = seen_of(host(**clock), self_ms=self_ms)
    assert found.shown[0, -1].tolist() == pytest.approx([0.0, 0.25, 0.5])


def test_a_clock_of_nothing_and_what_is_above_the_usual_one_cost_nothing() -> None:
    clock = BY_NAME["gpu_sm_mhz"]
    busy = np.ones((20, 1))
    mhz = np.array([[2000.0]] * 19 + [[3000.0]])
    assert _comparable(clock, mhz, busy).max() == 0.0
    assert np.isnan(_comparable(clock, 0 * mhz, busy)).all()
    assert _comparable(BY_NAME["major_faults"], mhz, busy) is mhz


def test_waits_and_clocks_state_time_and_events_are_compared_by_their_roots() -> None:
    found = seen_of(host(**{WAIT: [4e5] * 4, FAULTS: [4.0, 9.0, 0.0, 16.0]}))
    assert found.of_time.tolist() == [0]
    assert found.compared[0] == pytest.approx(np.full((4, 3), 0.4))
    assert found.compared[1, :, 0].tolist() == pytest.approx([2.0, 3.0, 0.0, 4.0])


def test_tasks_and_cores_are_the_medians_of_what_is_known() -> None:
    found = seen_of(host(**{WAIT: [1e5] * 4}, runnable_tasks=[6.0] * 4, usable_cores=[4.0] * 4))
    assert (found.runnable, found.usable_cores) == (6.0, 4.0)
    unknown = seen_of(host(**{WAIT: [1e5] * 4}))
    assert math.isnan(unknown.runnable)
    assert math.isnan(unknown.usable_cores)
    assert median_of_known(np.array([1.0, math.nan, 5.0, 9.0])) == 5.0
    assert math.isnan(median_of_known(np.array([math.nan])))
