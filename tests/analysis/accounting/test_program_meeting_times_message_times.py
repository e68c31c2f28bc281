"""How long a message took that was there, or on its way, when its receiver came."""

from __future__ import annotations

import numpy as np
import pytest
from message_rows import receive, send
from rank_tables import aligned
from rank_tables import quick_table as table

from timing_logger.analysis.accounting.program import _quick_s, message_times
from timing_logger.analysis.accounting.ties import OneAxis
from timing_logger.analysis.collectives.messages import find_messages
from timing_logger.analysis.rows.arrays import Floats, processes_of
from timing_logger.analysis.rows.tables import opened
from timing_logger.schema.record import Record


def took_ms(*messages: tuple[float, float]) -> Floats:
    """Return how long messages of one link took; each is how late its receiver came, and for how long, in ms.

    Senders do not wait: each leaves after a tenth of a ms.
    """
    sends = [send(100 * at, 0.1, seq=at, peer=1) for at in range(len(messages))]
    receives = [receive(100 * at + late, ms, seq=at, peer=0) for at, (late, ms) in enumerate(messages)]
    return took_ms_in(sends, receives)


def took_ms_in(sends: list[Record], receives: list[Record]) -> Floats:
    """Return how long the messages from rank 0 to rank 1 took by these rows, in the order of their sends."""
    frame = opened(aligned(table(sends, receives), 0.0))
    found = find_messages(frame, 2, exchanges=True)
    axis = OneAxis(frame, np.zeros(len(frame), np.int64), by_rows=False)
    times = message_times(axis, found, processes_of(frame))
    return 1e3 * times.took_s[np.argsort(found.send)]


QUICK = (0.0, 10.0)


@pytest.mark.parametrize(("ms", "is_known"), [(14.9, False), (15.1, True)])
def test_a_late_receiver_that_waits_one_and_a_half_times_as_long_waits_for_the_whole_message(
    ms: float, is_known: bool
) -> None:
    *_, late_ms = took_ms(*[QUICK] * 10, (50.0, ms))
    assert late_ms == pytest.approx(ms) if is_known else np.isnan(late_ms)


def test_it_is_the_quick_tenth_of_its_link_that_it_is_compared_with() -> None:
    *_, late_ms = took_ms(*[QUICK] * 2, *[(0.0, 40.0)] * 8, (50.0, 20.0))
    assert late_ms == pytest.approx(20.0)


def test_quick_messages_take_a_tenth_quantile() -> None:
    took_s, one_link = np.arange(101.0), np.zeros(101, np.int64)
    assert set(_quick_s(took_s, np.ones(101, np.bool_), one_link)) == {10.0}


# -- in the background -----------------------------------------------------------------------------------


def in_background_ms(*ends_ms: float, wait_ms: float | None = None) -> Floats:
    """Return how long messages took that were received in the background, each from 0 up to its end.

    One call waits for the first from ``wait_ms`` on, if that is given.
    """
    sends = [send(0.0, 0.1, seq=at, peer=1) for at in range(len(ends_ms))]
    receives = [receive(0.0, ms, "IRECV", seq=at, peer=0) for at, ms in enumerate(ends_ms)]
    waits = [] if wait_ms is None else [send(wait_ms, ends_ms[0] - wait_ms, "WAIT", seq=0, peer=0)]
    return took_ms_in(sends, [*receives, *waits])


def test_a_receive_in_the_background_that_ended_by_itself_shows_how_long_the_message_took() -> None:
    assert in_background_ms(10.0, 12.0) == pytest.approx([10.0, 12.0])


def test_of_receives_in_the_background_that_ended_together_none_shows_how_long_its_message_took() -> None:
    assert np.isnan(in_background_ms(10.0, 12.0, 10.0)).tolist() == [True, False, True]


def test_the_one_of_them_that_a_call_waited_for_shows_it() -> None:
    assert np.isnan(in_background_ms(10.0, 10.0, wait_ms=4.0)).tolist() == [False, True]


def test_receives_that_block_show_it_though_they_ended_together() -> None:
    sends = [send(0.0, 0.1, seq=at, peer=1) for at in range(2)]
    receives = [receive(0.0, 10.0, seq=at, peer=0) for at in range(2)]
    assert took_ms_in(sends, receives) == pytest.approx([10.0, 10.0])
