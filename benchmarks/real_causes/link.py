"""A link to one rank that can be made slow: the rank has a network namespace of its own."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from real_causes.keeper import called, kept

_NAMESPACE = "REAL_CAUSES_NAMESPACE"
_ENDS = "tl-causes"  # each end of the link, which are in different namespaces
_OUTSIDE, _INSIDE = "198.18.0.1", "198.18.0.2"  # of the range for benchmarks (RFC 2544)
SLOW, SHORT = "tbf rate 20mbit burst 16kb latency 1s", "tbf rate 100mbit burst 4kb limit 4kb"
_QUICK = "pfifo"
_CLONE_NEWNET = 0x40000000


@contextmanager
def with_link() -> Iterator[dict[str, str]]:
    """Make a namespace and a link into it. Raises OSError where that is not possible."""
    with kept(f"ip link delete {_ENDS}", within=["unshare", "--net"]) as inside:
        _ip(f"link add {_ENDS} type veth peer name {_ENDS} netns {inside}")
        _ip(f"addr add {_OUTSIDE}/30 dev {_ENDS}")
        _ip(f"link set {_ENDS} up")
        enter = ("nsenter", "--net", "--target", str(inside))
        _ip(f"addr add {_INSIDE}/30 dev {_ENDS}", enter)
        _ip(f"link set {_ENDS} up", enter)
        for queue in (SLOW, SHORT, _QUICK):
            _queue_by(queue, enter)
        yield {_NAMESPACE: f"/proc/{inside}/ns/net", "GLOO_SOCKET_IFNAME": _ENDS}


def behind_link(queue: str) -> Callable[[bool], None]:
    """Move this thread, and those that it starts, behind the link; return what puts that queue before it."""
    with open(os.environ[_NAMESPACE]) as namespace:
        libc = ctypes.CDLL(None, use_errno=True)  # `os.setns` is of Python 3.12
        if libc.setns(namespace.fileno(), _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "setns")
    os.environ["MASTER_ADDR"] = _OUTSIDE
    return lambda on: _queue_by(queue if on else _QUICK)


def _ip(arguments: str, within: tuple[str, ...] = ()) -> None:
    called(*within, "ip", *arguments.split())


def _queue_by(discipline: str, within: tuple[str, ...] = ()) -> None:
    """Say in which way the rank's end of the link queues what the rank sends."""
    called(*within, "tc", *f"qdisc replace dev {_ENDS} root {discipline}".split())
