"""Simulates a run of a scenario: makes a table as ``read_timings`` returns it, and the truth about it."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from timing_logger.results.plain import UNLOGGED
from verdict_accuracy import architectures, faults, noise
from verdict_accuracy.architectures import LOGGED
from verdict_accuracy.faults import Fault, Place, Truth
from verdict_accuracy.job_faults import JOB_FAULTS, JOB_HOST_RANKS
from verdict_accuracy.jobs import JOBS
from verdict_accuracy.noise import JOB_NOISES, LATE_IN_TURN, Noise, single
from verdict_accuracy.rank_program import RankProgram
from verdict_accuracy.timeline import Conditions, Timeline

Floats = npt.NDArray[np.float64]
STEPS = 200
SAMPLED = 10

ARCHITECTURES = {**architectures.ARCHITECTURES, **JOBS}
FAULTS = {**faults.FAULTS, **JOB_FAULTS}
NOISES = {**noise.NOISES, **JOB_NOISES}

MAX_CLOCK_OFFSET_S = 10_000.0
"""The largest reading of a rank's clock at the start, in s: clocks of two ranks cannot be compared."""


class Scenario(NamedTuple):
    """One line of the tables.

    Attributes:
        architecture: a key of ``ARCHITECTURES``.
        logged: a key of ``LOGGED``.
        noise: a key of ``NOISES``.
        fault: a key of ``FAULTS``.
        ranks: the number of ranks.
        steps: the number of steps.
    """

    architecture: str
    logged: str
    noise: str
    fault: str
    ranks: int
    steps: int = STEPS

    def __str__(self) -> str:
        steps = "" if self.steps == STEPS else f" / {self.steps} steps"
        return f"{self.architecture} / {self.logged} / {self.noise} / {self.fault} / {self.ranks}{steps}"


def is_job(scenario: Scenario) -> bool:
    """Tell whether a line is of the jobs whose steps differ."""
    return scenario.architecture in JOBS


class SimulatedRun(NamedTuple):
    """A simulated run, and the truth about it.

    Attributes:
        timings: the table that ``read_timings`` would return.
        roles: the ranks' roles for the analysis; None if it gets none.
        n_ranks: the number of ranks.
        truth: the slow ranks, and the right verdict.
        cost_ms: by how much the run would have been shorter with the culprits healthy.
        run_ms: how long the run took.
        self_ms: the time of own work, less the communication logged inside it, as steps x ranks; None if no
            own work is logged.
    """

    timings: pd.DataFrame
    roles: Mapping[int, str] | None
    n_ranks: int
    truth: Truth
    cost_ms: float
    run_ms: float
    self_ms: Floats | None


def simulate(scenario: Scenario, seed: int) -> SimulatedRun:
    """Simulate a run of ``scenario``; the same seed gives the same run."""
    rng = np.random.default_rng([zlib.crc32(str(scenario).encode()), seed])
    architecture, kept = ARCHITECTURES[scenario.architecture], LOGGED[scenario.logged]
    teams = architecture.teams(scenario.ranks)
    noise = Noise(*map(single, NOISES[scenario.noise](rng, (scenario.steps, scenario.ranks))))
    fault = FAULTS[scenario.fault](rng, Place(scenario.steps, scenario.ranks, teams))
    program = RankProgram if is_job(scenario) else Timeline
    run = program(_conditions(noise, fault), rng)
    architecture.play(run)
    run_ms, healthy_ms = run.now_ms.max(axis=1)
    offsets_s = rng.uniform(0.0, MAX_CLOCK_OFFSET_S, scenario.ranks)
    if is_job(scenario) and scenario.logged != "clocks apart":
        offsets_s[:] = 0.0
    table = run.rows.table(kept, offsets_s)
    roles = {int(rank): f"stage {i}" for i, team in enumerate(teams) for rank in team}
    return SimulatedRun(
        _as_logged(table, scenario) if is_job(scenario) else table, roles if architecture.are_roles else None,
        scenario.ranks, _truth(fault.truth, scenario),
        float(run_ms - healthy_ms), float(run_ms), run.rows.self_ms(kept),
    )  # fmt: skip


def _conditions(noise: Noise, fault: Fault) -> Conditions:
    """Return the conditions of the run itself and of the same run without its fault."""
    usual = np.ones_like(fault.link)
    return Conditions(
        factor=np.stack([noise.factor * fault.factor, noise.factor]),
        pause_ms=np.stack([noise.pause_ms + fault.pause_ms, noise.pause_ms]),
        link=np.stack([fault.link, usual]),
        load=np.stack([fault.load, usual]),
        save_ms=np.stack([fault.save_ms, np.zeros_like(fault.save_ms)]),
    )


def _as_logged(table: pd.DataFrame, scenario: Scenario) -> pd.DataFrame:
    """Return the table of a job as it was logged: aligned or not, sampled, without iterations, with hosts."""
    if scenario.logged != "clocks apart":
        table = table.assign(
            start_s=table["start_counter"], end_s=table["end_counter"], clock_uncertainty_s=0.0
        )
    if scenario.logged == "every 10th step":
        table = table[table["iteration"] % SAMPLED == 0].reset_index(drop=True)
    if scenario.logged == "no iterations":
        table = table.assign(iteration=pd.array([pd.NA] * len(table), dtype="Int64"))
    table.attrs["files"] = [
        {"rank": rank, "sidecar": {"world_size": scenario.ranks, "host": _host(rank, scenario)}}
        for rank in range(scenario.ranks)
    ]
    return table


def _host(rank: int, scenario: Scenario) -> str:
    """Return the host of a rank; all ranks run on one host unless the fault is of a host."""
    return f"node{rank // JOB_HOST_RANKS}" if scenario.fault.startswith("host") else "node0"


def _truth(truth: Truth, scenario: Scenario) -> Truth:
    """Return the truth as far as the rows can tell it."""
    acceptable = truth.acceptable | ARCHITECTURES[scenario.architecture].acceptable
    if truth.kind == "healthy" and scenario.noise in LATE_IN_TURN:
        acceptable |= {"diffuse"}
    if not truth.operation or LOGGED[scenario.logged](truth.operation, ""):
        return replace(truth, acceptable=acceptable)
    return replace(truth, operation=UNLOGGED, acceptable=acceptable | {"diffuse"})
