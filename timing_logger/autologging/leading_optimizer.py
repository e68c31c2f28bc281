"""Which of a program's optimizers counts its iterations."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch.optim import Optimizer

_A_TRAINING = 2
"""Steps of one optimizer after which a new one is no second one of the same iteration."""


class LeadingOptimizer:
    """Follows the optimizer whose steps end iterations: the one that steps, whatever others are still there.

    Several optimizers may step in each iteration, such as those of two networks: the first one leads. The
    lead passes on when another one steps twice while the leading one does not, and when one takes its first
    step of all after a training of at least :data:`_A_TRAINING` steps: a program that trains twice, or a
    learning-rate finder.
    """

    def __init__(self) -> None:
        self._leading: weakref.ref[Optimizer] | None = None
        self._n_led = 0
        self._known: weakref.WeakSet[Optimizer] = weakref.WeakSet()
        self._stepped_since: weakref.WeakSet[Optimizer] = weakref.WeakSet()

    def ends_iteration(self, optimizer: Optimizer) -> bool:
        """Note a step of ``optimizer``, and return whether an iteration ends with it."""
        leading = None if self._leading is None else self._leading()
        if leading is not None and leading is not optimizer and not self._takes_the_lead(optimizer):
            self._known.add(optimizer)
            self._stepped_since.add(optimizer)
            return False
        if leading is not optimizer:
            self._leading, self._n_led = weakref.ref(optimizer), 0
        self._n_led += 1
        self._known.add(optimizer)
        self._stepped_since.clear()
        return True

    def _takes_the_lead(self, optimizer: Optimizer) -> bool:
        is_new = optimizer not in self._known
        return optimizer in self._stepped_since or (is_new and self._n_led >= _A_TRAINING)
