"""What the digests of a window report of processes: how much each recorded, and when."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

import numpy as np
import pandas as pd
import pytest

from timing_logger.live.digest import Digest, ProcessPlace, RowArrays
from timing_logger.live.tails import no_rows
from timing_logger.live.window import KeptDigest, Reports, places_among

NAN = math.nan


def process(
    rank: int, n_rows: int, n_iterations: int = 1, span_s: tuple[float, float] = (1.0, 2.0),
    offset_s: float = 100.0, generation: int = 0,
) -> ProcessPlace:  # fmt: skip
    return ProcessPlace(
        rank, 1, generation, {"host": "a"}, n_rows, n_iterations, *span_s, offset_s, None, None, None,
        False, 0, 0.0,
    )  # fmt: skip


@cache
def none() -> RowArrays:
    return RowArrays.of(no_rows())


def kept(source: str, *processes: ProcessPlace) -> KeptDigest:
    return KeptDigest.of(Digest(source, 0, 0.0, 1, list(processes), none(), [pd.DataFrame()]))


def reports_of(digests: Sequence[KeptDigest], *counts: tuple[str, ProcessPlace]) -> Reports:
    return Reports.of(digests, counts)


def test_of_a_digest_only_what_was_recorded_is_kept() -> None:
    found = kept("a", process(0, 3, 2, (5.0, 7.0), 100.0), process(1, 0), process(2, 4, 1, (6.0, 6.5), 101.0))
    assert found.figures.tolist() == [
        [0, 1, 0, 3, 2, 5.0, 7.0, 100.0], [2, 1, 0, 4, 1, 6.0, 6.5, 101.0],
    ]  # fmt: skip
    assert [(one.rank, one.sidecar) for one in found.digest.processes] == [(0, {}), (2, {})]
    assert not len(found.digest.last)
    assert found.newest_unix_s == 107.5


def test_a_digest_in_which_nothing_was_recorded_has_no_newest_row() -> None:
    assert kept("a", process(0, 0)).newest_unix_s == -math.inf
    assert kept("a").figures.shape == (0, 8)


def test_what_counts_is_what_the_believed_source_says_of_the_newest_process_of_a_rank() -> None:
    digests = [kept("a", process(0, 3), process(1, 5)), kept("b", process(0, 7), process(0, 2, generation=1))]
    found = reports_of(digests, ("b", process(0, 0)), ("a", process(1, 0)), ("nobody", process(2, 0)))
    assert found.part.tolist() == [0, 0, 1, 1]
    assert found.rank.tolist() == [0, 1, 0, 0]
    assert found.process.tolist() == [-1, 1, 0, -1]


def test_what_several_digests_report_of_a_process_is_summed() -> None:
    digests = [
        kept("a", process(0, 3, 2, (5.0, 7.0)), process(1, 1, 1, (9.0, 9.5))),
        kept("a", process(0, 4, 5, (7.0, 11.0), 101.0)),
        kept("other", process(0, 99, 99, (0.0, 99.0))),
    ]
    found = reports_of(digests, *(("a", process(rank, 0)) for rank in (0, 1, 2)))
    counted = found.counted(3)
    assert counted.rows.tolist() == [7, 1, 0]
    assert counted.iterations.tolist() == [7, 1, 0]
    assert counted.wall_s.tolist() == pytest.approx([6.0, 0.5, NAN], nan_ok=True)
    assert found.newest_unix_s(3).tolist() == pytest.approx([112.0, 109.5, NAN], nan_ok=True)


def test_without_digests_nothing_is_reported() -> None:
    found = reports_of([], ("a", process(0, 0)))
    assert len(found.process) == 0
    assert found.counted(1).rows.tolist() == [0]


def test_the_place_of_rows_among_others() -> None:
    found, among = np.array([[1, 2], [3, 4], [1, 4], [3, 4]]), np.array([[3, 4], [1, 2]])
    assert places_among(found, among).tolist() == [1, 0, -1, 0]
    assert places_among(found, np.zeros((0, 2), np.int64)).tolist() == [-1] * 4
    assert places_among(np.zeros((0, 2), np.int64), among).tolist() == []
