"""What hosts counted, as values over time, and their means over any spans of time."""

from __future__ import annotations

import numpy as np
import pytest
from host_tables import host_of
from simulated_runs import data_parallel, factors

from timing_logger.report._host_rates import BY_NAME, OWN_AXIS, Held, host_tables

WAITED, MEMORY = BY_NAME["main_run_queue_wait_us"], BY_NAME["memory_available_mb"]
NAN = float("nan")


def held(values: list[float], counter: object = WAITED, seconds: float = 1.0) -> Held:
    start_s = 10.0 + seconds * np.arange(len(values))
    return Held.of(counter, start_s, start_s + seconds, np.array(values))  # type: ignore[arg-type]


def means(of: Held, *spans: tuple[float, float]) -> list[float]:
    begin_s, end_s = np.array(spans).T
    return of.means(begin_s, end_s).tolist()


def test_what_grows_is_a_rate_over_its_interval() -> None:
    of = held([300.0, 100.0], seconds=2.0)
    assert (of.start_s.tolist(), of.end_s.tolist(), of.values.tolist()) == ([10, 12], [12, 14], [150, 50])


def test_a_level_holds_from_when_it_was_read_to_when_it_was_read_again() -> None:
    of = held([3.0, 5.0], MEMORY)
    assert (of.start_s.tolist(), of.end_s.tolist(), of.values.tolist()) == ([11, 12], [12, 13], [3, 5])


def test_a_mean_weighs_the_intervals_by_how_much_of_them_a_span_covers() -> None:
    of = held([100.0, 400.0])
    assert means(of, (10.2, 10.3), (10.5, 11.5), (10.75, 12.0)) == [
        np.float64(100.0), 250.0, (0.25 * 100 + 400) / 1.25,
    ]  # fmt: skip


def test_a_mean_is_of_what_is_known_of_its_span_and_unknown_where_nothing_is() -> None:
    of = held([100.0, NAN, 400.0])
    assert np.allclose(
        means(of, (10.5, 11.5), (11.0, 12.0), (11.5, 14.0), (0.0, 9.0)), [100, NAN, 400, NAN], equal_nan=True
    )


def test_of_several_counters_the_first_that_is_known_counts_even_if_it_is_0() -> None:
    run = data_parallel(factors(5, 1))
    names = ("cgroup_io_pressure_some_us", "io_pressure_some_us")
    (table,) = host_tables(host_of(run, 1.0, io_pressure_some_us=[[7.0]]))
    of_host = table.first_known(names, OWN_AXIS)
    (table,) = host_tables(host_of(run, 1.0, io_pressure_some_us=[[7.0]], cgroup_io_pressure_some_us=[[0.0]]))
    of_group = table.first_known(names, OWN_AXIS)
    assert of_host is not None
    assert of_group is not None
    assert (of_host.values.tolist(), of_group.values.tolist()) == ([7.0], [0.0])
    assert table.first_known(("throttled_us",), OWN_AXIS) is None


@pytest.mark.parametrize(("instant_s", "left"), [(10.9, [1.0, 2.0, 3.0]), (11.0, [2.0, 3.0]), (13.0, [])])
def test_only_what_holds_beyond_an_instant_is_kept(instant_s: float, left: list[float]) -> None:
    of = held([1.0, 2.0, 3.0]).until_after(instant_s)
    assert of.values.tolist() == left
    assert of.start_s.tolist() == [9.0 + value for value in left]
