"""Of many ranks those that a page shows by name: the worst, and in the timeline some to compare them with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd

from timing_logger.analysis.accounting.account import waiting_by_rank
from timing_logger.analysis.rows.arrays import Floats, Ints
from timing_logger.analysis.rows.files import hosts_of
from timing_logger.analysis.verdict.case import Judgement
from timing_logger.analysis.verdict.overview import Summary
from timing_logger.report._limits import FEW_PROCESSES, HOST_MATES, MOST_LINES, REFERENCES, at_distances
from timing_logger.report.html._tables import FIRST, Shown
from timing_logger.results.verdict import Verdict


class OwnTimes(NamedTuple):
    """What each rank spent on its own account in each step, and in which steps it was slow.

    The arrays are those of the judgement and no copies; the rest of the judgement can be freed.

    Attributes:
        ranks: the rank of each column.
        iterations: the iteration of each step.
        epochs: the epoch of each step; NaN where iterations do not restart.
        ms: steps x ranks; NaN where unknown.
        from_gaps: whether it is the time between communication, and not that of the rows of own work.
        slow: positions of the slow steps of each rank that the verdict names or suspects.
    """

    ranks: list[int]
    iterations: Ints
    epochs: Floats
    ms: Floats
    from_gaps: bool
    slow: Mapping[int, Ints]

    @classmethod
    def of(cls, judgement: Judgement) -> OwnTimes:
        times = judgement.case.times
        return cls(
            times.ranks, times.numbering.iterations(times.iterations),
            times.numbering.epochs_of(times.iterations), times.self_ms, times.from_gaps, judgement.slow,
        )  # fmt: skip


OF_CHOSEN = "timing-logger report --ranks LIST makes a page of the ranks that you choose"
"""How to see ranks of many that a page leaves out."""


class InTimeline(NamedTuple):
    """The ranks that the timeline of many shows, in its order.

    Attributes:
        named: those that the verdict names, or that the end of the run is explained by.
        mates: others on their hosts.
        references: of all others some, from the slowest to the quickest.
    """

    named: tuple[int, ...]
    mates: tuple[int, ...]
    references: tuple[int, ...]

    @property
    def ranks(self) -> tuple[int, ...]:
        return (*self.named, *self.mates, *self.references)

    def role_of(self) -> dict[int, str]:
        """Return for each rank why it is shown, in the order in which the ranks are."""
        return {
            rank: role
            for role, ranks in zip(("named", "mate", "reference"), self, strict=True)
            for rank in ranks
        }


class Crowd(NamedTuple):
    """The ranks of a run, and which of them the page shows by name.

    Attributes:
        n_processes: the number of processes, which is that of ranks unless one was started again.
        worst_first: all ranks: those that are named, then those for which others waited longest, then those
            that took longest themselves.
        n_named: how many of these are named by the verdict, or explain how the run ended.
        hosts: the host of each rank; "" where it is not known.
    """

    n_processes: int
    worst_first: tuple[int, ...]
    n_named: int
    hosts: Mapping[int, str]

    @classmethod
    def of(cls, summary: Summary, verdict: Verdict, own: OwnTimes) -> Crowd:
        """Return the ranks of a run by its summary, its verdict, and the times that this compared."""
        ranks = np.unique(summary.ranks["rank"].to_numpy(np.int64))
        named = [rank for rank in _named(verdict) if rank in set(ranks.tolist())]
        order = np.lexsort((ranks, -_own_ms(ranks, own), -_waited_for_ms(ranks, summary.account)))
        others = [rank for rank in ranks[order].tolist() if rank not in set(named)]
        return cls(len(summary.ranks), (*named, *others), len(named), hosts_of(summary.files))

    @property
    def is_many(self) -> bool:
        """Whether the page shows only some of the processes by name."""
        return self.n_processes > FEW_PROCESSES

    @property
    def named(self) -> tuple[int, ...]:
        """The ranks that the verdict names, or that explain how the run ended."""
        return self.worst_first[: self.n_named]

    def shown(self, which: str, command: str) -> Shown:
        """Return which rows of a table are shown, that has a row for each rank, or several.

        Args:
            which: of many ranks what the first rows are, after "these are the 20".
            command: what has all of them.
        """
        return Shown(MOST_LINES, which, f"timing-logger {command}") if self.is_many else FIRST

    def place(self) -> dict[int, int]:
        """Return the place of each rank among all, the worst first."""
        return {rank: place for place, rank in enumerate(self.worst_first)}

    def in_timeline(self) -> InTimeline | None:
        """Return the ranks that the timeline shows; None for all."""
        if not self.is_many:
            return None
        named, mates = self.named[:MOST_LINES], self._mates()
        taken = {*named, *mates}
        rest = [rank for rank in self.worst_first if rank not in taken]
        return InTimeline(named, tuple(mates[:HOST_MATES]), tuple(at_distances(rest, REFERENCES)))

    def on_timeline(self) -> str:
        """Return the sentences that say which ranks the timeline shows; "" if it shows all."""
        shown = self.in_timeline()
        if shown is None:
            return ""
        n_mates = len(self._mates())
        others = " others" if self.named else ""
        parts = [
            f"{_some_of(len(shown.named), self.n_named)} that the verdict or the end of the run names",
            f"{_some_of(len(shown.mates), n_mates)} on the same hosts",
            f"{len(shown.references)} of all{others}, from the slowest to the quickest",
        ]
        n_of = self.n_named, n_mates, len(shown.references)
        told = [part for part, n_ranks in zip(parts, n_of, strict=True) if n_ranks]
        return (
            f"Of {len(self.worst_first):,} ranks {len(shown.ranks)} are shown: {'; '.join(told)}. "
            f"{OF_CHOSEN}, and timing-logger trace shows all."
        )

    def _mates(self) -> list[int]:
        """Return the ranks on the hosts of the named ones that the timeline shows."""
        named = set(self.named)
        theirs = {self.hosts.get(rank, "") for rank in self.named[:MOST_LINES]} - {""}
        return sorted(
            rank for rank in self.worst_first if rank not in named and self.hosts.get(rank, "") in theirs
        )


def _some_of(n_shown: int, n_ranks: int) -> str:
    return str(n_shown) if n_shown == n_ranks else f"{n_shown} of {n_ranks:,}"


def _named(verdict: Verdict) -> Iterable[int]:
    end = verdict.end
    explain = (*end.culprits, *end.circle, *end.gone) if end.warning else ()
    return dict.fromkeys([*verdict.ranks_to_look_at, *explain])


def _waited_for_ms(ranks: Ints, account: pd.DataFrame) -> Floats:
    """Return for how long all others waited for each rank."""
    waiting = waiting_by_rank(account)
    by_whom = waiting.dropna(subset="waited_for").groupby("waited_for")["ms"].sum()
    found: Floats = by_whom.reindex(ranks, fill_value=0.0).to_numpy(np.float64)
    return found


def _own_ms(ranks: Ints, own: OwnTimes) -> Floats:
    """Return what each rank spent on its own account in a step, on average; -1, the least, if unknown."""
    found = np.full(len(ranks), -1.0)
    known = ~np.isnan(own.ms)
    counts = known.sum(axis=0)
    means = np.where(known, own.ms, 0.0).sum(axis=0) / np.maximum(counts, 1)
    at = np.searchsorted(ranks, own.ranks)
    found[at[counts > 0]] = means[counts > 0]
    return found
