"""Define analyses so that they work on one table and on any number of files alike."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

import pandas as pd

PartT = TypeVar("PartT")
AnswerT = TypeVar("AnswerT")


@dataclass(frozen=True)
class ByProcess(Generic[PartT, AnswerT]):
    """An analysis in two steps: parts of the rows are mapped, and the results reduced to one answer.

    The answer from any division of the processes is that from all rows, to the last bit.

    Attributes:
        columns: the columns of timings that are needed, beside ``rank`` and ``incarnation``.
        map: returns what is needed of all rows of some processes. It can be pickled.
        reduce: returns the answer from all parts, which come by rank and incarnation. It may empty them, so
            that nothing is held twice.
        row_bytes: the memory that the answer takes for each row of communication; 0 if it does not grow with
            these.
    """

    columns: Collection[str]
    map: Callable[[pd.DataFrame], PartT]
    reduce: Callable[[Sequence[PartT]], AnswerT]
    row_bytes: int = 0

    def of(self, timings: pd.DataFrame) -> AnswerT:
        """Return the answer from all rows at once."""
        return self.reduce([self.map(timings)])


def _no_other(operation: str) -> bool:
    return False


@dataclass(frozen=True)
class OfCommunication(Generic[AnswerT]):
    """An analysis that compares ranks: it is given the rows of communication of all of them at once.

    Attributes:
        columns: the columns of timings that are needed, beside ``rank`` and ``incarnation``.
        of: returns the answer from a table with all rows of collectives, and of waits for them; that of
            small files has all other rows, too.
        others: tells of any other operation whether its rows are needed, too. It can be pickled.
        row_bytes: the memory that the answer takes for each of these rows.
    """

    columns: Collection[str]
    of: Callable[[pd.DataFrame], AnswerT]
    others: Callable[[str], bool] = _no_other
    row_bytes: int = 500


Analysis: TypeAlias = ByProcess[Any, AnswerT] | OfCommunication[AnswerT]
"""An analysis of either kind."""


def answers_from(analyses: Iterable[ByProcess[Any, Any]], parts: Iterable[Sequence[Any]]) -> list[Any]:
    """Return the answer of each analysis.

    Args:
        analyses: the analyses.
        parts: for each part of the rows what each analysis mapped it to.
    """
    of_each = zip(*parts, strict=True)
    return [one.reduce(list(its_parts)) for one, its_parts in zip(analyses, of_each, strict=True)]


# -- list the columns of the files that each analysis needs: no others have to be read for it ------------


_WHEN = ("start_counter", "end_counter")
_STEP = ("iteration", "epoch", "thread", "clock", "stream")  # the others tell when iterations restart
_WAITED_FOR = ("group", "group_size", "seq", "peer")  # tell which operation a ``WAIT`` is for
_NAMES = ("layer_name", "phase")
_ON_ONE_AXIS = ("start_s", "end_s", "clock_uncertainty_s")
COLUMNS_OF_COLLECTIVES = (
    *_STEP, "operation", "message_size_bytes", "elapsed_ms", *_WHEN, *_WAITED_FOR, "status",
)  # fmt: skip
"""The columns by which collectives are matched."""

COLUMNS_OF: dict[str, tuple[str, ...]] = {
    "overview": (*COLUMNS_OF_COLLECTIVES, "layer_name", *_ON_ONE_AXIS),
    "summarize": (
        "iteration", "epoch", "layer_name", "operation", "phase", "message_size_bytes", "elapsed_ms", *_WHEN,
        "group", "thread",
    ),
    "match_collectives": (*COLUMNS_OF_COLLECTIVES, *_NAMES, *_ON_ONE_AXIS),
    "waits": (*COLUMNS_OF_COLLECTIVES, *_NAMES, *_ON_ONE_AXIS),
    "bandwidth": COLUMNS_OF_COLLECTIVES,
    "compression": (*COLUMNS_OF_COLLECTIVES, *_NAMES),
    "overlap": (*_STEP, "operation", "elapsed_ms", *_WHEN, *_WAITED_FOR),
    "efficiencies": (*_STEP, "operation", "elapsed_ms", *_WHEN, *_WAITED_FOR),
    "account": (*COLUMNS_OF_COLLECTIVES, *_ON_ONE_AXIS),
    "stragglers": (*COLUMNS_OF_COLLECTIVES, "layer_name", "work", *_ON_ONE_AXIS),
    "hang": (*COLUMNS_OF_COLLECTIVES, "layer_name"),
    "summarize_run": (*COLUMNS_OF_COLLECTIVES, *_NAMES, "work", *_ON_ONE_AXIS),
}  # fmt: skip
"""The columns that each analysis needs, by the name of the analysis.

``rank`` and ``incarnation`` are always there. ``windows`` and ``scores`` need those of ``stragglers``."""

RUN_OF_RANK, EPOCH_OF_STEP = "run_of_rank", "epoch_of_step"
MEANING_OF_EPOCHS, PROCESS_RESTARTS = "meaning_of_epochs", "process_restarts"
"""Columns of the rows of communication (``OfCommunication``), for what these alone would not tell.

They are the number of the run that each row's process was of; the epoch of its step, counted where none is
recorded; what epochs are for in the run; and whether iterations restart in the row's process."""

ROW_OF_PROCESS = "row_of_process"
"""A column of these, where an analysis wants it: the position of the row among those of its process."""

EARLIER_IN_STEP = "earlier_in_step"
"""A column of the last rows of a process (``last_rows``), for collectives without a number.

It is the number of such collectives that the process had begun before in the same group and step; not all of
them are among those rows."""
