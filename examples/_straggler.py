"""A rank that is late on purpose: what the timing files are to bring to light."""

from __future__ import annotations

import argparse
import math
import re
import time
from typing import NamedTuple


class Straggler(NamedTuple):
    """Sleeps ``delay_ms`` on one rank, in the iterations ``first`` to ``last``, both included."""

    rank: int
    delay_ms: float
    first: int = 0
    last: float = math.inf

    @classmethod
    def parse(cls, text: str) -> Straggler:
        """``RANK:MS`` or ``RANK:MS:FIRST-LAST``, a type for argparse.

        Raises:
            argparse.ArgumentTypeError: the text is neither, or FIRST comes after LAST.
        """
        match = re.fullmatch(r"(\d{1,9}):(\d{1,9}(?:\.\d+)?)(?::(\d{1,9})-(\d{1,9}))?", text, re.ASCII)
        if match is None:
            raise argparse.ArgumentTypeError(f"{text!r} is neither RANK:MS nor RANK:MS:FIRST-LAST")
        rank, delay_ms, first, last = match.groups()
        if first is None:
            return cls(int(rank), float(delay_ms))
        if int(first) > int(last):
            raise argparse.ArgumentTypeError(f"{text!r} has no iterations: FIRST comes after LAST")
        return cls(int(rank), float(delay_ms), int(first), int(last))

    def delays(self, rank: int, iteration: int) -> bool:
        return rank == self.rank and self.first <= iteration <= self.last

    def hold_up(self, rank: int, iteration: int) -> None:
        """Sleep, if it is this rank's turn."""
        if self.delays(rank, iteration):
            time.sleep(self.delay_ms / 1000)
