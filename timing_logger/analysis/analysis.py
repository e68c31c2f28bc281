"""Define analyses in parts, so that they work on one table and on any number of files alike."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from timing_logger.analysis.columns import COLUMNS_OF_COLLECTIVES

if TYPE_CHECKING:
    import pandas as pd

PartT = TypeVar("PartT")
AnswerT = TypeVar("AnswerT")


def _no_other(operation: str) -> bool:
    return False


@dataclass(frozen=True)
class Analysis(Generic[PartT, AnswerT]):
    """An analysis in two steps: parts of the rows are mapped, and the results reduced to one answer.

    The answer from any division of the rows is that from all rows, to the last bit.

    Attributes:
        columns: the columns of timings that are needed, beside ``rank`` and ``incarnation``.
        map: returns what is needed of some rows: those of whole processes, or of whole collectives. It can be
            pickled.
        reduce: returns the answer from all parts, which come by rank and incarnation, or in the order of
            collectives. It may empty them, so that nothing is held twice.
        unit: what may not be divided: ``map`` is given all rows of a process, or of a collective.
        others: for the unit "collective", tells of an operation whether its rows are needed beside those of
            collectives and of the waits for them; each such row is in one part, but in no particular one.

    Raises:
        ValueError: an analysis of collectives does not name all columns by which these are put in order.
    """

    columns: Collection[str]
    map: Callable[[pd.DataFrame], PartT]
    reduce: Callable[[Sequence[PartT]], AnswerT]
    unit: Literal["process", "collective"] = "process"
    others: Callable[[str], bool] = _no_other

    def __post_init__(self) -> None:
        lacking = set(COLUMNS_OF_COLLECTIVES) - set(self.columns)
        if self.unit == "collective" and lacking:
            raise ValueError(
                f"columns: {', '.join(sorted(lacking))} lacking, by which collectives are put in order. "
                "Add columns.COLUMNS_OF_COLLECTIVES."
            )

    def of(self, timings: pd.DataFrame) -> AnswerT:
        """Return the answer from all rows at once."""
        return self.reduce([self.map(timings)])


def answers_from(analyses: Iterable[Analysis[Any, Any]], parts: Iterable[Sequence[Any]]) -> list[Any]:
    """Return the answer of each analysis.

    Args:
        analyses: the analyses.
        parts: for each part of the rows what each analysis mapped it to.
    """
    of_each = zip(*parts, strict=True)
    return [one.reduce(list(its_parts)) for one, its_parts in zip(analyses, of_each, strict=True)]
