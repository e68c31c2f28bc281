"""A timed communicator made of a subclass of mpi4py's is of that subclass, with timing."""

from __future__ import annotations

from typing import Any

import pytest
from mpi_runner import run_on_ranks

pytestmark = pytest.mark.slow("classes of a program's own are rare; a copy of one is quick in test_mpi.py")


@pytest.fixture(scope="module")
def ranks() -> list[dict[str, Any]]:
    """What both ranks found out in ``mpi_programs/subclasses.py``."""
    return run_on_ranks(2, "subclasses.py").results


def test_its_own_methods_run_and_are_timed(ranks: list[dict[str, Any]]) -> None:
    for rank in ranks:
        assert rank["reduced"] == [4, 4, 2]
        assert rank["rows"][0] == ["ALLREDUCE", "ok"]


def test_it_is_of_both_classes_and_keeps_its_attributes(ranks: list[dict[str, Any]]) -> None:
    for rank in ranks:
        assert rank["is"] == [True, True]
        assert rank["keeps"] == "kept"


def test_a_method_that_takes_less_than_mpi4pys_runs_untimed(ranks: list[dict[str, Any]]) -> None:
    for rank in ranks:
        assert rank["told"] == 0
        assert "BCAST" not in {operation for operation, _ in rank["rows"]}


def test_a_request_of_its_own_makes_an_unresolved_row(ranks: list[dict[str, Any]]) -> None:
    assert all(["IALLREDUCE", "unresolved"] in rank["rows"] for rank in ranks)


def test_wrapped_again_or_pickled_it_is_of_the_same_class(ranks: list[dict[str, Any]]) -> None:
    assert all(rank["same class"] == [True, True] for rank in ranks)


def test_pkl5_pickles_out_of_band_and_is_timed(ranks: list[dict[str, Any]]) -> None:
    for me, rank in enumerate(ranks):
        assert rank["pkl5 gathered"] == [0, 1]
        assert rank["pkl5 received"] == ["sent by", 1 - me]
        assert rank["pkl5 rows"] == [
            ["ALLGATHER", 3, None, "ok"],
            ["ISEND", 0, 1 - me, "unresolved"],
            ["RECV", 0, 1 - me, "ok"],
        ]
