"""Lists the scenarios of jobs whose steps differ."""

from __future__ import annotations

from collections.abc import Iterator

from verdict_accuracy.simulation import Scenario

LARGE = 1024
"""From as many ranks on, a tenth of the usual number of runs are made."""


def kinds() -> Iterator[Scenario]:
    """Yield all lines of the tables of kinds of jobs."""
    yield from _faults_in_time()
    yield from _rare_and_huge()
    yield from _busy_machines()
    yield from _many_ranks()
    yield from _other_training()
    yield from _experts_and_rings()
    yield from _several_groups()
    yield from _no_training()
    yield from _as_in_practice()


def _faults_in_time() -> Iterator[Scenario]:
    yield from _lines("training", ("healthy", "20% in 20 steps", "20 ms late", "moves", "half of all"))
    yield from _lines("training", ("ramp to 30%",), steps=500)
    yield from _lines("training", ("every 10th step", "sawtooth", "3 slow 30%"), steps=300)
    yield from _lines("training", ("all ranks 50%", "all ramp", "network later", "link later", "flaky link"))
    yield from _lines("training", ("two in turn",))
    yield from _lines("training", ("healthy", "20 ms late"), ranks=2)
    yield from _lines("partly timed", ("healthy", "20 ms late", "slow 30%"), ranks=2)
    yield from _lines("partly timed", ("healthy", "20 ms late"))
    yield from _lines("training", ("healthy", "slow 30%"), noise="uneven")
    yield from _lines("training", ("slow 30%",), steps=10)
    yield from _lines("training", ("healthy",), steps=15)


def _rare_and_huge() -> Iterator[Scenario]:
    yield from _lines("training", ("saves",), steps=300)
    yield from _lines("training", ("saves",), logged="no saves", steps=300)
    yield from _lines("training", ("saves, and 20%",), steps=300)
    yield from _lines("evaluation", ("healthy", "slow 30%"), steps=300)
    yield from _lines("training", ("healthy", "slow 20%"), noise="warm-up")
    yield from _lines("training", ("compiles",), steps=100)


def _busy_machines() -> Iterator[Scenario]:
    for ranks in (4, 8, 16):
        yield from _lines("training", ("healthy", "slow 50%"), noise="busy", ranks=ranks)
        yield from _lines("short steps", ("healthy",), noise="busy", ranks=ranks)
    for ranks in (4, 8):
        yield from _lines("short steps", ("slow 100%",), noise="busy", ranks=ranks)
    yield from _lines("training", ("healthy", "slow 50%"), logged="collectives only", noise="busy")


def _many_ranks() -> Iterator[Scenario]:
    yield from _lines("training", ("host", "host stalls"), ranks=32)
    yield from _lines("training", ("host of two stalls",), ranks=16)
    yield from _lines("training", ("host",), ranks=64, steps=60)
    yield from _lines("training", ("healthy", "slow 30%"), ranks=LARGE, steps=20)


def _other_training() -> Iterator[Scenario]:
    faults = ("healthy", "slow 30%", "now and then")
    yield from _lines("training", faults, logged="every 10th step", steps=1000)
    yield from _lines("accumulation", ("healthy", "slow 20%"))
    yield from _lines("accumulation, uneven", ("healthy", "slow 30%"))
    yield from _lines("local SGD", ("healthy", "slow 20%"), steps=400)
    yield from _lines("local SGD", ("healthy", "slow 20%"), logged="collectives only", steps=1200)
    yield from _lines("ranks join", ("healthy", "slow 30%", "30% in 2nd half"))
    yield from _lines("ranks leave", ("healthy", "slow 30%"))
    for job in ("overlapped", "one bucket"):
        yield from _lines(job, ("healthy", "slow 30%"), steps=100)
    yield from _lines("overlapped", ("healthy", "slow 30%"), ranks=2)
    yield from _lines("devices", ("healthy", "slow 30%", "20% in 20 steps"))
    yield from _lines("devices", ("healthy", "slow 30%"), ranks=2)


def _experts_and_rings() -> Iterator[Scenario]:
    yield from _lines("experts", ("healthy", "slow 40%", "hot expert"), steps=60)
    yield from _lines("experts", ("healthy", "slow 40%"), logged="collectives only", steps=60)
    yield from _lines("experts, ALLTOALLV", ("healthy", "slow 40%"), steps=60)
    yield from _lines("experts, uneven", ("healthy", "slow 40%"), steps=60)
    for logged in ("all rows", "communication only", "clocks apart"):
        yield from _lines("ring", ("healthy", "slow 25%"), logged=logged, steps=40)
    yield from _lines("ring", ("link later", "20% in 20 steps"), steps=40)
    yield from _lines("causal ring", ("healthy", "slow 30%"), steps=40)
    yield from _lines("free ring", ("healthy", "slow 30%", "link later"), steps=60)
    yield from _lines("free ring", ("healthy", "slow 30%"), logged="no iterations", steps=60)
    yield from _lines("SENDRECV ring", ("healthy", "slow 30%", "link later"), steps=60)


def _several_groups() -> Iterator[Scenario]:
    yield from _lines("HSDP", ("healthy", "slow 30%", "20% in 20 steps"), ranks=16, steps=60)
    yield from _lines("HSDP", ("healthy", "slow 30%"), logged="collectives only", ranks=16, steps=60)
    yield from _lines("rails", ("healthy", "rail", "slow 30%"), ranks=16)
    yield from _lines("many small", ("healthy", "slow 20%", "network later", "link later"), steps=60)
    for logged in ("all rows", "no messages"):
        yield from _lines("interleaved", ("healthy", "slow 30%", "last stage 40%"), logged=logged, steps=25)


def _no_training() -> Iterator[Scenario]:
    yield from _lines("rounds", ("healthy", "slow 30%"))
    yield from _lines("rounds", ("healthy", "slow 30%", "now and then"), logged="no iterations")
    yield from _lines("training", ("healthy", "slow 20%"), logged="no iterations")
    for logged in ("all rows", "communication only", "no iterations"):
        yield from _lines("rooted", ("healthy", "slow 30%"), logged=logged)
    yield from _lines("coupled", ("healthy", "one half", "slow 40%"), logged="no iterations")
    yield from _lines("coupled", ("healthy", "one half", "slow 40%"), steps=150)
    yield from _lines("farm", ("healthy", "slow 100%"), logged="no iterations", steps=300)


def _as_in_practice() -> Iterator[Scenario]:
    faults = ("healthy", "slow 20%", "20% in 20 steps", "now and then", "saves", "two in turn")
    yield from _lines("training", (*faults, "all ranks 50%", "network later"), noise="mixed")
    yield from _lines("training", ("every 10th step", "sawtooth", "ramp to 30%"), noise="mixed", steps=300)
    yield from _lines("training", ("saves",), logged="no saves", noise="mixed", steps=300)
    yield from _lines("training", ("healthy", "slow 20%"), noise="mixed", ranks=2)
    yield from _lines("training", ("healthy", "slow 20%"), noise="mixed", ranks=64, steps=60)
    yield from _lines("overlapped", ("healthy", "slow 30%", "link later"), noise="mixed", steps=100)
    for job in ("accumulation", "devices", "ranks join", "HSDP"):
        yield from _lines(job, ("healthy", "slow 30%"), noise="mixed", steps=100)
    for job, steps in (("experts", 60), ("ring", 40), ("interleaved", 25)):
        yield from _lines(job, ("healthy", "slow 30%"), noise="mixed", steps=steps)
    yield from _lines("local SGD", ("healthy", "slow 30%"), noise="mixed", steps=400)
    yield from _lines("rounds", ("healthy", "slow 30%"), logged="no iterations", noise="mixed")


def _lines(
    job: str,
    faults: tuple[str, ...],
    *,
    logged: str = "all rows",
    noise: str = "steady",
    ranks: int = 8,
    steps: int = 200,
) -> Iterator[Scenario]:
    for fault in faults:
        yield Scenario(job, logged, noise, fault, ranks, steps)
