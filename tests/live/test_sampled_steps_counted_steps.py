"""A program that records no iteration has steps that all ranks count alike, from any row on."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from digests import digest_of
from simulated_runs import data_parallel, factors

from timing_logger.live.digest import RowArrays
from timing_logger.live.sampled_steps import counted_steps, of_fewer_steps

RUN = data_parallel(factors(100, 2)).assign(iteration=pd.array([pd.NA] * 1000, "Int64"))


@pytest.mark.parametrize("left_out", [0, 3, 101])
def test_a_row_has_the_number_of_the_next_collective_of_all(left_out: int) -> None:
    rows = RUN[RUN["rank"] == 1].iloc[left_out:].reset_index(drop=True)
    number = counted_steps(RowArrays.of(rows))
    found = dict(zip(rows["start_counter"], number, strict=True))
    collectives = rows[rows["operation"] == "ALLREDUCE"]
    for start_s, seq in collectives[["start_counter", "seq"]].itertuples(index=False):
        assert found[start_s] == seq
    assert (np.diff(number[~np.isnan(number)]) >= 0).all()
    after_the_last = rows["start_counter"] > collectives["start_counter"].max()
    assert (np.isnan(number) == after_the_last).all()


def test_a_collective_without_a_number_ends_no_step() -> None:
    rows = RUN[RUN["rank"] == 1].reset_index(drop=True)
    collectives = rows.index[rows["operation"] == "ALLREDUCE"]
    without = rows.assign(seq=rows["seq"].where(rows.index != collectives[3]))
    number = counted_steps(RowArrays.of(without))
    assert number[collectives[2:6]].tolist() == [2, 4, 4, 5]


def test_ranks_keep_the_same_steps() -> None:
    rows = of_fewer_steps(digest_of(RUN), 3).rows.table()
    of_ranks = [set(its["seq"].dropna()) for _, its in rows.groupby("rank")]
    assert of_ranks[0] == of_ranks[1]
    assert {seq % 3 for seq in of_ranks[0]} == {0}
    assert set(rows["operation"]) == set(RUN["operation"])
