"""The background thread that takes records from the channel and hands them to the sinks.

Callers that request something (flush, close) put a request into a mailbox and wait for the answer in another:
both are safe in signal handlers and finalizers. Only the flush thread touches the sinks, so a stalled disk
cannot hold up any other thread. If the flush thread is dead and cannot be started again (the interpreter is
shutting down), the caller drains in its place, under a lock with a time limit.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from timing_logger.recording.clock import WallClock, perf_counter_ns
from timing_logger.recording.cores.channel import CHUNK, MOST_AT_ONCE, Channel
from timing_logger.recording.delivery import Delivery
from timing_logger.recording.device.devices import when_events_are_low
from timing_logger.recording.device.rows import DeviceRows
from timing_logger.recording.mailbox import Mailbox
from timing_logger.recording.sidecar_writer import Account, SidecarWriter
from timing_logger.recording.watchers.hang_watch import HangWatch
from timing_logger.schema.defaults import RECORD_LATE_S
from timing_logger.schema.record import END, NS_PER_S
from timing_logger.schema.sidecar import Counters
from timing_logger.sinks import Sink

log = logging.getLogger("timing_logger")

CLOSE_GRACE_S = 1.5
"""Seconds without progress after which ``close`` gives up."""

SIDECAR_GRACE_S = 1.0
"""Seconds that ``close`` waits for the last sidecar, as part of :data:`CLOSE_GRACE_S`."""

LAST_WORDS_S = 0.3
"""Seconds that ``close`` waits for the sidecar that says that it gave up."""

_LIVENESS_CHECK_S = 0.2
_FIRST_CHECK_S = 0.01  # which shows how late a wait ends
_STARVED_S = 0.05  # a wait that ends later than that tells of threads that keep the interpreter busy
_LONG_WAITS_S = 0.1, 0.2, 0.5, 1, 2, 5, 10, 30  # how long one was, in steps: each is told of once
_LOOK_S = 0.25  # how often an idle flush thread checks whether the channel fills fast
_DEVICE_POLLS_S = 0.0005, 0.02  # the first pause, and the longest


class _Request(NamedTuple):
    answer: Mailbox[bool]
    closing: bool
    device_deadline_s: float


class Flusher:
    """Drains ``channel`` twice in ``interval_s`` seconds, and sooner when it fills fast.

    Twice, so that a record is in the file within the interval even if the thread is delayed on a busy
    machine.

    Attributes:
        closed: whether ``close`` has completed: every record that waited is written or counted as dropped.

    Args:
        channel: the source of records.
        sinks: the destinations, see :class:`Delivery`.
        sidecar: the sidecar to keep current, if there is one.
        clock: maps instants to wall time, for the sinks.
        watch: checked at each drain for calls that do not end.
        interval_s: seconds within which a record is to be in the file.
        device_timeout_s: seconds that ``close`` waits for operations that devices have not finished; after
            that their records are written as unresolved.
        fsync: sync the sinks after every drain that wrote something.
    """

    def __init__(
        self, channel: Channel, sinks: Sequence[Sink], sidecar: SidecarWriter | None, clock: WallClock,
        watch: HangWatch, *, interval_s: float, device_timeout_s: float, fsync: bool,
    ) -> None:  # fmt: skip
        self._channel = channel
        self._delivery = Delivery(sinks, clock, self._report, channel.capacity)
        self._sidecar = sidecar
        self._watch = watch
        self._interval_s = interval_s
        self._device_timeout_s = device_timeout_s
        self._fsync = fsync
        self._device_rows = DeviceRows()
        self._requests: Mailbox[_Request | None] = Mailbox()
        self._io_lock = threading.Lock()
        # Lines made in place are for the file alone: a sink of the user's may keep what it gets.
        file = self._delivery.file
        self._take = channel.take if file is None else channel.take_packed
        self._waited_s = 0.0
        self._most = CHUNK if file is None or file.is_limited else MOST_AT_ONCE
        self._caught_up_ns = perf_counter_ns()
        self._cpu_ns = 0
        self._reported: set[str] = set()
        self._last_error = ""
        self._gave_up_at: tuple[int, ...] = ()
        self.closed = False
        self._thread = self._start()
        when_events_are_low.append(self.hurry)

    # -- called by other threads ------------------------------------------------------------

    @property
    def counters(self) -> Counters:
        """The number of records by fate: exact at rest, and never negative while recording goes on."""
        first = self._delivery.first
        written, failed, lost = first.written, first.failed, first.lost
        accepted, overflowed, _, unreadable = self._channel.counts()
        dropped = overflowed + unreadable + failed
        pending = accepted - written - dropped
        return Counters(accepted, written - lost, dropped + lost, pending)

    def flush(self, timeout_s: float) -> bool:
        """Wait up to ``timeout_s`` seconds until all records accepted before the call are written or dropped.

        Returns:
            Whether that was done within the time, by all sinks.
        """
        return self._ask(closing=False, timeout_s=timeout_s)

    def close(self) -> bool:
        """Write the waiting records, close the sinks and end the thread; return whether that was completed.

        Gives up when there is no more progress. A later call then does not wait again, unless there was
        progress since.
        """
        self._channel.close()
        while not self.closed and self._gave_up_at != self._progress():
            before = self._progress()
            patience_s = self._device_timeout_s if self._device_rows else 0
            if self._ask(closing=True, timeout_s=CLOSE_GRACE_S + patience_s):
                break
            if before == self._progress():
                self._gave_up_at = before
                lost = self.counters.pending
                log.error("timing logger: gave up closing; %d records were not written", lost)
                self._last_error = f"gave up closing: {lost} records were not written"
                if self._sidecar is not None:  # whose file system may well answer
                    with suppress(Exception):
                        self._sidecar.tell(self._account(), timeout_s=LAST_WORDS_S)
        return self.closed

    def abandon(self) -> None:
        """Do nothing any more: in a forked child, thread, sinks and records are the parent's."""
        self.closed = True
        self._delivery.abandon()

    def _progress(self) -> tuple[int, ...]:
        return *self._delivery.progress, len(self._device_rows)

    def hurry(self) -> None:
        """Request a drain from any thread, without waiting for it."""
        self._requests.put(None)

    def _ask(self, *, closing: bool, timeout_s: float) -> bool:
        if self.closed:
            return True
        if threading.current_thread() is self._thread:
            return False  # called by a sink or a finalizer on the flush thread, which cannot wait for itself
        deadline_s = time.monotonic() + timeout_s
        device_wait_s = self._device_timeout_s if closing else timeout_s
        request = _Request(Mailbox(), closing, time.monotonic() + device_wait_s)
        self._requests.put(request)
        pause_s, late_s = _FIRST_CHECK_S, 0.0
        while self._alive_or_restarted():
            before_s = time.monotonic()
            # Where many threads need the interpreter, the next wait will end as late as the last ones did.
            remaining_s = deadline_s - before_s - (late_s if late_s > _STARVED_S else 0.0)
            pause_s = max(0.0, min(remaining_s, pause_s))
            try:
                return request.answer.take(pause_s)
            except TimeoutError:
                if remaining_s <= 0:
                    return False
            late_s = max(late_s, time.monotonic() - before_s - pause_s)
            pause_s = _LIVENESS_CHECK_S
        return self._serve(request, timeout_s=max(0.0, deadline_s - time.monotonic()))

    def _alive_or_restarted(self) -> bool:
        if not self._thread.is_alive() and not self.closed:
            self._report("the flush thread had died and was started again")
            try:
                self._thread = self._start()
            except RuntimeError:  # the interpreter is shutting down: no thread can be started any more
                return False
        return self._thread.is_alive()

    # -- the thread -----------------------------------------------------------------------------

    def _start(self) -> threading.Thread:
        thread = threading.Thread(target=self._run, name="timing-logger-flush", daemon=True)
        thread.start()
        return thread

    def _run(self) -> None:
        while not self.closed:
            request = self._next_request()
            cpu_before_ns = time.thread_time_ns()
            self._serve(request, timeout_s=-1)
            self._cpu_ns += time.thread_time_ns() - cpu_before_ns

    def _next_request(self) -> _Request | None:
        """Wait for a request and return it; None when a drain is due without one."""
        due_s = time.monotonic() + self._interval_s / 2
        while True:
            remaining_s = 0.0 if self._fills_fast() else due_s - time.monotonic()
            pause_s, before_s = max(0.0, min(remaining_s, _LOOK_S)), time.monotonic()
            try:
                return self._requests.take(pause_s)
            except TimeoutError:
                self._note_wait(time.monotonic() - before_s - pause_s)
                if remaining_s <= _LOOK_S:
                    return None
            with self._io_lock:
                self._attempt(self._look_for_hangs)
                self._attempt(self._refresh_sidecar)

    def _fills_fast(self) -> bool:
        """Tell whether many records came since the last drain.

        False if that drain could not hand over all that it took.
        """
        return not self._delivery.in_hand and len(self._channel) > self._channel.capacity // 4

    def _serve(self, request: _Request | None, *, timeout_s: float) -> bool:
        """Drain the channel and answer the request. Every error is reported: none ends the thread."""
        if not self._io_lock.acquire(timeout=timeout_s):
            return False
        try:
            if self.closed:  # by another request while this one waited for the lock
                return self._answer(request, True)
            lost_before = self._delivery.lost_by_all
            self._attempt(self._look_for_hangs)
            done = self._attempt(self._drain)
            if request is not None and self._device_rows:
                done = self._attempt(partial(self._drain_devices, request.device_deadline_s))
            done = (
                done and self._delivery.lost_by_all == lost_before
            )  # else rows that were reported as written went
            if request is not None and request.closing:
                done = self._attempt(self._finish)
            self._attempt(self._refresh_sidecar)
        finally:
            self._io_lock.release()
        return self._answer(request, done)

    def _answer(self, request: _Request | None, done: bool) -> bool:
        if request is not None:
            request.answer.put(done)
        return done

    def _attempt(self, action: Callable[[], bool | None]) -> bool:
        """Tell whether ``action`` was done: neither raised, which is reported, nor returned False."""
        try:
            return action() is not False
        except BaseException as error:
            name = getattr(action, "func", action).__name__.strip("_")
            self._report(f"{name} failed: {error!r}")
            return False

    def _look_for_hangs(self) -> None:
        self._watch.look(self._device_rows.issued_before, self._channel.counts().accepted)

    def _drain(self, asked: bool = False) -> bool:
        """Hand over the records that wait now; return False if a sink could not take them for the moment.

        Records of operations that a device has not finished are not among them. ``asked``: see
        :meth:`DeviceRows.resolved`.
        """
        began_ns, remaining = perf_counter_ns(), len(self._channel)
        if not self._delivery.is_done:
            self._delivery.offer_again()
            self._after_a_batch()
        while remaining and not self._delivery.in_hand:
            if remaining > MOST_AT_ONCE and (written := self._catch_up()):
                remaining = max(0, remaining - written)
            else:
                taken = self._take(min(self._most, remaining))
                self._delivery.hand_over(self._device_rows.sift(taken) if type(taken) is list else taken)
                # Some may have been unreadable; and in a child that a sink forked nothing waits any more.
                remaining = min(remaining - len(taken), len(self._channel))
            self._after_a_batch()
        if not self._delivery.in_hand:
            self._caught_up_ns = began_ns
            self._waited_s = 0.0
            self._delivery.hand_over(self._device_rows.resolved(asked=asked))
        is_safe = not self._fsync or self._delivery.sync()
        self._delivery.look_after()
        return self._delivery.is_done and is_safe

    def _after_a_batch(self) -> None:
        """Give the room of what was written to new records, and tell how far it has come."""
        if not self._delivery.in_hand:
            self._channel.release()
            self._attempt(self._refresh_sidecar)  # the rest may take seconds

    def _catch_up(self) -> int:
        written, waited_s = self._delivery.catch_up(self._channel)
        self._note_wait(waited_s)
        return written

    def _note_wait(self, late_s: float) -> None:
        """Note by how much the thread ran later than it could have: it is told why records are late."""
        self._waited_s = max(self._waited_s, late_s)

    def _drain_devices(self, deadline_s: float) -> bool:
        """Hand over what devices have begun by now; return False if they do not finish it by the deadline."""
        bookmark = self._device_rows.bookmark()
        done = self._drain(asked=True)
        pause_s, longest_s = _DEVICE_POLLS_S
        while not self._device_rows.passed(bookmark) and time.monotonic() < deadline_s:
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, longest_s)
            done = self._drain(asked=True)
        return done and self._device_rows.passed(bookmark)

    def _finish(self) -> None:
        """Count the records that cannot be written any more as dropped; close the sidecar and the sinks."""
        # What the first sink kept from being taken out, others can take.
        self._delivery.hand_over(self._device_rows.sift(self._channel.take(len(self._channel))))
        self._delivery.hand_over(self._device_rows.given_up())
        lost = self._delivery.give_up()
        pending = self._channel.counts().waiting
        if pending:
            self._report(
                f"{pending} records were not written: threads still put records while the logger closed"
            )
        self._attempt(self._close_sidecar)
        self._delivery.close()
        when_events_are_low.remove(self.hurry)
        if not lost and not pending:  # else some are still in it, which a reader may find there
            self._channel.remove_file()
        self.closed = True

    # -- reporting --------------------------------------------------------------------------------

    def _refresh_sidecar(self) -> None:
        starved = self._starved()
        if self.counters.dropped:
            why = f": {starved}" if starved and self._channel.counts().overflowed else ""
            self._report(f"records were dropped; stats and the sidecar count them{why}")
        if self._behind_s() > self._interval_s + RECORD_LATE_S:
            slow = "they come faster than they can be written, or the disk is slow"
            self._report(f"records are written late: {starved or slow}")
        if unreadable := self._channel.counts().unreadable:
            self._report(f"records were damaged in memory and are dropped: {unreadable} so far")
        if self._sidecar is not None and not self.closed:
            self._sidecar.refresh(self._account())

    def _starved(self) -> str:
        """Return in words for how long the thread was kept from writing since it had last caught up."""
        step_s = max((step_s for step_s in _LONG_WAITS_S if self._waited_s > step_s), default=0)
        if not step_s:
            return ""
        return (
            f"the thread that writes them waited more than {step_s:g} s at a time for a processor or for the "
            "interpreter's lock, which other threads kept busy"
        )

    def _close_sidecar(self) -> None:
        if self._sidecar is not None:
            self._sidecar.close(self._account(), timeout_s=SIDECAR_GRACE_S)

    def _behind_s(self) -> float:
        """Return the age in seconds of the oldest record that waits for the sink; 0 if none does."""
        try:
            in_hand = self._delivery.in_hand
            oldest = in_hand[0] if in_hand else self._channel.oldest
            if oldest is None:
                return 0.0
            ended_ns = oldest[END]
        except IndexError:
            return 0.0
        came_ns = self._caught_up_ns  # all earlier records are written, whatever end a record states
        if type(ended_ns) is int:
            came_ns = max(came_ns, ended_ns)
        return max(0, perf_counter_ns() - came_ns) / NS_PER_S

    def _account(self) -> Account:
        return Account(
            counters=self.counters,
            sinks=self._delivery.counters_of_others(),
            logger_cpu_ns=self._cpu_ns,
            device_clocks=self._device_rows.info(),
            last_error=self._last_error,
            standing=self._watch.standing(),
            behind_s=round(self._behind_s(), 3),
        )

    def _report(self, message: str) -> None:
        """Log each kind of trouble once; the latest message goes into the sidecar."""
        self._last_error = message
        kind = message.partition(":")[0]
        if kind not in self._reported:
            self._reported.add(kind)
            log.warning("timing logger: %s", message)
