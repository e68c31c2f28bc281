"""One step as reports draw it: what some ranks did in it, and for whom all of them waited."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pandas as pd

from timing_logger.analysis.accounting.blocked import NO_RANK
from timing_logger.analysis.stragglers.shown_step import ShownStep
from timing_logger.reading.named_ranks import capital, named_ranks
from timing_logger.report._wording import UNKNOWN, as_tenths

_NOTICED = 0.02
"""Waiting that is shorter than this part of the step is not told: nobody sees it in a picture."""

_EXPLAINS = 0.5
"""What a rank did for longer than the others is told if that is at least this part of the wait for it."""

_OF_OTHERS = 3
"""How many ranks are drawn of those that are not named, where not all are drawn."""

_BEGIN = " "  # no operation is called that


class PicturedStep(ShownStep):
    """One step of a run, and what its picture says."""

    @property
    def title(self) -> str:
        """What step it is."""
        epoch = "" if np.isnan(self.epoch) else f" of epoch {self.epoch:.0f}"
        kind = "A typical slow step" if self.loses_time else "A typical step"
        return f"{kind}: iteration {self.iteration}{epoch}"

    @property
    def length_ms(self) -> float:
        """From the first rank that began the step to the last that left it."""
        return float(self.stretches["end_ms"].max())

    def sentences(self) -> Iterator[str]:
        """Yield who waited for whom in this step, and what that one did meanwhile."""
        noticed = self.waits[self.waits["ms"] >= _NOTICED * self.length_ms]
        if noticed.empty:
            longest = float(self.waits["ms"].max()) if len(self.waits) else 0.0
            at_most = "" if as_tenths(longest) == "0.0" else f"more than {_ms([longest])} "
            yield f"In this step no rank waited {at_most}for another."
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
        n_left_out = self.n_ranks - len(self.ranks)
        if not n_left_out:
            return
        ms = self.waits[~self.waits["rank"].isin(self.ranks)].groupby("rank")["ms"].sum().tolist()
        ms += [0.0] * (len(ms) < n_left_out)
        named = "those that the verdict names, and of the others " * (len(self.ranks) > _OF_OTHERS)
        yield (
            f"Of {self.n_ranks:,} ranks {len(self.ranks)} are drawn: {named}one that waited least, one in "
            f"the middle, and one that waited most. The other {n_left_out:,} waited {_ms(ms)} in this step."
        )


def _named(ranks: Iterable[int]) -> str:
    return capital(named_ranks(ranks))


def _ms(values: Iterable[float]) -> str:
    """Return durations as a range, such as ``21.3 to 29.4 ms``."""
    found = sorted(values)
    if not found:
        return UNKNOWN
    least, most = as_tenths(found[0]), as_tenths(found[-1])
    return f"{least} ms" if least == most else f"{least} to {most} ms"
