"""What is said of each rank of a run in progress, by rows and counts that are made by hand."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from snapshots import HEALTHY, rank_now

from timing_logger.live.digest import ProcessPlace
from timing_logger.live.watcher import Snapshot, _rank_now, _shares, _window_s

NAN = math.nan
PROCESS = ProcessPlace(
    rank=3, incarnation=2, generation=0, sidecar={}, n_rows=5, n_iterations=1, since_s=0.0, until_s=1.0,
    wall_offset_s=0.0, iteration=7, epoch=1, written=90, counted=False, unfinished=4, changed_unix_s=1000.0,
)  # fmt: skip
NO_SHARES: dict[int, tuple[float, float]] = {}


def of_sidecar(**sidecar: Any) -> Any:
    return _rank_now(PROCESS._replace(sidecar=sidecar), (0.0, 0.0, 0.0), NO_SHARES, 1000.0)


def test_a_rank_has_the_rates_of_the_window_and_its_own_shares() -> None:
    shares = {2: (0.1, 0.2), 3: (0.75, 0.5)}
    now = _rank_now(PROCESS, (60.0, 8.0, 4.0), shares, 1002.5)
    assert now == rank_now(
        3, incarnation=2, written=90, rows_per_s=15.0, iterations_per_s=2.0, iteration=7, epoch=1,
        dropped=None, unfinished=4, silent_s=2.5,
    )  # fmt: skip


@pytest.mark.parametrize("wall_s", [0.0, NAN])
def test_a_rank_of_which_no_time_is_known_has_neither_rates_nor_shares(wall_s: float) -> None:
    now = _rank_now(PROCESS, (60.0, 8.0, wall_s), NO_SHARES, 1000.0)
    unknown = now.rows_per_s, now.iterations_per_s, now.communication_share, now.waited_share
    assert all(map(math.isnan, unknown))


def test_a_file_that_was_written_on_a_clock_ahead_is_not_silent() -> None:
    assert _rank_now(PROCESS, (0.0, 0.0, 0.0), NO_SHARES, 999.0).silent_s == 0.0


def test_what_is_lost_and_that_the_file_is_closed_is_what_its_sidecar_says() -> None:
    assert (of_sidecar(closed=True, counters={"dropped": 6}).dropped, of_sidecar().dropped) == (6, None)
    assert [of_sidecar(closed=closed).closed for closed in (True, False, None, "yes")] == [True, *[False] * 3]


def test_shares_are_of_the_time_in_steps_of_which_it_is_known() -> None:
    """The second step of rank 0 is not known; rank 1 spent no time, and of rank 2 nothing is known."""
    times: Any = SimpleNamespace(
        ranks=[0, 1, 2],
        gap_ms=np.array([[6.0, 0.0, NAN], [2.0, 0.0, NAN], [2.0, 0.0, NAN]]),
        blocked_ms=np.array([[2.0, 0.0, NAN], [NAN, 0.0, 9.0], [6.0, 0.0, NAN]]),
        waits=SimpleNamespace(own_ms=np.array([[1.0, 0.0, NAN], [5.0, 0.0, 9.0], [NAN, 0.0, NAN]])),
    )
    with np.errstate(all="raise"):  # as a warning would be printed in a terminal
        shares = _shares(times)
    assert shares[0] == (8 / 16, 1 / 16)
    unknown = [share for rank in (1, 2) for share in shares[rank]]
    assert np.isnan(unknown).all()


def test_a_window_spans_the_rows_of_ranks_whose_instants_are_known() -> None:
    rows = pd.DataFrame({"rank": [0, 0, 1], "start_s": [5.0, 3.0, 1.0], "end_s": [8.0, 4.0, 99.0]})
    assert (_window_s(rows, ()), _window_s(rows, {1}), _window_s(rows[:0], ())) == (98.0, 5.0, 0.0)
    assert math.isnan(_window_s(rows, {0, 1}))


@pytest.mark.parametrize(
    ("closed", "world_size", "is_over"), [(True, 1, True), (False, 1, False), (True, 2, False)]
)
def test_a_run_is_over_when_all_its_ranks_have_closed_their_files(
    closed: bool, world_size: int, is_over: bool
) -> None:
    files: Any = [{"rank": 0, "incarnation": 1, "sidecar": {"world_size": world_size}}]
    now = Snapshot([rank_now(0, closed=closed)], HEALTHY, 30.0, HEALTHY.end, files)
    assert now.is_over == is_over
