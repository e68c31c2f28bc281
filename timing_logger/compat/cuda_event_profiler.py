"""A profiler for long operations in sampled steps, timed on the device and written as JSON lines per rank.

The training thread marks two events per operation and puts a record into a queue. A background thread queries
the device and writes the rows.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from timing_logger.compat._intervals import TimedBlock, check_logger, check_switches
from timing_logger.errors import ConfigurationError
from timing_logger.recording.cores.protocols import NO_SPAN
from timing_logger.recording.device.intervals import Columns
from timing_logger.recording.lifecycle import Closable
from timing_logger.recording.logger import TimingLogger
from timing_logger.recording.sampling import StepPolicy, check_integer
from timing_logger.schema.defaults import FLUSH_TIMEOUT_S
from timing_logger.schema.sidecar import Counters
from timing_logger.sinks.jsonl import JsonlSink

if TYPE_CHECKING:
    import torch

log = logging.getLogger("timing_logger")


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaEventProfilerConfig(StepPolicy):
    """The steps that are recorded, and when rows are handed over; all values are in steps.

    Attributes:
        start_step: first step recorded; then every ``record_every_n_steps``-th from there.
        end_step: first step no longer recorded; None for no end.
        record_every_n_steps: distance between recorded steps.
        flush_every_n_steps: distance between steps at which ``maybe_flush`` does something.
        ranks: ranks that record; None for all.

    Raises:
        ConfigurationError: a value is not an integer in its range, or no step would be recorded.
    """

    record_every_n_steps: int = 10
    flush_every_n_steps: int = 10

    def __post_init__(self) -> None:
        check_integer("flush_every_n_steps", self.flush_every_n_steps, minimum=1)
        StepPolicy.__post_init__(self)  # a class with slots is made anew, which super() does not know of

    @property
    def flushing(self) -> StepPolicy:
        """The policy that selects the steps at which rows are handed over."""
        return StepPolicy(record_every_n_steps=self.flush_every_n_steps)

    @classmethod
    def of(cls, given: CudaEventProfilerConfig | Mapping[str, Any] | None) -> CudaEventProfilerConfig:
        """Return the configuration in a mapping, such as a section of a YAML file; None for the defaults.

        Raises:
            ConfigurationError: a key is unknown, or a value is invalid.
        """
        if isinstance(given, cls):
            return given
        if given is not None and not isinstance(given, Mapping):
            raise ConfigurationError(
                "profiler_config must be a mapping, a CudaEventProfilerConfig or None, "
                f"and is a {type(given).__name__}."
            )
        options = dict(given or {})
        known = [field.name for field in fields(cls)]
        unknown = ", ".join(repr(key) for key in options if key not in known)
        if unknown:
            raise ConfigurationError(
                f"profiler_config has no option {unknown}. It knows: {', '.join(known)}."
            )
        return cls(**options)


class CudaEventProfiler(Closable):
    """Times operations in sampled steps on one rank, and writes them to ``cuda_events_rank_<rank>.jsonl``.

    On a device an operation is timed by two events in the stream that does its work; without one the host's
    clock is used. Nothing is resolved or written on the calling thread. The file is created with the
    profiler, so an unusable directory is an error before training. A file of an earlier run is left alone and
    ``cuda_events_rank_<rank>.run2.jsonl`` is created. A profiler that is disabled, or on a rank that is not
    selected, creates no file and no folder; neither it nor a step that is not sampled uses an event.

    Rows are written within a second, sooner after ``maybe_flush``. The last ones are written by ``close``, at
    the end of a ``with profiler:`` block, or when the interpreter ends, even after an exception.

    Args:
        enable: False for a profiler that does nothing.
        directory: folder of the file, created if missing. Required if enabled.
        rank: this process's rank, >= 0. Required if enabled.
        profiler_config: a :class:`CudaEventProfilerConfig`, or a mapping with its fields.
        timing_logger: a logger that also gets each recorded operation: under its name, with the step as
            iteration.

    Attributes:
        path: the file; None if there is none.

    Raises:
        ConfigurationError: an option is unknown, out of range or missing.
        LogPathError: the folder or file cannot be used.
    """

    def __init__(
        self,
        enable: bool = False,
        directory: str | os.PathLike[str] | None = None,
        rank: int | None = None,
        profiler_config: CudaEventProfilerConfig | Mapping[str, Any] | None = None,
        *,
        timing_logger: TimingLogger | None = None,
    ) -> None:
        config = CudaEventProfilerConfig.of(profiler_config)
        check_switches(enable=enable)
        if rank is not None:
            check_integer("rank", rank, minimum=0)
        for name, value in (("directory", directory), ("rank", rank)):
            if enable and value is None:
                raise ConfigurationError(
                    f"{name} is None and the profiler is enabled: give it, or pass enable=False."
                )
        check_logger(timing_logger)
        self._recording, self._flushing = config, config.flushing
        self._logger = TimingLogger(0, enabled=False)
        self.path: Path | None = None
        if enable and directory is not None and rank is not None and self._recording.records_rank(rank):
            self._open(directory, rank)
        self._on = self.path is not None
        self._loggers = (self._logger,) if timing_logger is None else (self._logger, timing_logger)

    def _open(self, directory: str | os.PathLike[str], rank: int) -> None:
        sink = JsonlSink(directory, rank)
        if sink.incarnation > 1:
            log.warning("timing logger: rank %d has files here; this run writes %s", rank, sink.path)
        self.path = sink.path
        self._logger = TimingLogger(rank, None, sinks=[sink])

    # -- recording --------------------------------------------------------------------------------

    def should_record(self, step: int) -> bool:
        """Tell whether operations in ``step`` are recorded on this rank."""
        return self._on and self._recording.records(step)

    def record(
        self, name: str, step: int, *, stream: torch.Stream | None = None, **metadata: object
    ) -> AbstractContextManager[object]:
        """Time a ``with`` block, without waiting.

        An exception in the block is passed on, and the row's status names its type. While the stream is being
        captured into a graph, the block is not timed and has no row.

        Args:
            name: ``"host_to_device"``, ``"training_step"``, ``"training_metrics"``, ...
            step: training step; decides whether the block is recorded.
            stream: the ``torch.Stream`` that does the work, such as that of a prefetching copy; None for the
                calling thread's current one.
            metadata: further keys of the row, JSON values; see :class:`~timing_logger.sinks.jsonl.JsonlSink`
                for other values, and for keys that the row has already.
        """
        if not self.should_record(step):
            return NO_SPAN
        return TimedBlock(partial(self._put, name, step, metadata or None), stream)

    def _put(
        self, name: str, step: int, metadata: dict[str, object] | None, columns: Columns, status: str
    ) -> None:
        start, end, clock = columns
        for logger in self._loggers:
            logger.record_interval(
                name, start, end, iteration=step, clock=clock, status=status, metadata=metadata
            )

    # -- flushing and closing -----------------------------------------------------------------------

    def maybe_flush(self, step: int) -> None:
        """Request a write of what devices have done, every ``flush_every_n_steps`` steps. Does not wait."""
        if self._on and self._flushing.records(step):
            self._logger.flush_soon()

    def flush(self, blocking: bool = False, timeout: float = FLUSH_TIMEOUT_S) -> bool:
        """Have the rows recorded before the call written.

        Args:
            blocking: whether to wait for devices and the file; otherwise the call only requests the write.
            timeout: the longest time to wait, in seconds.

        Returns:
            Whether every such row is with the operating system, or was counted as dropped.
        """
        if blocking:
            return self._logger.flush(timeout)
        self._logger.flush_soon()
        return self.stats.pending == 0

    def close(self) -> None:
        """Write the waiting rows and stop; later records are dropped and counted.

        Calling it again is harmless.
        """
        self._logger.close()

    @property
    def stats(self) -> Counters:
        """The number of rows by fate: accepted, written, dropped and pending."""
        return self._logger.stats

    def __repr__(self) -> str:
        return f"<CudaEventProfiler: {self.path or 'off'}>"
