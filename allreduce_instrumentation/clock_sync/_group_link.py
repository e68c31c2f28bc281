"""Ping-pongs over a process group of ``torch.distributed``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist

from timing_logger.errors import ConfigurationError

_TAG = 0x436C6F63
"""Receives of torch name a tag, also those from any rank, so nobody else's message is taken."""


class GroupLink:
    """See :class:`~._links.Link`. Goes to the backend itself, below all that is timed."""

    def __init__(self, group: dist.ProcessGroup) -> None:
        self._backend: Any = group._get_backend(torch.device("cpu"))
        self.rank: int = group.rank()
        self.size: int = group.size()

    def send(self, content: bytearray, peer: int) -> None:
        self._backend.send([_tensor(content)], peer, _TAG).wait()

    def receive(self, content: bytearray, peer: int) -> None:
        self._backend.recv([_tensor(content)], peer, _TAG).wait()

    def rest_until_message(self, peer: int) -> None:
        """Receiving from a backend of the host rests by itself."""


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
    yield link
