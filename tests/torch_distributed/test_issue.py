"""How an operation of a group is issued: what counts, what ends its row, and for which layer it is."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402

from allreduce_instrumentation.torch_distributed import _issue  # noqa: E402
from allreduce_instrumentation.torch_distributed._group_timing import GroupTiming  # noqa: E402
from allreduce_instrumentation.torch_distributed._issue import (  # noqa: E402
    end_coalescing,
    issue,
    issue_in_background,
    layer_of,
    may_use_future,
    monitored_barrier,
    start_coalescing,
)
from allreduce_instrumentation.torch_distributed._methods import METHODS  # noqa: E402
from timing_logger import TimingLogger  # noqa: E402
from timing_logger.sinks.memory import MemorySink  # noqa: E402

COLUMNS = "ALLREDUCE", 8, "ddp:weight", None


class Group:
    """A group as far as its timing asks it."""

    group_desc, group_name = "default_pg", "0"
    _device_types = ()

    def size(self) -> int:
        return 4

    def rank(self) -> int:
        return 0


class Work(dist.Work):
    """A work of the host, complete or not; one without a future says so by an error, as torch's do."""

    def __init__(self, future: Any = None) -> None:
        super().__init__()
        self.future = future

    def wait(self, *_: Any) -> bool:
        return True

    def get_future(self) -> Any:
        if self.future is None:
            raise RuntimeError("Work::getFuture not implemented.")
        return self.future


@pytest.fixture
def timing(logger: TimingLogger) -> GroupTiming:
    group: Any = Group()
    return GroupTiming(group, logger, {"cpu": "gloo"})


def called(timing: GroupTiming, result: object = None, *, goes_on: bool = False, tensor: Any = None) -> Any:
    """Issue an all-reduce of which the backend returns ``result``, or raises it."""
    options = dist.AllreduceOptions()
    options.asyncOp = goes_on
    sent = [torch.ones(2) if tensor is None else tensor]

    def untimed(*_: object) -> Any:
        if isinstance(result, Exception):
            raise result
        return result

    group: Any = Group()
    return issue(timing, "allreduce", untimed, group, (sent, options), {})


def rows(logger: TimingLogger, sink: MemorySink) -> list[tuple[str, str, int | None]]:
    logger.flush()
    return [(row.operation, row.status, row.seq) for row in sink.records]


@pytest.mark.parametrize("goes_on", [False, True])
def test_a_call_without_a_row_that_raises_takes_no_number(goes_on: bool, sink: MemorySink) -> None:
    logger = TimingLogger(0, None, sinks=[sink], record_every_n_steps=2)
    group: Any = Group()
    timing = GroupTiming(group, logger, {"cpu": "gloo"})
    logger.set_current_iteration(1)
    with pytest.raises(ValueError, match="sizes differ"):
        called(timing, ValueError("sizes differ"), goes_on=goes_on)
    called(timing, goes_on=goes_on)
    logger.set_current_iteration(2)
    called(timing)
    assert rows(logger, sink) == [("ALLREDUCE", "ok", 1)]


def test_a_tensor_without_data_is_no_operation(
    timing: GroupTiming, logger: TimingLogger, sink: MemorySink
) -> None:
    assert called(timing, "torch's", tensor=torch.ones(2, device="meta")) == "torch's"
    called(timing)
    assert rows(logger, sink) == [("ALLREDUCE", "ok", 0)]


def test_a_tensor_that_answers_nothing_has_a_row_without_size(
    timing: GroupTiming, logger: TimingLogger, sink: MemorySink, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_answer(*_: object) -> None:
        raise NotImplementedError

    monkeypatch.setattr(_issue, "layer_of", no_answer)
    called(timing)
    assert rows(logger, sink) == [("ALLREDUCE", "ok", 0)]
    assert sink.records[0].message_size_bytes is None


def test_a_monitored_barrier_takes_a_number_of_the_collectives(
    timing: GroupTiming, logger: TimingLogger, sink: MemorySink
) -> None:
    called(timing)
    monitored_barrier(timing, lambda: None)
    called(timing)
    assert [(name, seq) for name, _, seq in rows(logger, sink)] == [
        ("ALLREDUCE", 0), ("BARRIER", 1), ("ALLREDUCE", 2),
    ]  # fmt: skip


# -- coalesced calls -------------------------------------------------------------------------------------


def test_coalesced_calls_of_which_the_backend_returns_no_work_have_ended(
    timing: GroupTiming, logger: TimingLogger, sink: MemorySink
) -> None:
    start_coalescing(timing, lambda: None)
    called(timing, Work())
    assert rows(logger, sink) == []
    assert end_coalescing(timing, lambda: None) is None
    assert rows(logger, sink) == [("ALLREDUCE", "ok", 0)]


def test_after_coalesced_calls_the_next_call_is_one_by_itself(
    timing: GroupTiming, logger: TimingLogger, sink: MemorySink
) -> None:
    start_coalescing(timing, lambda: None)
    end_coalescing(timing, lambda: None)
    called(timing)
    assert rows(logger, sink) == [("ALLREDUCE", "ok", 0)]


# -- buckets of DDP --------------------------------------------------------------------------------------


def bucket(timing: GroupTiming, work: Any) -> Any:
    return issue_in_background(
        timing, "allreduce", COLUMNS, torch.ones(2), lambda *_: work, (Group(),), is_bucket=True
    )


def test_a_bucket_ends_by_its_future_and_the_reducer_gets_the_backends_own_work(
    timing: GroupTiming, logger: TimingLogger, sink: MemorySink
) -> None:
    future: torch.futures.Future[Any] = torch.futures.Future()
    work = Work(future)
    assert bucket(timing, work) is work
    assert rows(logger, sink) == []
    future.set_result([])
    assert rows(logger, sink) == [("IALLREDUCE", "ok", 0)]


def test_a_bucket_of_which_the_backend_returns_no_work_has_ended(
    timing: GroupTiming, logger: TimingLogger, sink: MemorySink
) -> None:
    assert bucket(timing, None) is None
    assert rows(logger, sink) == [("IALLREDUCE", "ok", 0)]


def test_a_bucket_without_a_future_ends_when_it_is_waited_for(
    timing: GroupTiming, logger: TimingLogger, sink: MemorySink
) -> None:
    work = Work()
    handle = bucket(timing, work)
    assert handle is not work
    assert handle.wait() is True
    assert sorted(rows(logger, sink)) == [("IALLREDUCE", "ok", 0), ("WAIT", "ok", 0)]


def test_a_bucket_in_a_graph_that_is_captured_is_issued_and_counted_without_a_row(
    timing: GroupTiming, logger: TimingLogger, sink: MemorySink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_issue, "begin", lambda *_: None)
    monkeypatch.setattr(timing, "in_stream", lambda device: True)
    timing.has_streams = True
    work = Work()
    assert bucket(timing, work) is work
    timing.has_streams = False
    called(timing)
    assert rows(logger, sink) == [("ALLREDUCE", "ok", 1)]


def test_who_collects_durations_of_the_backend_is_told_of_each_bucket(timing: GroupTiming) -> None:
    told: list[object] = []
    durations: Any = SimpleNamespace(note=lambda operation, work: told.append((operation.seq, work)))
    timing.backend_durations = durations
    work = Work(torch.futures.Future())
    bucket(timing, work)
    work.future.set_result([])
    assert told == [(0, work)]


# -- whether a future may be asked for ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "in_a_pass", "expected"),
    [
        ("HostOperation", False, True),
        ("HostOperation", True, True),
        ("DeviceOperation", False, False),
        ("DeviceOperation", True, True),
        ("Nccl2Operation", True, False),
    ],
)
def test_outside_of_a_backward_pass_only_the_host_may_be_asked_for_futures_and_nccl2_never(
    kind: str, in_a_pass: bool, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch._C, "_current_graph_task_id", lambda: 3 if in_a_pass else -1)
    operation = getattr(_issue, kind)
    assert may_use_future(operation.__new__(operation)) is expected


# -- for which layer -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "labelled", "layer"),
    [
        ("allreduce", False, "ddp:weight"),
        ("allreduce", True, None),
        ("broadcast", False, "fsdp:layer"),
    ],
)
def test_only_an_all_reduce_is_for_a_bucket_and_a_label_beats_both(
    name: str, labelled: bool, layer: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_issue, "fsdp_layer", lambda: "fsdp:layer")
    ddp = SimpleNamespace(known=True, layer=lambda size: "ddp:weight")
    timing: Any = SimpleNamespace(ddp=ddp, logger=SimpleNamespace(labelled=labelled))
    assert layer_of(timing, METHODS[name], torch.ones(2)) == layer


def test_where_no_module_of_fsdp_is_under_way_there_is_no_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_issue, "fsdp_layer", lambda: "")
    ddp = SimpleNamespace(known=True, layer=lambda size: "")
    timing: Any = SimpleNamespace(ddp=ddp, logger=SimpleNamespace(labelled=False))
    assert layer_of(timing, METHODS["allreduce"], torch.ones(2)) is None
