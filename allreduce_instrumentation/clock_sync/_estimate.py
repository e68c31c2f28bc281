"""Estimates the offset between two clocks, and its uncertainty, from ping-pongs."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple


class Exchange(NamedTuple):
    """The four timestamps of one ping-pong, in ns.

    ``sent_ns`` and ``returned_ns`` are on this rank's clock, ``received_ns`` and ``answered_ns`` on the
    reference's. The ping took some time, so the offset is at most ``received - sent``; the pong took some
    too, so the offset is at least ``answered - returned``.
    """

    sent_ns: int
    received_ns: int
    answered_ns: int
    returned_ns: int

    @property
    def round_trip_ns(self) -> int:
        """The time that both messages took together, in ns, without the time on the reference."""
        return (self.returned_ns - self.sent_ns) - (self.answered_ns - self.received_ns)

    @property
    def upper_bound_ns(self) -> int:
        """The largest offset that this ping-pong allows, in ns."""
        return self.received_ns - self.sent_ns

    @property
    def lower_bound_ns(self) -> int:
        """The smallest offset that this ping-pong allows, in ns."""
        return self.answered_ns - self.returned_ns

    @property
    def offset_ns(self) -> float:
        """The middle of the bounds, in ns: exact if ping and pong took equally long."""
        return (self.upper_bound_ns + self.lower_bound_ns) / 2


class Estimate(NamedTuple):
    """An estimate of the offset between two clocks.

    Attributes:
        offset_ns: what to add to this rank's clock to get the reference's, in ns.
        uncertainty_ns: how far off the offset may be, in ns.
        perf_counter_ns: when the offset was measured, on this rank's clock, in ns.
    """

    offset_ns: int
    uncertainty_ns: int
    perf_counter_ns: int


def estimate_offset(exchanges: Sequence[Exchange]) -> Estimate:
    """Estimate the offset from ``exchanges``, with its uncertainty.

    The offset is the median over the tenth of the ping-pongs with the shortest round trips. A message that
    is delayed in a queue makes the round trip longer and shifts the middle of its bounds, so the fastest
    ping-pongs tell most. The idea is that of NTP's clock filter (RFC 5905, section 10).

    The uncertainty is the distance of the offset from the farther one of the tightest bounds: half the
    width between them, plus the distance of the offset from their middle. On a crowded machine the half
    width alone covered the error in no more than 78 to 91 of 100 trials.

    Args:
        exchanges: at least one.
    """
    by_speed = sorted(exchanges, key=lambda exchange: exchange.round_trip_ns)
    fastest = by_speed[: math.ceil(len(by_speed) / 10)]
    offset_ns = statistics.median(exchange.offset_ns for exchange in fastest)
    as_of_ns = statistics.median_low(exchange.returned_ns for exchange in fastest)
    lower_ns = max(exchange.lower_bound_ns for exchange in exchanges)
    upper_ns = min(exchange.upper_bound_ns for exchange in exchanges)
    # Clocks that drift during the exchanges can make the bounds cross; they are wrong by that much then.
    half_width_ns, middle_ns = abs(upper_ns - lower_ns) / 2, (upper_ns + lower_ns) / 2
    return Estimate(round(offset_ns), math.ceil(half_width_ns + abs(offset_ns - middle_ns)), as_of_ns)
