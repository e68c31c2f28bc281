"""All hosts choose the same steps, also where each has to leave out another number of them."""

from __future__ import annotations

from itertools import pairwise

from digests import digest_of
from simulated_runs import data_parallel, factors

from timing_logger.engine.live.digest import Digest
from timing_logger.engine.live.sampled_steps import of_fewer_rows, of_fewer_steps

RUN = digest_of(data_parallel(factors(400, 2)))


def steps(digest: Digest) -> set[int]:
    return set(digest.rows.numbers["iteration"].astype(int))


def test_who_leaves_out_more_keeps_only_steps_that_the_others_keep() -> None:
    chosen = [steps(of_fewer_steps(RUN, every)) for every in (1, 3, 9, 27)]
    assert [len(those) for those in chosen] == [400, 134, 45, 15]
    assert all(rarer <= more for more, rarer in pairwise(chosen))


def test_no_more_rows_are_left_than_wanted_and_all_where_they_are_few_enough() -> None:
    n_rows = len(RUN.rows)
    assert of_fewer_rows(RUN, n_rows).every == 1
    fewer = of_fewer_rows(RUN, n_rows / 3)
    assert (fewer.every, len(fewer.rows)) == (9, n_rows * 45 / 400)


def test_what_was_left_out_does_not_come_back() -> None:
    fewer = of_fewer_steps(RUN, 9)
    assert of_fewer_steps(fewer, 3) is fewer
