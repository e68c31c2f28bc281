"""Simulates a run of a scenario: makes a table as ``read_timings`` returns it, and the truth about it."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from verdict_accuracy.architectures import ARCHITECTURES, LOGGED
from verdict_accuracy.faults import FAULTS, Place, Truth
from verdict_accuracy.noise import NOISES
from verdict_accuracy.timeline import Conditions, Timeline

Floats = npt.NDArray[np.float64]
STEPS = 200

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
    noise = NOISES[scenario.noise](rng, (scenario.steps, scenario.ranks))
    fault = FAULTS[scenario.fault](rng, Place(scenario.steps, scenario.ranks, teams))
    conditions = Conditions(
        factor=np.stack([noise.factor * fault.factor, noise.factor]),
        pause_ms=np.stack([noise.pause_ms + fault.pause_ms, noise.pause_ms]),
        link=np.stack([fault.link, np.ones_like(fault.link)]),
    )
    run = Timeline(conditions, rng)
    architecture.play(run)
    run_ms, healthy_ms = run.now_ms.max(axis=1)
    offsets_s = rng.uniform(0.0, MAX_CLOCK_OFFSET_S, scenario.ranks)
    roles = {int(rank): f"stage {i}" for i, team in enumerate(teams) for rank in team}
    return SimulatedRun(
        run.rows.table(kept, offsets_s), roles if architecture.are_roles else None, scenario.ranks,
        fault.truth,
        float(run_ms - healthy_ms), float(run_ms), run.rows.self_ms(kept),
    )  # fmt: skip
