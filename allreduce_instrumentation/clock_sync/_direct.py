"""The channels that two ranks have for their ping-pongs: messages of a link, or a TCP connection.

Nothing here loads torch or MPI, so that ranks of the one need not have the other.

The connection is for gloo, which passes each message through a thread of its own to the waiting one. That
costs two wake-ups each way, which take long at times and seldom equally long. A thread that polls a socket
needs no wake-up.
"""

from __future__ import annotations

import functools
import hmac
import ipaddress
import json
import os
import secrets
import selectors
import socket
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack, closing, suppress
from typing import Any, Protocol, TypedDict

from timing_logger.process.this_process import boot_id


class PeerConnection(Protocol):
    """The protocol of a connection to one peer, for ping-pongs; each call is complete on return."""

    def send(self, content: bytearray) -> None:
        """Send the one byte of ``content``."""

    def receive(self, content: bytearray) -> None:
        """Overwrite the one byte of ``content``."""


class MessageLink(Protocol):
    """The protocol of messages of bytes between the ranks of a communicator; calls are complete on return.

    Attributes:
        rank, size: this rank in the communicator, and the number of its ranks.
    """

    rank: int
    size: int

    def send(self, content: bytearray, peer: int) -> None:
        """Send all of ``content``, which is not empty."""

    def receive(self, content: bytearray, peer: int) -> None:
        """Overwrite ``content`` with a message of the same length from ``peer``."""

    def rest_until_message(self, peer: int) -> None:
        """Wait until a message of ``peer`` can be received, and leave the processor to others meanwhile."""

    def channel_to(self, peer: int) -> AbstractContextManager[PeerConnection]:
        """Open the fastest channel to ``peer``, the reference, which calls :meth:`channel_from` meanwhile."""

    def channel_from(self, peer: int) -> AbstractContextManager[PeerConnection]:
        """Open the reference's end of the channel that ``peer`` opens by :meth:`channel_to`."""


class LinkChannel:
    """A channel to ``peer`` through the messages of ``link``."""

    def __init__(self, link: MessageLink, peer: int) -> None:
        self._link = link
        self._peer = peer

    def send(self, content: bytearray) -> None:
        self._link.send(content, self._peer)

    def receive(self, content: bytearray) -> None:
        self._link.receive(content, self._peer)


_LENGTH_BYTES = 8


def send_json(link: MessageLink, peer: int, value: object) -> None:
    """Send ``value`` as JSON to ``peer``, which calls :func:`receive_json`."""
    content = bytearray(json.dumps(value).encode())
    link.send(bytearray(len(content).to_bytes(_LENGTH_BYTES, "little")), peer)
    link.send(content, peer)


def receive_json(link: MessageLink, peer: int) -> Any:
    """Return the value that ``peer`` sends by :func:`send_json`."""
    length = bytearray(_LENGTH_BYTES)
    link.receive(length, peer)
    content = bytearray(int.from_bytes(length, "little"))
    link.receive(content, peer)
    return json.loads(content)


# -- a connection ------------------------------------------------------------------------------------

_POLLS = 1_000
"""How often a socket is polled before the thread sleeps: about a millisecond, longer than a message takes."""

_CONNECT_TIMEOUT_S = 1.0
"""The time limit in seconds for connecting to one address; all of it is spent if a firewall drops packets."""

_MOST_STRANGERS = 64
"""The most open connections that have not sent the token; a peer sends it before it reports a connection."""

_MAX_TIMEOUT_S = 86_400.0
"""The longest wait for one ping, in seconds; the operating system's limit is 24 days."""

_TOKEN_BYTES = 16

_Selector = getattr(selectors, "PollSelector", selectors.SelectSelector)
"""The selector class: poll needs no descriptor of its own, and descriptors of any number work with it."""

_yield_processor = getattr(os, "sched_yield", lambda: None)
"""Lets another thread run, as the peer may need the same processor."""


class Invitation(TypedDict):
    """What a peer needs to connect to the reference: where it listens, its token, and its host's boot id."""

    addresses: list[tuple[str, int]]
    token: str
    boot_id: str


class Connection:
    """A :class:`PeerConnection` over a connected socket.

    Args:
        connected: the socket; the caller closes it.
        timeout_s: how long ``receive`` waits for a message, in seconds, but at most one day.

    Raises:
        OSError: from ``send`` and ``receive``, if the peer has gone or was silent for ``timeout_s``.
    """

    def __init__(self, connected: socket.socket, timeout_s: float) -> None:
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connected.setblocking(False)
        self._socket = connected
        self._timeout_s = min(timeout_s, _MAX_TIMEOUT_S)

    def send(self, content: bytearray) -> None:
        self._socket.sendall(content)  # one byte, and the previous one was answered: the buffer has room

    def receive(self, content: bytearray) -> None:
        for _ in range(_POLLS):
            try:
                received = self._socket.recv_into(content)
            except BlockingIOError:
                _yield_processor()
            else:
                break
        else:
            received = self._receive_at_rest(content)
        if received != len(content):
            raise ConnectionError("The peer closed its connection in the middle of the ping-pongs.")

    def _receive_at_rest(self, content: bytearray) -> int:
        if not _ready([self._socket], self._timeout_s):
            raise TimeoutError(f"The peer answered no ping for {self._timeout_s:g} s.")
        return self._socket.recv_into(content)


class PeerListener:
    """Listens on the reference rank for connections of its peers, until it is closed.

    Args:
        addresses: addresses of this host; those that cannot be listened on are left out.
    """

    def __init__(self, addresses: Sequence[str]) -> None:
        self._token = secrets.token_bytes(_TOKEN_BYTES)
        self._listening = _listening_at(addresses)

    @property
    def invitation(self) -> Invitation:
        """The addresses, token and boot id that a peer needs to connect, as a value for JSON."""
        addresses = [listening.getsockname()[:2] for listening in self._listening]
        return {"addresses": addresses, "token": self._token.hex(), "boot_id": boot_id()}

    def accept(self) -> socket.socket | None:
        """Return the connection of the peer, which has reported that it connected; None if none arrives.

        Waits for 1 second at most. A port is open to anybody: connections without the token are closed.
        """
        deadline_s = time.monotonic() + _CONNECT_TIMEOUT_S
        with closing(_Door(self._token)) as door:
            while (left_s := deadline_s - time.monotonic()) > 0:
                for ready in _ready([*self._listening, *door.strangers], left_s):
                    connected = door.open(ready) if ready in self._listening else door.ask(ready)
                    if connected is not None:
                        return connected
        return None

    def close(self) -> None:
        """Stop listening; further calls do nothing."""
        while self._listening:
            self._listening.pop().close()


class _Door:
    """Accepted connections that have not sent the whole token yet; none of them blocks the others.

    Attributes:
        strangers: what each connection has sent of the token so far, the oldest connection first.
    """

    def __init__(self, token: bytes) -> None:
        self._token = token
        self.strangers: dict[socket.socket, bytes] = {}

    def open(self, listening: socket.socket) -> socket.socket | None:
        """Accept all connections that wait at ``listening``; return the peer's if it is among them."""
        with suppress(OSError):  # no connection waits any more, or no descriptor is left
            while True:
                stranger, _ = listening.accept()
                stranger.setblocking(False)
                self.strangers[stranger] = b""
                if self.ask(stranger) is not None:
                    return stranger
                if len(self.strangers) > _MOST_STRANGERS:
                    self._show_out(next(iter(self.strangers)))
        return None

    def ask(self, stranger: socket.socket) -> socket.socket | None:
        """Read from ``stranger``: return it if the token is complete, close it if it cannot be the peer."""
        said = self.strangers[stranger]
        try:
            said += (heard := stranger.recv(_TOKEN_BYTES - len(said)))
        except BlockingIOError:
            return None
        except OSError:
            heard = b""
        self.strangers[stranger] = said
        if len(said) == _TOKEN_BYTES and hmac.compare_digest(said, self._token):
            del self.strangers[stranger]
            return stranger
        if not heard or len(said) == _TOKEN_BYTES:
            self._show_out(stranger)
        return None

    def _show_out(self, stranger: socket.socket) -> None:
        del self.strangers[stranger]
        stranger.close()

    def close(self) -> None:
        """Close all connections that are left."""
        while self.strangers:
            self._show_out(next(iter(self.strangers)))


def connect(invitation: Invitation) -> socket.socket | None:
    """Return a connection to the listener of ``invitation``; None if no address can be reached from here."""
    for host, port in invitation["addresses"]:
        if ipaddress.ip_address(host).is_loopback and invitation["boot_id"] != boot_id():
            continue  # loopback leads to this host, not to the reference's
        with suppress(OSError), ExitStack() as undo:
            connected = socket.create_connection((host, port), _CONNECT_TIMEOUT_S)
            undo.callback(connected.close)
            connected.sendall(bytes.fromhex(invitation["token"]))
            undo.pop_all()
            return connected
    return None


def _ready(sockets: Sequence[socket.socket], timeout_s: float) -> list[socket.socket]:
    """Return the sockets that can be read, waiting for ``timeout_s`` seconds at most for one."""
    with _Selector() as selector:
        for one in sockets:
            selector.register(one, selectors.EVENT_READ)
        ready = {key.fd for key, _ in selector.select(timeout_s)}
    return [one for one in sockets if one.fileno() in ready]


def _listening_at(addresses: Sequence[str]) -> list[socket.socket]:
    found = []
    for address in addresses:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with suppress(OSError):  # an address that this host no longer has
            found.append(socket.create_server((address, 0), family=family))
            found[-1].setblocking(False)  # a connection that select() announces may be closed again
    return found


def own_addresses() -> list[str]:
    """Return the addresses by which other ranks may reach this host, in the order in which to try them.

    Loopback comes first, for ranks of this host.
    """
    return list(_addresses(socket.gethostname(), os.environ.get("MASTER_ADDR")))


@functools.cache
def _addresses(host: str, master: str | None) -> tuple[str, ...]:
    """Return the addresses of ``host`` and of the interface towards ``master``."""
    # Cached: where no server answers for names, it takes many seconds.
    addresses = ["127.0.0.1", "::1"]
    if master is not None:
        addresses += _addresses_towards(master)
    with suppress(OSError, UnicodeError):
        addresses += [str(found[4][0]) for found in socket.getaddrinfo(host, None)]
    return tuple(dict.fromkeys(addresses))


def _addresses_towards(host: str) -> list[str]:
    """Return the addresses of the interfaces from which a message to ``host`` would leave; none is sent."""
    found = []
    with suppress(OSError, UnicodeError):
        for family, _, _, _, address in socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM):
            with socket.socket(family, socket.SOCK_DGRAM) as unsent, suppress(OSError):
                unsent.connect(address)
                found.append(str(unsent.getsockname()[0]))
    return found
