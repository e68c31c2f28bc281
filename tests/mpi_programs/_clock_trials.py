"""Clocks with a known offset, and what measuring them many times gives; over MPI and over gloo."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter_ns

from allreduce_instrumentation.clock_sync._estimate import estimate_offset
from allreduce_instrumentation.clock_sync._links import Link
from allreduce_instrumentation.clock_sync._ping_pong import answer, ask

EXCHANGES = 100
HOUR_NS = 3_600_000_000_000
DRIFT = 1e-4


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


def trials(link: Link, count: int) -> dict[str, list[float]]:
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
