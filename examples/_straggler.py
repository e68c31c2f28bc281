"""A rank that is delayed on purpose, to be found in the timing files."""

from __future__ import annotations

import argparse
import math
import re
import time
from typing import NamedTuple


class Straggler(NamedTuple):
    """A delay of ``delay_ms`` milliseconds on one rank, in the iterations ``first`` to ``last`` inclusive."""

    rank: int
    delay_ms: float
    first: int = 0
    last: float = math.inf

    @classmethod
    def parse(cls, text: str) -> Straggler:
        """Parse ``RANK:MS`` or ``RANK:MS:FIRST-LAST``; a type for argparse.

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
        """Tell whether ``rank`` is delayed in ``iteration``."""
        return rank == self.rank and self.first <= iteration <= self.last

    def hold_up(self, rank: int, iteration: int) -> None:
        """Sleep, if ``rank`` is delayed in ``iteration``."""
        if self.delays(rank, iteration):
            time.sleep(self.delay_ms / 1000)
