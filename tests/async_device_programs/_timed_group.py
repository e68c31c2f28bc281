"""On two ranks: a timed group over ``asyncccl``, and the rows of its operations."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from _scenarios import RANK, run
from async_device import process_group
from async_device.process_group import StreamBackend

from allreduce_instrumentation.torch_distributed import init_process_group
from timing_logger import TimingLogger
from timing_logger.schema.record import Record
from timing_logger.sinks.memory import MemorySink

ME = torch.device("asyncdev", RANK)
LOGS = Path(sys.argv[1], "logs")
_SINK = MemorySink()
LOGGER = TimingLogger(RANK, LOGS, sinks=[_SINK])


def new_rows() -> list[Record]:
    """Those since the last call."""
    assert LOGGER.flush()
    found = list(_SINK.records)
    _SINK.records.clear()
    return found


def lasting(extra_ms: float) -> None:
    """From now on every operation lasts longer by so much."""
    StreamBackend.extra_ms = extra_ms


@contextmanager
def lasting_from_the_wait(extra_ms: float) -> Iterator[None]:
    """In this block an operation begins when a stream has come to the wait for it, and lasts so much longer.

    So the stream is blocked for as long, however late it comes there.
    """
    lasting(extra_ms)
    StreamBackend.from_the_wait = True
    yield
    StreamBackend.from_the_wait = False


def run_timed(scenarios: dict[str, Any]) -> None:
    """As ``_scenarios.run``, with the group and afterwards without."""
    process_group.register()
    torch.accelerator.set_device_index(RANK)
    init_process_group(process_group.NAME, timing_logger=LOGGER)
    run(scenarios)
    dist.destroy_process_group()
    LOGGER.close()
