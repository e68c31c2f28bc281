"""The optimizer's ranks over a process group, of which this process is the only member."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402
from torch.distributed import distributed_c10d as c10d  # noqa: E402

from allreduce_instrumentation import instrument, uninstrument  # noqa: E402
from allreduce_instrumentation.sparse import _group_transport  # noqa: E402
from allreduce_instrumentation.sparse._group_transport import GroupRanks  # noqa: E402
from timing_logger import TimingLogger  # noqa: E402
from timing_logger.errors import ConfigurationError  # noqa: E402
from timing_logger.sinks.memory import MemorySink  # noqa: E402


@pytest.fixture
def world() -> Iterator[dist.ProcessGroup]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield dist.group.WORLD
    uninstrument()
    if dist.is_initialized():
        dist.destroy_process_group()


@pytest.fixture
def ranks(world: dist.ProcessGroup, logger: TimingLogger) -> GroupRanks:
    return GroupRanks(world, logger)


def operations(logger: TimingLogger, sink: MemorySink) -> list[tuple[str, int | None]]:
    logger.flush()
    return [(row.operation, row.seq) for row in sink.records]


def test_they_are_a_group_of_their_own_which_is_named_after_the_users(
    ranks: GroupRanks, world: dist.ProcessGroup
) -> None:
    assert ranks.comm is not world
    assert (ranks.rank, ranks.size, ranks.group) == (0, 1, "default_pg/optimizer 1")


def test_each_call_is_waited_for_at_once_and_is_one_row_with_its_number(
    ranks: GroupRanks, logger: TimingLogger, sink: MemorySink
) -> None:
    values = torch.tensor([1.0, 2.0])
    ranks.sum(values)
    ranks.broadcast(values.view(torch.uint8))
    assert values.tolist() == [1, 2]
    assert ranks.collectives == 2
    assert operations(logger, sink) == [("ALLREDUCE", 0), ("BCAST", 1)]


def test_where_existing_groups_are_timed_their_calls_are_still_one_row_each(
    world: dist.ProcessGroup, logger: TimingLogger, sink: MemorySink
) -> None:
    instrument(logger)
    GroupRanks(world, logger).sum(torch.ones(1))
    assert [name for name, _ in operations(logger, sink)].count("ALLREDUCE") == 1


def test_values_and_bytes_arrive_as_they_are(ranks: GroupRanks) -> None:
    assert ranks.allgather({"a": [1, None]}) == [{"a": [1, None]}]
    assert ranks.broadcast_bytes(b"abc") == b"abc"
    ranks.rank = 1  # whose content is ignored
    assert ranks.broadcast_bytes(b"abc") == bytes(3)


def test_other_ranks_learn_first_how_many_bytes_come(
    ranks: GroupRanks, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_rank_0 = [torch.tensor([3]), torch.tensor(list(b"xyz"), dtype=torch.uint8)]
    monkeypatch.setattr(ranks, "broadcast", lambda tensor: tensor.copy_(of_rank_0.pop(0)))
    ranks.rank = 1
    assert ranks.broadcast_bytes(b"longer, and ignored") == b"xyz"


def test_values_of_different_lengths_arrive_from_each_rank(
    ranks: GroupRanks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other rank's value is an empty list, which takes fewer bytes."""
    contents = [_pickled("a long value"), _pickled([])]
    lengths = [torch.tensor([len(one)]) for one in contents]
    padded = [
        torch.tensor([*one, *bytes(len(contents[0]) - len(one))], dtype=torch.uint8) for one in contents
    ]
    given: list[Any] = []
    answers = [lengths, padded]
    monkeypatch.setattr(ranks, "_gathered", lambda tensor: given.append(tensor) or answers.pop(0))
    assert ranks.allgather("a long value") == ["a long value", []]
    assert [one.tolist() for one in given] == [[len(contents[0])], list(contents[0])]


def _pickled(value: object) -> bytes:
    return _group_transport.pickle.dumps(value)


# -- where tensors travel ---------------------------------------------------------------------------------


@pytest.mark.parametrize("in_stream", [False, True])
def test_tensors_travel_from_the_host_and_from_devices_in_whose_streams_the_group_works(
    ranks: GroupRanks, monkeypatch: pytest.MonkeyPatch, in_stream: bool
) -> None:
    monkeypatch.setattr(ranks._timed.timing, "in_stream", lambda device: in_stream)
    assert ranks.travels_from(torch.device("cpu"))
    assert ranks.travels_from(torch.device("cuda")) is in_stream


class Placed:
    """A tensor on a device, which notes what is copied into it."""

    def __init__(self, device: str, elsewhere: object = None) -> None:
        self.device, self._elsewhere = torch.device(device), elsewhere
        self.copied: list[object] = []

    def to(self, device: object) -> object:
        return self._elsewhere

    def copy_(self, other: object) -> None:
        self.copied.append(other)


@pytest.mark.parametrize(
    ("device", "in_stream", "is_copied"), [("cuda", True, False), ("cuda", False, True), ("cpu", True, True)]
)
def test_what_cannot_travel_from_where_it_is_travels_over_the_device_of_the_group_and_comes_back(
    ranks: GroupRanks, device: str, in_stream: bool, is_copied: bool
) -> None:
    sent: list[Any] = []
    there: Any = object()
    tensor: Any = Placed(device, there)
    timed: Any = SimpleNamespace(
        timing=SimpleNamespace(in_stream=lambda device: in_stream),
        allreduce=lambda tensors, options: sent.append((tensors, options.asyncOp)),
    )
    ranks._timed = timed
    ranks.sum(tensor)
    assert sent == [([there if is_copied else tensor], False)]
    assert tensor.copied == ([there] if is_copied else [])


def test_what_goes_on_is_waited_for() -> None:
    waits: list[str] = []
    work: Any = SimpleNamespace(wait=lambda: waits.append("waits"))
    for one in (work, None):
        _group_transport._complete(one)
    assert waits == ["waits"]


# -- the group --------------------------------------------------------------------------------------------


def test_a_group_that_is_freed_is_destroyed_and_may_have_been_before(ranks: GroupRanks) -> None:
    assert ranks.comm in c10d._world.pg_map
    ranks.free()
    assert ranks.comm not in c10d._world.pg_map
    ranks.free()
    dist.destroy_process_group()
    ranks.free()


def test_a_group_that_is_timed_here_is_timed_nowhere_else_and_one_that_times_itself_is_taken(
    world: dist.ProcessGroup, logger: TimingLogger, monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[Any] = []
    monkeypatch.setattr(_group_transport, "leave_to_its_maker", left.append)
    timed = _group_transport._timed(world, logger)
    assert timed.untimed is world
    assert _group_transport._timed(timed, logger) is timed
    assert left == [world]


@pytest.mark.parametrize(("members", "locally"), [([0], True), ([0, 1], False)])
def test_only_the_members_take_part_in_making_it_where_they_are_not_all(
    world: dist.ProcessGroup, monkeypatch: pytest.MonkeyPatch, members: list[int], locally: bool
) -> None:
    asked: dict[str, Any] = {}

    def new_group(ranks: list[int], **options: Any) -> dist.ProcessGroup:
        asked.update(options, ranks=ranks)
        return world

    monkeypatch.setattr(dist, "new_group", new_group)
    monkeypatch.setattr(dist, "get_world_size", lambda: 2)
    assert _group_transport._group_like(world, members) is world
    assert (asked["ranks"], asked["backend"]) == (members, "gloo")
    assert asked["use_local_synchronization"] is locally


def test_a_group_in_which_this_rank_is_not_is_refused(
    world: dist.ProcessGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dist, "new_group", lambda *_, **__: dist.GroupMember.NON_GROUP_MEMBER)
    with pytest.raises(ConfigurationError, match="a process group that this rank is in"):
        _group_transport._group_like(world, [0])
