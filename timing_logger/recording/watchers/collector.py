"""Rows of the pauses that Python's garbage collector makes."""

from __future__ import annotations

import gc

from timing_logger.recording.clock import perf_counter_ns
from timing_logger.recording.watchers.pause_recorders import Recorders
from timing_logger.schema import defaults
from timing_logger.schema.record import GC

RECORDERS = Recorders(GC)

_start_ns = 0  # one instant will do: one collection is under way in a process, whatever other threads do


def watch() -> None:
    """Have the collector tell of its pauses from now on."""
    if _told not in gc.callbacks:
        gc.callbacks.append(_told)


def watch_no_more() -> None:
    """Have it tell of none any more, unless a recorder wants rows of them."""
    if not RECORDERS and _told in gc.callbacks:
        gc.callbacks.remove(_told)


def _told(phase: str, info: dict[str, int]) -> None:
    """Record a pause of at least 0.2 ms on the thread that it stopped, with the generation as its phase."""
    global _start_ns
    if phase == "start":
        _start_ns = perf_counter_ns()
        return
    start_ns, end_ns, _start_ns = _start_ns, perf_counter_ns(), 0
    if start_ns and end_ns - start_ns >= defaults.SHORTEST_COLLECTION_NS:
        RECORDERS.tell(start_ns, end_ns, phase=f"generation {info['generation']}")
