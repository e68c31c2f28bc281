"""Judge simulated jobs while they go on: no time passes, but every look is at a moment of the job."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from live_runs.hosts import RANKS_PER_HOST, Host, every_within, unix_s
from live_runs.job import Played
from timing_logger.analysis import Verdict
from timing_logger.engine.changes import Change, Changes
from timing_logger.live.watcher import snapshot_of
from timing_logger.live.window import Window
from timing_logger.schema.defaults import MONITOR_WINDOW_S

LOOKS_EVERY_S = 5.0
_PHASES = 4  # hosts look at their own moments; so many different ones


class Look(NamedTuple):
    """What is found at a moment of a job, and told.

    Attributes:
        at_s: when, in s since the job began.
        verdict: what is found.
        change: what is told; None if nothing is.
    """

    at_s: float
    verdict: Verdict
    change: Change | None


def looks(run: Played, until_s: float, seed: int) -> Iterator[Look]:
    """Yield what a monitor sees of a job, from look to look.

    The hosts but the first make their digests at moments of their own, of as many steps as a digest may have;
    their judge gets what was made by then.

    Args:
        run: the job.
        until_s: how long it is watched.
        seed: of the moments.
    """
    rng = np.random.default_rng(seed)
    judge, *others = _hosts(run, rng)
    window, changes = Window(MONITOR_WINDOW_S), Changes()
    begin_s = float(rng.uniform(1.0, 1.0 + LOOKS_EVERY_S))
    for at_s in np.arange(begin_s, until_s, LOOKS_EVERY_S).tolist():
        for host in others:
            made_s = at_s - (at_s - host.phase_s) % LOOKS_EVERY_S
            window.add(host.digest(made_s))
        window.add(judge.digest(at_s, with_last=True))
        verdict = snapshot_of(window).verdict
        yield Look(at_s, verdict, changes.after(verdict, unix_s(at_s)))


def _hosts(run: Played, rng: np.random.Generator) -> list[Host]:
    """Return the first host, and the others in parts that look at the same moments."""
    n_ranks = run.job.n_ranks
    own = np.arange(min(RANKS_PER_HOST, n_ranks))
    found = [Host(run, "node0", own, 1, 0.0)]
    if n_ranks > RANKS_PER_HOST:
        every = every_within(run, LOOKS_EVERY_S)
        hosts = np.array_split(rng.permutation(np.arange(1, -(-n_ranks // RANKS_PER_HOST))), _PHASES)
        for part in hosts:
            ranks = np.sort((part[:, None] * RANKS_PER_HOST + np.arange(RANKS_PER_HOST)).ravel())
            if len(ranks):
                phase_s = float(rng.uniform(0.0, LOOKS_EVERY_S))
                found.append(Host(run, f"nodes{part[0]}", ranks[ranks < n_ranks], every, phase_s))
    return found
