"""Ping-pongs over a process group of ``torch.distributed``."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from allreduce_instrumentation.clock_sync._direct import Connection, Listener, connect, own_addresses
from allreduce_instrumentation.clock_sync._links import Channel, LinkChannel, receive_json, send_json
from timing_logger.errors import ConfigurationError

_TAG = 0x436C6F63
"""Receives of torch name a tag, also those from any rank, so nobody else's message is taken."""


class GroupLink:
    """See :class:`~._links.Link`. Goes to the backend itself, below all that is timed."""

    def __init__(self, group: dist.ProcessGroup) -> None:
        self._backend: Any = group._get_backend(torch.device("cpu"))
        self.rank: int = group.rank()
        self.size: int = group.size()
        self._timeout_s = _timeout_s(self._backend)
        self._listener: Listener | None = None

    def send(self, content: bytearray, peer: int) -> None:
        self._backend.send([_tensor(content)], peer, _TAG).wait()

    def receive(self, content: bytearray, peer: int) -> None:
        self._backend.recv([_tensor(content)], peer, _TAG).wait()

    def rest_until_message(self, peer: int) -> None:
        """Receiving from a backend of the host rests by itself."""

    @contextmanager
    def channel_to(self, peer: int) -> Iterator[Channel]:
        """A connection, where the reference listens and can be reached; else the group's messages."""
        connected = connect(receive_json(self, peer))
        with connected or nullcontext():
            send_json(self, peer, connected is not None)
            accepted = receive_json(self, peer)
            yield self._channel(connected if accepted else None, peer)

    @contextmanager
    def channel_from(self, peer: int) -> Iterator[Channel]:
        """See :meth:`channel_to`. Once a peer could not come, nobody else loses time with trying."""
        self._listener = self._listener or Listener(own_addresses())
        send_json(self, peer, self._listener.invitation)
        connected = self._listener.accept() if receive_json(self, peer) else None
        with connected or nullcontext():
            send_json(self, peer, connected is not None)
            yield self._channel(connected, peer)
        if connected is None:
            self._listener.close()

    def _channel(self, connected: socket.socket | None, peer: int) -> Channel:
        return LinkChannel(self, peer) if connected is None else Connection(connected, self._timeout_s)

    def close(self) -> None:
        if self._listener is not None:
            self._listener.close()


def _timeout_s(backend: Any) -> float:
    """How long the group waits for a message; torch's default of a backend that does not say."""
    try:
        timeout: timedelta = backend.options._timeout
    except (RuntimeError, AttributeError):
        timeout = dist.constants.default_pg_timeout
    return timeout.total_seconds()


def _tensor(content: bytearray) -> torch.Tensor:
    return torch.frombuffer(content, dtype=torch.uint8)


@contextmanager
def group_link(group: dist.ProcessGroup) -> Iterator[GroupLink]:
    """A link over the group's backend for the host.

    Raises:
        ConfigurationError: it has none.
    """
    try:
        link = GroupLink(group)
    except RuntimeError as error:
        raise ConfigurationError(
            "comm is a process group without a backend for the host's tensors: pass one of the same ranks, "
            'made once by torch.distributed.new_group(ranks, backend="gloo").'
        ) from error
    with closing(link):
        yield link
