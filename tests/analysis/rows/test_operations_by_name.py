"""What an operation is, and how many bytes it moves, told by its name."""

from __future__ import annotations

import math
from typing import Any

import pytest

from timing_logger.analysis.rows.operations import (
    bus_bytes,
    exchanges,
    is_collective,
    is_communication,
    is_copy,
    is_own_work,
    is_wait,
    needs_no_other_rank,
)

TELLS = {
    "exchanges": exchanges, "collective": is_collective, "communication": is_communication, "copy": is_copy,
    "own work": is_own_work, "wait": is_wait, "alone": needs_no_other_rank,
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("IALLTOALLV_TOKENS", {"exchanges", "collective", "communication"}),
        ("ALLTOALL", {"exchanges", "collective", "communication"}),
        ("BCAST", {"collective", "communication"}),
        ("SEND", {"communication"}), ("WAIT", {"wait"}), ("BACKEND", set()), ("H2D", {"copy", "alone"}),
        ("COMPRESS", {"own work", "alone"}), ("INDEX", {"own work", "alone"}), ("MPI_INIT", set()),
    ],
)  # fmt: skip
def test_an_operation_is_told_by_its_name(name: str, told: set[str]) -> None:
    assert {what for what, tell in TELLS.items() if tell(name)} == told


@pytest.mark.parametrize(
    ("name", "times_as_many"),
    [
        ("ALLREDUCE", 1.5), ("IALLREDUCE_DENSE", 1.5), ("REDUCE_SCATTER", 0.75), ("ALLTOALL", 0.75),
        ("ALLGATHER", 3.0), ("GATHER", 3.0), ("SCATTER", 0.75), ("BCAST", 1.0), ("REDUCE", 1.0),
        ("SEND", 1.0),
    ],
)  # fmt: skip
def test_bytes_over_the_wire_among_four_ranks_are_as_nccl_tests_counts_them(
    name: str, times_as_many: float
) -> None:
    assert bus_bytes(name, 1000.0, 4) == pytest.approx(1000 * times_as_many)


@pytest.mark.parametrize(
    ("name", "size", "group_size"),
    [
        ("RECV", 8, 2), ("H2D", 8, 2), ("BARRIER", 8, 2), ("FORWARD", 8, 2), ("ALLREDUCE", -1, 2),
        ("ALLREDUCE", 8, 0), ("ALLREDUCE", math.nan, 2), ("ALLREDUCE", 8, math.nan),
    ],
)  # fmt: skip
def test_what_moves_nothing_between_ranks_or_is_unknown_has_no_bytes_over_the_wire(
    name: str, size: float, group_size: Any
) -> None:
    assert math.isnan(bus_bytes(name, size, group_size))


def test_one_rank_alone_moves_nothing_and_no_bytes_are_none() -> None:
    assert (bus_bytes("ALLREDUCE", 8, 1), bus_bytes("BCAST", 0, 2)) == (0, 0)
