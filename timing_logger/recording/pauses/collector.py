"""Rows of the pauses that Python's garbage collector makes."""

from __future__ import annotations

import gc
from contextlib import suppress
from weakref import ref

from timing_logger.record import GC
from timing_logger.recording.clock import perf_counter_ns
from timing_logger.recording.pauses.recorders import RecordsIntervals

LEAST_NS = 200_000
"""Shorter pauses have no row: there are many of them, and a step does not notice one."""


class CollectorPauses:
    """Records each pause of at least 0.2 ms as a row ``GC``, on the thread that it stopped.

    Its ``phase`` is the generation that was collected. Only one collection is under way in a process at a
    time, whatever other threads do, so that one instant is all that has to be remembered.
    """

    def __init__(self, recorder: RecordsIntervals) -> None:
        self._recorder = ref(recorder)
        self._start_ns = 0

    def begin(self) -> None:
        """Have the collector tell of its pauses from now on."""
        gc.callbacks.append(self._told)

    def end(self) -> None:
        """Have it tell of no more; may be called again."""
        with suppress(ValueError):
            gc.callbacks.remove(self._told)

    def _told(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._start_ns = perf_counter_ns()
            return
        start_ns, end_ns, self._start_ns = self._start_ns, perf_counter_ns(), 0
        recorder = self._recorder()
        if start_ns and end_ns - start_ns >= LEAST_NS and recorder is not None:
            recorder.record_interval(GC, start_ns, end_ns, phase=f"generation {info['generation']}")
