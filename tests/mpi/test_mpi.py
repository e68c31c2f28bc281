"""TimedIntracomm, on one to four real ranks."""

from __future__ import annotations

import functools
import subprocess
import sys
from collections import defaultdict
from importlib.util import find_spec
from typing import Any

import pytest
from limits import PROCESS_S
from mpi_runner import run_on_ranks
from places import ROOT
from slow import slow

from allreduce_instrumentation.mpi._operations import COLLECTIVES

Results = list[dict[str, Any]]


PROGRAMS = ["communicator.py", "collective_sizes.py", "untimed_methods.py", "parts.py"]
if find_spec("torch"):  # a tensor is a buffer, too
    PROGRAMS.append("sizes.py")


@functools.cache
def on_three_ranks() -> dict[str, Results]:
    """What each rank found out in each of these programs of ``mpi_programs``, in one start."""
    run = run_on_ranks(3, "several.py", *" + ".join(PROGRAMS).split())
    return {name: each.results for name, each in zip(PROGRAMS, run.of_each, strict=True)}


@pytest.fixture(
    scope="module",
    params=[*(slow(number, "three ranks do it all") for number in (1, 2, 4)), 3],
    ids="{} ranks".format,
)
def ranks(request: pytest.FixtureRequest) -> Results:
    """What each rank found out in ``mpi_programs/communicator.py``."""
    if request.param == 3:
        return on_three_ranks()["communicator.py"]
    return run_on_ranks(request.param, "communicator.py").results


@pytest.fixture(scope="module")
def sizes() -> dict[str, Any]:
    pytest.importorskip("torch")
    found: dict[str, Any] = on_three_ranks()["sizes.py"][0]
    return found


def test_message_sizes_are_the_bytes_of_the_send_buffer(sizes: dict[str, Any]) -> None:
    assert {name: measured for name, (measured, _) in sizes.items()} == {
        name: expected for name, (_, expected) in sizes.items()
    }
    assert len(sizes) > 25


def test_collectives_send_what_their_definition_says() -> None:
    rooted = {"BCAST", "GATHER", "IGATHER", "GATHERV", "REDUCE", "SCATTER", "SCATTERV"}
    for rank in on_three_ranks()["collective_sizes.py"]:
        assert {name: seen["bytes"] for name, seen in rank.items()} == {
            name: seen["expected"] for name, seen in rank.items()
        }
        for name, seen in rank.items():
            assert seen["operations"] == [name.split()[0].upper()]
            assert seen["peers"] == [1 if seen["operations"][0] in rooted else None]


def test_what_each_collective_sends_is_among_what_is_measured() -> None:
    measured = {name.split()[0] for name in on_three_ranks()["collective_sizes.py"][0]}
    of_all = {name for name in COLLECTIVES if not name.startswith("Neighbor_")}  # they need a topology
    assert of_all - measured == set(), "CALLS in tests/mpi_programs/collective_sizes.py lacks it"


@pytest.mark.parametrize("part", ["names", "arguments", "subclasses", "sizes", "handles"])
def test_a_part_answers_as_it_says_on_every_rank(part: str) -> None:
    for rank in on_three_ranks()["parts.py"]:
        assert {name: got for name, (got, _) in rank[part].items()} == {
            name: expected for name, (_, expected) in rank[part].items()
        }


LOCAL = {
    "free", "Get_group", "Get_size", "Get_rank", "Compare", "Free", "Set_info", "Get_info", "Is_inter",
    "Is_intra", "Get_topology", "Get_attr", "Set_attr", "Delete_attr", "Get_errhandler",
    "Set_errhandler", "Call_errhandler", "Abort", "Get_name", "Set_name", "toint", "py2f",
    "Cart_map", "Graph_map", "Get_dim", "Get_topo", "Get_cart_rank", "Get_coords", "Shift", "Get_dims",
    "Get_neighbors_count", "Get_neighbors", "Get_dist_neighbors_count", "Get_dist_neighbors",
    "Get_remote_group", "Get_remote_size", "Disconnect", "Attach_buffer", "Detach_buffer",
    "Flush_buffer", "Iflush_buffer",
    # of fault tolerance (ULFM), which few libraries have; no messages of the program's
    "Revoke", "Is_revoked", "Get_failed", "Ack_failed", "Agree", "Iagree",
}  # fmt: skip


def test_every_method_that_communicates_is_timed() -> None:
    """Also those of a version of mpi4py to come: they are timed, or known to be local."""
    for kind, untimed in on_three_ranks()["untimed_methods.py"][0].items():
        assert set(untimed) <= LOCAL, kind


def test_results_are_those_of_the_plain_communicator(ranks: Results) -> None:
    for rank in ranks:
        assert rank["calls_and_rows"]["values"] == rank["calls_and_rows"]["plain_values"]


def test_each_call_makes_one_row(ranks: Results) -> None:
    last = len(ranks) - 1
    for me, rank in enumerate(ranks):
        right, left = (me + 1) % len(ranks), (me - 1) % len(ranks)
        rows = rank["calls_and_rows"]["rows"]
        assert rows[:6] == [
            ["ALLREDUCE", 8, 0, None, "ok"],
            ["ALLREDUCE", None, 1, None, "ok"],
            ["ALLGATHER", 8, 2, None, "ok"],
            ["BCAST", 12, 3, last, "ok"],
            ["SENDRECV", 4, 0, right, "ok"],
            ["RECV", 4, 1, left, "ok"],
        ]
        assert rows[-1] == ["BARRIER", None, 4, None, "ok"]
        assert len(rows) == (8 if len(ranks) > 1 and me < 2 else 7)


def test_rows_name_the_group_the_label_and_the_clock(ranks: Results) -> None:
    for rank in ranks:
        assert rank["calls_and_rows"]["same_columns"] == [["everyone", len(ranks), "layer", "test", "host"]]
        assert all(duration > 0 for duration in rank["calls_and_rows"]["durations"])


def test_messages_of_some_ranks_only_do_not_shift_the_numbers_of_collectives(ranks: Results) -> None:
    for rank in ranks:
        assert rank["asymmetric_messages"]["rows"][-1] == ["BARRIER", 0, None]


def test_the_nth_message_sent_is_the_nth_received(ranks: Results) -> None:
    sent = [[seq, peer] for op, seq, peer in ranks[0]["asymmetric_messages"]["rows"] if op == "SEND"]
    received = [
        [seq, me]
        for me, rank in enumerate(ranks)
        for op, seq, _ in rank["asymmetric_messages"]["rows"]
        if op == "RECV"
    ]
    assert sent == received


def test_a_receive_from_any_source_names_the_true_one(ranks: Results) -> None:
    for rank in (rank["any_source"] for rank in ranks):
        assert rank["rows"][:4] == [["RECV", n, rank["left"]] for n in range(4)]
        assert rank["rows"][4] == ["SENDRECV", 0, rank["right"]]
        assert rank["status"] == [rank["left"], 3]


def test_a_message_from_nobody_has_no_peer_and_no_number(ranks: Results) -> None:
    for rank in ranks:
        assert rank["any_source"]["rows"][5] == ["RECV", None, None]


def test_errors_are_those_of_the_plain_communicator(ranks: Results) -> None:
    for rank in ranks:
        assert rank["errors"]["raised"] == rank["errors"]["plain"]
        assert all(rank["errors"]["raised"].values())


def test_rows_of_failed_calls_name_the_exception(ranks: Results) -> None:
    for rank in ranks:
        assert rank["errors"]["statuses"] == ["error:Exception", "error:TypeError", "ok"]


def test_calls_that_mpi_never_saw_do_not_count(ranks: Results) -> None:
    for rank in ranks:
        assert rank["errors"]["barrier"] == [["BARRIER", None, 0, None, "ok"]]


def test_unrecorded_iterations_count(ranks: Results) -> None:
    for rank in ranks:
        assert rank["sampling"]["rows"] == [[n, op, n] for n in (0, 2, 4) for op in ("BARRIER", "SENDRECV")]


def test_two_wrappers_of_a_communicator_go_on_counting(ranks: Results) -> None:
    for rank in ranks:
        (first, _, zero), (second, _, one) = rank["identity"]["rows"][:2]
        assert first == second
        assert (zero, one) == (0, 1)


def test_duplicates_are_timed_as_groups_of_their_own(ranks: Results) -> None:
    for rank in ranks:
        first, making, barrier, making_another, another = rank["identity"]["rows"][1:6]
        assert first[0] == making[0] == making_another[0]
        assert len({group for group, _, _ in (first, barrier, another)}) == 3
        assert [seq for _, _, seq in (first, making, barrier, making_another, another)] == [1, 2, 0, 3, 0]
        assert rank["identity"]["copy"] == "TimedIntracomm"


def test_groups_are_called_by_their_name_or_their_ranks(ranks: Results) -> None:
    named: dict[str, set[int]] = defaultdict(set)
    for me, rank in enumerate(ranks):
        for group, group_size, _ in rank["identity"]["rows"]:
            named[group].add(me)
            assert group_size == len(ranks) or group_size == len(ranks[me % 2 :: 2])
    assert named["MPI_COMM_WORLD"] == set(range(len(ranks)))
    if len(ranks) >= 3:
        assert named["ranks 0,2"] == {0, 2}
        assert named["ranks 1,3" if len(ranks) == 4 else "ranks 1"] == set(range(1, len(ranks), 2))


def test_it_is_the_communicator_that_it_wraps(ranks: Results) -> None:
    for rank in (rank["identity"] for rank in ranks):
        assert rank["is_intracomm"]
        assert rank["equal"]
        assert rank["untimed_method"]
        assert all(rank["signatures"])


def test_it_is_pickled_as_the_communicator_is(ranks: Results) -> None:
    for rank in (rank["identity"] for rank in ranks):
        assert rank["loaded"] == ["TimedIntracomm", True]
        assert rank["unpicklable"] == rank["unpicklable_plain"] == ["ValueError"]


def test_one_in_the_place_of_a_constant_is_pickled_as_that_is(ranks: Results) -> None:
    """It, a copy of it, one of a user's class; the constant that it replaced, and a plain copy of that."""
    for rank in (rank["identity"] for rank in ranks):
        for name in ("COMM_SELF", "COMM_WORLD"):
            the_same = [True, False, False, True, False]
            assert rank["in_its_place"][name] == [[True, True, [same]] for same in the_same]
            assert rank["in_its_place"][f"{name}, elsewhere"] == [[True, True, True]]


def test_the_null_communicator_can_be_wrapped(ranks: Results) -> None:
    for rank in (rank["identity"] for rank in ranks):
        assert rank["null"] == [True, rank["null_plain"]]


def test_importing_the_package_needs_neither_mpi_nor_torch() -> None:
    code = "import sys, allreduce_instrumentation as a; print({'mpi4py', 'torch'} & set(sys.modules), dir(a))"
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=PROCESS_S, check=True
    )
    assert run.stdout.startswith("set() ")
    assert "TimedIntracomm" in run.stdout
