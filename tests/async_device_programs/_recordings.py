"""What programs that time something need: a logger in memory, its rows, and marks of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Event

from timing_logger import TimingLogger
from timing_logger.schema.record import Record
from timing_logger.sinks.memory import MemorySink


@contextmanager
def recording(**options: Any) -> Iterator[tuple[TimingLogger, Callable[[], list[Record]]]]:
    """A logger, and a function that returns its rows once the device has passed them all."""
    sink = MemorySink()

    def rows() -> list[Record]:
        assert logger.flush()
        return sink.records

    with TimingLogger(0, None, sinks=[sink], **options) as logger:
        yield logger, rows


def ms(row: Record) -> float:
    """How long a row lasts; NaN if its end is not known."""
    return float("nan") if row.end_ns is None else (row.end_ns - row.start_ns) / 1e6


def mark() -> Event:
    """An event in the current stream: whether it was passed says whether the stream came so far."""
    event = Event()
    event.record(torch.accelerator.current_stream())
    return event
