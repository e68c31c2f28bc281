"""Faults of simulated runs, and the verdicts that are right for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]

HOST_RANKS = 16


@dataclass(frozen=True)
class Place:
    """The steps and ranks of a run, in which a fault may happen.

    Attributes:
        n_steps: the number of steps.
        n_ranks: the number of ranks.
        teams: the ranks by pipeline stage, or by the group that works in lockstep; else all in one team.
    """

    n_steps: int
    n_ranks: int
    teams: Sequence[Integers]

    def array(self, value: float) -> Floats:
        """Return an array of steps x ranks filled with ``value``."""
        return np.full((self.n_steps, self.n_ranks), value)


@dataclass(frozen=True)
class Truth:
    """The truth about a run, with which a verdict is compared.

    Attributes:
        kind: the right verdict, as in ``Verdict.verdict``.
        ranks: the slow ranks.
        first, last: the first and the last iteration with the fault; None in a healthy run.
        acceptable: what may be said instead, as long as no innocent is named: verdicts, or "not judged".
        operation: the operation in which all of the delay is; "" if it is in more than one.
    """

    kind: str
    ranks: frozenset[int] = frozenset()
    first: int | None = None
    last: int | None = None
    acceptable: frozenset[str] = frozenset()
    operation: str = ""


@dataclass(frozen=True)
class Fault:
    """A fault of a simulated run; its arrays are steps x ranks.

    Attributes:
        factor: what the usual times are multiplied by.
        pause_ms: what is added to a step, in ms.
        link: what the times of transfers are multiplied by.
        load: what the ranks' shares of uneven work are multiplied by.
        save_ms: how long ranks save at the end of a step, in ms.
        truth: the right verdict.
    """

    factor: Floats
    pause_ms: Floats
    link: Floats
    load: Floats
    save_ms: Floats
    truth: Truth = field(default_factory=lambda: Truth("healthy"))

    @classmethod
    def none(cls, place: Place) -> Fault:
        """Return a fault without any effect."""
        usual, nothing = place.array(1.0), place.array(0.0)
        return cls(usual.copy(), nothing.copy(), usual.copy(), usual.copy(), nothing.copy())

    def known_as(
        self, kind: str, ranks: Integers, steps: Booleans, *acceptable: str, operation: str = ""
    ) -> Fault:
        """Return this fault with its truth: verdict ``kind``, on ``ranks``, in ``steps``.

        ``acceptable`` and ``operation`` are those of ``Truth``.
        """
        happened = np.flatnonzero(steps)
        window = int(happened[0]), int(happened[-1])
        found = Truth(kind, frozenset(ranks.tolist()), *window, frozenset(acceptable), operation)
        return replace(self, truth=found)


MakesFault = Callable[[np.random.Generator, Place], Fault]


def healthy(rng: np.random.Generator, place: Place) -> Fault:
    return Fault.none(place)


def slow(rng: np.random.Generator, place: Place, *, by: Sequence[float], part: float = 1.0) -> Fault:
    """Slow down one rank per figure in ``by``, each by its figure, in one stretch of steps.

    Args:
        rng: draws the ranks and the stretch.
        place: the run.
        by: 0.2 for 20% slower.
        part: the length of the stretch, as a fraction of all steps.
    """
    ranks, steps = some(rng, place.n_ranks, len(by)), stretch(rng, place, part)
    fault = Fault.none(place)
    fault.factor[np.ix_(steps, ranks)] = 1 + np.asarray(by)
    return fault.known_as("rank", ranks, steps)


def sporadic(rng: np.random.Generator, place: Place, *, pause_ms: float = 60.0, share: float = 0.3) -> Fault:
    """one rank pauses for 60 ms in 30% of the steps, chosen at random"""
    ranks, steps = some(rng, place.n_ranks, 1), np.zeros(place.n_steps, dtype=bool)
    steps[some(rng, place.n_steps, max(1, round(share * place.n_steps)))] = True
    fault = Fault.none(place)
    fault.pause_ms[np.ix_(steps, ranks)] = pause_ms
    return fault.known_as("rank", ranks, steps)


def half_a_host(rng: np.random.Generator, place: Place, *, by: float = 0.15) -> Fault:
    """eight of the 16 ranks of one host are slower"""
    first = HOST_RANKS * rng.integers(place.n_ranks // HOST_RANKS)
    ranks, steps = first + some(rng, HOST_RANKS, HOST_RANKS // 2), stretch(rng, place, 1.0)
    fault = Fault.none(place)
    fault.factor[:, ranks] = 1 + by
    return fault.known_as("rank", ranks, steps)


def last_stage(rng: np.random.Generator, place: Place, *, by: float = 0.4) -> Fault:
    """all ranks of the last pipeline stage are slower; the right verdict is `role`"""
    ranks, fault = place.teams[-1], Fault.none(place)
    fault.factor[:, ranks] = 1 + by
    return fault.known_as("role", ranks, stretch(rng, place, 1.0))


def slow_link(rng: np.random.Generator, place: Place, *, times: float = 20.0, part: float = 1.0) -> Fault:
    """all transfers of one rank take 20 times as long; the right verdict is `communication`

    ``part`` is the fraction of the steps, up to the last one, in which this happens.
    """
    ranks, steps = some(rng, place.n_ranks, 1), np.arange(place.n_steps) >= round((1 - part) * place.n_steps)
    fault = Fault.none(place)
    fault.link[np.ix_(steps, ranks)] = times
    return fault.known_as("communication", ranks, steps)


def all_ranks(rng: np.random.Generator, place: Place, *, by: float = 0.5) -> Fault:
    """all ranks are slower in the last 60% of the steps; the right verdict is `group-wide`"""
    steps, fault = np.arange(place.n_steps) >= round(0.4 * place.n_steps), Fault.none(place)
    fault.factor[steps] = 1 + by
    return fault.known_as("group-wide", np.arange(place.n_ranks), steps)


def some(rng: np.random.Generator, n_ranks: int, wanted: int) -> Integers:
    """Return ``wanted`` different numbers below ``n_ranks``, at random."""
    return rng.choice(n_ranks, wanted, replace=False)


def stretch(rng: np.random.Generator, place: Place, part: float) -> Booleans:
    """Return which steps belong to a stretch: all of them, or a part that begins and ends inside the run."""
    length = round(part * place.n_steps)
    margin = 0 if part == 1 else place.n_steps // 10
    first = rng.integers(margin, place.n_steps - margin - length + 1)
    steps = np.arange(place.n_steps)
    return (steps >= first) & (steps < first + length)


WINDOW = 0.3

FAULTS: dict[str, MakesFault] = {
    "healthy": healthy,
    **{f"slow {by:.0%}": partial(slow, by=(by,)) for by in (0.1, 0.2, 0.5, 1.0)},
    **{f"window {by:.0%}": partial(slow, by=(by,), part=WINDOW) for by in (0.2, 0.5)},
    "sporadic pauses": sporadic,
    "two: 20% and 10%": partial(slow, by=(0.2, 0.1)),
    "half a host 15%": half_a_host,
    "last stage 40%": last_stage,
    "slow link": slow_link,
    "slow link later": partial(slow_link, part=0.6),
    "all ranks 50%": all_ranks,
}
