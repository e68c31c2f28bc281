"""What an operation is, told by its name."""

from __future__ import annotations

import pytest

from timing_logger.analysis.operations import (
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
