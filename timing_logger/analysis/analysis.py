"""How a question to timings is stated, so that it can be asked of one table and of any number of files."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Generic, Literal, NamedTuple, TypeVar

if TYPE_CHECKING:
    import pandas as pd

PartT = TypeVar("PartT")
AnswerT = TypeVar("AnswerT")


def _no_other(operation: str) -> bool:
    return False


class Analysis(NamedTuple, Generic[PartT, AnswerT]):
    """A question in two steps. The answer from any division of the rows is that of all rows, to the last bit.

    Attributes:
        columns: the columns of timings that it looks at, beside ``rank`` and ``incarnation``.
        map: what is needed of some rows: those of whole processes, or of whole collectives. Can be pickled.
        reduce: the answer from all parts, by rank and incarnation or in the order of collectives.
        unit: what may not be divided, and whose rows ``map`` is given.
        others: of a question to collectives, the operations that it looks at beside collectives and the waits
            for them; all of these are in some part, in no particular one.
    """

    columns: Collection[str]
    map: Callable[[pd.DataFrame], PartT]
    reduce: Callable[[Sequence[PartT]], AnswerT]
    unit: Literal["process", "collective"] = "process"
    others: Callable[[str], bool] = _no_other

    def of(self, timings: pd.DataFrame) -> AnswerT:
        """The answer from all rows at once."""
        return self.reduce([self.map(timings)])
