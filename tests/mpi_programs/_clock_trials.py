"""Clocks with a known offset, and what measuring them many times gives; over MPI and over gloo."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter_ns
from typing import Any

from allreduce_instrumentation.clock_sync._direct import MessageLink, PeerConnection
from allreduce_instrumentation.clock_sync.synchronisation import answer, ask, estimate_offset

EXCHANGES = 100
HOUR_NS = 3_600_000_000_000
DRIFT = 1e-4
LATE_EVERY, LATE_BY_NS = 5, 200_000


def shifted(rank: int) -> Callable[[], int]:
    """The clock of a host that booted ``rank`` hours earlier; all ranks pay for the same call."""
    offset_ns = rank * HOUR_NS
    return lambda: perf_counter_ns() + offset_ns


def drifting(rank: int) -> Callable[..., int]:
    """As :func:`shifted`, and ``rank`` times 100 ppm too fast; of now, or of a true instant."""
    offset_ns, began_ns = rank * HOUR_NS, perf_counter_ns()

    def clock(true_ns: int | None = None) -> int:
        true_ns = perf_counter_ns() if true_ns is None else true_ns
        return true_ns + offset_ns + round((true_ns - began_ns) * DRIFT * rank)

    return clock


class LatePings:
    """A link by which one ping in five comes 0.2 ms late, and no pong: scripted, as a busy queue may do."""

    def __init__(self, link: MessageLink) -> None:
        self._link = link

    def __getattr__(self, name: str) -> Any:
        return getattr(self._link, name)

    @contextmanager
    def channel_from(self, peer: int) -> Iterator[PeerConnection]:
        with self._link.channel_from(peer) as channel:
            yield _LateChannel(channel)


class _LateChannel:
    def __init__(self, channel: PeerConnection) -> None:
        self.send = channel.send
        self._receive = channel.receive
        self._received = 0

    def receive(self, content: bytearray) -> None:
        self._receive(content)
        self._received += 1
        if self._received % LATE_EVERY == 0:
            until_ns = perf_counter_ns() + LATE_BY_NS
            while perf_counter_ns() < until_ns:
                pass


def trials(link: MessageLink, count: int) -> dict[str, list[float]]:
    """Errors and uncertainties of many estimates in ns, and errors of the mean of the same ping-pongs."""
    clock = shifted(link.rank)
    found: dict[str, list[float]] = {"errors": [], "uncertainties": [], "errors_of_mean": []}
    for _ in range(count):
        if link.rank == 0:
            answer(link, EXCHANGES, clock, None)
            continue
        exchanges, _ = ask(link, 0, EXCHANGES, clock)
        estimate, true_ns = estimate_offset(exchanges), -link.rank * HOUR_NS
        mean_ns = sum(exchange.offset_ns for exchange in exchanges) / EXCHANGES
        found["errors"].append(abs(estimate.offset_ns - true_ns))
        found["uncertainties"].append(estimate.uncertainty_ns)
        found["errors_of_mean"].append(abs(mean_ns - true_ns))
    return found
