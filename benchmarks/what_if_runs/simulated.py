"""Gains foretold for simulated runs, of which the run without the fault is simulated with the same noise."""

from __future__ import annotations

from collections.abc import Callable

from verdict_accuracy.simulation import Scenario, SimulatedRun, simulate

from timing_logger.analysis import what_if
from what_if_runs.prediction import Prediction

_Fixes = Callable[[SimulatedRun], tuple[str, ...]]


def _ranks(run: SimulatedRun) -> tuple[str, ...]:
    return tuple(f"rank={rank}" for rank in sorted(run.truth.ranks))


def _host(run: SimulatedRun) -> tuple[str, ...]:
    files = run.timings.attrs["files"]
    return (f"host={files[min(run.truth.ranks)]['sidecar']['host']}",)


def _fixed(*fixes: str) -> _Fixes:
    return lambda run: fixes


CASES: tuple[tuple[str, Scenario, _Fixes], ...] = (
    *(
        (f"{job}: one rank {fault}", Scenario(job, "all rows", noise, fault, ranks, steps), _ranks)
        for job, noise, fault, ranks, steps in (
            ("training", "steady", "slow 20%", 8, 200),
            ("training", "mixed", "20% in 20 steps", 8, 200),
            ("training", "mixed", "now and then", 8, 200),
            ("training", "steady", "ramp to 30%", 8, 500),
            ("training", "steady", "slow 30%", 1024, 20),
            ("overlapped", "mixed", "slow 30%", 8, 100),
            ("accumulation", "steady", "slow 20%", 8, 200),
            ("HSDP", "steady", "slow 30%", 16, 60),
            ("ring", "steady", "slow 25%", 8, 40),
            ("interleaved", "steady", "slow 30%", 8, 25),
            ("experts", "steady", "slow 40%", 8, 60),
        )
    ),
    ("several ranks slow", Scenario("training", "all rows", "steady", "3 slow 30%", 8, 300), _ranks),
    ("all ranks of a host slow", Scenario("training", "all rows", "steady", "host", 32), _host),
    (
        "loader of a host stalls",
        Scenario("training", "all rows", "steady", "host stalls", 32),
        _fixed("operation=DATA"),
    ),
    ("rank 0 saves", Scenario("training", "all rows", "mixed", "saves", 8, 300), _fixed("without=SAVE")),
    (
        "network slow later",
        Scenario("training", "all rows", "mixed", "network later", 8),
        _fixed("transfers=usual"),
    ),
    (
        "a rank's link slow later",
        Scenario("training", "all rows", "steady", "link later", 8),
        _fixed("transfers=usual"),
    ),
    ("flaky link", Scenario("training", "all rows", "steady", "flaky link", 8), _fixed("transfers=usual")),
    (
        "all ranks slow later",
        Scenario("training", "all rows", "steady", "all ranks 50%", 8),
        _fixed(*(f"operation={name}" for name in ("DATA", "FORWARD", "BACKWARD", "OPTIMIZER"))),
    ),
)
"""What is wrong, the run, and what is repaired."""


def prediction(task: tuple[int, int]) -> Prediction:
    """Simulate a run, and foretell what it would have gained.

    Args:
        task: the number of the case, and the seed of the run.
    """
    number, seed = task
    fault, scenario, fixes_of = CASES[number]
    run = simulate(scenario, seed)
    fixes = fixes_of(run)
    answer = what_if(run.timings, *fixes, roles=run.roles)
    is_within = answer.gain_low_ms <= run.cost_ms <= answer.gain_high_ms
    return Prediction(fault, fixes, run.run_ms, answer.gain_ms, run.cost_ms, is_within)
