"""A process knows its rank from what its launcher states."""

from __future__ import annotations

import pytest

from timing_logger.autologging.settings import Rank, stated_rank
from timing_logger.process.launchers import LAUNCHERS

STATED: list[tuple[dict[str, str], Rank | None]] = [
    ({}, None),
    ({"RANK": "3", "WORLD_SIZE": "8"}, Rank(3, 8)),
    ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}, Rank(1, 2)),
    ({"PMI_RANK": "0", "PMI_SIZE": "1"}, Rank(0, 1)),
    ({"MV2_COMM_WORLD_RANK": "2", "MV2_COMM_WORLD_SIZE": "4"}, Rank(2, 4)),
    ({"PMIX_RANK": "5"}, Rank(5, None)),
    ({"SLURM_PROCID": "7", "SLURM_NTASKS": "8"}, Rank(7, 8)),
    ({"SLURM_PROCID": "0", "SLURM_NTASKS": "2", "RANK": "9", "WORLD_SIZE": "16"}, Rank(9, 16)),
    ({"RANK": "first", "PMI_RANK": "2", "PMI_SIZE": "4"}, Rank(2, 4)),
    ({"RANK": "4", "WORLD_SIZE": "4"}, None),
    ({"RANK": "-1", "WORLD_SIZE": "4"}, None),
]


@pytest.mark.parametrize(("environment", "expected"), STATED)
def test_the_rank_is_what_the_innermost_launcher_states(
    environment: dict[str, str], expected: Rank | None
) -> None:
    assert stated_rank(environment) == expected


def test_a_rank_of_each_launcher_is_among_those_that_are_tried() -> None:
    tried = {name for environment, _ in STATED for name in environment}
    assert {one.rank for one in LAUNCHERS if one.rank} - tried == set(), "STATED lacks a launcher's ranks"
