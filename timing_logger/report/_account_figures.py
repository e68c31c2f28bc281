"""The figures of an account as every report shows them: by rank, and for whom ranks waited."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from timing_logger.analysis.accounting.account import PARTS, summarize_account, waiting_by_rank

NOT_TIMED = "not timed"
"""In place of an operation: what a rank did while no row covered it."""

VISIBLE = 5e-6
"""The least part of a rank's time that is shown; less is what floats lose."""

ALL = "all"
"""In place of a rank: the sum over all of them."""


class AccountFigures(NamedTuple):
    """The figures of an account.

    Attributes:
        ranks: as ``analysis.summarize_account`` returns, with a column of text for each part, by its name:
            the percentage of the wall time.
        waiting: as ``analysis.waiting_by_rank`` returns.
        other_threads: the number of threads that have an account beside the one that tells of their rank.
    """

    ranks: pd.DataFrame
    waiting: pd.DataFrame
    other_threads: int

    @classmethod
    def of(cls, account: pd.DataFrame) -> AccountFigures:
        """Return the figures of what ``analysis.account`` returned."""
        others = account.loc[~account["is_main"].astype(bool), ["rank", "incarnation", "thread"]]
        ranks = with_percents(summarize_account(account))
        return cls(ranks, waiting_by_rank(account), len(others.drop_duplicates()))

    def in_all(self) -> pd.DataFrame:
        """Return the sum over all ranks, as a row of ``ranks``."""
        figures = ["wall_ms", *PARTS.values()]
        return with_percents(self.ranks[figures].sum().to_frame().T)

    def worst_first(self) -> pd.DataFrame:
        """Return ``ranks``, those for which others waited longest first, then those that waited longest.

        A rank that holds up all others waits least of all: by its own waiting it would be the last.
        """
        whom = self.by_whom().dropna(subset="waited_for").set_index("waited_for")["ms"]
        waited_for_ms = self.ranks["rank"].map(whom.to_dict()).fillna(0.0)
        order = np.lexsort((-self.ranks[PARTS["waiting"]].to_numpy(), -waited_for_ms.to_numpy()))
        found: pd.DataFrame = self.ranks.iloc[order]
        return found

    def by_whom(self) -> pd.DataFrame:
        """Sum all waiting by the rank that was waited for, most first.

        Its columns are ``waited_for`` (NA for transfers between others), ``ms``, ``share`` of all waiting and
        ``waiting``, the number of ranks that waited.
        """
        grouped = self.waiting.groupby("waited_for", dropna=False, as_index=False)
        found: pd.DataFrame = grouped.agg(
            ms=("ms", "sum"), share=("share", "sum"), waiting=("rank", "nunique")
        )
        found = found.sort_values("ms", ascending=False, kind="stable", ignore_index=True)
        return found


def operations_and_not_timed(operations: pd.DataFrame, account: pd.DataFrame) -> pd.DataFrame:
    """Return the operations of a summary, and among them, by its time, what no row covers.

    Args:
        operations: ``Summary.operations``; ``account``: ``Summary.account``.
    """
    untimed = account[account["is_main"].astype(bool) & (account["what"] == NOT_TIMED)]
    if not untimed["share"].max() > VISIBLE:
        return operations
    columns = ["rank", "incarnation", "count"]
    rows = untimed[columns].assign(
        operation=NOT_TIMED, total_ms=untimed["ms"], wall_share=untimed["share"], bytes=np.nan
    )
    found = pd.concat([operations, rows.sort_values(columns[:2])], ignore_index=True)
    total_ms = found.groupby("operation")["total_ms"].transform("sum")
    most_first: pd.DataFrame = found.iloc[np.argsort(-total_ms.to_numpy(), kind="stable")]
    return most_first


def with_percents(ranks: pd.DataFrame) -> pd.DataFrame:
    """Return what ``summarize_account`` returned with each part in percent, as text."""
    rows = [percents(row) for row in ranks[list(PARTS.values())].itertuples(index=False)]
    columns = zip(*rows, strict=True) if rows else [()] * len(PARTS)
    found: pd.DataFrame = ranks.assign(
        **{what: list(column) for what, column in zip(PARTS, columns, strict=True)}
    )
    return found


# -- parts of a whole in percent, rounded so that they add up --------------------------------------------


_IN_PERCENT = 1000
"""Tenths of a percent in a whole."""


def percents(parts: Sequence[float]) -> list[str]:
    """Return each part as a percentage of their sum, with one decimal; together they are 100.0%.

    Each is rounded down, and what then lacks goes to those that lost most. So each is off by less than 0.1.
    """
    whole = math.fsum(parts)
    if not whole > 0:
        return ["-" for _ in parts]
    exact = [_IN_PERCENT * part / whole for part in parts]
    tenths = [math.floor(value) for value in exact]
    most_lost = sorted(range(len(parts)), key=lambda i: tenths[i] - exact[i])
    for i in most_lost[: _IN_PERCENT - sum(tenths)]:
        tenths[i] += 1
    return [f"{value // 10}.{value % 10}%" for value in tenths]
