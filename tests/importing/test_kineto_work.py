"""The rows of copies and of other work, from what was kept of a trace."""

from __future__ import annotations

from typing import Any

import pytest

from timing_logger.importing.imported import LeftOut
from timing_logger.importing.kineto_axis import Axis
from timing_logger.importing.kineto_events import Copy, Kept, Span
from timing_logger.importing.kineto_work import Lanes, work_rows
from timing_logger.importing.trace_events import Args
from timing_logger.record import Record

AXIS = Axis(0, {4: Span(0.0, 100.0)})


def copies_of(*copies: tuple[str, Args]) -> tuple[list[Record], LeftOut]:
    """Return the rows of copies with these names and arguments, and what was left out."""
    kept = Kept(LeftOut(), copies=[Copy(Span(10.0, 12.0), name, args) for name, args in copies])
    return [Record(*row) for row in work_rows(kept, AXIS, Lanes(None, {}))], kept.left_out


@pytest.mark.parametrize(
    ("n_bytes", "size"), [(0, 0), (4096, 4096), (-1, None), (2**62, None), ("9", None), (True, None)]
)
def test_a_copy_has_its_bytes_if_they_can_be(n_bytes: Any, size: int | None) -> None:
    ((row,), _) = copies_of(("Memcpy HtoD", Args(bytes=n_bytes, device=0, stream=7)))
    assert row.message_size_bytes == size
    assert (row.operation, row.iteration, row.clock) == ("H2D", 4, "device")
    assert (row.start_ns, row.end_ns) == (10_000, 12_000)


def test_a_copy_within_the_host_is_left_out() -> None:
    rows, left_out = copies_of(("Memcpy HtoH", Args()), ("Memcpy DtoD", Args()))
    assert [row.operation for row in rows] == ["D2D"]
    assert left_out == {"a copy neither between host and device nor within a device": 1}
