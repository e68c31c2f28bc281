"""Faults of jobs: of hosts, links and loads, and such that come, go, grow or move."""

from __future__ import annotations

from functools import partial

import numpy as np

from verdict_accuracy.faults import Booleans, Fault, Integers, MakesFault, Place, slow, some, sporadic
from verdict_accuracy.noise import lognormal

JOB_HOST_RANKS = 8
"""The number of ranks on a host of a job whose hosts are known."""

# -- one rank, not always ------------------------------------------------------------------------


def ramp(rng: np.random.Generator, place: Place, *, to: float = 0.3) -> Fault:
    """one rank becomes slower, from 0 to 30% at the end of the run"""
    rank, fault = some(rng, place.n_ranks, 1), Fault.none(place)
    fault.factor[:, rank] = 1 + to * np.linspace(0, 1, place.n_steps)[:, None]
    return fault.known_as("rank", rank, _always(place))


def every_tenth(rng: np.random.Generator, place: Place) -> Fault:
    """one rank takes twice as long in every 10th step"""
    return _in_steps(rng, place, _steps(place) % 10 == 3, 1.0)


def sawtooth(rng: np.random.Generator, place: Place) -> Fault:
    """one rank is 50% slower in 20 of every 50 steps"""
    return _in_steps(rng, place, _steps(place) % 50 < 20, 0.5)


def now_and_then(rng: np.random.Generator, place: Place) -> Fault:
    """one rank takes twice as long in 30% of the steps, chosen at random"""
    return _in_steps(rng, place, rng.random(place.n_steps) < 0.3, 1.0)


def twenty_steps(rng: np.random.Generator, place: Place) -> Fault:
    """one rank is 20% slower in 20 consecutive steps"""
    return slow(rng, place, by=(0.2,), part=min(1.0, 20 / place.n_steps))


def second_half(rng: np.random.Generator, place: Place) -> Fault:
    """one rank is 30% slower in the second half of the run"""
    return _in_steps(rng, place, _steps(place) >= place.n_steps // 2, 0.3)


def _in_steps(rng: np.random.Generator, place: Place, steps: Booleans, by: float) -> Fault:
    rank, fault = some(rng, place.n_ranks, 1), Fault.none(place)
    fault.factor[np.ix_(steps, rank)] = 1 + by
    return fault.known_as("rank", rank, steps)


def compiles(rng: np.random.Generator, place: Place) -> Fault:
    """one rank takes 20 s longer in the first step, as if it alone had to compile"""
    rank, first, fault = some(rng, place.n_ranks, 1), _steps(place) == 0, Fault.none(place)
    fault.pause_ms[np.ix_(first, rank)] = 20_000.0
    return fault.known_as("rank", rank, first, "diffuse")


def saves(rng: np.random.Generator, place: Place) -> Fault:
    """rank 0 saves for 2 s in one of 50 steps, while the others wait"""
    rank, steps, fault = np.array([0]), _steps(place) % 50 == 25, Fault.none(place)
    fault.save_ms[steps, 0] = 2000.0 * lognormal(rng, 0.05, int(steps.sum()))
    return fault.known_as("rank", rank, steps, operation="SAVE")


def saves_and_slow(rng: np.random.Generator, place: Place) -> Fault:
    """the same, and another rank is 20% slower throughout"""
    rank, fault = 1 + some(rng, place.n_ranks - 1, 1), saves(rng, place)
    fault.factor[:, rank] = 1.2
    return fault.known_as("rank", np.append(rank, 0), _always(place))


def hot_expert(rng: np.random.Generator, place: Place) -> Fault:
    """one rank's experts get 1.5 times as many tokens as the others'; its hardware is healthy"""
    rank, fault = some(rng, place.n_ranks, 1), Fault.none(place)
    fault.load[:, rank] = 1.5
    return fault.known_as("rank", rank, _always(place))


# -- several ranks -------------------------------------------------------------------------------


def moves(rng: np.random.Generator, place: Place) -> Fault:
    """a rank is 40% slower for 25 steps, then another one, and so on; the right verdict is `diffuse`"""
    turns = rng.permutation(place.n_ranks)[_steps(place) // 25 % place.n_ranks]
    fault = Fault.none(place)
    fault.factor[_steps(place), turns] = 1.4
    return fault.known_as("diffuse", turns, _always(place), "rank", "suspect")


def two_in_turn(rng: np.random.Generator, place: Place) -> Fault:
    """one rank is 30% slower in the first half of the run, and another one in the second half"""
    ranks, fault = some(rng, place.n_ranks, 2), Fault.none(place)
    fault.factor[_steps(place), ranks[2 * _steps(place) // place.n_steps]] = 1.3
    return fault.known_as("rank", ranks, _always(place), "diffuse")


def half_of_all(rng: np.random.Generator, place: Place) -> Fault:
    """half of the ranks are 50% slower; `role` is right, all but `healthy` and false names are acceptable"""
    ranks, fault = some(rng, place.n_ranks, place.n_ranks // 2), Fault.none(place)
    fault.factor[:, ranks] = 1.5
    return fault.known_as("role", ranks, _always(place), "diffuse", "rank", "suspect", "not judged")


def last_team(rng: np.random.Generator, place: Place) -> Fault:
    """one of two coupled codes is 40% slower than the other; the same is right or acceptable"""
    ranks, fault = place.teams[-1], Fault.none(place)
    fault.factor[:, ranks] = 1.4
    return fault.known_as("role", ranks, _always(place), "diffuse", "rank", "suspect", "not judged")


def host(rng: np.random.Generator, place: Place) -> Fault:
    """all eight ranks of one host are 30% slower"""
    ranks, fault = _of_a_host(rng, place), Fault.none(place)
    fault.factor[:, ranks] = 1.3
    return fault.known_as("rank", ranks, _always(place), "role")


def host_stalls(rng: np.random.Generator, place: Place) -> Fault:
    """all eight ranks of one host wait 60 ms longer for data in 30% of the steps"""
    ranks, steps, fault = _of_a_host(rng, place), rng.random(place.n_steps) < 0.3, Fault.none(place)
    fault.pause_ms[np.ix_(steps, ranks)] = 60.0
    return fault.known_as("rank", ranks, steps, "role", operation="DATA")


def host_of_two_stalls(rng: np.random.Generator, place: Place) -> Fault:
    """the same on one of two hosts; all but `healthy` and false names are acceptable"""
    fault = host_stalls(rng, place)
    stalled = np.flatnonzero(fault.pause_ms.any(axis=0))
    others = ("diffuse", "role", "suspect", "not judged")
    return fault.known_as("rank", stalled, fault.pause_ms.any(axis=1), *others, operation="DATA")


def _of_a_host(rng: np.random.Generator, place: Place) -> Integers:
    return JOB_HOST_RANKS * rng.integers(place.n_ranks // JOB_HOST_RANKS) + np.arange(JOB_HOST_RANKS)


def all_ramp(rng: np.random.Generator, place: Place) -> Fault:
    """all ranks become slower, from 0 to 15% at the end of the run; the right verdict is `group-wide`"""
    fault = Fault.none(place)
    fault.factor[:] = 1 + 0.15 * np.linspace(0, 1, place.n_steps)[:, None]
    return fault.known_as("group-wide", np.arange(place.n_ranks), _always(place))


# -- transfers -----------------------------------------------------------------------------------


def network_later(rng: np.random.Generator, place: Place, *, times: float = 4.0) -> Fault:
    """all transfers take 4 times as long in the second half of the run"""
    return _transfers(place, np.arange(place.n_ranks), _steps(place) >= place.n_steps // 2, times)


def link_later(rng: np.random.Generator, place: Place, *, times: float = 5.0) -> Fault:
    """the transfers of one rank take 5 times as long in the second half of the run"""
    return _transfers(place, some(rng, place.n_ranks, 1), _steps(place) >= place.n_steps // 2, times)


def link_now_and_then(rng: np.random.Generator, place: Place, *, times: float = 10.0) -> Fault:
    """the transfers of one rank take 10 times as long in 20% of the steps, chosen at random"""
    ranks, steps = some(rng, place.n_ranks, 1), rng.random(place.n_steps) < 0.2
    return _transfers(place, ranks, steps, times)


def rail(rng: np.random.Generator, place: Place, *, times: float = 3.0) -> Fault:
    """the transfers on one of two rails take 3 times as long, from the beginning"""
    return _transfers(place, place.teams[-1], _always(place), times, "diffuse", "not judged")


def _transfers(place: Place, ranks: Integers, steps: Booleans, times: float, *acceptable: str) -> Fault:
    fault = Fault.none(place)
    fault.link[np.ix_(steps, ranks)] = times
    return fault.known_as("communication", ranks, steps, *acceptable)


def _steps(place: Place) -> Integers:
    return np.arange(place.n_steps)


def _always(place: Place) -> Booleans:
    return np.ones(place.n_steps, dtype=bool)


JOB_FAULTS: dict[str, MakesFault] = {
    **{f"slow {by:.0%}": partial(slow, by=(by,)) for by in (0.25, 0.3, 0.4)},
    "3 slow 30%": partial(slow, by=(0.3, 0.3, 0.3)),
    "20 ms late": partial(sporadic, pause_ms=20.0, share=1.0),
    "20% in 20 steps": twenty_steps,
    "30% in 2nd half": second_half,
    "ramp to 30%": ramp,
    "every 10th step": every_tenth,
    "sawtooth": sawtooth,
    "now and then": now_and_then,
    "compiles": compiles,
    "saves": saves,
    "saves, and 20%": saves_and_slow,
    "hot expert": hot_expert,
    "moves": moves,
    "two in turn": two_in_turn,
    "half of all": half_of_all,
    "one half": last_team,
    "host": host,
    "host stalls": host_stalls,
    "host of two stalls": host_of_two_stalls,
    "all ramp": all_ramp,
    "network later": network_later,
    "link later": link_later,
    "flaky link": link_now_and_then,
    "rail": rail,
}
