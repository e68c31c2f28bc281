"""What goes wrong over a timed process group: torch's own errors, honest rows, and how processes end."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest
import torch.distributed as dist
from processes import rows as lines_of
from torch_runner import run_with_torchrun

from timing_logger.schema.record import COLUMNS as FILE_COLUMNS

pytestmark = pytest.mark.slow("sixteen starts under torchrun, of which some wait until a group gives up")

Results = list[dict[str, Any]]
Row = dict[str, Any]

COLUMNS = "operation", "size", "group", "group_size", "seq", "peer", "status", "thread", "ended"
WAYS = "timed", "untimed"

# What is passed, see torch_programs/group_faults.py -> operation and type of the error of its row.
REFUSED_BY_THE_GROUP = {
    "sparse gathered": ("ALLGATHER", "NotImplementedError"),
    "sparse broadcast": ("BCAST", "NotImplementedError"),
    "too few pieces": ("ALLGATHER", "RuntimeError"),
    "piece of another shape": ("ALLGATHER", "RuntimeError"),
    "output too small": ("ALLGATHER", "RuntimeError"),
    "bits of floats": ("ALLREDUCE", "RuntimeError"),
    "root that is not there": ("BCAST", "RuntimeError"),
    "scattered by nobody": ("SCATTER", "RuntimeError"),
    "splits that do not add up": ("ALLTOALL", "RuntimeError"),
    "one split": ("ALLTOALL", "RuntimeError"),
    "sparse sent": ("ISEND", "NotImplementedError"),
    "by the group's own method": ("IALLREDUCE", "TypeError"),
    "own method, no list": ("IALLREDUCE", "TypeError"),
    "own method, empty list": ("IALLREDUCE", "NotImplementedError"),
    "own broadcast, no root": ("IBCAST", "RuntimeError"),
}
REFUSED_BEFORE = (  # by the functions of torch.distributed, which ask no group
    "no tensor", "list", "lists of several types", "no root", "to itself", "group that is none",
)  # fmt: skip
LET_PASS = ("not contiguous", "average", "bool summed")
if hasattr(dist, "all_gather_single"):  # an older torch refuses tensors without data
    LET_PASS += ("meta", "meta broadcast", "meta gathered")
SETTERS = ["_set_pg_timeout", "made with"]
if hasattr(dist.ProcessGroup, "set_timeout"):
    SETTERS.append("set_timeout")


@functools.cache
def results_of(scene: str, way: str) -> Results:
    return run_with_torchrun(2, "group_faults.py", scene, way)


def found_in(scene: str) -> list[tuple[Any, Any]]:
    """What each rank found over a timed group, and over an untimed one."""
    ways = [[rank["found"] for rank in results_of(scene, way)] for way in WAYS]
    return list(zip(*ways, strict=True))


def rows(rank: dict[str, Any], label: str) -> list[Row]:
    return [dict(zip(COLUMNS, row, strict=True)) for row in rank["rows"].get(label, [])]


def of_file(folder: Path, rank: int) -> list[dict[str, str]]:
    cells = lines_of(folder / f"timing-rank{rank}.csv")
    return [dict(zip(FILE_COLUMNS, line, strict=True)) for line in cells]


# -- errors ----------------------------------------------------------------------------------------------


def test_init_process_group_raises_torchs_own_errors_and_can_be_called_again() -> None:
    for timed, untimed in found_in("errors"):
        assert timed["before"] == untimed["before"]
        assert "" not in untimed["before"].values()
        assert timed["type"] == "TimedProcessGroup"
        assert untimed["type"] == "ProcessGroup"


def test_after_an_init_process_group_that_failed_torchs_functions_are_its_own() -> None:
    for timed, _ in found_in("errors"):
        assert timed["functions back"] == "torch.distributed.distributed_c10d"


def test_a_second_init_process_group_is_torchs_own_error() -> None:
    for timed, untimed in found_in("errors"):
        assert timed["again"] == untimed["again"]
        assert timed["again"].startswith("ValueError: trying to initialize")


@pytest.mark.parametrize("case", [*REFUSED_BY_THE_GROUP, *REFUSED_BEFORE, *LET_PASS])
@pytest.mark.parametrize("iteration", ["wrong 0", "wrong 1"], ids=["recorded", "not recorded"])
def test_an_error_has_the_type_and_text_that_it_has_over_an_untimed_group(iteration: str, case: str) -> None:
    for timed, untimed in found_in("errors"):
        assert timed[iteration][case] == untimed[iteration][case]
        assert (untimed[iteration][case] == "") == (case in LET_PASS)


@pytest.mark.parametrize("case", REFUSED_BY_THE_GROUP)
def test_the_row_of_a_call_that_raised_says_what(case: str) -> None:
    operation, error = REFUSED_BY_THE_GROUP[case]
    for rank in results_of("errors", "timed"):
        (row,) = rows(rank, case)
        assert (row["operation"], row["status"]) == (operation, f"error:{error}")
        assert rank["found"]["wrong 0"][case].startswith(f"{error}: ")


@pytest.mark.parametrize("case", REFUSED_BEFORE)
def test_a_call_that_reaches_no_group_is_no_row(case: str) -> None:
    for rank in results_of("errors", "timed"):
        assert rows(rank, case) == []


def test_a_sparse_tensor_is_reduced_and_its_row_has_no_size() -> None:
    for timed, untimed in found_in("errors"):
        assert timed["sparse"] == untimed["sparse"] == [1.0, 1.0]
    for rank in results_of("errors", "timed"):
        (row,) = rows(rank, "sparse")
        assert (row["operation"], row["size"], row["status"]) == ("ALLREDUCE", None, "ok")


def test_after_errors_numbers_agree_on_all_ranks() -> None:
    """Also after one of a single rank."""
    one, other = results_of("errors", "timed")
    for label in ("sparse", "after", "after that"):
        assert [row["seq"] for row in rows(one, label)] == [row["seq"] for row in rows(other, label)]
    ((before,), (after,)) = rows(one, "after"), rows(one, "after that")
    assert after["seq"] == before["seq"] + 1
    assert [row["status"] for row in rows(one, "alone")] == ["error:NotImplementedError"]


# -- waits -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", ["all_reduce", "message", "dropped"])
def test_waits_end_as_over_an_untimed_group(case: str) -> None:
    for timed, untimed in found_in("waits"):
        assert timed[case] == untimed[case]


def test_a_wait_that_expires_is_an_error_and_the_operation_goes_on() -> None:
    waiting, late = results_of("waits", "timed")
    assert waiting["found"]["all_reduce"] == ["RuntimeError: Operation timed out!", "", ""]
    found = rows(waiting, "all_reduce")
    waits = [row["status"] for row in found if row["operation"] == "WAIT"]
    issued = [row["status"] for row in found if row["operation"] == "IALLREDUCE"]
    assert waits == ["error:RuntimeError", "ok"]  # who waits again for what is done, was not blocked
    assert issued == ["ok"]
    assert len({(row["group"], row["seq"]) for row in (*found, *rows(late, "all_reduce"))}) == 1


def test_a_message_that_a_wait_gave_up_is_an_error() -> None:
    (issued, *waits) = rows(results_of("waits", "timed")[0], "message")
    assert (issued["operation"], issued["status"]) == ("IRECV", "error:RuntimeError")
    assert {(row["operation"], row["status"], row["seq"]) for row in waits} == {
        ("WAIT", "error:RuntimeError", issued["seq"])
    }


def test_a_dropped_work_is_a_row_by_its_future_and_unresolved_without_one() -> None:
    for rank in results_of("waits", "timed"):
        (row,) = rows(rank, "dropped with a future")
        assert (row["operation"], row["status"], row["ended"]) == ("IALLREDUCE", "ok", True)
        (row,) = rows(rank, "dropped without")
        assert (row["operation"], row["status"], row["ended"]) == ("IREDUCE_SCATTER", "unresolved", False)


def test_two_waits_for_one_work_are_one_row() -> None:
    for rank in results_of("waits", "timed"):
        assert [row["operation"] for row in rows(rank, "seen to be done")] == ["IALLREDUCE", "WAIT"]


# -- a group's life --------------------------------------------------------------------------------------


def test_groups_are_destroyed_and_made_again_as_untimed_ones() -> None:
    for timed, untimed in found_in("life"):
        assert {**timed, "type of the second": ""} == {**untimed, "type of the second": ""}
        assert timed["type of the second"] == "TimedProcessGroup"


def test_a_world_that_is_made_again_counts_from_0() -> None:
    for rank in results_of("life", "timed"):
        (first,), (second,) = rows(rank, "first world"), rows(rank, "second world")
        assert first["seq"] == second["seq"] == 0


@pytest.mark.parametrize("setter", SETTERS)
def test_a_groups_timeout_is_in_force_and_its_row_says_so(setter: str) -> None:
    rank = results_of("life", "timed")[0]
    assert rank["found"]["timeouts"][setter].startswith("RuntimeError: ")
    (row,) = rows(rank, f"timeout by {setter}")
    assert (row["operation"], row["seq"], row["status"]) == ("ALLREDUCE", 0, "error:RuntimeError")


def test_with_a_logger_that_is_off_the_group_is_torchs_own() -> None:
    for timed, _ in found_in("off"):
        assert timed["first"] == [True, "torch.distributed.distributed_c10d"]


@pytest.mark.parametrize("case", ["after a timed one", "torch's own after a timed one"])
def test_a_timed_group_that_was_destroyed_leaves_the_next_one_alone(case: str) -> None:
    for timed, untimed in found_in("off"):
        assert timed["timed"] == [True]
        assert timed[case] == untimed[case] == [True]


# -- a rank that dies ------------------------------------------------------------------------------------


@pytest.mark.parametrize("label", ["async", "sync", "after", "message"])
def test_when_a_rank_dies_the_error_is_that_of_an_untimed_group(label: str) -> None:
    ((timed, untimed),) = found_in("death")
    kinds = [found[label].split(":")[0] for found in (timed, untimed)]
    assert kinds == ["RuntimeError"] * 2  # whose text depends on when gloo sees the connection end


def test_when_a_rank_dies_the_rows_say_what_the_other_was_waiting_in() -> None:
    (rank,) = results_of("death", "timed")
    assert {(row["operation"], row["group"], row["seq"]) for row in rows(rank, "async")} == {
        ("IALLREDUCE", "default_pg 0", 1),
        ("WAIT", "default_pg 0", 1),
    }
    (row,) = rows(rank, "sync")
    assert (row["operation"], row["group"], row["seq"]) == ("ALLREDUCE", "pair 1", 1)
    assert row["size"] == 4 << 20
    for label in ("async", "sync", "after", "message"):
        assert {row["status"] for row in rows(rank, label)} == {"error:RuntimeError"}


# -- ends of a process -----------------------------------------------------------------------------------


def test_what_is_open_at_exit_is_unresolved_and_the_exit_status_is_0(tmp_path: Path) -> None:
    run_with_torchrun(2, "group_faults.py", "open at exit", "timed", str(tmp_path))
    left = {row["operation"]: row for row in of_file(tmp_path, 0)}
    assert set(left) == {"BARRIER", "IALLREDUCE", "IRECV"}
    for operation, peer, seq in (("IALLREDUCE", "", "1"), ("IRECV", "1", "0")):
        row = left[operation]
        assert (row["status"], row["elapsed_ms"], row["end_counter"]) == ("unresolved", "", "")
        assert (row["group"], row["peer"], row["seq"]) == ("default_pg 0", peer, seq)


def test_without_timing_such_an_exit_has_status_0_too() -> None:
    assert results_of("open at exit", "untimed") == []


def test_what_is_open_when_the_logger_is_closed_is_unresolved(tmp_path: Path) -> None:
    run_with_torchrun(2, "group_faults.py", "open at close", "timed", str(tmp_path))
    left = {row["operation"]: row["status"] for row in of_file(tmp_path, 0)}
    assert left == {"IALLREDUCE": "unresolved", "IRECV": "unresolved"}


def test_a_process_may_end_without_destroying_its_group(tmp_path: Path) -> None:
    run_with_torchrun(2, "group_faults.py", "undestroyed", "timed", str(tmp_path))
    for rank in range(2):
        found = of_file(tmp_path, rank)
        assert sorted(row["operation"] for row in found) == ["ALLREDUCE", "BARRIER", "IALLREDUCE", "WAIT"]
        assert {row["status"] for row in found} == {"ok"}
