"""Operations that go on in the background, and communicators made from timed ones, on real ranks."""

from __future__ import annotations

from typing import Any

import pytest
from mpi_runner import run_on_ranks
from slow import slow

Results = list[dict[str, Any]]


@pytest.fixture(
    scope="module",
    params=[slow(1, "one rank does less than two"), 2, slow(4, "more ranks, on the same path")],
    ids="{} ranks".format,
)
def ranks(request: pytest.FixtureRequest) -> Results:
    """What each rank found out in ``mpi_programs/background.py``."""
    return run_on_ranks(request.param, "background.py").results


def neighbours(me: int, ranks: Results) -> tuple[int, int]:
    return (me - 1) % len(ranks), (me + 1) % len(ranks)


def test_the_first_requests_of_a_program_are_seen(ranks: Results) -> None:
    for rank in ranks:
        assert rank["first_of_all"]["rows"] == [
            ["IRECV", "ok"],
            ["ISEND", "ok"],
            ["WAIT", "ok"],
            ["WAIT", "ok"],
        ]


def test_a_wait_is_of_the_thread_that_waits(ranks: Results) -> None:
    for rank in ranks:
        assert rank["waited_for_in_another_thread"] == [
            ["IRECV", "MainThread"],
            ["ISEND", "MainThread"],
            ["WAIT", "waiter"],
            ["WAIT", "waiter"],
        ]


def test_every_call_that_completes_requests_writes_operation_and_wait(ranks: Results) -> None:
    for me, rank in enumerate(ranks):
        left, right = neighbours(me, ranks)
        for way, seen in rank["every_way_to_complete"].items():
            assert sorted(seen["rows"]) == sorted(
                [
                    ["IRECV", 24, 0, left, "ok"],
                    ["ISEND", 24, 0, right, "ok"],
                    ["WAIT", 24, 0, left, "ok"],
                    ["WAIT", 24, 0, right, "ok"],
                ]
            ), way
            assert seen["received"] == left, way


def test_a_wait_is_told_of_by_the_rows_of_its_timed_requests_whatever_stands_beside_them(
    ranks: Results,
) -> None:
    for me, rank in enumerate(ranks):
        left, right = neighbours(me, ranks)
        seen = rank["waits_of_all_sorts"]
        assert seen["rows"] == [
            [name, n_bytes, n_bytes - 1, peer, "ok"]
            for n_bytes in (1, 2, 3)
            for operation, peer in (("IRECV", left), ("ISEND", right))
            for name in (operation, "WAIT")
        ]
        assert seen["told"][0] == 1
        assert seen["again"]


def test_what_is_no_wait_is_refused_by_mpi4py_itself_and_left_as_it_was(ranks: Results) -> None:
    for rank in ranks:
        seen = rank["waits_of_all_sorts"]
        of_generator, of_nothing, of_wrong_status = seen["refused"]
        assert "has no len()" in of_generator
        assert of_nothing.startswith("Waitall() takes at least 1 positional argument")
        assert "status" in of_wrong_status
        assert seen["left_of_generator"] == 2


def test_a_wait_ends_with_its_operation_and_begins_after_it(ranks: Results) -> None:
    for rank in ranks:
        assert all(seen["waits_within"] for seen in rank["every_way_to_complete"].values())


def test_rows_carry_the_label_in_force_at_the_call(ranks: Results) -> None:
    for rank in ranks:
        labels = [seen["labels"] for seen in rank["every_way_to_complete"].values()]
        assert labels == [[["layer", "test"]]] * 19


def test_timed_requests_are_requests_and_null_when_complete(ranks: Results) -> None:
    for rank in ranks:
        assert all(seen["mpi4py_would_say"] for seen in rank["every_way_to_complete"].values())


def test_the_rows_of_a_call_are_the_same_however_its_arguments_are_given(ranks: Results) -> None:
    for rank in ranks:
        by_position, *others = rank["by_position_and_by_name"]
        assert others == [by_position] * 2
        assert len(by_position) == 16


def test_collectives_are_numbered_in_the_order_of_their_calls(ranks: Results) -> None:
    for rank in ranks:
        assert rank["collectives"] == {
            "rows": [
                ["BARRIER", None, 3, None, "ok"],
                ["IBCAST", 16, 2, 0, "ok"],
                ["WAIT", 16, 2, 0, "ok"],
                ["IBARRIER", None, 1, None, "ok"],
                ["WAIT", None, 1, None, "ok"],
                ["IALLREDUCE", 32, 0, None, "ok"],
                ["WAIT", 32, 0, None, "ok"],
            ],
            "total": sum(range(len(ranks))),
        }


def test_each_start_of_a_persistent_request_is_an_operation(ranks: Results) -> None:
    for me, rank in enumerate(ranks):
        left, right = neighbours(me, ranks)
        seen = rank["persistent"]
        operations = [row for row in seen["rows"] if row[0] != "WAIT"]
        assert sorted(operations[:8], key=str) == sorted(
            [[op, 16, n, peer, "ok"] for n in range(4) for op, peer in (("IRECV", left), ("ISEND", right))],
            key=str,
        )
        assert operations[8] == ["IALLREDUCE", 16, 0, None, "ok"]
        assert len(seen["rows"]) == 2 * len(operations)
        assert seen["got"] == [10 * left + number for number in range(3)]
        assert seen["prequest"]


def test_pickled_bytes_are_known_to_senders_and_receivers(ranks: Results) -> None:
    for rank in ranks:
        seen = rank["objects"]
        sizes = {(row[0], row[2]): row[1] for row in seen["rows"] if row[3] is not None}
        assert {op for op, _ in sizes} == {"RECV", "ISEND", "WAIT", "SEND", "IRECV", "MPROBE", "BCAST"}
        assert all(nbytes == seen["nbytes"] for (op, _), nbytes in sizes.items() if op != "BCAST")
        assert seen["got"]


def test_nobody_pickles_what_nobody_gets(ranks: Results) -> None:
    for rank in ranks:
        assert rank["objects"]["rows"][-2] == ["SEND", None, None, None, "ok"]


def test_a_wrong_call_of_a_pickled_send_raises_as_mpi4py_does(ranks: Results) -> None:
    for rank in ranks:
        assert rank["objects"]["raised"] == ["TypeError"] * 3


def test_probes_say_whose_message_is_there_and_its_size(ranks: Results) -> None:
    for rank in ranks:
        seen, left = rank["probes"], rank["probes"]["left"]
        assert seen["rows"] == [
            ["PROBE", 40, None, left, "ok"],
            ["RECV", 40, 0, left, "ok"],
            ["MPROBE", 40, None, left, "ok"],
            ["RECV", 40, 1, left, "ok"],
            ["MPROBE", 40, None, left, "ok"],
            ["IRECV", 40, 2, left, "ok"],
        ]
        assert seen["status"]


def test_polling_in_vain_writes_no_row(ranks: Results) -> None:
    assert all(rank["probes"]["unheard"] for rank in ranks)


def test_a_completion_that_went_unseen_is_unresolved_not_lost(ranks: Results) -> None:
    for rank in ranks:
        rows = rank["unseen"]["rows"]
        assert sorted(rows[:2]) == [
            [None, "IRECV", 0, "unresolved", True],
            [None, "ISEND", 0, "unresolved", True],
        ]
        assert rank["unseen_and_started_again"]["rows"] == [
            [operation, seq, status]
            for operation in ("IRECV", "ISEND")
            for seq, status in enumerate(["unresolved", "ok"])
        ]


def test_a_cancelled_operation_says_so(ranks: Results) -> None:
    for rank in ranks:
        assert rank["unseen"]["rows"][2:4] == [
            [None, "IRECV", 1, "error:Cancelled", False],
            [None, "WAIT", 1, "error:Cancelled", False],
        ]


def test_an_operation_belongs_to_the_iteration_that_issued_it(ranks: Results) -> None:
    for rank in ranks:
        rows = rank["unseen"]["rows"][4:]
        assert [row[0] for row in rows] == [2] * 4
        assert {row[1]: row[2] for row in rows if row[1] != "WAIT"} == {"IRECV": 3, "ISEND": 2}


def test_unrecorded_operations_get_the_requests_of_mpi4py(ranks: Results) -> None:
    for rank in ranks:
        assert rank["unseen"]["plain_send"] == "Request"
        assert rank["off"] == {"rows": 0, "types": ["Request", "Request"]}


def test_errors_are_those_of_mpi4py(ranks: Results) -> None:
    for rank in ranks:
        assert rank["failures"]["raised"] == [
            "MPI_ERR_TRUNCATE", "TypeError", "TypeError", "MPI_ERR_RANK", "TypeError",
        ]  # fmt: skip


def test_rows_of_failed_operations_name_the_exception(ranks: Results) -> None:
    for rank in ranks:
        assert rank["failures"]["rows"] == [
            ["IRECV", 0, "error:Exception"],
            ["ISEND", 0, "error:Exception"],  # to a rank that does not exist: of numbers of its own
            ["ISEND", None, "error:TypeError"],
            ["ISEND", 0, "ok"],
            ["IBARRIER", 0, "ok"],
        ]


def test_a_refused_call_leaves_the_operation_open(ranks: Results) -> None:
    for rank in ranks:
        assert rank["failures"]["waits"] == ["error:Exception", "ok", "ok"]


def test_communicators_made_from_a_timed_one_are_timed(ranks: Results) -> None:
    kinds = {
        "Create_cart": "TimedCartcomm", "Sub": "TimedCartcomm", "Create_graph": "TimedGraphcomm",
        "Create_dist_graph_adjacent": "TimedDistgraphcomm", "Create_intercomm": "TimedIntercomm",
    }  # fmt: skip
    for rank in ranks:
        types = rank["derived"]["types"]
        assert types == {name: kinds.get(name, "TimedIntracomm") for name in types}
        assert len(types) == (9 if len(ranks) == 1 else 11)
        assert rank["derived"]["null"]


def test_a_collective_has_the_same_group_and_number_on_every_rank(ranks: Results) -> None:
    """Of the communicators that hold all ranks; the others split them differently."""
    everyone = [
        [row for row in rank["derived"]["rows"] if row[2] == len(ranks)] for rank in ranks
    ]  # fmt: skip
    assert all(rows == everyone[0] for rows in everyone)
    assert len(everyone[0]) == (21 if len(ranks) == 1 else 25)


def test_all_ranks_say_the_same_of_what_is_scattered_to_the_other_group(ranks: Results) -> None:
    expected = [] if len(ranks) == 1 else [8 * (len(ranks) - 1)]
    assert [rank["scattered_to_the_other_group"] for rank in ranks] == [expected] * len(ranks)


def test_an_intercommunicator_is_named_after_both_its_groups(ranks: Results) -> None:
    if len(ranks) < 4:
        pytest.skip("with two ranks the groups are of one rank each")
    for rank in ranks:
        assert ["INTERCOMM_CREATE", "ranks 0,2|1,3", 4, 0] in rank["derived"]["rows"]
        assert ["BARRIER", "ranks 0,2|1,3", 4, 1] in rank["derived"]["rows"]
        assert ["ALLREDUCE", "ranks 0,2|1,3", 4, 2] in rank["derived"]["rows"]
