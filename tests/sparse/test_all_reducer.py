"""The thread that sums buckets: what it sends, what it tells of failures, and when it sends nothing more."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from played_optimizer_ranks import PlayedRanks

torch = pytest.importorskip("torch")

from allreduce_instrumentation.sparse import _all_reducer  # noqa: E402
from allreduce_instrumentation.sparse._all_reducer import (  # noqa: E402
    AllReducer,
    Launch,
    SummedMeans,
)
from allreduce_instrumentation.sparse._buckets import Bucket  # noqa: E402
from timing_logger import TimingLogger  # noqa: E402
from timing_logger.errors import ReductionError  # noqa: E402
from timing_logger.schema.record import Record  # noqa: E402
from timing_logger.sinks.memory import MemorySink  # noqa: E402


def loaded(*gradient: float, name: str = "fc") -> Bucket:
    """Return a bucket with one parameter's gradient."""
    parameter = torch.zeros(len(gradient), requires_grad=True)
    parameter.grad = torch.tensor(gradient, dtype=torch.float32)
    bucket = Bucket([(name, parameter)])
    bucket.load()
    return bucket


@pytest.fixture
def ranks() -> PlayedRanks:
    return PlayedRanks(rank=3, size=4)


@pytest.fixture
def means(logger: TimingLogger) -> SummedMeans:
    return SummedMeans(4, logger)


@pytest.fixture
def reducer(ranks: PlayedRanks, means: SummedMeans, logger: TimingLogger) -> Iterator[AllReducer]:
    made = AllReducer(ranks, means, logger, timeout_s=60)
    yield made
    made.stop()


def reduced(reducer: AllReducer, bucket: Bucket | None = None) -> Launch:
    """Return a launch that has been waited for."""
    launch = reducer.launch(loaded(2, 4) if bucket is None else bucket)
    reducer.settle(launch)
    return launch


def waits(logger: TimingLogger, sink: MemorySink) -> list[Record]:
    logger.flush()
    return [record for record in sink.records if record.operation == "WAIT"]


def add_failures(count: int, ranks: int) -> Any:
    """Return what others send of whom so many failed, and the sum of whose ranks, each + 1, is ``ranks``."""

    def others(tensor: torch.Tensor) -> None:
        tensor[-2:] += torch.tensor([float(count), float(ranks)])

    return others


def refuse(*arguments: object) -> None:
    raise MemoryError("no room")


# -- what is summed, and its rows ---------------------------------------------------------------------------


def test_a_bucket_holds_the_means_over_the_ranks(reducer: AllReducer, ranks: PlayedRanks) -> None:
    launch = reduced(reducer)
    assert ranks.sent == [[2, 4, 1, 0, 0]]
    assert launch.bucket.summed.tolist() == [0.5, 1]
    assert not reducer.failed
    assert not reducer.has_news
    reducer.check()


def test_a_wait_has_the_number_and_the_bytes_of_its_bucket(
    reducer: AllReducer, ranks: PlayedRanks, logger: TimingLogger, sink: MemorySink
) -> None:
    ranks.collectives = 7
    reduced(reducer)
    reduced(reducer)
    rows = waits(logger, sink)
    assert [row.seq for row in rows] == [7, 8]
    row = rows[0]
    assert (row.message_size_bytes, row.layer_name, row.phase) == (20, "fc", "dense")
    assert (row.group, row.group_size, row.status) == ("played", 4, "ok")


def test_a_launch_is_waited_for_once(reducer: AllReducer, logger: TimingLogger, sink: MemorySink) -> None:
    launch = reduced(reducer)
    reducer.settle(launch)
    assert len(waits(logger, sink)) == 1


def test_a_wait_in_a_step_that_is_not_recorded_has_no_row(ranks: PlayedRanks, sink: MemorySink) -> None:
    logger = TimingLogger(0, log_dir=None, sinks=[sink], start_step=1)
    logger.set_current_iteration(0)
    reducer = AllReducer(ranks, SummedMeans(4, logger), logger, timeout_s=60)
    reduced(reducer)
    assert waits(logger, sink) == []
    logger.set_current_iteration(1)
    reduced(reducer)
    assert [row.iteration for row in waits(logger, sink)] == [1]
    reducer.stop()


def test_rows_of_the_thread_carry_the_bucket_and_the_phase(
    reducer: AllReducer, ranks: PlayedRanks, logger: TimingLogger, sink: MemorySink
) -> None:
    def others(tensor: torch.Tensor) -> None:
        with logger.record_mpi_operation("ALLREDUCE", 1):
            pass

    ranks.others = others
    reduced(reducer)
    logger.flush()
    row = next(row for row in sink.records if row.operation == "ALLREDUCE")
    assert (row.layer_name, row.phase) == ("fc", "dense")


def test_the_mean_of_a_loss_is_over_all_ranks(reducer: AllReducer, ranks: PlayedRanks) -> None:
    ranks.others = lambda tensor: tensor.add_(9.0)
    assert reducer.mean(3.0) == 3.0
    ranks.others = lambda tensor: tensor.add_(1e-12)  # single precision would lose it
    assert reducer.mean(1.0) == (1 + 1e-12) / 4


# -- failures -----------------------------------------------------------------------------------------------


def test_a_rank_that_failed_tells_the_others_by_its_next_bucket_and_sends_no_more(
    reducer: AllReducer, ranks: PlayedRanks, logger: TimingLogger, sink: MemorySink
) -> None:
    reducer.fail(MemoryError("no room"))
    assert reducer.failed
    assert reducer.has_news
    reduced(reducer)
    assert ranks.sent == [[0, 0, 0, 1, 4]]
    assert not reducer.has_news
    reduced(reducer)
    assert len(ranks.sent) == 1
    assert [row.status for row in waits(logger, sink)] == ["error:ReductionError"]


def test_an_error_names_this_rank_and_is_chained_from_its_cause(reducer: AllReducer) -> None:
    first = MemoryError("no room")
    reducer.fail(first)
    reducer.fail(ValueError("a later one"))
    with pytest.raises(ReductionError) as caught:
        reducer.check()
    assert str(caught.value) == (
        "the reduction of gradients failed on this rank (3): MemoryError: no room. "
        "No rank trains on; start again from a checkpoint."
    )
    assert caught.value.__cause__ is first


def test_an_error_of_its_own_is_said_in_its_words_and_chained_from_nothing(reducer: AllReducer) -> None:
    reducer.fail(ReductionError("a gradient was changed."))
    with pytest.raises(ReductionError, match=r"this rank \(3\): a gradient was changed\. No rank") as caught:
        reducer.check()
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("count", "sum_of_ranks", "where"), [(1, 3, "on rank 2;"), (2, 3, "on 2 other ranks;")]
)
def test_failures_elsewhere_are_told_and_nothing_is_sent_from_then_on(
    reducer: AllReducer, ranks: PlayedRanks, count: int, sum_of_ranks: int, where: str
) -> None:
    ranks.others = add_failures(count, sum_of_ranks)
    launch = reduced(reducer)
    assert reducer.failed
    assert not reducer.has_news
    assert launch.bucket.summed.tolist() == [2, 4]  # no mean
    with pytest.raises(ReductionError, match=where):
        reducer.check()
    assert reduced(reducer).done.is_set()
    assert len(ranks.sent) == 1


def test_after_an_error_of_mpi_nothing_is_sent_and_nothing_is_freed(
    reducer: AllReducer, ranks: PlayedRanks
) -> None:
    ranks.others = refuse
    reduced(reducer)
    assert reducer.failed
    assert not reducer.has_news
    ranks.others = lambda tensor: None
    reduced(reducer)
    assert len(ranks.sent) == 1
    reducer.stop()
    assert ranks.freed == 0


def test_what_fails_before_the_sum_is_told_in_it(
    reducer: AllReducer, ranks: PlayedRanks, means: SummedMeans, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(means, "prepare", refuse)
    reduced(reducer)
    assert ranks.sent == [[0, 0, 0, 1, 4]]
    with pytest.raises(ReductionError, match="MemoryError: no room"):
        reducer.check()


@pytest.mark.parametrize("apart", [False, True])
def test_what_fails_after_the_sum_is_told_in_the_next_unless_other_ranks_may_be_elsewhere(
    reducer: AllReducer, ranks: PlayedRanks, means: SummedMeans, monkeypatch: pytest.MonkeyPatch, apart: bool
) -> None:
    monkeypatch.setattr(means, "finish", refuse)
    monkeypatch.setattr(means, "leaves_ranks_apart", lambda error: apart)
    reduced(reducer)
    assert reducer.has_news is not apart
    reduced(reducer)
    assert len(ranks.sent) == (1 if apart else 2)


# -- waiting for what does not come -------------------------------------------------------------------------


def test_a_bucket_that_is_not_reduced_in_time_is_given_up_and_so_are_those_after_it(
    ranks: PlayedRanks, means: SummedMeans, logger: TimingLogger, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_go_on = threading.Event()
    ranks.others = lambda tensor: may_go_on.wait(60)
    monkeypatch.setattr(_all_reducer, "_LIVENESS_S", 0.001)
    instants = iter([0.0, 1.0, 4.0, 4.0, 5.0])  # the last of which is the time limit
    monkeypatch.setattr(_all_reducer, "monotonic", lambda: next(instants))
    reducer = AllReducer(ranks, means, logger, timeout_s=5)
    launches = [reducer.launch(loaded(1)), reducer.launch(loaded(2, name="next"))]
    reducer.settle(launches[0])
    assert not launches[0].done.is_set()
    assert list(instants) == []
    reducer.settle(launches[1])  # which looks at no clock
    with pytest.raises(ReductionError, match=r"'fc' was not reduced within timeout_s=5: some rank"):
        reducer.check()
    may_go_on.set()
    reducer.stop()


def test_a_bucket_whose_thread_is_gone_is_not_waited_for(
    reducer: AllReducer, monkeypatch: pytest.MonkeyPatch
) -> None:
    reducer.stop()
    monkeypatch.setattr(_all_reducer, "_LIVENESS_S", 0.001)
    reducer.settle(Launch(loaded(1)))
    with pytest.raises(ReductionError, match="reduces bucket 'fc' is gone"):
        reducer.check()


# -- the end ------------------------------------------------------------------------------------------------


def test_a_stopped_reducer_takes_no_bucket_and_says_so(reducer: AllReducer, ranks: PlayedRanks) -> None:
    reducer.stop()
    reducer.stop()
    assert ranks.freed == 1
    assert not reducer._thread.is_alive()
    assert reducer.launch(loaded(1)).done.is_set()
    with pytest.raises(ReductionError, match=r"stop\(\) was called"):
        reducer.check()
    reducer.fail(MemoryError())
    assert not reducer.has_news


def test_the_thread_ends_before_the_interpreter_unless_it_was_stopped(
    ranks: PlayedRanks, means: SummedMeans, logger: TimingLogger, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_exit: list[object] = []
    registry = SimpleNamespace(register=at_exit.append, unregister=at_exit.remove)
    monkeypatch.setattr(_all_reducer, "atexit", registry)
    reducer = AllReducer(ranks, means, logger, timeout_s=60)
    assert at_exit == [reducer._end_thread]
    reducer.stop()
    assert at_exit == []


@pytest.mark.parametrize(("failed", "seconds"), [(False, 10.0), (True, 1.0)])
def test_the_end_of_the_thread_is_awaited_for_less_long_after_a_failure(
    reducer: AllReducer, ranks: PlayedRanks, monkeypatch: pytest.MonkeyPatch, failed: bool, seconds: float
) -> None:
    asked: list[float] = []
    thread = SimpleNamespace(join=asked.append, is_alive=lambda: True)
    with monkeypatch.context() as patched:
        patched.setattr(reducer, "_thread", thread)
        if failed:
            reducer.fail(MemoryError())
        reducer.stop()
    assert asked == [seconds]
    assert ranks.freed == 0  # the thread may be in a call
    reducer._thread.join()
