"""Training in which ranks wait in more than one group, or for messages: experts, rings, HSDP, pipelines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from verdict_accuracy.architectures import TEAM, stages, teams_of_four
from verdict_accuracy.rank_program import RankProgram

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

EVEN, UNEVEN = 1000.0, 10.0
"""How evenly tokens are shared among experts: to 3%, or to 30%."""

LAYERS = 3
RING_LAYERS = 2
CHUNKS = 2
MICRO_BATCHES = 8
RAILS = 2

# -- mixture of experts --------------------------------------------------------------------------


def experts(run: RankProgram) -> None:
    """three layers of ATTENTION, ALLTOALL to experts, EXPERT, ALLTOALL back; the same back; ALLREDUCE"""
    _experts(run, EVEN)


def experts_uneven(run: RankProgram) -> None:
    """the same, but a rank's share of the tokens varies by 30% from step to step"""
    _experts(run, UNEVEN)


def experts_in_alltoallv(run: RankProgram) -> None:
    """like experts; tokens are exchanged in ALLTOALLV instead of ALLTOALL"""
    _experts(run, EVEN, "ALLTOALLV")


def _experts(run: RankProgram, evenness: float, operation: str = "ALLTOALL") -> None:
    alike = np.ones((2, run.n_ranks))
    for _ in run.steps():
        tokens = run.shares(evenness)
        run.work("DATA", 1.5)
        for _layer in range(LAYERS):
            run.work("ATTENTION", 6.0)
            run.all_to_all(operation, 1.0, tokens)
            run.work("EXPERT", 8.0 * tokens)
            run.all_to_all(operation, 1.0, alike)
        for _layer in range(LAYERS):
            run.all_to_all(operation, 1.0, tokens)
            run.work("EXPERT_BACKWARD", 12.0 * tokens)
            run.all_to_all(operation, 1.0, alike)
            run.work("BACKWARD", 8.0)
        run.together("ALLREDUCE", 4.0, name="dp")
        run.work("OPTIMIZER", 3.0)


# -- rings ---------------------------------------------------------------------------------------


def ring(run: RankProgram) -> None:
    """ring attention: two layers of as many blocks of work as ranks; after each, all pass on their block"""
    _ring(run, causal=False, in_one_call=False)


def causal_ring(run: RankProgram) -> None:
    """the same with a causal mask: how much work a block is depends on the rank and the block"""
    _ring(run, causal=True, in_one_call=False)


def sendrecv_ring(run: RankProgram) -> None:
    """like ring; blocks are passed on in SENDRECV instead of ISEND, IRECV and WAIT"""
    _ring(run, causal=False, in_one_call=True)


def free_ring(run: RankProgram) -> None:
    """12 times 6 ms of COMPUTE and messages from and to two neighbours; nothing else joins the ranks"""
    for _ in run.steps():
        for _block in range(12):
            run.work("COMPUTE", 6.0)
            run.exchange("halo", 0.8)


def _ring(run: RankProgram, *, causal: bool, in_one_call: bool) -> None:
    pass_on = run.shift if in_one_call else run.exchange
    for _ in run.steps():
        run.work("DATA", 1.5)
        for _layer in range(RING_LAYERS):
            run.work("QKV", 4.0)
            for block in range(run.n_ranks):
                run.work("FORWARD", 2.5 * _masked(run.everybody, block) if causal else 2.5)
                if block < run.n_ranks - 1:
                    pass_on("cp", 0.8)
        run.work("BACKWARD", 30.0)
        run.together("ALLREDUCE", 3.0, name="dp")
        run.work("OPTIMIZER", 2.0)


def _masked(ranks: Integers, block: int) -> Floats:
    """Return the work of each rank on the block that it holds: little if the block lies in its future."""
    return np.where((ranks - block) % len(ranks) <= ranks, 1.6, 0.4)


# -- groups in two levels ------------------------------------------------------------------------


def hybrid_sharded(run: RankProgram) -> None:
    """HSDP: layers are gathered and reduced within teams of four, then reduced across teams"""
    teams = teams_of_four(run.n_ranks)
    shards, replicas = [f"shard{i}" for i in range(len(teams))], [f"replica{i}" for i in range(TEAM)]
    for _ in run.steps():
        run.work("DATA", 3.0)
        for _layer in range(LAYERS):
            run.collective("ALLGATHER", 1.5, teams, shards, 10_000_000)
            run.work("FORWARD", 9.0)
        for _layer in range(LAYERS):
            run.collective("ALLGATHER", 1.5, teams, shards, 10_000_000)
            run.work("BACKWARD", 18.0)
            run.collective("REDUCE_SCATTER", 1.5, teams, shards, 40_000_000)
            run.collective("ALLREDUCE", 1.0, list(np.transpose(teams)), replicas, 10_000_000)
        run.work("OPTIMIZER", 4.0)


def on_rails(n_ranks: int) -> Sequence[Integers]:
    return [np.arange(rail, n_ranks, RAILS) for rail in range(RAILS)]


def rails(run: RankProgram) -> None:
    """even and odd ranks reduce by themselves, each on a rail of its own; then all ranks reduce a number"""
    teams, names = on_rails(run.n_ranks), [f"rail{i}" for i in range(RAILS)]
    for _ in run.steps():
        run.work("DATA", 2.0)
        run.work("FORWARD", 26.0)
        run.work("BACKWARD", 54.0)
        for _bucket in range(2):
            run.collective("ALLREDUCE", 6.0, teams, names, 50_000_000)
        run.work("OPTIMIZER", 4.0)
        run.together("ALLREDUCE", 0.2)


def many_small(run: RankProgram) -> None:
    """12 times 6 ms of FORWARD and an ALLREDUCE of 0.3 ms; then OPTIMIZER"""
    for _ in run.steps():
        for _layer in range(12):
            run.work("FORWARD", 6.0)
            run.together("ALLREDUCE", 0.3)
        run.work("OPTIMIZER", 3.0)


# -- interleaved pipeline ------------------------------------------------------------------------


class Turn(NamedTuple):
    """What a stage does next: one micro-batch through one of the chunks of layers that it holds."""

    is_forward: bool
    chunk: int
    batch: int


def interleaved(run: RankProgram) -> None:
    """four stages with two chunks of layers each, 8 micro-batches, 1F1B; REDUCE_SCATTER; roles are stated"""
    ranks = stages(run.n_ranks)
    names = [f"stage{i}" for i in range(len(ranks))]
    order = interleaved_order(len(ranks), MICRO_BATCHES)
    for _ in run.steps():
        for stage, turn in order:
            _take_turn(run, ranks, stage, turn)
        run.collective("REDUCE_SCATTER", 4.0, ranks, names, 50_000_000)
        run.work("OPTIMIZER", 3.0)


def _take_turn(run: RankProgram, ranks: Sequence[Integers], stage: int, turn: Turn) -> None:
    n, onward = len(ranks), 1 if turn.is_forward else -1
    place, name = turn.chunk * n + stage, "FORWARD" if turn.is_forward else "BACKWARD"
    if 0 <= place - onward < n * CHUNKS:
        source = ranks[(place - onward) % n]
        run.receive("world", ranks[stage], source, (name, place, turn.batch))
    run.work(name, 1.5 if turn.is_forward else 3.0, ranks[stage])
    if 0 <= place + onward < n * CHUNKS:
        to = ranks[(place + onward) % n]
        run.send("world", ranks[stage], to, (name, place + onward, turn.batch), 0.2)


@cache
def interleaved_order(n_stages: int, n_batches: int) -> list[tuple[int, Turn]]:
    """Return all turns of all stages, each after the one that it depends on."""
    to_do = [list(_turns(stage, n_stages, n_batches)) for stage in range(n_stages)]
    done: set[tuple[int, bool, int]] = set()
    order: list[tuple[int, Turn]] = []
    while any(to_do):
        for stage, left in enumerate(to_do):
            while left and _is_ready(stage, left[0], n_stages, done):
                turn = left.pop(0)
                done.add((turn.chunk * n_stages + stage, turn.is_forward, turn.batch))
                order.append((stage, turn))
    return order


def _is_ready(stage: int, turn: Turn, n_stages: int, done: set[tuple[int, bool, int]]) -> bool:
    before = turn.chunk * n_stages + stage + (-1 if turn.is_forward else 1)
    return not 0 <= before < n_stages * CHUNKS or (before, turn.is_forward, turn.batch) in done


def _turns(stage: int, n_stages: int, n_batches: int) -> Iterator[Turn]:
    """Yield one stage's turns: first forwards, then forward and backward in turn, last backwards."""
    forwards, backwards = (list(_in_rounds(way, n_stages, n_batches)) for way in (True, False))
    ahead = min(2 * (n_stages - stage - 1) + (CHUNKS - 1) * n_stages, len(forwards))
    yield from forwards[:ahead]
    for forward, backward in zip(forwards[ahead:], backwards, strict=False):
        yield from (forward, backward)
    yield from backwards[len(forwards) - ahead :]


def _in_rounds(is_forward: bool, n_stages: int, n_batches: int) -> Iterator[Turn]:
    """Yield a stage's turns in one direction: as many micro-batches as stages, chunk by chunk."""
    for first in range(0, n_batches, n_stages):
        for chunk in range(CHUNKS) if is_forward else reversed(range(CHUNKS)):
            yield from (Turn(is_forward, chunk, first + i) for i in range(n_stages))
