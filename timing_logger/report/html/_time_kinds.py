"""What a rank did with its time, as the colours of bars: the same in all charts of a page."""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd

from timing_logger.record import escape_text

_SHADES = 3
"""The most names of own work, and ranks that were waited for, that have a shade of their own."""


class TimeKinds(NamedTuple):
    """The colours of bars: names by class, in the order in which a bar has them."""

    names: dict[str, str]
    work: list[str]
    whom: list[int]

    @classmethod
    def of(cls, main: pd.DataFrame) -> TimeKinds:
        """Give those names of own work, and ranks waited for, that take most time a shade each."""
        work = _most(main[main["what"] == "own work"], "operation")
        whom = [int(rank) for rank in _most(main[main["what"] == "waiting"], "waited_for")]
        names = {
            **{f"work-{i}": escape_text(name) for i, name in enumerate(work)},
            "work-rest": "other own work" if work else "own work",
            "not-timed": "not timed",
            "transfer": "transfer",
            **{f"wait-{i}": f"waiting for rank {rank}" for i, rank in enumerate(whom)},
            "wait-rest": "waiting for others" if whom else "waiting",
            "not-matched": "not matched",
        }
        return cls(names, work, whom)

    def of_rows(self, rows: pd.DataFrame) -> list[str]:
        """Return the class of each row of an account, by ``what``, ``operation`` and ``waited_for``."""
        whom = rows["waited_for"].astype("Int64")
        known = [int(rank) if told else None for rank, told in zip(whom.fillna(0), whom.notna(), strict=True)]
        return [self._of(*row) for row in zip(rows["what"], rows["operation"], known, strict=True)]

    def _of(self, what: str, operation: str, waited_for: int | None) -> str:
        if what == "own work":
            return f"work-{self.work.index(operation)}" if operation in self.work else "work-rest"
        if what == "waiting":
            return f"wait-{self.whom.index(waited_for)}" if waited_for in self.whom else "wait-rest"
        return what.replace(" ", "-")


def _most(rows: pd.DataFrame, name: str) -> list[str]:
    ms = rows.groupby(name, observed=True)["ms"].sum().sort_values(ascending=False, kind="stable")
    return list(ms.index[:_SHADES])
