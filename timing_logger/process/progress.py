"""How far a long piece of work has come: told by whoever does it, and heard by whoever shows it.

Where nobody listens, as in a program of one's own, telling costs nothing and does nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal, Protocol, TypeAlias, TypeVar

T = TypeVar("T")

Stage: TypeAlias = Literal["finding", "reading", "answering", "writing"]
"""What a command does one after the other; some do not write."""


class Listener(Protocol):
    """Hears how far the work has come, from the thread that does it."""

    def begin(self, stage: Stage, n_steps: int) -> None:
        """Note that a stage of so many steps begins."""

    def done(self, n_steps: int) -> None:
        """Note that so many steps of this stage are done."""


class _Listening:
    """The one listener of this process, and how many steps of this stage it was told of."""

    listener: Listener | None = None
    n_done: int = 0


@contextmanager
def heard_by(listener: Listener) -> Iterator[None]:
    """Tell ``listener`` of all work during the block."""
    _Listening.listener = listener
    try:
        yield
    finally:
        _Listening.listener = None


def begin(stage: Stage, n_steps: int) -> None:
    """Tell that a stage begins."""
    if _Listening.listener is not None:
        _Listening.n_done = 0
        _Listening.listener.begin(stage, n_steps)


def step() -> None:
    """Tell that one more step of the stage is done."""
    if _Listening.listener is not None:
        _Listening.n_done += 1
        _Listening.listener.done(_Listening.n_done)


def each(stage: Stage, items: Sequence[T]) -> Iterator[T]:
    """Yield the items of a stage, each of which is a step that is done when the next one is asked for."""
    begin(stage, len(items))
    yield from steps(items)


def steps(items: Iterable[T]) -> Iterator[T]:
    """Yield the items of the stage that has begun, likewise."""
    for item in items:
        yield item
        step()


def progress_callback(stage: Stage) -> Callable[[int, int], None]:
    """Return a callback that takes the numbers of steps done and in total."""
    begun = False

    def report(done: int, whole: int) -> None:
        nonlocal begun
        if not begun:
            begin(stage, whole)
            begun = True
        if _Listening.listener is not None:
            _Listening.listener.done(done)

    return report
