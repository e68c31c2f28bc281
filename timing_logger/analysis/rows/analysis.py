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
