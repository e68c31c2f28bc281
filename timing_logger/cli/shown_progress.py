"""Shows on a terminal how far a command has come, and how long it will still take, if it takes long."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from timing_logger.cli.estimate import Estimate
from timing_logger.interrupts import undone_by
from timing_logger.progress import Stage, heard_by

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

_STAGES: tuple[Stage, ...] = ("finding", "reading", "answering", "writing")

SHARES: Mapping[str, Mapping[Stage, float]] = {
    name: {stage: share for stage, share in zip(_STAGES, shares, strict=False) if share}
    for name, shares in {
        "summary": (0.5, 3.7, 1.3),
        "stragglers": (0.5, 3.8, 5.4),
        "hang": (0.5, 2.0, 0.5),
        "waits": (0.5, 4.1, 2.0),
        "bandwidth": (0.5, 2.2, 0.6),
        "overlap": (0.5, 3.0, 0.9),
        "what-if": (0.5, 3.8, 9.0),
        "compression": (0.5, 2.5, 0.5),
        "compare": (0.5, 4.5, 6.0, 0.1),
        "report": (0.5, 9.5, 10.3, 1.0),
        "trace": (0.5, 3.1, 1.1, 43.0),
        "convert": (0.4, 0.0, 0.0, 46.0),
        "import": (0.0, 60.0, 0.0, 10.0),
        "recover": (1.0,),
        "run": (0.5, 3.8, 5.4),
    }.items()
}
"""How long each stage of a command takes: the seconds for 2048 ranks with 1000 rows each, on two cores."""


@contextmanager
def shown(command: str) -> Iterator[None]:
    """Show how far ``command`` has come during the block, once that takes long, if stderr is a terminal."""
    if command not in SHARES or sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    estimate = Estimate(SHARES[command])
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
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

        class Plain(Console):
            def show_cursor(self, show: bool = True) -> bool:
                """Leave the cursor alone: a process that is killed would not give it back."""
                return False

        columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn()
        console = Plain(stderr=True, soft_wrap=True)
        with Progress(
            *columns, TextColumn("{task.fields[left]}"), console=console, transient=True, auto_refresh=False,
            redirect_stdout=False,
        ) as bar:  # fmt: skip
            task = bar.add_task("", total=1.0, left="")
            while not self._over.is_set():
                said, share = _SAID[self._estimate.stage], self._estimate.share_done()
                bar.update(task, description=said, completed=share, left=_in_words(self._estimate.left_s()))
                bar.refresh()
                self._over.wait(_REDRAWN_S)


def _in_words(left_s: float | None) -> str:
    """Return how long the rest will take, as far as that is known."""
    if not left_s:
        return ""
    if left_s < 99.5:
        return f"about {max(1, round(left_s))} s left"
    return f"about {round(left_s / 60)} min left"
