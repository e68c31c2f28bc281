"""All hosts choose the same steps, also where each has to leave out another number of them."""

from __future__ import annotations

from itertools import pairwise

import pytest
from digests import digest_of
from simulated_runs import data_parallel, factors

from timing_logger.live.digest import Digest
from timing_logger.live.sampled_steps import FACTOR, most_rows, of_fewer_rows, of_fewer_steps, thinned

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


def most_per_second(n_here: int, world_size: int) -> float:
    """Return how many rows for each second a host has that runs some of the processes of a job."""
    one = RUN.processes[0]._replace(n_rows=1, since_s=0.0, until_s=10.0, sidecar={"world_size": world_size})
    return most_rows([one] * n_here) / 10


@pytest.mark.parametrize(("n_here", "rows"), [(1, 2000), (80, 2000), (100, 2500)])
def test_a_host_has_2000_rows_a_second_and_25_for_each_process_if_that_is_more(
    n_here: int, rows: int
) -> None:
    assert most_per_second(n_here, n_here) == rows


def test_a_host_has_the_rows_of_a_second_at_least_and_of_its_longest_process_that_recorded() -> None:
    short, long, silent = (
        RUN.processes[0]._replace(n_rows=n_rows, since_s=5.0, until_s=until_s, sidecar={})
        for n_rows, until_s in ((1, 5.5), (1, 9.0), (0, 99.0))
    )
    assert [most_rows(of) for of in ([short], [short, long, silent])] == [2000, 8000]


def test_all_hosts_of_a_large_job_together_have_60_000_rows_a_second() -> None:
    assert 64 * most_per_second(512, world_size=64 * 512) == 60_000


def test_what_was_left_out_does_not_come_back() -> None:
    fewer = of_fewer_steps(RUN, 9)
    assert of_fewer_steps(fewer, 3) is fewer


def test_where_nearly_no_step_is_left_the_next_choice_is_none_of_them() -> None:
    rare = RUN._replace(every=FACTOR**13)
    assert (thinned(rare).every, steps(thinned(rare))) == (FACTOR**14, {0})
    assert steps(thinned(thinned(rare))) == set()
