"""On one process: a device that fails, and what timing says then."""

from __future__ import annotations

import math
from typing import Any

import torch
from _recordings import recording
from _scenarios import run

from timing_logger.compat import RegionTimers
from timing_logger.compat.cuda_timers import CUDATimer


def failure() -> list[str]:
    """What is said at once, and for good."""
    torch.asyncdev.fail("an illegal address")
    said = []
    for _ in range(2):
        try:
            torch.asyncdev.synchronize()
        except RuntimeError as error:
            said.append(str(error))
    return said


def timing_afterwards() -> list[Any]:
    """Nothing raises, and nothing is known."""
    timer, region = CUDATimer(), RegionTimers()("forward")
    with recording() as (logger, rows):
        with logger.record_device_operation("FORWARD") as span:
            timer.start()
            region.start().end()
            timer.stop()
        found = [[row.operation, row.clock, row.status] for row in rows()]
    unknown = [span.elapsed_ms, timer.elapsed_ms(), region.average_time]
    return [found, list(map(math.isnan, unknown)), region.unresolved_count]


if __name__ == "__main__":
    run(globals())
