"""The recorders that are told of pauses."""

from __future__ import annotations

from contextlib import suppress
from typing import Protocol
from weakref import ref

from timing_logger.schema.record import OK


class RecordsIntervals(Protocol):
    """A recorder, as far as rows of pauses need it."""

    @property
    def has_iteration(self) -> bool:
        """Whether the program has begun to count iterations."""

    def record_interval(
        self, operation: str, start_ns: int, end_ns: int, *, layer_name: str = "", phase: str = "",
        status: str = OK,
    ) -> None:  # fmt: skip
        """Record an interval."""


class Recorders:
    """The recorders that want rows of the pauses of one kind, as ``gc.callbacks`` has them of collections.

    Whoever tells of a pause may be in the middle of anything, so there is no lock: the list is copied in one
    step before it is gone through.
    """

    def __init__(self, operation: str) -> None:
        self._operation = operation
        self._recorders: list[ref[RecordsIntervals]] = []

    def __bool__(self) -> bool:
        return bool(self._recorders)

    def add(self, recorder: ref[RecordsIntervals]) -> None:
        """Tell ``recorder`` of all pauses from now on."""
        self._recorders.append(recorder)

    def remove(self, recorder: ref[RecordsIntervals]) -> None:
        """Tell it of no more; may be called again."""
        with suppress(ValueError):
            self._recorders.remove(recorder)

    def tell(
        self, start_ns: int, end_ns: int, *, layer_name: str = "", phase: str = "", status: str = OK,
        in_iterations: bool = False,
    ) -> None:  # fmt: skip
        """Have each recorder record a pause of this thread.

        Args:
            start_ns, end_ns: when it began and ended, in ns of ``time.perf_counter_ns``.
            layer_name, phase, status: of the row.
            in_iterations: whether only a program that counts iterations already has a row of it.
        """
        for one in tuple(self._recorders):
            recorder = one()
            if recorder is not None and (recorder.has_iteration or not in_iterations):
                recorder.record_interval(
                    self._operation, start_ns, end_ns, layer_name=layer_name, phase=phase, status=status
                )
