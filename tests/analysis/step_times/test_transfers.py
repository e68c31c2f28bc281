"""Which messages show how long they took: those whose rows ended by themselves."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from message_rows import send
from rank_tables import quick_table as table

from timing_logger.analysis.collectives.messages import find_messages
from timing_logger.analysis.rows.arrays import processes_of
from timing_logger.analysis.rows.tables import opened
from timing_logger.analysis.step_times.transfers import _ended_alone
from timing_logger.schema.record import Record

NS = 1e-6  # in ms


def ended_alone(sends: list[Record], receives: list[Record]) -> list[bool]:
    """Tell of each message from rank 0 to rank 1 whether neither of its rows ended with another."""
    frame = opened(table(sends, receives))
    messages = find_messages(frame, 2)
    rows: Any = SimpleNamespace(met=SimpleNamespace(frame=frame, messages=messages))
    of: Any = SimpleNamespace(rows=rows, column=processes_of(frame))
    return _ended_alone(of)[np.argsort(messages.send)].tolist()


def sent(*ends_ms: float | None, operation: str = "SEND") -> list[Record]:
    """Return a row of rank 0 for each message: it ends then, and begins a bit later than the one before."""
    return [
        send(0.1 * at, None if end_ms is None else end_ms - 0.1 * at, operation, seq=at, peer=1, status="ok")
        for at, end_ms in enumerate(ends_ms)
    ]


def received(*ends_ms: float | None, operation: str = "RECV") -> list[Record]:
    return [row._replace(peer=0) for row in sent(*ends_ms, operation=operation)]


@pytest.mark.parametrize(
    ("apart_ns", "alone"), [(0, False), (40, False), (200, True)], ids=["at once", "nearly", "later"]
)
def test_receives_in_the_background_that_end_within_a_tenth_of_a_us_end_together(
    apart_ns: int, alone: bool
) -> None:
    receives = received(4.0, 4.0 + apart_ns * NS, 9.0, operation="IRECV")
    assert ended_alone(sent(1.0, 2.0, 3.0), receives) == [alone, alone, True]


def test_sends_in_the_background_that_end_together_do_not_end_by_themselves_either() -> None:
    assert ended_alone(sent(1.0, 2.0, 1.0, operation="ISEND"), received(4.0, 5.0, 6.0)) == [
        False,
        True,
        False,
    ]


def test_rows_that_block_are_known_to_have_taken_as_long_as_they_say() -> None:
    assert ended_alone(sent(1.0, 1.0), received(4.0, 4.0)) == [True, True]


def test_a_row_that_ends_with_one_of_another_rank_ends_by_itself() -> None:
    assert ended_alone(sent(4.0, operation="ISEND"), received(4.0, operation="IRECV")) == [True]


def test_rows_of_which_no_end_is_known_do_not_end_together() -> None:
    assert ended_alone(sent(1.0, 2.0), received(None, None, operation="IRECV")) == [True, True]
