"""Keep the sidecar of a timing file current, at a cost that no file system notices."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from timing_logger.errors import LogPathError
from timing_logger.process import which_core
from timing_logger.process.shared_files import draft_name, remove, rename
from timing_logger.process.sidecar_files import is_anothers
from timing_logger.process.this_process import of_this_process
from timing_logger.recording.clock import WallClock, unix_ns
from timing_logger.recording.options import RunFacts
from timing_logger.recording.ring import Backing
from timing_logger.recording.watchers.hang_watch import Standing
from timing_logger.schema import defaults, sidecar
from timing_logger.schema.timing_files import sidecar_path
from timing_logger.sinks._append_only_file import AppendOnlyFile
from timing_logger.sinks.csv import CsvSink

log = logging.getLogger("timing_logger")

_RETRY_S = 0.1


class Account(NamedTuple):
    """What the flush thread states in a sidecar; the fields of :class:`sidecar.RunInfo` explain each.

    ``standing`` holds several of them.
    """

    counters: sidecar.Counters
    sinks: list[sidecar.SinkCounters]
    logger_cpu_ns: int
    device_clocks: list[sidecar.DeviceClockInfo]
    last_error: str
    standing: Standing
    behind_s: float


class SidecarWriter:
    """The sidecar of one timing file: the flush thread states its content, and a thread of its own writes it.

    A file system that answers neither ``open`` nor ``rename`` therefore cannot hold up the rows. The writing
    thread lives as long as there is something to write. It takes the newest content; older content that was
    not written yet never is.

    Attributes:
        host_counters: tells what becomes of the file of host counters; None if there is none.
        stack_samples: the same of the file of stack samples.
    """

    def __init__(self, file: CsvSink, clock: WallClock, constants: RunFacts, backing: Backing) -> None:
        """Write the first sidecar, before anything is recorded.

        Args:
            file: the timing file, in all its parts.
            clock: the wall clock, whose anchors are written.
            constants: the fields of :class:`sidecar.RunInfo` that the logger's options fill.
            backing: the file behind the channel, which is looked after at each refresh.

        Raises:
            LogPathError: the sidecar cannot be written.
        """
        self._file = file
        self._timing_file = file.path
        self._clock = clock
        self._backing = backing
        self._clock_offsets: list[sidecar.ClockOffset] = []
        self._mode: int = constants["options"]["file_mode"]
        self._newest: deque[tuple[Path, str]] = deque(maxlen=1)
        self._writer: threading.Thread | None = None
        self._failure: Exception | None = None
        self._info = sidecar.RunInfo(
            file=file.path.name,
            incarnation=file.incarnation,
            started_unix_ns=clock.anchors[0].unix_ns,
            core=which_core.NAME,
            core_note=which_core.NOTE,
            **of_this_process(),
            **constants,
        )
        self.host_counters: Callable[[], sidecar.HostCountersInfo] | None = None
        self.stack_samples: Callable[[], sidecar.StackSamplesInfo] | None = None
        self._info.ring_path, self._info.crash_protection = backing.path, backing.protection
        try:
            replace_sidecar(sidecar_path(file.path), self._text(), self._mode)
        except OSError as error:
            path = str(sidecar_path(file.path))
            raise LogPathError(f"log_dir: {path!r} cannot be written: {error}.") from error
        if file.incarnation > 1:
            rank = self._info.rank
            log.warning("timing logger: rank %d has files here; this run writes %s", rank, file.path)

    def add_clock_offset(self, offset: sidecar.ClockOffset) -> None:
        """Have the next refresh write ``offset``, too. May be called from any thread."""
        self._clock_offsets.append(offset)

    def refresh(self, account: Account) -> None:
        """Have the sidecar written if a refresh is due, without waiting for it.

        A refresh is due when the first rows are written, when records begin to drop or calls to be counted as
        untimed, when a clock offset or a part of the file is added or rows are found to be gone, when crash
        protection ends, within a tenth of a second of other trouble, and every 10 s, so that a reader can see
        that the process lives.

        Raises:
            Exception: the error of the previous write, if that failed.
        """
        self._backing.look_after()
        if not self._is_due(account):
            self._start_writer()
            return
        failure, self._failure = self._failure, None
        self._hand_over(account)
        if failure is not None:
            raise failure

    def close(self, account: Account, *, timeout_s: float) -> None:
        """Write the last sidecar and wait for it.

        Raises:
            OSError: the file system's error; TimeoutError if the write takes longer than ``timeout_s``
                seconds.
        """
        self._hand_over(account, closed=True)
        self._await(timeout_s)
        if self._failure is not None:
            raise self._failure

    def tell(self, account: Account, *, timeout_s: float) -> None:
        """Write how things stand where the flush thread cannot, and wait for that.

        Nothing is written if no thread can be started any more: the file system might not answer.

        Raises:
            TimeoutError: the write takes longer than ``timeout_s`` seconds.
        """
        self._hand_over(account, or_write=False)
        self._await(timeout_s, or_write=False)

    def _await(self, timeout_s: float, *, or_write: bool = True) -> None:
        deadline_s = time.monotonic() + timeout_s
        while self._writer is not None and (self._writer.is_alive() or self._newest):
            if time.monotonic() >= deadline_s:
                raise TimeoutError(f"it was not written within {timeout_s:g} s.")
            if not self._start_writer(or_write=or_write):
                return
            self._writer.join(max(0.0, deadline_s - time.monotonic()))

    def _is_due(self, account: Account) -> bool:
        told, now = self._info, account.counters
        age_s = time.monotonic() - self._told_s
        first_rows = now.written > 0 and told.counters.written == 0
        started_dropping = now.dropped > 0 and told.counters.dropped == 0
        first_untimed = bool(account.standing.untimed) and not told.untimed
        measured = len(self._clock_offsets) > len(told.clock_offsets)
        moved = _extent(self._file.parts) != _extent(told.parts)
        unprotected = self._backing.protection != told.crash_protection
        hangs_otherwise = _what_hangs(account.standing) != _what_hangs(told)
        trouble = account.last_error != told.last_error or self._failure is not None or hangs_otherwise
        return (
            first_rows
            or started_dropping
            or first_untimed
            or measured
            or moved
            or unprotected
            or age_s >= (_RETRY_S if trouble else defaults.SIDECAR_REFRESH_S)
        )

    def _note(self, account: Account) -> None:
        """Update what the account and the file tell; the file may have another name now."""
        file, info, told = self._file, self._info, account._asdict()
        standing: Standing = told.pop("standing")
        for field, value in {**told, **standing._asdict()}.items():
            setattr(info, field, value)
        info.written_bytes, info.parts = file.written_bytes, file.parts
        if self.host_counters is not None:
            info.host_counters = self.host_counters()
        if self.stack_samples is not None:
            info.stack_samples = self.stack_samples()
        info.crash_protection = self._backing.protection
        if file.incarnation != info.incarnation:
            self._timing_file = self._timing_file.with_name(file.name.name)
            info.file, info.incarnation = file.name.name, file.incarnation

    def _text(self, *, closed: bool = False) -> str:
        """Update what else changes, and return the text of the sidecar."""
        self._info.closed = closed
        self._info.updated_unix_ns = unix_ns()
        self._info.clock_anchors = list(self._clock.anchors)
        self._info.clock_offsets = list(self._clock_offsets)
        self._told_s = time.monotonic()
        return self._info.to_json()

    # -- writing it ---------------------------------------------------------------------------------

    def _hand_over(self, account: Account, *, closed: bool = False, or_write: bool = True) -> None:
        self._note(account)
        self._newest.append((self._timing_file, self._text(closed=closed)))
        self._start_writer(or_write=or_write)

    def _start_writer(self, *, or_write: bool = True) -> bool:
        """Start the writing thread if there is something to write and no such thread is alive.

        That includes content that came while the last thread was ending. Where no thread can be started, it
        is written here; without ``or_write`` it is left, and False returned.
        """
        if not self._newest or (self._writer is not None and self._writer.is_alive()):
            return True
        writer = threading.Thread(target=self._write_newest, name="timing-logger-sidecar", daemon=True)
        try:
            writer.start()
        except RuntimeError:  # the interpreter is shutting down, or the system has no thread left
            if or_write:
                self._write_newest()
            return or_write
        self._writer = writer
        return True

    def _write_newest(self) -> None:
        while self._newest:
            try:
                timing_file, text = self._newest.popleft()
                taken = partial(is_anothers, timing_file, self._info.started_unix_ns)
                replace_sidecar(sidecar_path(timing_file), text, self._mode, taken=taken)
                self._failure = None
            except Exception as error:
                self._failure = error


def replace_sidecar(
    path: Path, text: str, mode: int = defaults.FILE_MODE, *, taken: Callable[[], bool | None] = lambda: None
) -> None:
    """Replace ``path`` atomically. Several processes and threads may do so at a time; the last one wins.

    Args:
        path: the sidecar.
        text: its content.
        mode: the permissions of the file, from which the process's umask is subtracted.
        taken: tells at the last moment whether the name is another run's by now, which began in the folder
            after it was emptied. A file system may let the caller wait for minutes.

    Raises:
        OSError: the file system's error, or that of a descriptor that other code has closed, or the name is
            taken; the old sidecar is then unchanged.
    """
    draft = draft_name(path)
    remove(draft)  # left by a killed process with this pid, or a link set as a trap
    try:
        file = AppendOnlyFile(draft, mode=mode, head=b"")
        try:
            if trouble := file.trouble():
                raise OSError(f"{str(draft)!r} {trouble}")
            file.append(text.encode(), 1)
        finally:
            file.close()
        if taken():
            raise FileExistsError(f"{str(path)!r} is that of another run")
        rename(draft, path)
    except BaseException:
        remove(draft)
        raise


def _what_hangs(state: Standing | sidecar.RunInfo) -> tuple[object, ...]:
    return state.open_calls, bool(state.idle_stack), state.signal


def _extent(parts: Sequence[sidecar.FilePart]) -> tuple[int, int]:
    """Return the number of parts and of lost rows, whose changes are written at once."""
    return len(parts), sum(part.lost for part in parts)
