"""Simulate data-parallel jobs of any number of ranks: when each begins and ends what it does, as arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

OPERATIONS = ("DATA", "FORWARD", "BACKWARD", "ALLREDUCE", "OPTIMIZER")
"""What a step consists of; no rank leaves the all-reduce before all have entered it."""

_SHARES = np.array([0.04, 0.38, 0.47, 0.05])
"""The parts of a usual step that each rank's own work takes, in the same order; the transfer is the rest."""

_DATA, _FORWARD, _BACKWARD, _OPTIMIZER = range(4)
_OWN_SIGMA, _OWN_MEMORY, _LASTING_SIGMA = 0.03, 0.8, 0.01
_COMMON_SIGMA, _SINGLE_SIGMA, _TRANSFER_SIGMA = 0.03, 0.01, 0.1
_HICCUP_EVERY_S = 1200.0
_MOST_HICCUPS_PER_S = 0.05  # in all: where many ranks stop, each step waits for one
_HICCUP_S = (0.05, 2.0)


class Slow(NamedTuple):
    """A rank that becomes slow: its own work takes longer by a part, from a moment on and up to another."""

    rank: int
    by: float
    since_s: float
    until_s: float = float("inf")


class Job(NamedTuple):
    """A job.

    Attributes:
        n_ranks: the number of ranks.
        step_s: how long a step takes, before noise and waiting.
        length_s: how long the job is, in steps of that length.
        seed: of the noise.
        slow: the rank that becomes slow; None in a healthy job.
        sigma: how much the noise of each rank is multiplied by.
    """

    n_ranks: int
    step_s: float
    length_s: float
    seed: int
    slow: Slow | None = None
    sigma: float = 1.0


class Played(NamedTuple):
    """A job as it went. Seconds are since it began.

    Attributes:
        job: the job.
        took_s: how long the own work took, as steps x operations x ranks (float32).
        met_s: when the all-reduce of each step ended.
        ready_s: when the rows of each step are known to be complete: the next one has a row.
    """

    job: Job
    took_s: npt.NDArray[np.float32]
    met_s: Floats
    ready_s: Floats

    @property
    def n_steps(self) -> int:
        return len(self.ready_s)

    def step_at(self, at_s: float) -> int:
        """Return the step that the ranks are in at a moment."""
        return int(np.searchsorted(self.met_s, at_s))


def played(job: Job) -> Played:
    """Simulate a job; the same seed gives the same one.

    Ranks differ lastingly by 1%, and from step to step by 3%, with a correlation of 0.8; all ranks together
    by 3%; and each piece of work by 1% more. Each rank stops for 0.05 to 2 s, every 20 minutes on average;
    of all ranks, one in 20 s at most.
    """
    rng = np.random.default_rng(job.seed)
    n_steps = max(2, round(job.length_s / job.step_s))
    factor = _factors(rng, n_steps, job)
    took_s = np.empty((n_steps, len(_SHARES), job.n_ranks), np.float32)
    for place, share in enumerate(_SHARES):
        jitter = rng.standard_normal((n_steps, job.n_ranks), np.float32) * np.float32(_SINGLE_SIGMA)
        took_s[:, place] = share * job.step_s * factor * np.exp(jitter)
    _add_hiccups(rng, took_s, job)
    transfer_s = (1 - _SHARES.sum()) * job.step_s * np.exp(rng.normal(0.0, _TRANSFER_SIGMA, n_steps))
    met_s = _meet(took_s, transfer_s)
    if job.slow is not None:
        began = _slow_down(took_s, met_s, job.slow)
        met_s[began:] = _meet(took_s, transfer_s)[began:]
    ready_s = met_s[:-1] + took_s[:-1, _OPTIMIZER].max(axis=1) + took_s[1:, _DATA].max(axis=1)
    return Played(job, took_s, met_s, ready_s)


def intervals(
    run: Played, steps: npt.NDArray[np.int64], ranks: npt.NDArray[np.int64]
) -> tuple[Floats, Floats]:
    """Return when the operations of these steps begin and end, as ranks x steps x operations."""
    took_s = run.took_s[np.ix_(steps, range(len(_SHARES)), ranks)].transpose(2, 0, 1).astype(np.float64)
    before_s = run.took_s[np.ix_(np.maximum(steps - 1, 0), [_OPTIMIZER], ranks)][:, 0].T.astype(np.float64)
    since_s = np.where(steps == 0, 0.0, run.met_s[steps - 1] + before_s)
    ends_s = np.empty((len(ranks), len(steps), len(OPERATIONS)))
    ends_s[..., :3] = since_s[..., None] + np.cumsum(took_s[..., :_OPTIMIZER], axis=2)
    ends_s[..., 3] = run.met_s[steps]
    ends_s[..., 4] = run.met_s[steps] + took_s[..., _OPTIMIZER]
    begins_s = np.concatenate([since_s[..., None], ends_s[..., :-1]], axis=2)
    return begins_s, ends_s


def _factors(rng: np.random.Generator, n_steps: int, job: Job) -> npt.NDArray[np.float32]:
    shape, sigma = (n_steps, job.n_ranks), job.sigma
    drawn = rng.standard_normal(shape, np.float32)
    for step in range(1, n_steps):
        drawn[step] = _OWN_MEMORY * drawn[step - 1] + (1 - _OWN_MEMORY**2) ** 0.5 * drawn[step]
    drawn *= _OWN_SIGMA * sigma
    drawn += rng.normal(0.0, _LASTING_SIGMA * sigma, job.n_ranks).astype(np.float32)
    drawn += rng.normal(0.0, _COMMON_SIGMA * sigma, (n_steps, 1)).astype(np.float32)
    return np.exp(drawn)


def _add_hiccups(rng: np.random.Generator, took_s: npt.NDArray[np.float32], job: Job) -> None:
    n_hiccups = rng.poisson(job.length_s * min(job.n_ranks / _HICCUP_EVERY_S, _MOST_HICCUPS_PER_S))
    steps, ranks = rng.integers(len(took_s), size=n_hiccups), rng.integers(job.n_ranks, size=n_hiccups)
    lengths_s = np.exp(rng.uniform(*np.log(_HICCUP_S), n_hiccups))
    np.add.at(took_s, (steps, rng.integers(_OPTIMIZER, size=n_hiccups), ranks), lengths_s)


def _meet(took_s: npt.NDArray[np.float32], transfer_s: Floats) -> Floats:
    """Return when each all-reduce ends: a transfer after the last rank came."""
    alone_s = took_s[:, :_OPTIMIZER].sum(axis=1)
    alone_s[1:] += took_s[:-1, _OPTIMIZER]
    return np.cumsum(alone_s.max(axis=1).astype(np.float64) + transfer_s)


def _slow_down(took_s: npt.NDArray[np.float32], met_s: Floats, slow: Slow) -> int:
    """Slow a rank down in what it begins after a moment; return the first step in which it is slow."""
    first = int(np.searchsorted(met_s, slow.since_s)) + 1
    longer = np.cumsum(np.diff(met_s, prepend=0.0)[first:] * (1 + slow.by))
    n_steps = int(np.searchsorted(longer, slow.until_s - slow.since_s))
    took_s[first : first + n_steps, :, slow.rank] *= 1 + slow.by
    return first
