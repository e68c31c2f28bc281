"""Which rank of MPI's a process is, and what counts as a number of a rank."""

from __future__ import annotations

import pytest

from timing_logger.autologging.settings import Rank, rank_of_mpi, stated_rank


@pytest.mark.parametrize("text", ["", " 1", "1.0", "٣", "+1", "0x1"])
def test_what_is_no_plain_number_states_no_rank(text: str) -> None:
    assert stated_rank({"RANK": text, "WORLD_SIZE": "8"}) is None


def test_a_size_that_is_no_number_is_unknown() -> None:
    assert stated_rank({"RANK": "3", "WORLD_SIZE": "many"}) == Rank(3, None)


@pytest.mark.parametrize(
    ("rank", "expected"), [("0", Rank(0, 2)), ("1", Rank(1, 2)), ("2", None), ("3", None)]
)
def test_a_rank_is_below_the_number_of_ranks(rank: str, expected: Rank | None) -> None:
    assert stated_rank({"RANK": rank, "WORLD_SIZE": "2"}) == expected


def test_a_size_without_a_rank_states_nothing() -> None:
    assert stated_rank({"WORLD_SIZE": "8"}) is None


def test_the_rank_of_mpi_is_that_of_an_inner_launcher_of_mpi() -> None:
    inner = {"PMI_RANK": "1", "PMI_SIZE": "2"}
    assert rank_of_mpi({**inner, "SLURM_PROCID": "5", "SLURM_NTASKS": "8"}) == Rank(1, 2)


def test_a_rank_of_torchrun_that_has_the_same_number_in_mpi_is_a_rank_of_mpi() -> None:
    same = {"RANK": "1", "WORLD_SIZE": "2", "PMI_RANK": "1", "PMI_SIZE": "2"}
    assert rank_of_mpi(same) == Rank(1, 2)


def test_without_any_launcher_there_is_no_rank_of_mpi() -> None:
    assert rank_of_mpi({}) is None
