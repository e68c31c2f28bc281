"""Shows a run in progress to something that may be slow, dead or wrong, at no cost to what follows the run.

Each exporter has a thread of its own and a place for one snapshot: what was not shown when the next one comes
is never shown, but a change is, with the next snapshot. What fails is tried again with the next snapshot,
counted, and said once.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from threading import Condition, Thread
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from timing_logger.engine.changes import Change
    from timing_logger.live.snapshot import Snapshot

CLOSE_S = 5.0
"""How long the end of a job waits for an exporter, in seconds: a slow one may miss the last snapshot."""

_FAILURES = (Exception, SystemExit)  # some libraries end the process, which nothing here may do


class Exporter(Protocol):
    """What shows a run in progress somewhere."""

    def show(self, snapshot: Snapshot, change: Change | None) -> None:
        """Show the state of the run, and what changes with it. Raises what goes wrong; may take long."""

    def close(self) -> None:
        """Give back what is held, once, after what was shown has arrived as far as it can."""


class _Waiting(NamedTuple):
    snapshot: Snapshot
    change: Change | None


class Exporting:
    """An exporter in a thread of its own: none of its methods raises, and only :meth:`close` waits.

    Attributes:
        shown: snapshots that were shown.
        replaced: snapshots that a newer one replaced before they were shown.
        errors: how often opening, showing or closing failed.

    Args:
        name: of the exporter, for what is said.
        open_it: returns the exporter; what it raises is said as well, and it is called again with the next
            snapshot.
        say: takes a sentence for people, from another thread.
    """

    def __init__(self, name: str, open_it: Callable[[], Exporter], say: Callable[[str], object]) -> None:
        self.shown = self.replaced = self.errors = 0
        self._name, self._open, self._say = name, open_it, say
        self._exporter: Exporter | None = None
        self._changed = Condition()
        self._waiting: _Waiting | None = None
        self._closing = False
        self._owed: Change | None = None
        self._thread = Thread(target=self._run, name=f"timing_logger exporter {name}", daemon=True)
        self._thread.start()

    def show(self, snapshot: Snapshot, change: Change | None = None) -> None:
        """Leave a snapshot to be shown, in the place of one that still waits."""
        with self._changed:
            if self._waiting is not None:
                self.replaced += 1
                change = change or self._waiting.change
            self._waiting = _Waiting(snapshot, change)
            self._changed.notify()

    def close(self, timeout_s: float = CLOSE_S) -> bool:
        """Let the last snapshot be shown, and close the exporter; wait no longer than this, in seconds.

        Returns whether it is done. If not, its library may hold up the end of the process: ``os._exit``
        does not wait for it.
        """
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(timeout_s)
        is_done = not self._thread.is_alive()
        if not is_done:
            self._fails(f"is not done after {timeout_s:g} s, and is left behind")
        return is_done

    def _run(self) -> None:
        while one := self._next():
            self._try("cannot show the job", partial(self._show, one))
        if self._exporter is not None:
            self._try("cannot be closed", self._exporter.close)

    def _next(self) -> _Waiting | None:
        """Return the next snapshot, once there is one; None when there will be none."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting is not None or self._closing)
            taken, self._waiting = self._waiting, None
            return taken

    def _show(self, one: _Waiting) -> None:
        self._owed = one.change or self._owed
        if self._exporter is None:
            self._exporter = self._open()
        self._exporter.show(one.snapshot, self._owed)
        self.shown += 1
        self._owed = None

    def _try(self, what: str, call: Callable[[], None]) -> None:
        try:
            call()
        except _FAILURES as error:
            self._fails(f"{what}: {_in_a_line(error)}")

    def _fails(self, how: str) -> None:
        self.errors += 1
        if self.errors == 1:
            with suppress(*_FAILURES):
                self._say(f"{self._name} {how}. The job goes on; further failures are not told.")


def _in_a_line(error: BaseException) -> str:
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__
