"""The TCP connection through which two ranks of a process group play their ping-pongs."""

from __future__ import annotations

import os
import resource
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from types import SimpleNamespace
from typing import Any

import pytest

from allreduce_instrumentation.clock_sync import _direct
from allreduce_instrumentation.clock_sync._direct import Connection, PeerListener, connect, own_addresses

LONG_S = 30.0


@pytest.fixture
def listener() -> Iterator[PeerListener]:
    with closing(PeerListener(["127.0.0.1"])) as listening:
        yield listening


@pytest.fixture
def pair(listener: PeerListener) -> Iterator[tuple[socket.socket, socket.socket]]:
    """The peer's end and the reference's."""
    connected = connect(listener.invitation)
    accepted = listener.accept()
    assert connected is not None
    assert accepted is not None
    with connected, accepted:
        yield connected, accepted


@pytest.fixture(autouse=True)
def _addresses_are_asked_for_anew() -> None:
    _direct._addresses.cache_clear()


def in_a_thread(function: Callable[[], Any]) -> threading.Thread:
    thread = threading.Thread(target=function)
    thread.start()
    return thread


def test_a_ball_comes_back(pair: tuple[socket.socket, socket.socket]) -> None:
    mine, other = (Connection(end, LONG_S) for end in pair)
    ball = bytearray(1)
    mine.send(bytearray(b"a"))
    other.receive(ball)
    other.send(ball)
    back = bytearray(1)
    mine.receive(back)
    assert back == b"a"


def test_who_has_polled_for_long_rests_until_the_message(
    pair: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    rests = threading.Event()
    monkeypatch.setattr(_direct, "_ready", lambda *args, ready=_direct._ready: (rests.set(), ready(*args))[1])
    mine, other = (Connection(end, LONG_S) for end in pair)
    sender = in_a_thread(lambda: (rests.wait(LONG_S), other.send(bytearray(b"z"))))
    ball = bytearray(1)
    mine.receive(ball)
    sender.join(LONG_S)
    assert (ball, rests.is_set()) == (b"z", True)


def test_a_peer_that_has_gone_is_an_error(pair: tuple[socket.socket, socket.socket]) -> None:
    mine, other = pair
    other.close()
    with pytest.raises(ConnectionError, match="closed its connection in the middle of the ping-pongs"):
        Connection(mine, LONG_S).receive(bytearray(1))


def test_a_peer_that_goes_while_it_is_waited_for_is_an_error(
    pair: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_direct, "_POLLS", 0)
    mine, other = pair
    leaver = in_a_thread(other.close)
    with pytest.raises(ConnectionError, match="closed its connection"):
        Connection(mine, LONG_S).receive(bytearray(1))
    leaver.join(LONG_S)


def test_a_silent_peer_is_waited_for_as_long_as_the_group_waits(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    with pytest.raises(TimeoutError, match=r"The peer answered no ping for 0\.05 s"):
        Connection(pair[0], 0.05).receive(bytearray(1))


def test_a_stranger_is_shown_out_and_the_peer_let_in(listener: PeerListener) -> None:
    (address,) = listener.invitation["addresses"]
    with socket.create_connection(address, LONG_S) as stranger:
        stranger.sendall(bytes(_direct._TOKEN_BYTES))
        with connect(listener.invitation) or pytest.fail("no connection") as peer:
            accepted = listener.accept()
            assert accepted is not None
            assert accepted.getpeername() == peer.getsockname()
            assert stranger.recv(1) == b""
            accepted.close()


@pytest.mark.parametrize("n_strangers", [1, 5, 2 * _direct._MOST_STRANGERS - 10])
def test_who_says_nothing_keeps_no_peer_waiting(
    listener: PeerListener, n_strangers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many there are before it. There is time for one wait, if it must be, and it is none."""
    waits: list[float] = []
    monkeypatch.setattr(
        _direct, "_ready", lambda *args, ready=_direct._ready: (waits.append(args[1]), ready(*args))[1]
    )
    (address,) = listener.invitation["addresses"]
    with ExitStack() as stack:
        for _ in range(n_strangers):
            stack.enter_context(socket.create_connection(address, LONG_S))
        peer = stack.enter_context(connect(listener.invitation) or pytest.fail("no connection"))
        accepted = stack.enter_context(listener.accept() or pytest.fail("not let in"))
        assert accepted.getpeername() == peer.getsockname()
        assert len(waits) == 1


@pytest.fixture
def door() -> Iterator[_direct._Door]:
    with closing(_direct._Door(b"t" * _direct._TOKEN_BYTES)) as found:
        yield found


def test_a_stranger_who_hangs_up_or_says_something_else_is_shown_out_at_once(door: _direct._Door) -> None:
    gone, wrong = socket.socketpair(), socket.socketpair()
    with gone[0], wrong[0]:
        for _, here in (gone, wrong):
            here.setblocking(False)
            door.strangers[here] = b""
            assert door.ask(here) is None
        assert len(door.strangers) == 2
        gone[0].close()
        wrong[0].sendall(b"x" * _direct._TOKEN_BYTES)
        assert (door.ask(gone[1]), door.ask(wrong[1])) == (None, None)
        assert door.strangers == {}
        assert gone[1].fileno() == wrong[1].fileno() == -1


def test_who_has_the_token_is_no_stranger_and_stays_when_the_door_is_closed(door: _direct._Door) -> None:
    peer, silent = socket.socketpair(), socket.socketpair()
    with peer[0], peer[1], silent[0]:
        for _, here in (peer, silent):
            here.setblocking(False)
            door.strangers[here] = b""
        peer[0].sendall(b"t" * _direct._TOKEN_BYTES)
        assert door.ask(peer[1]) is peer[1]
        assert list(door.strangers) == [silent[1]]
        door.close()
        assert peer[1].fileno() != -1
        assert silent[1].fileno() == -1


def test_of_more_strangers_than_the_most_the_oldest_are_shown_out(
    door: _direct._Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_direct, "_MOST_STRANGERS", 2)
    pairs = [socket.socketpair() for _ in range(4)]
    waiting = [here for _, here in pairs]

    def accept() -> tuple[socket.socket, None]:
        if not waiting:
            raise BlockingIOError
        return waiting.pop(0), None

    listening: Any = SimpleNamespace(accept=accept)
    assert door.open(listening) is None
    assert list(door.strangers) == [pairs[2][1], pairs[3][1]]
    assert [here.fileno() == -1 for _, here in pairs] == [True, True, False, False]
    assert {here.getblocking() for here in door.strangers} == {False}
    for there, _ in pairs:
        there.close()


def test_a_connection_that_breaks_before_the_token_is_sent_is_closed(
    listener: PeerListener, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Breaks:
        is_closed = False

        def sendall(self, content: bytes) -> None:
            raise ConnectionResetError

        def close(self) -> None:
            self.is_closed = True

    broken = Breaks()
    monkeypatch.setattr(socket, "create_connection", lambda *_: broken)
    assert connect(listener.invitation) is None
    assert broken.is_closed


def test_small_messages_are_sent_at_once(pair: tuple[socket.socket, socket.socket]) -> None:
    Connection(pair[0], LONG_S)
    assert pair[0].getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_peer_that_comes_behind_strangers_who_say_half_of_it_is_let_in(listener: PeerListener) -> None:
    (address,) = listener.invitation["addresses"]
    with ExitStack() as stack:
        for said in (b"", b"x", bytes(_direct._TOKEN_BYTES - 1), bytes(100)):
            stranger = stack.enter_context(socket.create_connection(address, LONG_S))
            stranger.sendall(said)
        gone = socket.create_connection(address, LONG_S)
        gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        gone.close()  # with a reset
        late = in_a_thread(lambda: stack.enter_context(connect(listener.invitation) or pytest.fail("none")))
        stack.enter_context(listener.accept() or pytest.fail("not let in"))
        late.join(LONG_S)
        with suppress(ConnectionError):  # it may be reset, having sent more than was read
            assert stranger.recv(1) == b""


def test_a_token_that_comes_in_pieces_is_one(listener: PeerListener) -> None:
    (address,) = listener.invitation["addresses"]
    token = bytes.fromhex(listener.invitation["token"])
    with socket.create_connection(address, LONG_S) as peer:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        peer.sendall(token[:3])
        rest = in_a_thread(lambda: peer.sendall(token[3:]))
        accepted = listener.accept()
        rest.join(LONG_S)
        assert accepted is not None
        assert accepted.getpeername() == peer.getsockname()
        accepted.close()


def test_a_connection_that_cannot_be_accepted_is_none(
    listener: PeerListener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The peer believes in it: an error here would leave it, and all who wait for their turn, alone."""
    monkeypatch.setattr(_direct, "_CONNECT_TIMEOUT_S", 0.05)
    with connect(listener.invitation) or pytest.fail("no connection"):
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        lowest_free = os.dup(0)
        os.close(lowest_free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, limits[1]))  # no descriptor is left
        try:
            assert listener.accept() is None
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_a_group_that_waits_for_months_is_none_too_long(pair: tuple[socket.socket, socket.socket]) -> None:
    """For poll() it would be: it counts in ms, up to 24 days."""
    mine, other = Connection(pair[0], 1e7), Connection(pair[1], LONG_S)
    ball = bytearray(1)
    sender = in_a_thread(lambda: other.send(bytearray(b"a")))
    assert mine._receive_at_rest(ball) == 1
    sender.join(LONG_S)


def test_who_went_elsewhere_is_not_waited_for_long(
    listener: PeerListener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_direct, "_CONNECT_TIMEOUT_S", 0.05)
    assert listener.accept() is None


def test_an_address_that_refuses_gives_way_to_the_next(listener: PeerListener) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed_soon:
        refusing = closed_soon.getsockname()
    invitation = listener.invitation
    connected = connect({**invitation, "addresses": [refusing, *invitation["addresses"]]})
    assert connected is not None
    connected.close()


def test_nobody_is_reached_where_all_addresses_refuse(listener: PeerListener) -> None:
    invitation = listener.invitation
    listener.close()
    assert connect(invitation) is None


def test_the_loopback_of_another_host_is_not_tried(listener: PeerListener) -> None:
    """It would be one's own: some other program may listen there."""
    assert connect({**listener.invitation, "boot_id": "another"}) is None


def test_a_closed_listener_invites_nobody(listener: PeerListener) -> None:
    listener.close()
    assert listener.invitation["addresses"] == []
    assert connect(listener.invitation) is None


def test_addresses_of_other_hosts_are_left_out() -> None:
    with closing(PeerListener(["192.0.2.1", "127.0.0.1", "2001:db8::1"])) as listening:
        assert [host for host, _ in listening.invitation["addresses"]] == ["127.0.0.1"]


def test_the_address_towards_the_master_is_that_of_the_interface_there() -> None:
    assert _direct._addresses_towards("127.0.0.9") == ["127.0.0.1"]
    assert _direct._addresses_towards("no-such-host.invalid") == []
    assert _direct._addresses_towards("no..host") == []  # no name at all


def test_addresses_towards_the_master_and_of_the_host_s_name_are_offered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    by_name = [("10.0.0.7", 0), ("fd00::7", 0, 0, 0), ("10.0.0.7", 0)]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: [(None, None, 0, "", found) for found in by_name])
    monkeypatch.setattr(_direct, "_addresses_towards", lambda host: [f"towards {host}"])
    monkeypatch.setenv("MASTER_ADDR", "node0")
    assert own_addresses() == ["127.0.0.1", "::1", "towards node0", "10.0.0.7", "fd00::7"]
    monkeypatch.delenv("MASTER_ADDR")
    assert own_addresses() == ["127.0.0.1", "::1", "10.0.0.7", "fd00::7"]


def test_a_host_whose_name_is_unknown_is_reached_by_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    for unknown in ("no-such-host.invalid", 64 * "x"):
        monkeypatch.setattr(socket, "gethostname", lambda unknown=unknown: unknown)
        assert own_addresses() == ["127.0.0.1", "::1"]


def test_names_are_asked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every call of every few minutes would wait for a name server that is silent."""
    asked: list[Any] = []
    monkeypatch.setattr(socket, "getaddrinfo", lambda *names: asked.append(names) or [])
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    assert own_addresses() == own_addresses()
    assert len(asked) == 1
