"""What befalls a rank, as the program asks for it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

TOKENS, COMPUTE_MS = 1000.0, 8.0
VICTIM = 1


class Befall:
    """What a rank does besides its usual work.

    Attributes:
        load, compute, between: called in ``DATA``, in ``FORWARD`` and in no row, while it is on.
        switched: called when it begins, with True, and when it ends.
        computes: does the usual work of ``FORWARD`` in place of the program, given its ms.
    """

    def __init__(
        self,
        load: Callable[[], None] | None = None,
        compute: Callable[[], None] | None = None,
        between: Callable[[], None] | None = None,
        switched: Callable[[bool], None] | None = None,
        computes: Callable[[float], None] | None = None,
    ) -> None:
        self.load, self.compute, self.between, self.switched = load, compute, between, switched
        self.computes = computes

    def work(self, step: int, lengths: np.random.Generator) -> float | None:
        """Return the tokens of this rank's batch; None if they are not counted, and always the same."""
        return None

    def exchange(self, step: int) -> None:
        """Communicate, and compute what came."""
