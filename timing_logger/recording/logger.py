"""TimingLogger: a recorder with its flush thread and sinks, and their lifetime in the process."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from timing_logger.errors import ConfigurationError
from timing_logger.process.monitor import RunMonitor
from timing_logger.recording import lifecycle
from timing_logger.recording.clock import WallClock
from timing_logger.recording.context import Context
from timing_logger.recording.cores import chosen
from timing_logger.recording.flusher import Flusher
from timing_logger.recording.instrumented_calls import InstrumentedCalls
from timing_logger.recording.options import LoggerOptions, Options, shows_options
from timing_logger.recording.recorder import Recorder
from timing_logger.recording.ring import back
from timing_logger.recording.sidecar_writer import SidecarWriter
from timing_logger.recording.termination import at_sigterm, not_at_sigterm, sigterm_came
from timing_logger.recording.watchers.hang_watch import HangWatch
from timing_logger.recording.watchers.pause_rows import PauseRows
from timing_logger.schema.defaults import FLUSH_TIMEOUT_S
from timing_logger.schema.record import UNRESOLVED
from timing_logger.schema.sidecar import ClockOffset, Counters
from timing_logger.sinks.csv import CsvSink

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from timing_logger.recording.watchers.host_sampler import HostSampler
    from timing_logger.recording.watchers.stack_sampler import StackSampler

if TYPE_CHECKING or chosen.NAME == "python":
    ChosenRecorder = Recorder
else:
    from timing_logger.recording.native_recorder import NativeRecorder as ChosenRecorder

log = logging.getLogger("timing_logger")

BYTES_PER_MB = 10**6

GRACE_S = 0.5
"""Seconds that ``close`` waits for the last lines of a file beside the timing file."""

NOT_FOR_PROGRAMS = {name for name in vars(InstrumentedCalls) if not name.startswith("_")} | {
    "add_clock_offset", "before_close", "detach", "has_iteration", "labelled", "recording", "recording_in_c",
}  # fmt: skip
"""What only instrumentation and the package itself use of a logger."""


class Logger(Context, lifecycle.Closable):
    """What a :class:`TimingLogger` is besides its recording calls; over the core of those."""

    @shows_options(Options)
    def __init__(
        self,
        rank: int,
        log_dir: str | os.PathLike[str] | None = "logs/timing",
        **options: Unpack[LoggerOptions],
    ) -> None:
        given = Options.of(rank, options)
        super().__init__(given.policy, chosen.new_channel(given.maxsize, self._core.Channel))
        self.rank = given.rank
        self.path: Path | None = None
        self._flusher: Flusher | None = None
        self._owner_pid = os.getpid()
        self._sidecar: SidecarWriter | None = None
        self._hang_watch = HangWatch(self._open_calls, given.hang_after)
        self._dropped_at_close = 0
        self._last_calls: list[Callable[[], None]] = []
        self._samplers: list[HostSampler | StackSampler] = []
        self._monitor: RunMonitor | None = None
        self._pause_rows = PauseRows(self)  # type: ignore[arg-type]  # which is a recorder, too
        if given.enabled and self._policy.records_rank(self.rank):
            self._start(log_dir, given)
        else:
            self._switch_off()

    @property
    def stats(self) -> Counters:
        """The number of records accepted, written, dropped and pending.

        At rest the first is the sum of the others. They tell of the timing file, or of the first sink if
        there is no file; the sidecar says the same of each further one.
        """
        if (flusher := self._own_flusher()) is not None:
            return flusher.counters
        overflowed = self._channel.counts().overflowed
        return Counters(accepted=overflowed, written=0, dropped=overflowed, pending=0)

    def flush(self, timeout: float = FLUSH_TIMEOUT_S) -> bool:
        """Wait until all records made before the call are with the operating system.

        Args:
            timeout: the longest time to wait, in seconds.

        Returns:
            True if every such record was written or counted as dropped, within the time, by every sink. False
            also if rows that had been written before are found to be gone; they count as dropped from then
            on.
        """
        flusher = self._own_flusher()
        return flusher is None or flusher.flush(timeout)

    def flush_soon(self) -> None:
        """Request that completed records are written, without waiting for it."""
        flusher = self._own_flusher()
        if flusher is not None and not flusher.closed:
            flusher.hurry()

    def close(self) -> None:
        """Write the waiting records and stop; give up on a disk that accepts nothing.

        Calling it again is harmless.
        """
        flusher = self._own_flusher()
        if flusher is not None and not flusher.closed:
            self._pause_rows.end()
            for sampler in self._samplers:
                sampler.close(GRACE_S)
            while self._last_calls:  # each once, even if an interrupt aborts this close and another follows
                self._last_calls.pop(0)()
            self._open_calls.write_all(UNRESOLVED)
            if sigterm_came(self._see_sigterm):
                self._hang_watch.signal = "SIGTERM"
            self._hang_watch.ended_by = lifecycle.exception_that_ends_us()
            flusher.close()
            if self._monitor is not None:
                self._monitor.close()
            not_at_sigterm(self._see_sigterm)
            self._dropped_at_close = self.stats.dropped

    def shutdown(self) -> None:
        """Close: the name that the guide's logger has for :meth:`close`."""
        self.close()

    def before_close(self, call: Callable[[], None]) -> None:
        """Register ``call`` to make its last records when this logger is closed; for instrumentation."""
        self._last_calls.append(call)

    def add_clock_offset(self, offset: ClockOffset) -> None:
        """Add a measured offset of this process's clock to the sidecar; for instrumentation."""
        flusher = self._own_flusher()
        if flusher is None or self._sidecar is None:
            return
        if flusher.closed:
            log.warning("timing logger: a clock offset came after close and is not in the sidecar")
            return
        self._sidecar.add_clock_offset(offset)
        self.flush_soon()

    def __dir__(self) -> list[str]:
        """List what programs use: completion does not offer what instrumentation calls."""
        return sorted(set(super().__dir__()) - NOT_FOR_PROGRAMS)

    def __repr__(self) -> str:
        state = "off" if self._flusher is None else str(self.path or "no file")
        return f"<TimingLogger rank {self.rank}: {state}>"

    # -- start and end ------------------------------------------------------------------------------

    def _start(self, log_dir: str | os.PathLike[str] | None, options: Options) -> None:
        lifecycle.refuse_sub_interpreters()
        sinks = options.sinks
        if options.monitor is not None and log_dir is None:
            raise ConfigurationError("monitor reads the timing files, and log_dir is None: give a folder.")
        if options.handle_sigterm:
            at_sigterm(self._see_sigterm)
        clock = WallClock()
        if log_dir is not None:
            file = CsvSink(
                log_dir,
                self.rank,
                started_unix_ns=clock.anchors[0].unix_ns,
                mode=options.file_mode,
                max_bytes=None if options.max_file_mb is None else options.max_file_mb * BYTES_PER_MB,
            )
            sinks = (file, *sinks)
            self.path = file.path
            folder = None if options.ring_dir is None else Path(options.ring_dir)
            backing = back(self._channel, folder, file.path, clock, options.flush_interval)
            self._sidecar = SidecarWriter(file, clock, options.for_sidecar(), backing)
            self._start_samplers(file, self._sidecar, clock.anchors[0].unix_ns, options)
        if not sinks:
            raise ConfigurationError(
                "log_dir is None and there are no sinks: give one, or pass enabled=False."
            )
        self._flusher = Flusher(
            self._channel, sinks, self._sidecar, clock, self._hang_watch,
            interval_s=options.flush_interval,
            device_timeout_s=options.device_timeout, fsync=options.fsync,
        )  # fmt: skip
        self._switch_on()
        if options.pause_rows:
            self._pause_rows.begin()
        if options.monitor is not None and self.path is not None:
            self._monitor = RunMonitor(options.monitor, self.path.parent, self.rank)
        lifecycle.detach_in_forked_children(self)
        lifecycle.at_exit(self._close_at_exit)

    def _start_samplers(
        self, file: CsvSink, sidecar: SidecarWriter, started_unix_ns: int, options: Options
    ) -> None:
        if options.host_counters:
            from timing_logger.recording.watchers.host_sampler import start_counting

            host = start_counting(file, started_unix_ns, options.file_mode)
            sidecar.host_counters = host.info
            self._samplers.append(host)
        if options.stack_samples:
            from timing_logger.recording.watchers.stack_sampler import start_sampling

            stacks = start_sampling(file, started_unix_ns, options.file_mode)
            sidecar.stack_samples = stacks.info
            self._samplers.append(stacks)

    def _see_sigterm(self, ends: bool) -> None:
        """Write all open calls; close the logger if the process ends by the signal."""
        self._hang_watch.signal, self._hang_watch.at_once = "SIGTERM", True
        self.flush(timeout=1.0)
        if ends:
            self._open_calls.forget()  # they have just been written
            self.close()

    def _close_at_exit(self) -> None:
        self.close()
        late = self.stats.dropped - self._dropped_at_close
        if late:
            log.warning("timing logger: %d records came after close and were dropped", late)
            self._dropped_at_close += late

    def detach(self) -> None:
        """Let go of the file, the thread and the waiting records in a forked child: they are the parent's."""
        self._pause_rows.end()
        self._channel.abandon()
        self._open_calls.forget()
        if self._flusher is not None:
            self._flusher.abandon()
        self._flusher = None
        self._samplers = []
        self._monitor = None

    def _own_flusher(self) -> Flusher | None:
        """Return the flusher that works for this process.

        In a forked child, :meth:`detach` may not have been called so far: other hooks and finalizers run
        before ours, and a child that C code forks runs no hook.
        """
        if self._flusher is not None and os.getpid() != self._owner_pid:
            self.detach()
        return self._flusher


class TimingLogger(ChosenRecorder, Logger):
    """Records timed operations of one rank, and writes them in the background.

    The ``record_*`` calls never raise, wait or do I/O, whatever they are given. Values that the schema cannot
    hold are left blank in a row whose status is ``error:InvalidValue``. The calls may be made from any
    thread, from signal handlers and from finalizers. After ``close`` and in forked children, records are
    counted as dropped.

    Args:
        rank: this process's rank, >= 0.
        log_dir: folder of ``timing-rank{rank}.csv``, created if missing. If a file of that name exists
            already, it is left alone and ``timing-rank{rank}.run2.csv`` is written. If the file is deleted,
            moved, replaced or cut from outside, rows continue in ``timing-rank{rank}.part2.csv``, and those
            that are gone count as dropped. None: no file, only ``sinks``.
        world_size: number of ranks, for the sidecar.
        labels: further information about this rank for the sidecar, such as ``{"pipeline_stage": 2}``; JSON
            values.
        flush_interval: seconds within which a record is in the file; the time between two writes is half of
            it.
        maxsize: capacity of the queue in records, at most 400 bytes each; when it is full, records are
            dropped and counted.
        ranks: ranks that record; None for all. On other ranks the logger is off.
        start_step, end_step, record_every_n_steps: see :class:`~timing_logger.recording.sampling.StepPolicy`.
        enabled: False for a logger that does nothing and touches no file.
        device_timeout: seconds that ``close`` waits for operations that devices have not finished; after that
            their rows are written with status ``unresolved``.
        hang_after: seconds after which a call that has not ended is written as a row with status
            ``inflight``, and listed in the sidecar; its row follows if it ends after all.
        handle_sigterm: handle SIGTERM, even while the main thread is in a call that does not return: the
            waiting records are written, and open calls with status ``inflight``. Then the previous handling
            follows: the handler that was set before is called, or the process ends by the signal, a moment
            later.
        pause_rows: record all that is known to stop a thread from within: each pause of Python's garbage
            collector of at least 0.2 ms as ``GC``, each compilation by ``torch.compile`` as ``COMPILE``, each
            capture of a CUDA graph as ``GRAPH_CAPTURE``, and each import of at least 50 ms that the main
            thread makes once an iteration was set as ``IMPORT``.
        host_counters: write once a second what the process, its host and its devices counted, such as the
            time in which threads waited for a processor, into ``host-rank{rank}.csv`` beside the timing file.
            A thread of its own does it. See :func:`timing_logger.reading.read_host_counters`.
        stack_samples: write five times a second which line of the program's code the main thread is in, into
            ``stacks-rank{rank}.csv`` beside the timing file. A thread of its own does it. See
            :func:`timing_logger.reading.read_stack_samples`.
        fsync: make every write survive a crash of the machine (costs a disk flush each).
        max_file_mb: megabytes (10^6 bytes, at least 1) after which rows continue in the next part of the
            file, ``timing-rank{rank}.part2.csv``; None for no limit. All readers of timing files read the
            parts as one. Complete parts may be compressed or moved away during the run; readers then report
            which are missing.
        file_mode: permissions of new files, from which the process's umask is subtracted; ``0o600`` for files
            that only their owner may read.
        ring_dir: with the native core, the folder of a file that holds the records until they are written,
            128 bytes each, so that they survive the process however it ends; on this machine, and in memory,
            as recording may have to wait for a disk. None: /dev/shm, or the system's temporary folder if that
            is in memory, where the file takes an eighth of the free room. Where that is little, the queue is
            shorter than ``maxsize``; where it is too little, there is no such file. The log and the sidecar
            (``crash_protection``) then say so. ``read_timings`` and ``timing-logger recover`` write such
            records into the timing file.
        monitor: judge the run while it goes on, in a process of its own on each host, and tell what changes;
            see :class:`timing_logger.Monitor`. The options are those of rank 0, and of the first rank of each
            host. None for no monitor.
        sinks: further destinations for the records, see :class:`~timing_logger.sinks.Sink`. What each takes
            and lacks is in the sidecar.

    Raises:
        ConfigurationError: an option is out of range or contradicts another, or this is a sub-interpreter.
        LogPathError: the folder or file cannot be used.
    """
