"""Shows on a terminal how far a command has come, and how long it will still take, if it takes long."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

from timing_logger.process.interrupts import undone_by
from timing_logger.process.progress import Stage, heard_by

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


# -- what share of a command's work is done, and how long the rest will take -----------------------------


_MOST_OF_A_STEP = 0.9
"""A step that takes longer than those before stands still here."""

_ENOUGH = 0.02
"""From a smaller share nothing can be concluded."""


class Estimate:
    """Hears of a command's stages.

    Args:
        shares: the stages in their order, and how long each usually takes, in any unit. A stage that is not
            among them takes no time.
        clock_s: returns the time, in seconds.
    """

    def __init__(self, shares: Mapping[Stage, float], clock_s: Callable[[], float] = time.monotonic) -> None:
        self._shares = shares
        self._clock_s = clock_s
        self._begun_s = clock_s()
        self._begin(None, 1, self._begun_s)

    def _begin(self, stage: Stage | None, n_steps: int, now_s: float) -> None:
        self.stage = stage
        self._n_steps, self._n_done = max(n_steps, 1), 0
        self._stage_s = self._step_s = now_s

    def begin(self, stage: Stage, n_steps: int) -> None:
        """Note that a stage begins; if it was there before, the work begins again, on other files."""
        now_s, order = self._clock_s(), list(self._shares)
        if stage not in order:
            return
        if self.stage is not None and order.index(stage) <= order.index(self.stage):
            self._begun_s = now_s
        self._begin(stage, n_steps, now_s)

    def done(self, n_steps: int) -> None:
        """Note that so many steps of this stage are done."""
        self._n_done, self._step_s = min(n_steps, self._n_steps), self._clock_s()

    def share_done(self) -> float:
        """Return what share of all work is done, from 0 to 1."""
        if self.stage is None:
            return 0.0
        done_of_stage = (self._n_done + self._share_of_step()) / self._n_steps
        whole = sum(self._shares.values())
        return (self._share_before() + self._shares[self.stage] * done_of_stage) / whole

    def left_s(self) -> float | None:
        """Return how many seconds the rest will take; None as long as too little is done to tell."""
        share = self.share_done()
        if share < _ENOUGH:
            return None
        return (self._clock_s() - self._begun_s) * (1 - share) / share

    def _share_before(self) -> float:
        order = list(self._shares)
        assert self.stage is not None
        return sum(self._shares[stage] for stage in order[: order.index(self.stage)])

    def _share_of_step(self) -> float:
        """Return what share of the step under way is done, if it takes as long as can be expected."""
        expected_s = self._expected_s()
        if not expected_s or self._n_done == self._n_steps:
            return 0.0
        return min((self._clock_s() - self._step_s) / expected_s, _MOST_OF_A_STEP)

    def _expected_s(self) -> float:
        """Return how long a step takes, by those of this stage or the stages before; 0 if that is unknown."""
        if self._n_done:
            return (self._step_s - self._stage_s) / self._n_done
        before = self._share_before()
        if not before or self.stage is None:
            return 0.0
        return (self._stage_s - self._begun_s) / before * self._shares[self.stage] / self._n_steps
