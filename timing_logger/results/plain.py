"""Small parts of results: plain values for JSON, the step that is shown, ranges of steps, operation names."""

from __future__ import annotations

import math
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import pandas as pd


def plain_fields(result: Any) -> dict[str, object]:
    """Return the fields of a dataclass that count where two are compared, by name, as plain values for JSON.

    Dataclasses and named tuples within become dicts, other tuples lists, keys text; a float that is not
    finite is None.
    """
    return {one.name: _plain(getattr(result, one.name)) for one in fields(result) if one.compare}


def _plain(value: Any) -> object:
    if is_dataclass(value):
        return plain_fields(value)
    if hasattr(value, "_asdict"):
        return _plain(value._asdict())
    if isinstance(value, dict):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return value


# -- one step of a run, as much of it as is shown: instant by instant of some ranks, and who waited for whom


class ShownStep(NamedTuple):
    """One step of a run.

    Attributes:
        iteration, epoch: of the step; the epoch is NaN where iterations do not restart.
        loses_time: whether it was chosen for the time that is lost in it.
        n_ranks: the number of ranks that took it.
        ranks: those that are shown, ascending.
        stretches: what these did, as :func:`timing_logger.analysis.account_of_step` returns it.
        waits: how long each rank of the step waited, and for whom: ``rank``, ``waited_for`` (-1 in transfers
            between others) and ``ms``.
    """

    iteration: int
    epoch: float
    loses_time: bool
    n_ranks: int
    ranks: list[int]
    stretches: pd.DataFrame
    waits: pd.DataFrame


# -- a range of steps, by their iterations and epochs ----------------------------------------------------


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


# -- names of operations that results state, and that words tell apart -----------------------------------


UNLOGGED = "UNLOGGED"
"""Named in place of an operation: the time for which a rank has no row, of work or of communication."""

ONE_SIDED = frozenset({
    "WIN_LOCK", "WIN_UNLOCK", "WIN_LOCK_ALL", "WIN_UNLOCK_ALL", "WIN_FLUSH", "WIN_FLUSH_ALL",
    "WIN_FLUSH_LOCAL", "WIN_FLUSH_LOCAL_ALL", "WIN_POST", "WIN_START", "WIN_COMPLETE", "WIN_WAIT",
})  # fmt: skip
"""Calls on a window in which a rank may wait for some others, but not all of the group take part."""

SET_UP = frozenset({"INIT_PROCESS_GROUP", "NEW_GROUP", "MPI_INIT"})
"""Calls by which the ranks of a job find each other, before there is a group in which they communicate."""
