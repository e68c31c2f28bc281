"""One step as reports draw it: what some ranks did in it, and for whom all of them waited."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from timing_logger.analysis.accounting.blocked import NO_RANK
from timing_logger.analysis.accounting.part import map_own_stretches
from timing_logger.analysis.accounting.stretches import WHAT, Stretches
from timing_logger.analysis.analysis import ByProcess
from timing_logger.analysis.columns import COLUMNS_OF
from timing_logger.analysis.stragglers.typical_step import StepOfRanks
from timing_logger.analysis.tables import of_pandas, opened
from timing_logger.engine.cluster import Cluster
from timing_logger.engine.rows import Query
from timing_logger.engine.run import run
from timing_logger.reading.named_ranks import capital, named_ranks
from timing_logger.report._limits import MOST_BARS, at_distances
from timing_logger.report._wording import UNKNOWN, as_tenths

_WAITING = WHAT.index("waiting")
_MOST_NAMED = 6
_NOTICED = 0.02
"""Waiting that is shorter than this part of the step is not told: nobody sees it in a picture."""

_EXPLAINS = 0.5
"""What a rank did for longer than the others is told if that is at least this part of the wait for it."""

_BEGIN = " "  # no operation is called that

_TYPICAL = (0.0, 0.5, 1.0)
"""Of many ranks without a name the picture has the one that waited least, the middle one, and the last."""


class PicturedStep(NamedTuple):
    """One step of a run, to be drawn.

    Attributes:
        step: the step, and when all ranks were blocked in it.
        ranks: those that are drawn.
        stretches: what these did, as ``analysis.account_of_step`` returns it.
    """

    step: StepOfRanks
    ranks: list[int]
    stretches: pd.DataFrame

    @property
    def title(self) -> str:
        """What step it is."""
        step = self.step
        epoch = "" if np.isnan(step.epoch) else f" of epoch {step.epoch:.0f}"
        kind = "A typical slow step" if step.loses_time else "A typical step"
        return f"{kind}: iteration {step.iteration}{epoch}"

    @property
    def length_ms(self) -> float:
        """From the first rank that began the step to the last that left it."""
        return float(self.stretches["end_ms"].max())

    def sentences(self) -> Iterator[str]:
        """Yield who waited for whom in this step, and what that one did meanwhile."""
        waits = waits_in(self.step)
        noticed = waits[waits["ms"] >= _NOTICED * self.length_ms]
        if noticed.empty:
            longest = float(waits["ms"].max()) if len(waits) else 0.0
            yield f"In this step no rank waited more than {_ms([longest])} for another."
            return
        whom = int(noticed.groupby("waited_for")["ms"].sum().idxmax())
        its = noticed[noticed["waited_for"] == whom]
        for_whom = "transfers between others" if whom == NO_RANK else f"rank {whom}"
        each = " each" if len(its) > 1 else ""
        yield f"{_named(its['rank'])} waited {_ms(its['ms'])}{each} for {for_whom}."
        yield from self._meanwhile(whom, float(its["ms"].median()))

    def _meanwhile(self, whom: int, waited_ms: float) -> Iterator[str]:
        """Yield what explains most of the wait: an operation that took longer, or a late begin."""
        begins_ms = self.stretches.groupby("rank")["start_ms"].min()
        if whom == NO_RANK:  # for one that was late to leave the communication of the step before, perhaps
            whom = int(begins_ms.index.to_numpy(np.int64)[begins_ms.to_numpy().argmax()])
        if whom not in self.ranks or len(self.ranks) < 2:
            return
        worked = self.stretches[self.stretches["what"].isin(["own work", "not timed"])]
        ms = (worked["end_ms"] - worked["start_ms"]).groupby([worked["operation"], worked["rank"]]).sum()
        by_rank = ms.unstack("rank", fill_value=0.0).reindex(columns=self.ranks, fill_value=0.0)
        found = pd.concat([by_rank, begins_ms.to_frame().T.set_axis([_BEGIN])])
        beyond = found[whom] - found.drop(columns=whom).median(axis="columns")
        most = str(beyond.idxmax())
        if beyond[most] < _EXPLAINS * waited_ms:
            return
        its, others = _ms([found.loc[most, whom]]), _ms(found.loc[most].drop(whom))
        others = f"the other{'s' if len(self.ranks) > 2 else ''} {others}"
        if most == _BEGIN:
            yield f"Rank {whom} began the step {its} after the first rank, {others}."
        else:
            where = f"in {most}" if most else "in code that no row times"
            yield f"Rank {whom} spent {its} {where}, {others}."

    def on_ranks_left_out(self) -> Iterator[str]:
        """Yield the sentence that says what the ranks did that are not drawn."""
        rest = sorted(set(self.step.ranks).difference(self.ranks))
        if not rest:
            return
        waits = waits_in(self.step)
        ms = waits[waits["rank"].isin(rest)].groupby("rank")["ms"].sum().reindex(rest, fill_value=0.0)
        yield (
            f"Of {len(self.step.ranks):,} ranks {len(self.ranks)} are drawn: those that the verdict names, "
            "and of the others one that waited least, one in the middle, and one that waited most. The other "
            f"{len(rest):,} waited {_ms(ms)} in this step."
        )


def picture_in_table(step: StepOfRanks, named: Sequence[int], timings: pd.DataFrame) -> PicturedStep:
    """Picture a step of a run whose rows are in one table.

    Args:
        step: the step.
        named: the ranks that the verdict names.
        timings: all rows of the run, or of its ranks that may be drawn.
    """
    ranks = ranks_to_draw(step, named)
    its = opened(timings[timings["rank"].isin(ranks)], COLUMNS_OF["account"])
    return PicturedStep(step, ranks, step.table(of_pandas(), [map_own_stretches(its)], ranks))


def picture_in_files(
    step: StepOfRanks, named: Sequence[int], query: Query, cluster: Cluster | None = None
) -> PicturedStep:
    """Picture a step of a run in files, of which those of the ranks that are drawn are read again.

    Args:
        step, named: as for :func:`picture_in_table`.
        query: which rows were asked.
        cluster: who reads; None for this machine's cores.
    """
    ranks = ranks_to_draw(step, named)
    own: list[Stretches] = run(replace(query, ranks=ranks), _OWN, cluster=cluster).answer
    return PicturedStep(step, ranks, step.table(of_pandas(), own, ranks))


def _own(timings: pd.DataFrame) -> Stretches:
    return map_own_stretches(opened(timings, COLUMNS_OF["account"]))


_OWN = ByProcess(COLUMNS_OF["account"], _own, list)


def waits_in(step: StepOfRanks) -> pd.DataFrame:
    """Return how long each rank waited in a step, and for whom: ``rank``, ``waited_for`` and ``ms``.

    For ``NO_RANK`` it waited in transfers between others.
    """
    its = step.blocked.only(step.blocked.what == _WAITING)
    waits = pd.DataFrame({
        "rank": its.rank, "waited_for": its.waited_for, "ms": 1e3 * (its.end_s - its.start_s)
    })  # fmt: skip
    found: pd.DataFrame = waits.groupby(["rank", "waited_for"], as_index=False)["ms"].sum()
    return found


def ranks_to_draw(step: StepOfRanks, named: Sequence[int]) -> list[int]:
    """Return the ranks of a step that are drawn: all of a few, else those that are named, and some others."""
    ranks = step.ranks
    if len(ranks) <= MOST_BARS:
        return ranks
    chosen = [rank for rank in named if rank in set(ranks)][:_MOST_NAMED]
    waits = waits_in(step).groupby("rank")["ms"].sum()
    others = sorted(set(ranks).difference(chosen), key=lambda rank: (waits.get(rank, 0.0), rank))
    return sorted({*chosen, *at_distances(others, len(_TYPICAL))})


def _named(ranks: Iterable[int]) -> str:
    return capital(named_ranks(ranks))


def _ms(values: Iterable[float]) -> str:
    """Return durations as a range, such as ``21.3 to 29.4 ms``."""
    found = sorted(values)
    if not found:
        return UNKNOWN
    least, most = as_tenths(found[0]), as_tenths(found[-1])
    return f"{least} ms" if least == most else f"{least} to {most} ms"
