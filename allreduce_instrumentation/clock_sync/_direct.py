"""A TCP connection of two ranks' own, for the length of their ping-pongs.

gloo hands each message to a thread of its own and from there to the one that waits: two wake-ups each
way, as long as the processor likes, and seldom equally long. Whoever polls a socket is not woken.
"""

from __future__ import annotations

import functools
import hmac
import ipaddress
import os
import secrets
import selectors
import socket
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing, suppress
from typing import Any

from timing_logger.run_info import boot_id

_POLLS = 1_000
"""About a millisecond, which is longer than a message takes; then the processor is left to others."""

_CONNECT_TIMEOUT_S = 1.0
"""For one address. Where a firewall is silent, all of it is spent."""

_MOST_STRANGERS = 64
"""Who have come in and not shown the token, which a peer sends before it says that it is connected."""

_MAX_TIMEOUT_S = 86_400.0
"""Of one wait for a ping; the system's own limit is 24 days."""

_TOKEN_BYTES = 16

_Selector = getattr(selectors, "PollSelector", selectors.SelectSelector)
"""Needs no descriptor of its own, where there may be none left, and knows no highest number of them."""

_yield_processor = getattr(os, "sched_yield", lambda: None)
"""The peer may have to run on the same one."""


class Connection:
    """See :class:`~._links.Channel`.

    Raises:
        OSError: from both calls, where the peer has gone, or said nothing for ``timeout_s``.
    """

    def __init__(self, connected: socket.socket, timeout_s: float) -> None:
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connected.setblocking(False)
        self._socket = connected
        self._timeout_s = min(timeout_s, _MAX_TIMEOUT_S)

    def send(self, content: bytearray) -> None:
        self._socket.sendall(content)  # a ball has one byte: the buffer of an answered peer has room

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


class Listener:
    """Where the reference is to be reached, until it is closed.

    Args:
        addresses: of this host; those that cannot be listened at are left out.
    """

    def __init__(self, addresses: Sequence[str]) -> None:
        self._token = secrets.token_bytes(_TOKEN_BYTES)
        self._listening = _listening_at(addresses)

    @property
    def invitation(self) -> dict[str, Any]:
        """What a peer has to know to come in; for JSON."""
        addresses = [listening.getsockname()[:2] for listening in self._listening]
        return {"addresses": addresses, "token": self._token.hex(), "boot_id": boot_id()}

    def accept(self) -> socket.socket | None:
        """The connection of the peer, which says that it is made; None where it did not get here.

        A port is open to anybody: who does not know the token is shown out.
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
        while self._listening:
            self._listening.pop().close()


class _Door:
    """Whoever has come in and not yet said who they are. Nobody is waited for while another one waits.

    Attributes:
        strangers: what they have sent so far of the token, the longest there first.
    """

    def __init__(self, token: bytes) -> None:
        self._token = token
        self.strangers: dict[socket.socket, bytes] = {}

    def open(self, listening: socket.socket) -> socket.socket | None:
        """Let all in who wait there; the peer, if it is among them."""
        with suppress(OSError):  # nobody waits there any more, or no descriptor is left
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
        """``stranger``, if it is the peer; who cannot be is shown out."""
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
        """Show all out who are left."""
        while self.strangers:
            self._show_out(next(iter(self.strangers)))


def connect(invitation: dict[str, Any]) -> socket.socket | None:
    """A connection to who sent ``invitation``; None where no address of it can be reached from here."""
    for host, port in invitation["addresses"]:
        if ipaddress.ip_address(host).is_loopback and invitation["boot_id"] != boot_id():
            continue  # that would be this host, not the reference's
        with suppress(OSError), ExitStack() as undo:
            connected = socket.create_connection((host, port), _CONNECT_TIMEOUT_S)
            undo.callback(connected.close)
            connected.sendall(bytes.fromhex(invitation["token"]))
            undo.pop_all()
            return connected
    return None


def _ready(sockets: Sequence[socket.socket], timeout_s: float) -> list[socket.socket]:
    """Those that have something to be read."""
    with _Selector() as selector:
        for one in sockets:
            selector.register(one, selectors.EVENT_READ)
        ready = {key.fd for key, _ in selector.select(timeout_s)}
    return [one for one in sockets if one.fileno() in ready]


def _listening_at(addresses: Sequence[str]) -> list[socket.socket]:
    found = []
    for address in addresses:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with suppress(OSError):  # an address that this host has no longer
            found.append(socket.create_server((address, 0), family=family))
            found[-1].setblocking(False)  # who is announced may have left again
    return found


def own_addresses() -> list[str]:
    """By which others may reach this host, the likeliest first; loopback is for those on it."""
    return list(_addresses(socket.gethostname(), os.environ.get("MASTER_ADDR")))


@functools.cache
def _addresses(host: str, master: str | None) -> tuple[str, ...]:
    """Asked for once: where nobody answers for names, it takes many seconds."""
    addresses = ["127.0.0.1", "::1"]
    if master is not None:
        addresses += _addresses_towards(master)
    with suppress(OSError, UnicodeError):
        addresses += [str(found[4][0]) for found in socket.getaddrinfo(host, None)]
    return tuple(dict.fromkeys(addresses))


def _addresses_towards(host: str) -> list[str]:
    """Of the interfaces from which a message to ``host`` would leave; none is sent."""
    found = []
    with suppress(OSError, UnicodeError):
        for family, _, _, _, address in socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM):
            with socket.socket(family, socket.SOCK_DGRAM) as unsent, suppress(OSError):
                unsent.connect(address)
                found.append(str(unsent.getsockname()[0]))
    return found
