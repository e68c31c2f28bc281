"""Which messages did not end, and whether their other side made its call, of rows that are made by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest
from endings import WORLD, ended, ending, row

from timing_logger.analysis.hangs.who_waits import stuck_messages
from timing_logger.results.run_end import StuckMessage


def stuck(*of: dict[str, Any]) -> list[StuckMessage]:
    return stuck_messages(ending(*of), 4)


def send(rank: int = 0, peer: float = 1.0, operation: str = "SEND", **fields: Any) -> dict[str, Any]:
    return row(rank, operation, **{"peer": peer, "seq": 3.0, **fields})


def receive(rank: int = 1, peer: float = 0.0, operation: str = "RECV", **fields: Any) -> dict[str, Any]:
    return send(rank, peer, operation, **fields)


def test_where_nothing_is_open_no_message_is_stuck() -> None:
    assert stuck() == []
    assert stuck(ended(0, "SEND", peer=1.0)) == []


def test_a_message_is_told_with_what_its_row_says() -> None:
    assert stuck(send(thread="sender")) == [
        StuckMessage(
            rank=0, operation="SEND", group=WORLD, seq=3, thread="sender", iteration=5, peer=1,
            has_partner=False, since_s=100.0, hangs=True,
        )
    ]  # fmt: skip


def test_what_is_unknown_of_a_message_is_none() -> None:
    (found,) = stuck(send(peer=math.nan, seq=math.nan, iteration=math.nan, began_s=math.nan))
    assert (found.peer, found.seq, found.iteration, found.since_s) == (None, None, None, None)


def test_messages_come_by_rank_and_then_the_longest_first() -> None:
    found = stuck(send(2, seq=1.0), send(0, began_s=150.0), send(0, began_s=120.0, seq=4.0))
    assert [(one.rank, one.since_s, one.hangs) for one in found] == [
        (0, 80.0, True), (0, 50.0, False), (2, 100.0, True),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("operation", "told"),
    [("SEND", 1), ("WAIT", 1), ("BCAST", 0),
     *(pytest.param(*other, marks=pytest.mark.slow("as another of its kind"))
       for other in [("PROBE", 1), ("IRECV_INDEX", 1), ("WIN_LOCK", 1), ("FORWARD", 0), ("H2D", 0)])],
)  # fmt: skip
def test_messages_probes_and_waits_are_told_here(operation: str, told: int) -> None:
    assert len(stuck(send(operation=operation))) == told


def test_the_other_side_is_told_to_have_made_its_call() -> None:
    assert [one.has_partner for one in stuck(send(), receive())] == [True, True]
    to_others = send(), receive(peer=2.0), send(2, 3.0), receive(3, 2.0, seq=4.0)
    assert [one.has_partner for one in stuck(*to_others)] == [False] * 4


def test_a_send_that_was_received_is_not_stuck() -> None:
    received = receive(end_counter=110.0, status="ok")
    assert stuck(send(operation="ISEND"), received) == []
    assert [one.rank for one in stuck({**send(), "end_counter": 110.0, "status": "ok"}, receive())] == [1]


AS_A_NUMBER = pytest.mark.slow("as of another number")


@pytest.mark.parametrize(
    ("wait", "is_told"),
    [
        ({}, False),
        ({"seq": 4.0}, True),
        pytest.param({"group": "pair"}, True, marks=AS_A_NUMBER),
        pytest.param({"rank": 2}, True, marks=AS_A_NUMBER),
    ],
    ids=["of it", "of another number", "of another group", "of another rank"],
)
def test_a_wait_for_an_open_call_of_its_rank_is_told_by_that_call(
    wait: dict[str, Any], is_told: bool
) -> None:
    found = stuck(send(operation="ISEND"), {**send(operation="WAIT"), **wait})
    assert ("WAIT" in [one.operation for one in found]) is is_told
    assert "ISEND" in [one.operation for one in found]


def test_a_wait_for_a_call_without_a_number_is_told_by_that_call() -> None:
    found = stuck(send(operation="ISEND", seq=math.nan), send(operation="WAIT", seq=math.nan))
    assert [one.operation for one in found] == ["ISEND"]
    over = stuck(ended(0, "ISEND", seq=3.0), send(operation="WAIT"))
    assert [one.operation for one in over] == ["WAIT"]


def in_background(*of: dict[str, Any]) -> bool:
    """Tell whether the first message that is told is in the background."""
    return stuck(*of)[0].in_background


def test_a_call_that_blocks_is_in_no_background() -> None:
    assert not in_background(send())
    assert in_background(send(operation="ISEND"))


@pytest.mark.parametrize(
    ("wait", "waits"),
    [({}, True), ({"seq": 4.0}, False), ({"end_counter": 120.0, "status": "ok"}, False),
     *(pytest.param(other, False, marks=AS_A_NUMBER)
       for other in ({"peer": 2.0}, {"group": "pair"}, {"rank": 2}, {"operation": "PROBE"}))],
)  # fmt: skip
def test_a_message_is_in_the_background_unless_a_call_of_its_rank_waits_for_it(
    wait: dict[str, Any], waits: bool
) -> None:
    assert in_background(send(operation="ISEND"), {**send(operation="WAIT"), **wait}) is not waits


def test_a_wait_for_a_message_of_unknown_peer_and_number_is_known_by_that() -> None:
    unknown = {"peer": math.nan, "seq": math.nan}
    assert not in_background(send(operation="IRECV", **unknown), send(operation="WAIT", **unknown))
