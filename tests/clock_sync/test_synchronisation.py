"""A measurement of clocks between threads that are ranks: whose turn it is, and what is refused."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any

import pytest
from limits import LIMIT_S

dist = pytest.importorskip("torch.distributed")

from allreduce_instrumentation.clock_sync import _group_link, synchronisation  # noqa: E402
from allreduce_instrumentation.clock_sync._direct import Connection, LinkChannel, PeerConnection  # noqa: E402
from allreduce_instrumentation.clock_sync._group_link import GroupLink  # noqa: E402
from allreduce_instrumentation.clock_sync.synchronisation import measure, synchronise_clocks  # noqa: E402
from timing_logger.errors import ConfigurationError  # noqa: E402
from timing_logger.process.this_process import boot_id, host_name  # noqa: E402
from timing_logger.schema.sidecar import ClockOffset  # noqa: E402

Mail = dict[tuple[int, int], "SimpleQueue[bytes]"]


def mail_of(size: int) -> Mail:
    return {pair: SimpleQueue() for pair in itertools.product(range(size), repeat=2)}


class Ball(LinkChannel):
    """A channel on which each message takes 1 ns of ``now_ns``, and all else no time."""

    def __init__(self, link: Link, peer: int, now_ns: list[int]) -> None:
        super().__init__(link, peer)
        self._now_ns = now_ns

    def send(self, content: bytearray) -> None:
        self._now_ns[0] += 1
        super().send(content)


class Link:
    """A link of one thread to the others; it counts how often it rested."""

    def __init__(self, rank: int, size: int, mail: Mail, now_ns: list[int]) -> None:
        self.rank, self.size, self._mail, self._now_ns = rank, size, mail, now_ns
        self.rests = 0

    def send(self, content: bytearray, peer: int) -> None:
        self._mail[self.rank, peer].put(bytes(content))

    def receive(self, content: bytearray, peer: int) -> None:
        message = self._mail[peer, self.rank].get(timeout=LIMIT_S)
        assert len(message) == len(content)
        content[:] = message

    def rest_until_message(self, peer: int) -> None:
        self.rests += 1

    def channel_to(self, peer: int) -> AbstractContextManager[PeerConnection]:
        return nullcontext(Ball(self, peer, self._now_ns))

    channel_from = channel_to


def on_ranks(size: int, program: Callable[[int], Any]) -> list[Any]:
    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(program, range(size), timeout=LIMIT_S))


def test_each_rank_in_its_turn_finds_how_far_its_clock_is_from_the_reference_s() -> None:
    now_ns, mail = [0], mail_of(3)
    ahead_ns = [500, 1_000, 7]
    links = [Link(rank, 3, mail, now_ns) for rank in range(3)]

    def program(rank: int) -> ClockOffset:
        def clock() -> int:
            return now_ns[0] + ahead_ns[rank]

        return measure(links[rank], 10 + rank, exchanges=3, reference=1, clock=clock)

    of_reference = (11, host_name(), boot_id(), 3)
    assert on_ranks(3, program) == [
        (2 + 500, 500, 1, *of_reference),
        (12 + 1_000, 0, 0, *of_reference),
        (6 + 2 + 7, 993, 1, *of_reference),
    ]
    assert [link.rests for link in links] == [2, 0, 2]  # for their turn, and for the end
    assert all(box.empty() for box in mail.values())


# -- whom it is asked of -----------------------------------------------------------------------------------


class Logger:
    """One that keeps what it is given."""

    rank = 5

    def __init__(self) -> None:
        self.offsets: list[ClockOffset] = []

    def add_clock_offset(self, offset: ClockOffset) -> None:
        self.offsets.append(offset)


@pytest.fixture
def logger() -> Any:
    return Logger()


@pytest.fixture
def is_alone(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Let every communicator have this rank alone; return those that were asked for a link."""
    asked: list[object] = []

    @contextmanager
    def link_over(comm: object) -> Iterator[Link]:
        asked.append(comm)
        yield Link(0, 1, mail_of(1), [0])

    monkeypatch.setattr(synchronisation, "_link_over", link_over)
    return asked


def test_the_result_is_returned_and_goes_to_the_sidecar_of_the_logger(
    logger: Any, is_alone: list[object]
) -> None:
    comm: Any = object()
    offset = synchronise_clocks(logger, comm, exchanges=1)
    assert offset[1:] == (0, 0, 5, host_name(), boot_id(), 1)
    assert logger.offsets == [offset]
    assert is_alone == [comm]


@pytest.mark.usefixtures("is_alone")
def test_without_a_logger_it_is_that_of_the_process_and_a_hundred_ping_pongs_are_played(
    logger: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(synchronisation, "get_timing_logger", lambda: logger)
    assert synchronise_clocks().exchanges == 100
    assert len(logger.offsets) == 1


@pytest.mark.usefixtures("is_alone")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"exchanges": 0}, "exchanges must be an integer >= 1, and is 0"),
        ({"reference": -1}, "reference must be an integer >= 0, and is -1"),
        ({"reference": 1}, r"reference=1 is no rank of comm, which has 1\."),
    ],
)
def test_what_cannot_be_measured_is_refused_and_leaves_nothing(
    logger: Any, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        synchronise_clocks(logger, **arguments)
    assert logger.offsets == []


def test_without_a_default_group_none_can_be_meant() -> None:
    for distributed in (None, SimpleNamespace(is_initialized=lambda: False)):
        with pytest.raises(ConfigurationError, match=r"comm is None.*there is none: call"):
            synchronisation._default_group(distributed)
    world = object()
    begun = SimpleNamespace(is_initialized=lambda: True, group=SimpleNamespace(WORLD=world))
    assert synchronisation._default_group(begun) is world


def test_what_is_no_communicator_is_refused() -> None:
    comm: Any = "world"
    with pytest.raises(ConfigurationError, match=r"comm must be an mpi4py intracomm.*and is 'world'"):
        synchronisation._link_over(comm)


def test_a_process_group_has_the_link_of_process_groups() -> None:
    group = dist.ProcessGroup(0, 1)  # which has no backend at all
    with (
        pytest.raises(ConfigurationError, match="a process group without a backend for the host"),
        synchronisation._link_over(group),
    ):
        pass


# -- the channels of a process group -----------------------------------------------------------------------


class Group:
    """A process group of a thread, and its backend; messages state their tag."""

    def __init__(self, rank: int, size: int, mail: Mail) -> None:
        self._rank, self._size, self._mail = rank, size, mail

    def _get_backend(self, device: object) -> Group:
        return self

    def rank(self) -> int:
        return self._rank

    def size(self) -> int:
        return self._size

    def send(self, tensors: list[Any], peer: int, tag: int) -> Any:
        (tensor,) = tensors
        self._mail[self._rank, peer].put(bytes([tag % 251]) + tensor.numpy().tobytes())
        return SimpleNamespace(wait=lambda: None)

    def recv(self, tensors: list[Any], peer: int, tag: int) -> Any:
        (tensor,) = tensors

        def wait() -> None:
            message = self._mail[peer, self._rank].get(timeout=LIMIT_S)
            assert (message[0], len(message) - 1) == (tag % 251, tensor.numel())
            tensor.numpy()[:] = list(message[1:])

        return SimpleNamespace(wait=wait)


def channels(size: int) -> tuple[list[list[type]], bool]:
    """Play one ball with each peer; return each rank's channels, and whether the reference still listens."""
    mail = mail_of(size)
    groups: list[Any] = [Group(rank, size, mail) for rank in range(size)]
    links = [GroupLink(group) for group in groups]

    def program(rank: int) -> list[type]:
        found, ball = [], bytearray(b"?")
        for peer in range(1, size) if rank == 0 else [0]:
            if rank == 0:
                with links[rank].channel_from(peer) as channel:
                    channel.receive(ball)
                    assert ball == bytes([peer])
                    channel.send(bytearray(b"!"))
            else:
                with links[rank].channel_to(0) as channel:
                    channel.send(bytearray([rank]))
                    channel.receive(ball)
                    assert ball == b"!"
            found.append(type(channel))
        return found

    found = on_ranks(size, program)
    listener = links[0]._listener
    assert listener is not None
    listens = bool(listener.invitation["addresses"])
    links[0].close()
    assert listener.invitation["addresses"] == []
    return found, listens


@pytest.fixture(autouse=True)
def on_this_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_group_link, "own_addresses", lambda: ["127.0.0.1"])


def test_ranks_that_can_connect_play_through_connections() -> None:
    assert channels(3) == ([[Connection] * 2, [Connection], [Connection]], True)


def test_where_a_peer_cannot_connect_the_group_carries_it_and_no_other_is_invited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    invited: list[int] = []

    def connect(invitation: Any) -> None:
        invited.append(len(invitation["addresses"]))

    monkeypatch.setattr(_group_link, "connect", connect)
    assert channels(3) == ([[LinkChannel] * 2, [LinkChannel], [LinkChannel]], False)
    assert invited == [1, 0]


def test_a_connection_that_does_not_arrive_is_used_by_neither_side(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_group_link.PeerListener, "accept", lambda self: None)
    assert channels(2) == ([[LinkChannel], [LinkChannel]], False)
