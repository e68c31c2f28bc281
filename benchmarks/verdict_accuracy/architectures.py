"""The ways in which ranks share a step of about 100 ms: data-parallel, sharded (FSDP) and others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from timing_logger.analysis.rows.operations import is_own_work, synchronises_all_ranks
from verdict_accuracy.rows import Kept
from verdict_accuracy.timeline import Timeline

Integers = npt.NDArray[np.int64]

WORLD = "world"
STAGES = 4
MICRO_BATCHES = 4
LAYERS = 4
TEAM = 4
MB = 1_000_000


class Architecture(NamedTuple):
    """A way in which ranks share the work of a simulated run.

    Attributes:
        play: goes through all steps of a run on its timeline.
        teams: splits a number of ranks into the teams that are one stage, or work in lockstep.
        are_roles: whether the analysis gets the teams as roles.
        acceptable: what may be said of any of its runs instead of the right verdict, as that of ``Truth``.
    """

    play: Callable[[Any], None]
    teams: Callable[[int], Sequence[Integers]]
    are_roles: bool = False
    acceptable: frozenset[str] = frozenset()


def one_team(n_ranks: int) -> Sequence[Integers]:
    return [np.arange(n_ranks)]


# -- data-parallel -------------------------------------------------------------------------------


def data_parallel(run: Timeline, halo: bool = False) -> None:
    """DATA, FORWARD, BACKWARD, a blocking ALLREDUCE of all, OPTIMIZER

    With ``halo`` neighbours exchange messages in the same group.
    """
    for _ in run.steps():
        run.work("DATA", 5.0)
        run.work("FORWARD", 30.0)
        if halo:
            run.exchange(WORLD, 1.0)
        run.work("BACKWARD", 50.0)
        run.collective("ALLREDUCE", 10.0, [run.everybody], [WORLD], 100 * MB)
        run.work("OPTIMIZER", 5.0)


def with_halo(run: Timeline) -> None:
    """like data-parallel; after FORWARD, each rank exchanges messages with two neighbours, in that group"""
    data_parallel(run, halo=True)


# -- sharded -------------------------------------------------------------------------------------


def sharded(run: Timeline) -> None:
    """like FSDP: four layers, each gathered before its work; gradients are reduced and scattered after it"""

    def all_ranks(operation: str, size_bytes: int) -> None:
        run.collective(operation, 1.5, [run.everybody], [WORLD], size_bytes)

    for _ in run.steps():
        run.work("DATA", 3.0)
        for _layer in range(LAYERS):
            all_ranks("ALLGATHER", 10 * MB)
            run.work("FORWARD", 7.0)
        for _layer in range(LAYERS):
            all_ranks("ALLGATHER", 10 * MB)
            run.work("BACKWARD", 13.0)
            all_ranks("REDUCE_SCATTER", 40 * MB)
        run.work("OPTIMIZER", 4.0)


# -- tensor-parallel -----------------------------------------------------------------------------


def teams_of_four(n_ranks: int) -> Sequence[Integers]:
    return list(np.arange(n_ranks).reshape(-1, TEAM))


def tensor_parallel(run: Timeline) -> None:
    """teams of four reduce after every layer, inside FORWARD and BACKWARD; then ranks at the same place do"""
    teams = teams_of_four(run.n_ranks)
    team_names = [f"tp{i}" for i in range(len(teams))]
    places, place_names = list(np.transpose(teams)), [f"dp{i}" for i in range(TEAM)]
    for _ in run.steps():
        run.work("DATA", 3.0)
        for name, layer_ms in (("FORWARD", 7.0), ("BACKWARD", 13.0)):
            with run.block(name):
                for _layer in range(LAYERS):
                    run.work("", layer_ms)
                    run.collective("ALLREDUCE", 0.8, teams, team_names, 8 * MB)
        run.collective("ALLREDUCE", 8.0, places, place_names, 100 * MB)
        run.work("OPTIMIZER", 4.0)


# -- pipeline ------------------------------------------------------------------------------------


def stages(n_ranks: int) -> Sequence[Integers]:
    return list(np.arange(n_ranks).reshape(STAGES, -1))


def pipeline(run: Timeline) -> None:
    """four stages, four micro-batches, 1F1B, then a reduce-scatter within each stage; roles are stated"""
    ranks = stages(run.n_ranks)
    names = [f"stage{i}" for i in range(STAGES)]
    for _ in run.steps():
        for stage, is_forward, batch in one_forward_one_backward(STAGES, MICRO_BATCHES):
            _micro_batch(run, ranks, stage, is_forward, batch)
        run.collective("REDUCE_SCATTER", 4.0, ranks, names, 50 * MB)
        run.work("OPTIMIZER", 3.0)


def _micro_batch(run: Timeline, ranks: Sequence[Integers], stage: int, is_forward: bool, batch: int) -> None:
    name, usual_ms, onward = ("FORWARD", 4.5, 1) if is_forward else ("BACKWARD", 9.0, -1)
    source, to = stage - onward, stage + onward
    if 0 <= source < STAGES:
        run.receive(WORLD, ranks[stage], ranks[source], (name, stage, batch))
    run.work(name, usual_ms, ranks[stage])
    if 0 <= to < STAGES:
        run.send(WORLD, ranks[stage], ranks[to], (name, to, batch), 0.3)


@cache
def one_forward_one_backward(n_stages: int, n_batches: int) -> list[tuple[int, bool, int]]:
    """Return the 1F1B schedule: (stage, whether forward, micro-batch), each after what it depends on."""
    to_do = [_of_stage(n_stages - stage - 1, n_batches) for stage in range(n_stages)]
    done: set[tuple[int, bool, int]] = set()
    order: list[tuple[int, bool, int]] = []
    while any(to_do):
        for stage, left in enumerate(to_do):
            while left:
                is_forward, batch = left[0]
                needed = (stage - 1 if is_forward else stage + 1, is_forward, batch)
                if 0 <= needed[0] < n_stages and needed not in done:
                    break
                done.add((stage, *left.pop(0)))
                order.append((stage, is_forward, batch))
    return order


def _of_stage(n_ahead: int, n_batches: int) -> list[tuple[bool, int]]:
    """Return one stage's schedule: first forwards, then forward and backward in turn, last backwards."""
    ahead = min(n_ahead, n_batches)
    turns = [turn for i in range(n_batches - ahead) for turn in ((True, ahead + i), (False, i))]
    first = [(True, batch) for batch in range(ahead)]
    return [*first, *turns, *((False, batch) for batch in range(n_batches - ahead, n_batches))]


ARCHITECTURES: dict[str, Architecture] = {
    "data-parallel": Architecture(data_parallel, one_team),
    "halo": Architecture(with_halo, one_team),
    "sharded": Architecture(sharded, one_team),
    "tensor-parallel": Architecture(tensor_parallel, teams_of_four),
    "pipeline": Architecture(pipeline, stages, are_roles=True),
}

# -- what of it is logged ------------------------------------------------------------------------


def all_rows(operation: str, group: str) -> bool:
    return True


def only_collectives(operation: str, group: str) -> bool:
    return synchronises_all_ranks(operation)


def only_communication(operation: str, group: str) -> bool:
    return not is_own_work(operation)


def without_messages(operation: str, group: str) -> bool:
    return operation not in ("SEND", "RECV")


def without_teams(operation: str, group: str) -> bool:
    """Keep all rows but the collectives within a team."""
    return not group.startswith("tp")


def only_collectives_of_teams_together(operation: str, group: str) -> bool:
    """Keep only collectives between teams: neither own work nor collectives within a team."""
    return only_collectives(operation, group) and without_teams(operation, group)


def without_saves(operation: str, group: str) -> bool:
    return operation != "SAVE"


LOGGED: dict[str, Kept] = {
    "all rows": all_rows,
    "collectives only": only_collectives,
    "communication only": only_communication,
    "no messages": without_messages,
    "no team collectives": without_teams,
    "outer collectives only": only_collectives_of_teams_together,
    "no saves": without_saves,
    "every 10th step": all_rows,
    "clocks apart": all_rows,
    "no iterations": only_communication,
}
