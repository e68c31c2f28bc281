"""A clock that stands still until a test sets it."""

from __future__ import annotations


class SetClock:
    """Returns ``now_s``, in s."""

    def __init__(self, now_s: float = 0.0) -> None:
        self.now_s = now_s

    def __call__(self) -> float:
        return self.now_s
