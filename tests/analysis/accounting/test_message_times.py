"""How long a message took that was there, or on its way, when its receiver came."""

from __future__ import annotations

import numpy as np
import pytest
from message_rows import receive, send
from rank_tables import aligned, table

from timing_logger.analysis.accounting.axis import OneAxis
from timing_logger.analysis.accounting.message_times import message_times
from timing_logger.analysis.arrays import processes_of
from timing_logger.analysis.collectives.messages import find_messages
from timing_logger.analysis.table_types import Floats
from timing_logger.analysis.tables import opened


def took_ms(*messages: tuple[float, float]) -> Floats:
    """Return how long messages of one link took; each is how late its receiver came, and for how long, in ms.

    Senders do not wait: each leaves after a tenth of a ms.
    """
    sends = [send(100 * at, 0.1, seq=at, peer=1) for at in range(len(messages))]
    receives = [receive(100 * at + late, ms, seq=at, peer=0) for at, (late, ms) in enumerate(messages)]
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
