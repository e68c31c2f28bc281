"""How often somebody is said to be slow in simulated jobs in which nobody is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from scipy.stats import chi2

from live_runs.job import Job, played
from live_runs.watching import looks
from timing_logger.live.events import what_is_found

JOB_S = 300.0
_CONFIDENCE = 0.95


class Kind(NamedTuple):
    """Healthy jobs of so many ranks and such steps; noise is multiplied by ``sigma``."""

    n_ranks: int
    step_s: float
    sigma: float = 1.0

    def __str__(self) -> str:
        noise = "usual" if self.sigma == 1 else f"times {self.sigma:g}"
        return f"{self.n_ranks:,} | {self.step_s * 1000:g} ms | {noise}"


HOURS: dict[Kind, float] = {
    Kind(8, 0.3): 10.0,
    Kind(8, 0.03): 2.0,
    Kind(8, 0.3, 3.0): 4.0,
    Kind(64, 0.3): 3.0,
    Kind(64, 0.3, 3.0): 1.0,
    Kind(1024, 0.3): 0.5,
}
"""How many hours of each kind are watched."""

QUICK_HOURS: dict[Kind, float] = {Kind(8, 0.3): 0.25, Kind(64, 0.3): 1 / 12}


class Alarm(NamedTuple):
    """An event in a job in which nobody is slow."""

    kind: Kind
    seed: int
    at_s: float
    text: str

    def __str__(self) -> str:
        return f"{self.kind}, seed {self.seed}, after {self.at_s:.0f} s: {self.text}"


def tasks(hours: dict[Kind, float]) -> list[tuple[Kind, int]]:
    """Return the jobs, each with its seed."""
    return [(kind, seed) for kind, of in hours.items() for seed in range(round(of * 3600 / JOB_S))]


def alarms(task: tuple[Kind, int]) -> list[Alarm]:
    """Watch a job in which nobody is slow; return what is said to begin."""
    kind, seed = task
    run = played(Job(kind.n_ranks, kind.step_s, 1.2 * JOB_S, 1000 + seed, sigma=kind.sigma))
    return [
        Alarm(kind, seed, look.at_s, what_is_found(look.change.verdict))
        for look in looks(run, JOB_S, seed)
        if look.change is not None and look.change.kind == "begins"
    ]


def lines(hours: dict[Kind, float], found: Sequence[Alarm]) -> Iterator[str]:
    """Yield a table of false alarms, with a bound to how often they are."""
    yield "| ranks | step | noise | job-hours | events that begin | in an hour, 95% sure |"
    yield "|---|---|---|---|---|---|"
    for kind, of in hours.items():
        n = sum(one.kind == kind for one in found)
        yield f"| {kind} | {of:.2g} | {n} | at most {most(n, of):.2g} |"
    usual = [kind for kind in hours if kind.sigma == 1]
    n, of = sum(one.kind in usual for one in found), sum(hours[kind] for kind in usual)
    yield f"| all of usual noise | | | {of:.2g} | {n} | at most {most(n, of):.2g} |"


def most(n_events: int, hours: float) -> float:
    """Return what the rate per hour does not exceed, with 95% confidence; if none came, 3 by the hours."""
    return float(chi2.ppf(_CONFIDENCE, 2 * (n_events + 1)) / 2 / hours)
