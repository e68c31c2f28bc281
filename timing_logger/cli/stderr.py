"""What the command says beside its answer, on stderr: lines, and on a terminal how far it has come."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

from timing_logger.process.interrupts import undone_by
from timing_logger.process.progress import Stage, heard_by


def say(*lines: str) -> None:
    """Write lines of this command's own; where stderr is closed or its disk full, nobody is told."""
    if sys.stderr is None:  # it was closed when this process began
        return
    try:
        sys.stderr.write("".join(f"timing-logger: {line}\n" for line in lines))
        sys.stderr.flush()
    except (OSError, ValueError):
        _give_up_stderr()


def _give_up_stderr() -> None:
    """Send what waits to be written nowhere: at exit it would fail again, and change the exit code."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
    except (OSError, ValueError):
        sys.stderr = None


# -- which stage a command is in, and how far that has come, if it takes long ----------------------------

_QUIET_S = 2.0
"""Whoever waits no longer than this needs to see nothing."""

_REDRAWN_S = 0.2
_ERASED_S = 0.5

_SAID: Mapping[Stage | None, str] = {
    None: "starting",
    "finding": "finding the files",
    "reading": "reading the files",
    "answering": "working out the answer",
    "writing": "writing",
}


@contextmanager
def shown(command: str) -> Iterator[None]:
    """Show how far ``command`` has come during the block, once that takes long, if stderr is a terminal.

    Nothing is shown of a command that is "".
    """
    if not command or sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    estimate = Estimate()
    display = _Display(estimate)
    with undone_by(display.end), heard_by(estimate):
        display.start()
        try:
            yield
        finally:
            display.end()


class _Display:
    """A line that a thread of its own draws, so that it goes on while a library's call takes long."""

    def __init__(self, estimate: Estimate) -> None:
        self._estimate = estimate
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """Erase the line."""
        self._over.set()
        self._thread.join(_ERASED_S)  # it may be stopped by Ctrl-S

    def _run(self) -> None:
        if not self._over.wait(_QUIET_S):
            with suppress(OSError, ValueError):  # nobody is there any more
                self._draw()

    def _draw(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        class PlainProgress(Console):
            def show_cursor(self, show: bool = True) -> bool:
                """Leave the cursor alone: a process that is killed would not give it back."""
                return False

        columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
        console = PlainProgress(stderr=True, soft_wrap=True)
        with Progress(
            *columns, TextColumn("{task.fields[left]}"), console=console, transient=True, auto_refresh=False,
            redirect_stdout=False,
        ) as bar:  # fmt: skip
            task, now = bar.add_task("", total=None, left=""), self._estimate
            while not self._over.is_set():
                said, left = _SAID[now.stage], _in_words(now.left_s())
                bar.update(task, description=said, total=now.n_steps or None, completed=now.n_done, left=left)
                bar.refresh()
                self._over.wait(_REDRAWN_S)


def _in_words(left_s: float | None) -> str:
    """Return how long the rest of a stage will take, as far as that is known."""
    if not left_s:
        return ""
    if left_s < 99.5:
        return f"about {max(1, round(left_s))} s left"
    return f"about {round(left_s / 60)} min left"


class Estimate:
    """Hears of a command's stages, and tells how long the one under way will still take.

    Args:
        clock_s: returns the time, in seconds.

    Attributes:
        stage: the one under way; None before the first.
        n_steps, n_done: how many steps it has, and how many of them are done.
    """

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self.stage: Stage | None = None
        self.n_steps = self.n_done = 0

    def begin(self, stage: Stage, n_steps: int) -> None:
        """Note that a stage begins."""
        self.stage, self.n_steps, self.n_done, self._begun_s = stage, n_steps, 0, self._clock_s()

    def done(self, n_steps: int) -> None:
        """Note that so many steps of this stage are done."""
        self.n_done = n_steps

    def left_s(self) -> float | None:
        """Return how many seconds the rest of this stage will take, by its steps; None before the first."""
        if not self.n_done:
            return None
        return (self._clock_s() - self._begun_s) * (self.n_steps - self.n_done) / self.n_done
