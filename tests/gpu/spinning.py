"""A kernel of known length."""

from __future__ import annotations

import torch

CYCLES_PER_MS = 1_500_000
"""Of the GPU's clock, roughly; what a spinning kernel really takes is measured beside it."""


def spin(ms: float) -> None:
    """Keep one multiprocessor busy for about ``ms``; the call returns at once."""
    torch.cuda._sleep(int(ms * CYCLES_PER_MS))


class Known:
    """``with Known() as known:`` what the block took, by ``torch.cuda`` events of the test's own.

    They are in ``stream``, or in the one that is current.
    """

    def __init__(self, stream: torch.cuda.Stream | None = None) -> None:
        self._stream = stream

    def __enter__(self) -> Known:
        self._start, self._end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self._start.record(self._stream)
        return self

    def __exit__(self, *_: object) -> None:
        self._end.record(self._stream)

    @property
    def ms(self) -> float:
        self._end.synchronize()
        elapsed_ms: float = self._start.elapsed_time(self._end)
        return elapsed_ms
