"""What becomes of a call that torch's hooks tell of, without such a torch: its row, its number, its end."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d_in_c

from allreduce_instrumentation.torch_distributed import _dispatched_calls
from allreduce_instrumentation.torch_distributed._dispatched_calls import DispatchedCalls, forget
from allreduce_instrumentation.torch_distributed._group_timing import GroupTiming
from allreduce_instrumentation.torch_distributed._operations import Nccl2Operation
from timing_logger import TimingLogger
from timing_logger.schema.record import Record
from timing_logger.sinks.memory import MemorySink

METHODS_BY_NAME = {
    "SEND": "send", "RECV": "recv", "BROADCAST": "broadcast", "ALLREDUCE": "allreduce", "REDUCE": "reduce",
    "ALLGATHER": "allgather", "REDUCE_SCATTER": "reduce_scatter", "ALLTOALL": "alltoall",
    "BARRIER": "barrier", "SCATTER": "scatter", "GATHER": "gather",
    "ALLREDUCE_COALESCED": "allreduce_coalesced", "ALLGATHER_BASE": "_allgather_base",
    "ALLGATHER_COALESCED": "allgather_coalesced",
    "ALLGATHER_INTO_TENSOR_COALESCED": "allgather_into_tensor_coalesced",
    "REDUCE_SCATTER_BASE": "_reduce_scatter_base",
    "REDUCE_SCATTER_TENSOR_COALESCED": "reduce_scatter_tensor_coalesced", "ALLTOALL_BASE": "alltoall_base",
}  # fmt: skip
NAMES: Any = [*METHODS_BY_NAME, "SPLIT", "NEW_WINDOW", "UNKNOWN", "SOMETHING_ELSE"]
_made: Any = enum.Enum
Name = _made("Name", NAMES)  # as torch's HookOpName


class Group:
    """The part of a process group that is asked for its name, and that keeps hooks."""

    group_desc, group_name = "default_pg", "0"
    _device_types: tuple[torch.device, ...] = ()

    def __init__(self) -> None:
        self.before: dict[int, Callable[[Any], None]] = {}
        self.after: dict[int, Callable[[Any], None]] = {}

    def size(self) -> int:
        return 4

    def rank(self) -> int:
        return 0

    def register_pre_hook(self, number: int, hook: Callable[[Any], None]) -> None:
        self.before[number] = hook

    def register_post_hook(self, number: int, hook: Callable[[Any], None]) -> None:
        self.after[number] = hook

    def unregister_pre_hook(self, number: int) -> None:
        del self.before[number]

    def unregister_post_hook(self, number: int) -> None:
        del self.after[number]


class Work(dist.Work):
    """A work with a future that is complete or open, or without one."""

    def __init__(self, *, has_future: bool = True, is_done: bool = True) -> None:
        super().__init__()
        self.future: torch.futures.Future[Any] = torch.futures.Future()
        self._has_future = has_future
        if is_done:
            self.future.set_result([])

    def get_future(self) -> Any:
        if not self._has_future:
            raise RuntimeError("not implemented")
        return self.future


class Told:
    """A group whose hooks are called as torch calls them."""

    def __init__(self, logger: TimingLogger, sink: MemorySink, group: Any) -> None:
        self.group = group
        self.logger, self._sink = logger, sink
        self.timing = GroupTiming(self.group, logger, {"cpu": "gloo"})
        DispatchedCalls(self.timing).observe(self.group)
        self._op_id = 0

    def before(self, name: str, **about: Any) -> None:
        """Have torch tell that it is about to issue a call."""
        self._op_id += 1
        told = {"input_tensors": [], "output_tensors": [], "root": -1, "async_op": False, **about}
        for hook in self.group.before.values():
            hook(SimpleNamespace(name=Name[name], op_id=self._op_id, **told))

    def after(self, work: object = None, *, op_id: int | None = None) -> None:
        """Have torch tell that it has issued the call."""
        for hook in self.group.after.values():
            hook(SimpleNamespace(op_id=op_id or self._op_id, work=work))

    def call(self, name: str, work: object = None, **about: Any) -> None:
        self.before(name, **about)
        self.after(work)

    @property
    def rows(self) -> list[Record]:
        assert self.logger.flush()
        return self._sink.records

    @property
    def summary(self) -> list[tuple[str, int | None, str]]:
        return [(row.operation, row.seq, row.status) for row in self.rows]


@pytest.fixture
def told(logger: TimingLogger, sink: MemorySink, monkeypatch: pytest.MonkeyPatch) -> Iterator[Told]:
    monkeypatch.setattr(c10d_in_c, "HookOpName", Name, raising=False)
    yield Told(logger, sink, Group())
    logger.close()


def floats(count: int, **how: Any) -> torch.Tensor:
    return torch.ones(count, **how)


# -- names ---------------------------------------------------------------------------------------------


def test_each_name_of_torchs_that_is_communication_is_that_of_one_method(told: Told) -> None:
    found = DispatchedCalls(told.timing)._methods
    assert {name.name: method for name, method in found.items()} == METHODS_BY_NAME


# -- rows ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "about", "columns"),
    [
        ("ALLREDUCE", {"input_tensors": [floats(3)]}, ("ALLREDUCE", 12, None, 0)),
        ("ALLREDUCE", {"input_tensors": [floats(3)], "async_op": True}, ("IALLREDUCE", 12, None, 0)),
        (
            "ALLGATHER",
            {"input_tensors": [floats(2)], "output_tensors": [floats(8)]},
            ("ALLGATHER", 8, None, 0),
        ),
        ("BARRIER", {}, ("BARRIER", 0, None, 0)),
        ("BROADCAST", {"input_tensors": [floats(1)], "root": 0}, ("BCAST", 4, 0, 0)),
        ("REDUCE", {"input_tensors": [floats(1)], "root": 2}, ("REDUCE", 4, 2, 0)),
        # what the root sends, as told by a rank that sends nothing
        ("SCATTER", {"output_tensors": [floats(5)], "root": 1}, ("SCATTER", 80, 1, 0)),
        ("SEND", {"input_tensors": [floats(6)], "root": 3}, ("SEND", 24, 3, 0)),
        ("RECV", {"output_tensors": [floats(7)], "root": 3}, ("RECV", 28, 3, 0)),
        ("RECV", {"output_tensors": [floats(7)]}, ("RECV", 28, None, None)),
    ],
)
def test_a_call_is_a_row_with_its_bytes_its_peer_and_its_number(
    told: Told, name: str, about: dict[str, Any], columns: tuple[str, int, int | None, int | None]
) -> None:
    told.call(name, **about)
    (row,) = told.rows
    assert (row.operation, row.message_size_bytes, row.peer, row.seq) == columns
    assert (row.group, row.group_size, row.status) == ("default_pg 0", 4, "ok")


def test_a_call_is_for_the_layer_that_is_known(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_dispatched_calls, "layer_of", lambda timing, method, tensor: f"of {tensor.numel()}")
    told.call("ALLREDUCE", input_tensors=[floats(3)])
    assert [row.layer_name for row in told.rows] == ["of 3"]


def test_messages_count_by_direction_and_peer_and_collectives_by_themselves(told: Told) -> None:
    for name, peer in (("SEND", 1), ("SEND", 1), ("RECV", 1), ("SEND", 2), ("BARRIER", -1), ("BARRIER", -1)):
        told.call(name, input_tensors=[floats(1)], output_tensors=[floats(1)], root=peer)
    assert [row.seq for row in told.rows] == [0, 1, 0, 0, 0, 1]


def test_what_is_no_communication_is_no_row_and_counts_for_nothing(told: Told) -> None:
    told.call("SOMETHING_ELSE", input_tensors=[floats(1)])
    told.call("ALLREDUCE", input_tensors=[floats(1, device="meta")])
    told.call("BARRIER")
    assert told.summary == [("BARRIER", 0, "ok")]


def test_what_a_method_times_already_is_no_second_row(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_dispatched_calls._calling, "timing", told.timing, raising=False)
    told.call("BARRIER")
    assert told.rows == []
    assert told.timing.identity.collectives == 0


def test_models_are_looked_for_where_ddp_compares_shapes_and_nowhere_else(
    told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    monkeypatch.setattr(_dispatched_calls, "look_for_ddp", asked.append)
    told.call("ALLREDUCE", input_tensors=[floats(1)])
    assert asked == []
    told.call("ALLGATHER", input_tensors=[floats(1)])
    assert asked == [told.timing]


def test_a_group_that_is_forgotten_has_no_hooks_of_ours(told: Told) -> None:
    assert list(told.group.before) == list(told.group.after) != []
    forget(told.group)
    assert (told.group.before, told.group.after) == ({}, {})


@pytest.mark.parametrize("step", ["begin", "future_of"])
def test_no_error_of_the_timing_reaches_the_call(
    told: Told, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(_dispatched_calls, step, broken)
    told.call("ALLREDUCE", Work(), input_tensors=[floats(1)], async_op=True)


# -- iterations that are not recorded --------------------------------------------------------------------


def test_a_call_without_a_row_counts_once_it_was_issued(sink: MemorySink, told: Told) -> None:
    told.logger = TimingLogger(0, None, sinks=[sink], record_every_n_steps=2)
    told.timing.logger = told.logger
    tensors = {"input_tensors": [floats(1)], "output_tensors": [floats(1)]}
    for iteration in (1, 2):
        told.logger.set_current_iteration(iteration)
        for name, peer in (("BARRIER", -1), ("SEND", 0), ("RECV", 3), ("RECV", -1)):
            told.call(name, root=peer, **tensors)
    assert [(row.operation, row.iteration, row.seq) for row in told.rows] == [
        ("BARRIER", 2, 1), ("SEND", 2, 1), ("RECV", 2, 1), ("RECV", 2, None),
    ]  # fmt: skip
    told.logger.close()


# -- calls that torch refuses after all ------------------------------------------------------------------


def test_a_call_of_which_torch_tells_no_more_is_an_error_and_its_number_is_the_nexts(told: Told) -> None:
    told.before("BARRIER")
    told.call("BARRIER")
    assert told.summary == [("BARRIER", None, "error:RuntimeError"), ("BARRIER", 0, "ok")]


def test_a_number_on_which_others_were_counted_stays(told: Told) -> None:
    told.before("BARRIER")
    told.timing.identity.next_collective()
    told.call("BARRIER")
    assert told.summary == [("BARRIER", 0, "error:RuntimeError"), ("BARRIER", 2, "ok")]


def test_the_end_of_another_call_is_not_that_of_this_one(told: Told) -> None:
    told.before("BARRIER")
    told.after(op_id=77)
    assert told.rows == []


def test_a_refused_call_without_a_row_is_no_matter(sink: MemorySink, told: Told) -> None:
    told.logger = TimingLogger(0, None, sinks=[sink], record_every_n_steps=2)
    told.timing.logger = told.logger
    told.logger.set_current_iteration(1)
    told.before("BARRIER")
    told.logger.set_current_iteration(2)
    told.call("BARRIER")
    assert told.summary == [("BARRIER", 0, "ok")]
    told.logger.close()


# -- ends ------------------------------------------------------------------------------------------------


def in_background(told: Told, work: object, name: str = "ALLREDUCE") -> None:
    told.call(name, work, input_tensors=[floats(1)], async_op=True)


def test_an_operation_ends_when_its_future_completes(told: Told) -> None:
    work = Work(is_done=False)
    in_background(told, work)
    assert told.rows == []
    work.future.set_result([])
    assert told.summary == [("IALLREDUCE", 0, "ok")]


def test_an_operation_whose_work_has_no_future_is_unresolved(told: Told) -> None:
    in_background(told, Work(has_future=False))
    assert told.summary == [("IALLREDUCE", 0, "unresolved")]


def test_one_of_several_that_are_put_together_ends_with_them(told: Told) -> None:
    told.timing.batch = []
    in_background(told, Work())
    assert told.rows == []
    (operation,) = told.timing.batch
    operation.end(None)
    assert told.summary == [("IALLREDUCE", 0, "ok")]


def test_one_that_lies_in_the_stream_ends_there_though_it_has_a_work(
    told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_dispatched_calls, "is_in_the_stream", lambda operation: True)
    in_background(told, Work(has_future=False))
    assert told.summary == [("IALLREDUCE", 0, "ok")]


def test_where_a_future_must_not_be_asked_for_the_end_is_not_seen(
    told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_dispatched_calls, "may_use_future", lambda operation: False)
    in_background(told, Work())
    assert told.summary == [("IALLREDUCE", 0, "unresolved")]


@pytest.mark.parametrize(
    ("by_engine", "is_known", "name", "background", "noted"),
    [
        (True, True, "ALLREDUCE", True, 1),
        (False, True, "ALLREDUCE", True, 0),
        (True, False, "ALLREDUCE", True, 0),
        (True, True, "BROADCAST", True, 0),
        (True, True, "ALLREDUCE", False, 0),
    ],
)
def test_the_backward_pass_waits_for_a_bucket_of_ddp_alone(
    told: Told, monkeypatch: pytest.MonkeyPatch, *, by_engine: bool, is_known: bool, name: str,
    background: bool, noted: int,
) -> None:  # fmt: skip
    uses: list[object] = []
    monkeypatch.setattr(_dispatched_calls, "called_by_the_engine", lambda: by_engine)
    monkeypatch.setattr(_dispatched_calls, "note_use_in_backward", lambda op, future: uses.append(future))
    told.timing.ddp.known = is_known
    work = Work()
    told.call(name, work, input_tensors=[floats(1)], root=0, async_op=background)
    assert uses == [work.future] * noted


@pytest.mark.parametrize(("of_reducer", "events"), [(True, ["asked for its future"]), (False, ["lost"])])
def test_a_bucket_over_nccl2_is_waited_for_where_the_reducer_asks_for_its_future(
    told: Told, of_reducer: bool, events: list[str]
) -> None:
    found: list[str] = []

    class Asked(Nccl2Operation):
        def get_future(self, work: dist.Work) -> Any:
            found.append("asked for its future")

        def lose(self) -> None:
            found.append("lost")

    operation = told.logger.begin_operation(Asked, "IALLREDUCE", 4, None, "g", 4, None)
    issued = _dispatched_calls._Issued(1, "allreduce", None, operation, of_reducer)
    DispatchedCalls(told.timing)._end_with(issued, operation, Work())
    assert found == events
