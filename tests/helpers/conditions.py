"""Waiting for what other threads and processes do."""

from __future__ import annotations

import inspect
import subprocess
import time
from collections.abc import Callable
from typing import Any, TypeVar

from limits import LIMIT_S

Found = TypeVar("Found")

_BETWEEN_S = 0.005


def wait_for(
    condition: Callable[[], Found],
    what: str | Callable[[], object] = "",
    *,
    by: subprocess.Popen[Any] | None = None,
    limit_s: float = LIMIT_S,
) -> Found:
    """Return what ``condition`` returns, once that is true.

    The test fails if it is not within ``limit_s`` seconds, and says what was waited for.

    Args:
        condition: asked again and again.
        what: what is waited for, or a function that returns what is known of it by then; otherwise the source
            of ``condition`` is said.
        by: the process that is to do it, with whose end the wait is over, too.
        limit_s: the time limit.
    """
    deadline_s = time.monotonic() + limit_s
    while True:
        is_late = time.monotonic() >= deadline_s
        has_ended = by is not None and by.poll() is not None
        if found := condition():
            return found
        if is_late or has_ended:
            when = _end(by) if by is not None and has_ended else f"in {limit_s:g} s"
            raise AssertionError(f"not {when}: {_said(what) or _source(condition)}\nIt is {found!r}.")
        time.sleep(_BETWEEN_S)


def _end(process: subprocess.Popen[Any]) -> str:
    """Return how a process ended, with its output as far as that comes here."""
    said = [stream for stream in process.communicate() if stream]
    return f"before the end of its process, with status {process.returncode}, which said {said}"


def _said(what: str | Callable[[], object]) -> str:
    return str(what() if callable(what) else what)


def _source(condition: Callable[[], object]) -> str:
    """Return the lines that ``condition`` is written in; what has none is said as it is."""
    try:
        return inspect.getsource(condition).strip()
    except (OSError, TypeError):
        return repr(condition)
