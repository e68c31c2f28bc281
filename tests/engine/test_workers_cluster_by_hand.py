"""What is said of work on a cluster, whose client and futures are stand-ins: Dask need not be installed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from set_clock import SetClock

from timing_logger.engine import workers as module
from timing_logger.engine.workers import Cluster
from timing_logger.errors import ClusterError, ConfigurationError
from timing_logger.process.progress import begin, heard_by


class Client:
    """Has as many workers as it is told."""

    def __init__(self, n_workers: int = 1) -> None:
        self.scheduler = self
        self.address = "tcp://host:8786"
        self.n_workers = n_workers

    def nthreads(self) -> dict[int, int]:
        return dict.fromkeys(range(self.n_workers), 1)


class Future:
    """One that is done; what it stands for comes after as many time-outs as it is told."""

    def __init__(self, key: str, outcome: Any = None, late: int = 0, status: str = "finished") -> None:
        self.key, self.status = key, status
        self._outcome, self._late = outcome, late
        self.limits_s: list[float] = []

    def add_done_callback(self, then: Callable[[Any], None]) -> None:
        then(self)

    def result(self, timeout: float) -> Any:
        self.limits_s.append(timeout)
        if len(self.limits_s) <= self._late:
            raise TimeoutError
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return self._outcome


class Behind(Future):
    """One that is done just after another."""

    def add_done_callback(self, then: Callable[[Any], None]) -> None:
        self._then = then

    def comes(self) -> None:
        self._then(self)


class Before(Future):
    def __init__(self, key: str, outcome: Any, other: Behind) -> None:
        super().__init__(key, outcome)
        self._other = other

    def add_done_callback(self, then: Callable[[Any], None]) -> None:
        then(self)
        self._other.comes()


def test_results_are_in_the_order_of_their_futures_whichever_is_done_first() -> None:
    behind = Behind("a", 1)
    assert Cluster(Client()).gathered([behind, Before("b", 2, behind)]) == [1, 2]


def test_what_is_wrong_with_the_files_is_said_as_this_process_would() -> None:
    error = ConfigurationError("no row is of these iterations")
    with pytest.raises(ConfigurationError) as raised:
        Cluster(Client()).gathered([Future("a", error)])
    assert raised.value is error


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError("no such\n  file."), "no such file"),
        (ValueError(), "ValueError"),
        (ValueError("x" * 301), "x" * 300),
    ],
    ids=["lines", "nothing", "long"],
)
def test_any_other_error_of_a_worker_is_one_short_line(error: Exception, said: str) -> None:
    with pytest.raises(ClusterError) as raised:
        Cluster(Client()).gathered([Future("a", error)])
    expected = f"--scheduler: the work was not finished at tcp://host:8786: {said}. The scheduler and"
    assert str(raised.value).startswith(expected)


def test_a_result_that_does_not_come_is_waited_for_longer_each_time() -> None:
    future = Future("a", 7, late=3)
    assert Cluster(Client()).gathered([future]) == [7]
    assert future.limits_s == [1.0, 2.0, 4.0, 8.0]


def test_a_time_out_that_is_the_functions_own_is_its_error() -> None:
    future = Future("a", late=1, status="error")
    with pytest.raises(ClusterError, match="TimeoutError"):
        Cluster(Client()).gathered([future])


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SetClock:
    clock = SetClock(100.0)
    monkeypatch.setattr(time, "monotonic", clock)
    return clock


def test_no_worker_is_an_error_once_there_was_none_for_longer_than_the_patience(clock: SetClock) -> None:
    client = Client(0)
    cluster = Cluster(client, patience_s=20.0)
    for now_s, n_workers in ((120.0, 0), (130.0, 1), (150.0, 0)):
        clock.now_s, client.n_workers = now_s, n_workers
        cluster._require_workers()
    clock.now_s = 150.5
    with pytest.raises(ClusterError, match="tcp://host:8786 has had no worker for 20 s"):
        cluster._require_workers()


def test_before_the_work_there_need_be_no_worker(clock: SetClock) -> None:
    cluster = Cluster(Client(0), patience_s=20.0)
    clock.now_s = 1000.0
    assert cluster.gathered([Future("a", 7, late=1)]) == [7]


class Left(Client):
    """Has no workers; each time it is asked for them, 15 s are over."""

    def __init__(self, clock: SetClock) -> None:
        super().__init__(0)
        self._clock = clock

    def nthreads(self) -> dict[int, int]:
        self._clock.now_s += 15.0
        return {}


def test_a_result_for_which_no_worker_is_left_is_not_waited_for(clock: SetClock) -> None:
    with pytest.raises(ClusterError, match="has had no worker for 20 s"):
        Cluster(Left(clock), patience_s=20.0).gathered([Future("a", 7, late=9)])


def test_a_future_for_which_there_is_no_worker_is_not_waited_for(
    clock: SetClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LOOK_S", 0.0)
    with pytest.raises(ClusterError, match="has had no worker for 20 s"):
        Cluster(Left(clock), patience_s=20.0).gathered([Behind("a")])


def test_each_result_that_has_come_is_a_step() -> None:
    done: list[int] = []

    class Listener:
        def begin(self, stage: str, n_steps: int) -> None: ...

        def done(self, n_steps: int) -> None:
            done.append(n_steps)

    with heard_by(Listener()):
        begin("reading", 2)
        Cluster(Client()).gathered([Future("a"), Future("b")])
    assert done == [1, 2]


def test_a_file_is_read_again_though_it_was_read_under_this_name_before() -> None:
    class Mapping(Client):
        def map(self, function: Callable[[str], str], items: list[str], *, pure: bool = True) -> list[Any]:
            assert not pure
            return [Future(item, function(item)) for item in items]

    assert Cluster(Mapping()).map(str.upper, ("a", "b")) == ["A", "B"]
