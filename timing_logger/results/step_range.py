"""A range of steps, by their iterations and epochs."""

from __future__ import annotations

from typing import NamedTuple


class StepRange(NamedTuple):
    """The first and last step of a range; the epochs are None where iterations do not restart."""

    first_iteration: int
    last_iteration: int
    first_epoch: int | None = None
    last_epoch: int | None = None

    def in_words(self) -> str:
        """Return the range in words, as ``iterations 40 to 60``, with the epochs where there are any."""
        first, last = self.first_iteration, self.last_iteration
        if self.first_epoch is None:
            return f"iterations {first} to {last}" if first != last else f"iteration {first}"
        if self.first_epoch == self.last_epoch:
            return f"iterations {first} to {last} of epoch {self.first_epoch}"
        return f"iteration {first} of epoch {self.first_epoch} to iteration {last} of epoch {self.last_epoch}"
