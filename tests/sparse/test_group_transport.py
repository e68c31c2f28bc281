"""An all-reducer's messages over a process group of which this process is the only member, and their rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402

from allreduce_instrumentation import init_process_group  # noqa: E402
from allreduce_instrumentation.sparse import _group_transport  # noqa: E402
from allreduce_instrumentation.sparse._group_transport import GroupTransport  # noqa: E402
from allreduce_instrumentation.torch_distributed.initialization import leave_new_groups_untimed  # noqa: E402
from timing_logger import TimingLogger  # noqa: E402
from timing_logger.errors import ConfigurationError  # noqa: E402
from timing_logger.sinks.memory import MemorySink  # noqa: E402

HALVES = torch.tensor([1.0, 2.0, 3.0], dtype=torch.bfloat16)


@pytest.fixture
def world() -> Iterator[dist.ProcessGroup]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield dist.group.WORLD
    if dist.is_initialized():
        dist.destroy_process_group()


@pytest.fixture
def transport(world: dist.ProcessGroup, logger: TimingLogger) -> GroupTransport:
    return GroupTransport(world, HALVES, "fc", "sparse", logger)


def rows(logger: TimingLogger, sink: MemorySink) -> list[tuple[Any, ...]]:
    logger.flush()
    return [(row.operation, row.message_size_bytes, row.phase, row.seq, row.peer) for row in sink.records]


def test_each_operation_is_a_row_with_its_bytes_its_number_and_what_it_is_for(
    transport: GroupTransport, logger: TimingLogger, sink: MemorySink
) -> None:
    whole = torch.tensor([4, 5])
    total = transport.allreduce(whole, "")
    assert total.tolist() == [4, 5]
    assert total is not whole
    assert transport.allgather(HALVES, "means").tolist() == [HALVES.tolist()]
    assert transport.alltoall(HALVES, "blocks").tolist() == HALVES.tolist()
    transport.broadcast(HALVES, 0, "values")
    assert rows(logger, sink) == [
        ("ALLREDUCE", 16, "sparse", 0, None),
        ("ALLGATHER", 6, "sparse means", 1, None),
        ("ALLTOALL", 6, "sparse blocks", 2, None),
        ("BCAST", 6, "sparse values", 3, 0),
    ]
    assert {(row.layer_name, row.group, row.group_size) for row in sink.records} == {
        ("fc", "default_pg 0", 1)
    }


def test_blocks_of_different_lengths_arrive_each_with_its_own(
    transport: GroupTransport, logger: TimingLogger, sink: MemorySink
) -> None:
    (block,) = transport.alltoallv(HALVES, [3], [3], "")
    assert block.tolist() == HALVES.tolist()
    (gathered,) = transport.allgatherv(HALVES, [3], "result values")
    assert gathered.tolist() == HALVES.tolist()
    assert [row[:3] for row in rows(logger, sink)] == [
        ("ALLTOALLV", 6, "sparse"),
        ("ALLGATHER", 6, "sparse result values"),
    ]


def test_a_gathered_vector_is_as_long_as_its_rank_says(
    transport: GroupTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[Any] = []
    transport.size = 2
    monkeypatch.setattr(
        transport, "allgather", lambda tensor, what: torch.stack([sent.append(tensor) or tensor] * 2)
    )
    found = transport.allgatherv(torch.tensor([7, 8]), [2, 3], "")
    assert [one.tolist() for one in found] == [[7, 8], [7, 8, 0]]
    assert sent[0].tolist() == [7, 8, 0]


def test_where_no_rank_has_anything_nothing_is_sent(
    transport: GroupTransport, logger: TimingLogger, sink: MemorySink
) -> None:
    transport.size = 2
    assert [one.numel() for one in transport.allgatherv(HALVES[:0], [0, 0], "")] == [0, 0]
    assert rows(logger, sink) == []


def test_messages_are_numbered_by_their_direction(
    transport: GroupTransport, logger: TimingLogger, sink: MemorySink, monkeypatch: pytest.MonkeyPatch
) -> None:
    peers: list[tuple[str, int]] = []
    monkeypatch.setattr(dist, "send", lambda tensor, group_dst, group: peers.append(("to", group_dst)))
    monkeypatch.setattr(dist, "recv", lambda tensor, group_src, group: peers.append(("from", group_src)))
    for _ in range(2):
        transport.send(HALVES, 1, "round 0 values")
    received = transport.recv(5, torch.float32, 2, "round 1 values")
    assert (received.numel(), received.dtype, peers) == (
        5,
        torch.float32,
        [("to", 1), ("to", 1), ("from", 2)],
    )
    assert rows(logger, sink) == [
        ("SEND", 6, "sparse round 0 values", 0, 1),
        ("SEND", 6, "sparse round 0 values", 1, 1),
        ("RECV", 20, "sparse round 1 values", 0, 2),
    ]


def test_over_a_group_that_times_itself_the_row_is_the_groups_with_the_layer_and_phase(
    logger: TimingLogger, sink: MemorySink
) -> None:
    init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1, timing_logger=logger)
    try:
        world: Any = dist.group.WORLD
        transport = GroupTransport(world, HALVES, "fc", "sparse", None)
        assert transport.logger is logger
        transport.allgather(HALVES, "means")
    finally:
        dist.destroy_process_group()
        leave_new_groups_untimed()
    assert rows(logger, sink) == [("ALLGATHER", 6, "sparse means", 0, None)]
    assert sink.records[0].layer_name == "fc"


def test_a_group_that_was_destroyed_is_refused(world: dist.ProcessGroup, logger: TimingLogger) -> None:
    dist.destroy_process_group()
    with pytest.raises(ConfigurationError, match="destroyed"):
        GroupTransport(world, HALVES, "fc", "sparse", logger)


@pytest.mark.parametrize(
    ("backends", "is_there"),
    [({"cpu": "gloo", "meta": "nccl"}, True), ({"meta": "gloo"}, False), ({"cpu": "gloo"}, False)],
)
def test_tensors_stay_on_their_device_where_a_backend_works_in_its_streams(
    backends: dict[str, str], is_there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, group = torch.device("cpu"), dist.ProcessGroup(0, 1)
    monkeypatch.setattr(_group_transport, "has_streams", lambda device: device.type != "cpu")
    monkeypatch.setattr(_group_transport._backends, "backends_of", lambda group: backends)
    on_device = torch.ones(1, device="meta")
    assert _group_transport._device_for(group, on_device, host) == (on_device.device if is_there else host)
    for other in (torch.ones(1), "no tensor"):
        assert _group_transport._device_for(group, other, host) == host
