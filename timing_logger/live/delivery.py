"""Events are handed to all who are to be told, and whoever hands them over waits for nobody.

Each receiver has a courier: a thread, and a bounded queue. A receiver that is dead, slow or broken costs its
own events, and no other receiver's; what it misses is counted and said.
"""

from __future__ import annotations

import contextlib
import copy
import os
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from timing_logger.live.events import Event, event_line
from timing_logger.process.shared_files import create, cut, open_owned, owner_of
from timing_logger.schema.defaults import FILE_MODE

Say = Callable[[str], None]

MOST_WAITING = 100
"""How many events wait for a receiver. A run that changes so often is told best by what came last."""

LONGEST_PAUSE_S = 60.0

_LEAST_SHARE = 0.5  # of a pause: of many jobs that lost a receiver, not all come back in the same second


class NotDelivered(Exception):
    """A receiver did not take an event.

    Attributes:
        may_later: whether it may take it if it is asked again.
        pause_s: in how many seconds it wants to be asked again; 0.0 if it does not say.
    """

    def __init__(self, why: str, *, may_later: bool, pause_s: float = 0.0) -> None:
        super().__init__(why)
        self.may_later = may_later
        self.pause_s = pause_s


class Receiver(Protocol):
    """Who is told. Only one thread calls it, and not that of whoever has something to tell."""

    @property
    def name(self) -> str:
        """What it is called when something is said of it: no secret is in it."""

    @property
    def retries(self) -> int:
        """How often an event is offered again that it did not take."""

    def receive(self, event: Event) -> None:
        """Take an event.

        Raises:
            NotDelivered: it does not take it, now or ever.
            Exception: likewise, and it is not asked again.
        """


class EventDelivery:
    """Hands each event to all receivers.

    Args:
        receivers: who is told.
        say: what is called with a sentence where a receiver does not take what it is given: once when that
            is known of the first event, and once when the delivery is closed.
        first_pause_s: how long a receiver is left alone before it is asked again, in s; then twice as long
            each time, up to 60 s. The times vary by chance, down to half of it.
    """

    def __init__(self, receivers: Sequence[Receiver], say: Say, *, first_pause_s: float = 1.0) -> None:
        self._couriers = [_Courier(receiver, say, first_pause_s) for receiver in receivers]

    @property
    def waiting(self) -> int:
        """How many events wait to be delivered, or are under way, over all receivers."""
        return sum(courier.waiting for courier in self._couriers)

    @property
    def undelivered(self) -> int:
        """How many events receivers did not get and will not get, over all of them."""
        return sum(courier.undelivered for courier in self._couriers)

    def deliver(self, event: Event) -> None:
        """Hand an event over, and return at once. After :meth:`close` it is lost, and counted."""
        for courier in self._couriers:
            courier.take(event)

    def close(self, within_s: float = 10.0) -> int:
        """Have what waits delivered, with one try for each event, and say what remains.

        Args:
            within_s: how long that may take, in s, over all receivers.

        Returns:
            How many events receivers did not get, over all of them.
        """
        until = time.monotonic() + within_s
        for courier in self._couriers:
            courier.finish()
        return sum(courier.ended(until - time.monotonic()) for courier in self._couriers)


def pause_s(retries: int, first_pause_s: float, asked_s: float) -> float:
    """Return how long to leave a receiver alone, in s, after so many tries that followed the first.

    Args:
        retries: how many there were.
        first_pause_s: the longest pause after the first try, in s.
        asked_s: how long the receiver asked to be left alone, in s; 0.0 if it did not.
    """
    doubled_s = first_pause_s * 2.0 ** min(retries, 30)
    return min(LONGEST_PAUSE_S, max(asked_s, doubled_s * random.uniform(_LEAST_SHARE, 1.0)))


class _Courier:
    """Brings events to one receiver, in their order."""

    def __init__(self, receiver: Receiver, say: Say, first_pause_s: float) -> None:
        self.undelivered = 0
        self._receiver = receiver
        self._say = say
        self._has_spoken = False
        self._first_pause_s = first_pause_s
        self._events: deque[Event] = deque()
        self._under_way = False
        self._changed = threading.Condition()
        self._finishing = threading.Event()
        self._gave_up = False
        self._thread = threading.Thread(target=self._bring, name="timing-logger-courier", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        with self._changed:
            return len(self._events) + self._under_way

    def take(self, event: Event) -> None:
        with self._changed:
            if self._finishing.is_set():
                self.undelivered += 1
                return
            if len(self._events) == MOST_WAITING:
                self._events.popleft()
                self.undelivered += 1
            self._events.append(event)
            self._changed.notify()

    def finish(self) -> None:
        """Take no more events, and leave the receiver alone no longer."""
        with self._changed:
            self._finishing.set()
            self._changed.notify()

    def ended(self, within_s: float) -> int:
        """Wait for the end, and return how many events the receiver did not get."""
        self._thread.join(max(0.0, within_s))
        with self._changed:
            is_known, self._gave_up = self._gave_up, True
            self.undelivered += len(self._events) + self._under_way
            self._events.clear()
            self._under_way = False
            lost = self.undelivered
        if lost and not is_known:
            events = "1 event was" if lost == 1 else f"{lost} events were"
            self._tell(f"{events} not delivered to {self._receiver.name}.")
        return lost

    def _bring(self) -> None:
        while (event := self._next()) is not None:
            why = self._try_to_bring(event)
            with self._changed:
                if self._gave_up:
                    return
                self._under_way = False
                self.undelivered += why is not None
            if why is not None and not self._has_spoken:
                self._has_spoken = True
                self._tell(f"{self._receiver.name} does not take what it is told: {why}.")

    def _next(self) -> Event | None:
        """Wait for an event; None if none will come."""
        with self._changed:
            self._changed.wait_for(lambda: self._events or self._finishing.is_set())
            self._under_way = bool(self._events)
            return self._events.popleft() if self._events else None

    def _try_to_bring(self, event: Event) -> str | None:
        """Offer an event until it is taken, and return None; or why it is not, as often as it was offered."""
        retries = 0
        while True:
            is_last = retries >= self._receiver.retries or self._finishing.is_set()
            refused = self._offer(event)
            if refused is None or is_last or not refused.may_later:
                return None if refused is None else str(refused)
            self._finishing.wait(pause_s(retries, self._first_pause_s, refused.pause_s))
            retries += 1

    def _offer(self, event: Event) -> NotDelivered | None:
        try:
            self._receiver.receive(event)
        except NotDelivered as refused:
            return refused
        except Exception as error:
            return NotDelivered(f"{type(error).__name__}: {error}", may_later=False)
        return None

    def _tell(self, text: str) -> None:
        with contextlib.suppress(Exception):  # whoever cannot be told that does not end the delivery
            self._say(text)


FILE_NAME = "verdicts.jsonl"

_APPEND = os.O_RDWR | os.O_APPEND  # it is read, too: how it ends


class VerdictsFile:
    """``verdicts.jsonl`` in the folder of a run: a line for each event.

    A line is in the file as a whole, or not at all. The file is opened for each of them: there are few, and
    a file that somebody moved away is begun again. Only one process writes to it.

    Args:
        folder: the folder of the timing files. It is not made again if it vanishes.
        file_mode: the permissions of a new file, from which the process's umask is subtracted.
    """

    retries = 5

    def __init__(self, folder: Path, file_mode: int = FILE_MODE) -> None:
        self.path = folder / FILE_NAME
        self._mode = file_mode

    @property
    def name(self) -> str:
        """The file, with its path."""
        return f"the file {str(self.path)!r}"

    def receive(self, event: Event) -> None:
        """Append an event.

        Raises:
            NotDelivered: it cannot be written now.
        """
        try:
            descriptor = _opened(self.path, self._mode)
            try:
                _append(descriptor, event_line(event).encode() + b"\n")
            finally:
                os.close(descriptor)
        except OSError as error:
            raise NotDelivered(error.strerror or type(error).__name__, may_later=True) from None


class Callback:
    """A function that is called with each event.

    Args:
        function: gets an event of its own, in a thread of its own. What it raises is said, and the event is
            not offered again.
    """

    retries = 0

    def __init__(self, function: Callable[[Event], object]) -> None:
        self._function = function

    @property
    def name(self) -> str:
        """The function's name."""
        return f"the function {getattr(self._function, '__qualname__', type(self._function).__name__)}"

    def receive(self, event: Event) -> None:
        """Call the function."""
        self._function(copy.deepcopy(event))


def _opened(path: Path, mode: int) -> int:
    """Open a regular file, or create it; a link, a FIFO or a device is not even opened."""
    try:
        return open_owned(path, owner_of(path), _APPEND)
    except FileNotFoundError:
        return create(path, mode, _APPEND)


def _append(descriptor: int, line: bytes) -> None:
    """Append a whole line, on a line of its own whatever is there; or none of it."""
    size = os.fstat(descriptor).st_size
    is_torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"  # its writer was killed
    rest = memoryview(b"\n" + line if is_torn else line)
    try:
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    except OSError:
        cut(descriptor, size)
        raise
