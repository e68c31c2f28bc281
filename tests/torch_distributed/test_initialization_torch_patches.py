"""Where a timed group takes the place of torch's: in its registries, and in DDP."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d_in_c
from torch.distributed import distributed_c10d as c10d

from allreduce_instrumentation import init_process_group
from allreduce_instrumentation.torch_distributed import TimedProcessGroup, initialization
from allreduce_instrumentation.torch_distributed._timed_work import timed_work
from timing_logger import TimingLogger


@pytest.fixture
def world(logger: TimingLogger) -> Iterator[TimedProcessGroup]:
    init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1, timing_logger=logger)
    found: Any = dist.group.WORLD
    yield found
    dist.destroy_process_group()
    initialization.leave_new_groups_untimed()


def test_torch_finds_the_timed_group_and_no_other_in_each_registry(world: TimedProcessGroup) -> None:
    torchs = c10d._world
    name = world.group_name
    assert list(torchs.pg_map) == list(torchs.pg_names) == list(torchs.pg_group_ranks) == [world]
    assert list(torchs.pg_backend_config) == list(torchs.pg_to_tag) == [world]
    assert {group for groups in torchs.tags_to_pg.values() for group in groups} == {world}
    assert c10d_in_c._resolve_process_group(name) is world


def test_what_torch_reads_of_a_group_is_that_of_the_untimed_one(world: TimedProcessGroup) -> None:
    group = dist.new_group([0], group_desc="everybody")
    assert isinstance(group, TimedProcessGroup)
    for one in (world, group):
        assert (one.group_name, one.group_desc) == (one.untimed.group_name, one.untimed.group_desc)
        assert one._get_backend_name() == one.untimed._get_backend_name() == "gloo"
        assert {device.type for device in one._device_types} == {"cpu", "cuda"}
    assert group.group_desc == "everybody"


def test_a_group_for_which_no_timed_one_is_made_stays_in_its_place(world: TimedProcessGroup) -> None:
    initialization.time_new_groups(lambda group: None)
    group = dist.new_group([0])
    assert type(group) is dist.ProcessGroup
    assert c10d_in_c._resolve_process_group(group.group_name) is group


def test_ddps_reducer_gets_the_backends_own_work(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []
    monkeypatch.setattr(initialization, "_hand_over_in_c", lambda *args: given.append(args))
    reducer: Any = "reducer"
    operation: Any = SimpleNamespace(lose=lambda: None)
    work, plain = dist.Work(), dist.Work()
    initialization._hand_over(reducer, timed_work(work, operation, True), True)
    initialization._hand_over(reducer, plain, False)
    assert given == [("reducer", work, True), ("reducer", plain, False)]


def test_only_the_entry_of_the_group_itself_moves_to_the_timed_one() -> None:
    group, timed, other = (dist.ProcessGroup(0, 1) for _ in range(3))
    entries = {group: "of the group", other: "of another"}
    initialization._move(entries, group, timed)
    initialization._move(entries, group, timed)
    assert entries == {timed: "of the group", other: "of another"}


def test_batched_messages_are_replaced_each_time_that_new_groups_are_timed() -> None:
    torchs, importer = dist.batch_isend_irecv, ModuleType("importer")
    vars(importer)["batch_isend_irecv"] = torchs
    sys.modules["importer"] = importer
    try:
        for _ in range(2):
            initialization.time_new_groups(lambda group: None)
            replaced = {dist.batch_isend_irecv, c10d.batch_isend_irecv, vars(importer)["batch_isend_irecv"]}
            assert replaced == {initialization.batch_isend_irecv}
            assert torchs not in replaced
            initialization.leave_new_groups_untimed()
            assert {dist.batch_isend_irecv, vars(importer)["batch_isend_irecv"]} == {torchs}
    finally:
        del sys.modules["importer"]


def test_batched_messages_that_are_none_are_refused_by_torch() -> None:
    messages: list[Any] = ["no message"]
    with pytest.raises(ValueError, match="p2p_op_list"):
        initialization.batch_isend_irecv(messages)


def test_a_group_that_torch_makes_after_that_was_undone_is_untimed(world: TimedProcessGroup) -> None:
    initialization.leave_new_groups_untimed()
    assert type(dist.new_group([0])) is dist.ProcessGroup


# -- batched messages -------------------------------------------------------------------------------------


@pytest.fixture
def messages(world: TimedProcessGroup, monkeypatch: pytest.MonkeyPatch) -> tuple[list[dist.P2POp], list[Any]]:
    """A message that is sent and one that is received, and what is issued of them."""
    tensor, issued = torch.ones(2), list[Any]()
    made = [dist.P2POp(op, tensor, group=world, tag=7, group_peer=0) for op in (dist.isend, dist.irecv)]
    for name, message in zip(("isend", "irecv"), made, strict=True):

        def issue(tensor: object, *, group: object, tag: int, name: str = name, **peer: int) -> None:
            issued.append((name, tag, peer))

        monkeypatch.setattr(dist, name, issue)
        message.op = getattr(dist, name)

    @contextmanager
    def together(group: object, device: torch.device, async_ops: bool) -> Iterator[Any]:
        issued.append((group, device.type, async_ops))
        yield SimpleNamespace(works=["one work"])

    monkeypatch.setattr(c10d, "_coalescing_manager", together)
    monkeypatch.setattr(initialization, "_batch_isend_irecv", lambda messages: "torch's own")
    return made, issued


def test_messages_over_a_timed_group_are_issued_together_each_to_its_peer(
    world: TimedProcessGroup,
    messages: tuple[list[dist.P2POp], list[Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    backend = SimpleNamespace(supports_coalescing=True)
    monkeypatch.setattr(TimedProcessGroup, "_get_backend", lambda self, device: backend)
    made, issued = messages
    assert initialization.batch_isend_irecv(made) == ["one work"]
    assert issued == [(world, "cpu", True), ("isend", 7, {"group_dst": 0}), ("irecv", 7, {"group_src": 0})]
    others: list[Any] = [made[0], "no message"]
    with pytest.raises(ValueError, match="p2p_op_list"):
        initialization.batch_isend_irecv(others)
    backend.supports_coalescing = False
    assert initialization.batch_isend_irecv(made) == "torch's own"  # type: ignore[comparison-overlap]
    assert len(issued) == 3


def test_messages_over_a_group_that_is_not_timed_are_left_to_torch(
    world: TimedProcessGroup, messages: tuple[list[dist.P2POp], list[Any]]
) -> None:
    made, issued = messages
    for message in made:
        message.group = world.untimed
    assert initialization.batch_isend_irecv(made) == "torch's own"  # type: ignore[comparison-overlap]
    assert issued == []


# -- what torch keeps of groups beside ---------------------------------------------------------------------


def test_the_flight_recorder_observes_the_group_that_does_the_work_and_ends_with_the_timed_one(
    world: TimedProcessGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorders: dict[Any, Any] = {}

    def record(group: Any, *args: object) -> None:
        recorders[group] = args

    plain = dist.ProcessGroup(0, 1)
    monkeypatch.setattr(initialization, "_record_flights", record)
    monkeypatch.setattr(initialization, "_flight_recorders", lambda: recorders)
    initialization.record_flights(world, "store")
    initialization.record_flights(plain)
    assert recorders == {world: ("store",), plain: ()}


def test_buffers_of_a_model_are_broadcast_over_the_group_that_is_named_until_that_is_undone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    over: list[Any] = []

    def torchs(group: object, *args: object) -> None:
        over.append((group, *args))

    monkeypatch.setattr(c10d_in_c, "_broadcast_coalesced", torchs)
    monkeypatch.setitem(vars(dist), "_broadcast_coalesced", torchs)
    initialization.broadcast_buffers_over(lambda group: "another")  # type: ignore[arg-type,return-value]
    vars(dist)["_broadcast_coalesced"]("its own", "tensors")
    initialization.broadcast_buffers_over(None)
    assert vars(dist)["_broadcast_coalesced"] is torchs
    assert over == [("another", "tensors")]
