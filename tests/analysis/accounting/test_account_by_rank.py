"""The sums of an account by rank, and by whom ranks waited for."""

from __future__ import annotations

import importlib.util
from typing import Any

import pandas as pd
import pytest
from account_rows import barrier, random_run, row, table
from rank_tables import as_polars
from slow import slow

from timing_logger.analysis import account, summarize_account, waiting_by_rank

PARTS = ["own_work_ms", "not_timed_ms", "transfer_ms", "waiting_ms", "not_matched_ms"]


def run() -> pd.DataFrame:
    """Rank 2 comes last to both barriers; only rank 0 is in the third, of which the other part is missing."""
    return table(
        row(0, "load", 0, 1), row(2, "load", 0, 5),
        *barrier([1, 2, 5], 6), *barrier([8, 7, 16], 17, seq=1),
        row(0, "ALLREDUCE", 17, 20, group="pair", group_size=2),
    )  # fmt: skip


def test_the_parts_of_a_rank_are_told_apart_and_sum_to_its_wall_time() -> None:
    first, second, last = summarize_account(account(run())).round(6).to_dict("records")
    assert [first[name] for name in PARTS] == [1.0, 2.0, 2.0, 12.0, 3.0]
    assert [second[name] for name in PARTS] == [0.0, 1.0, 2.0, 12.0, 0.0]
    assert [last[name] for name in PARTS] == [5.0, 10.0, 2.0, 0.0, 0.0]
    assert [one["wall_ms"] for one in (first, second, last)] == [20.0, 15.0, 17.0]


def test_what_a_rank_never_did_took_no_time() -> None:
    (only,) = summarize_account(account(table(row(0, "load", 0, 3)))).round(6).to_dict("records")
    assert [only[name] for name in PARTS] == [3.0, 0.0, 0.0, 0.0, 0.0]


def test_whom_a_rank_waited_for_is_summed_over_operations_the_longest_first() -> None:
    waiting = waiting_by_rank(account(pd.concat([run(), table(*barrier([40, 42, 41], 43, seq=2))])))
    told = waiting.round(6)[["rank", "waited_for", "ms"]].to_numpy().tolist()
    assert sorted(told[:2]) == [[0, 2, 12.0], [1, 2, 12.0]]
    assert told[2:] == [[0, 1, 2.0], [2, 1, 1.0]]
    assert waiting["share"].tolist() == pytest.approx([12 / 27, 12 / 27, 2 / 27, 1 / 27])


@pytest.mark.slow("random runs; the sums of one that is made by hand are quick")
@pytest.mark.parametrize("seed", range(50))
def test_whom_ranks_waited_for_sums_to_how_long_they_waited(seed: int) -> None:
    told = account(random_run(seed)[0])
    ranks, waiting = summarize_account(told), waiting_by_rank(told)
    by_rank = waiting.groupby("rank")["ms"].sum().reindex(ranks["rank"], fill_value=0.0)
    assert by_rank.tolist() == pytest.approx(ranks["waiting_ms"].tolist())
    assert waiting["share"].sum() == pytest.approx(1.0 if len(waiting) else 0.0)
    assert ranks[PARTS].sum(axis=1).tolist() == pytest.approx(ranks["wall_ms"].tolist())


@pytest.mark.slow("what the sums are is quick")
def test_sums_are_the_same_in_any_order_of_rows() -> None:
    told = account(random_run(3)[0])
    shuffled = told.sample(frac=1, random_state=1)
    pd.testing.assert_frame_equal(summarize_account(told), summarize_account(shuffled), check_exact=True)
    pd.testing.assert_frame_equal(waiting_by_rank(told), waiting_by_rank(shuffled), check_exact=True)


@pytest.mark.slow("that it has an account of its own is quick")
def test_a_second_thread_that_is_blocked_counts_in_no_sum_of_its_rank() -> None:
    other = {"thread": "io", "group": "io", "group_size": 2}
    timings = table(*barrier([0, 5], 9), row(0, "BARRIER", 1, 6, **other), row(1, "BARRIER", 2, 6, **other))
    ranks = summarize_account(account(timings))
    assert ranks["wall_ms"].round(6).tolist() == [9.0, 7.0]
    assert waiting_by_rank(account(timings))["ms"].round(6).tolist() == [5.0]


@pytest.mark.parametrize("analysis", [summarize_account, slow(waiting_by_rank, "as the other")])
def test_no_rows_give_no_rows_of_the_same_types(analysis: Any) -> None:
    told = account(run())
    empty = analysis(told.iloc[:0])
    assert len(empty) == 0
    assert empty.dtypes.to_dict() == analysis(told).dtypes.to_dict()


@pytest.mark.skipif(importlib.util.find_spec("polars") is None, reason="polars is not installed")
@pytest.mark.parametrize("analysis", [slow(summarize_account, "as the other"), waiting_by_rank])
def test_polars_gives_what_pandas_gives(analysis: Any) -> None:
    found = analysis(account(as_polars(run()))).to_dicts()
    assert found == analysis(account(run())).to_dict("records")
