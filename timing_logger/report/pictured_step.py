"""One step as reports draw it: what some ranks did in it, and for whom all of them waited."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

from timing_logger.analysis.accounting.lines import NO_RANK
from timing_logger.reading.named_ranks import capital, named_ranks
from timing_logger.results.plain import ShownStep
from timing_logger.schema.record import escape_text
from timing_logger.words.units import as_tenths, wrapped

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
        yield f"{capital(named_ranks(its['rank']))} waited {_ms(its['ms'])}{each} for {for_whom}."
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


def _ms(values: Iterable[float]) -> str:
    """Return durations as a range, such as ``21.3 to 29.4 ms``."""
    found = sorted(values)
    least, most = as_tenths(found[0]), as_tenths(found[-1])
    return f"{least} ms" if least == most else f"{least} to {most} ms"


# -- one step as text: a line for each rank, in which a letter is what the rank did at that time ---------


_OTHERS = {"not timed": ".", "transfer": "=", "waiting": "/", "not matched": "?"}
_OTHER_WORK = "+"
_MOST_NAMED = 8


def step_text(step: ShownStep, width: int) -> str:
    """Return the picture of a step in ASCII, with what it shows in words.

    Args:
        step: the step.
        width: columns of the terminal.
    """
    picture = PicturedStep(*step)
    letters = _letters(picture.stretches)
    labels = {rank: f"rank {rank}" for rank in picture.ranks}
    room = max(map(len, labels.values()), default=0) + 2
    lines = [
        f"{label:<{room}}{_lane(picture, rank, letters, width - room)}" for rank, label in labels.items()
    ]
    return "\n".join((
        f"{picture.title}, {as_tenths(picture.length_ms)} ms",
        *lines,
        wrapped(", ".join(_legend(picture.stretches, letters)), width),
        *(wrapped(sentence, width) for sentence in (*picture.sentences(), *picture.on_ranks_left_out())),
    ))  # fmt: skip


def _letters(stretches: pd.DataFrame) -> dict[str, str]:
    """Give each operation of own work a letter of its name, those with most time first."""
    work = stretches[stretches["what"] == "own work"]
    ms = (work["end_ms"] - work["start_ms"]).groupby(work["operation"]).sum()
    found: dict[str, str] = {}
    for name in ms.sort_values(ascending=False, kind="stable").index[:_MOST_NAMED]:
        free = (letter for letter in str(name) if letter.isalnum() and letter.isascii())
        found[name] = next((letter for letter in free if letter not in found.values()), _OTHER_WORK)
    return found


def _lane(picture: PicturedStep, rank: int, letters: Mapping[str, str], width: int) -> str:
    its = picture.stretches[picture.stretches["rank"] == rank]
    lane = [" "] * width
    for one in its.itertuples(index=False):
        first, last = (round(width * at / picture.length_ms) for at in (one.start_ms, one.end_ms))
        letter = letters.get(one.operation, _OTHER_WORK) if one.what == "own work" else _OTHERS[one.what]
        lane[first:last] = letter * (last - first)
        if one.what == "waiting" and pd.notna(one.waited_for):
            _write(
                lane, first, last, f" {as_tenths(one.end_ms - one.start_ms)} ms for rank {one.waited_for} "
            )
    return "".join(lane).rstrip()


def _write(lane: list[str], first: int, last: int, text: str) -> None:
    """Write a text into the middle of a stretch, if it has room for it."""
    free = last - first - len(text)
    if free >= 2:
        begin = first + free // 2
        lane[begin : begin + len(text)] = text


def _legend(stretches: pd.DataFrame, letters: Mapping[str, str]) -> Iterator[str]:
    yield from (f"{letter} {escape_text(name)}" for name, letter in letters.items() if letter != _OTHER_WORK)
    occur: Sequence[str] = stretches["what"].unique().tolist()
    if len(set(stretches.loc[stretches["what"] == "own work", "operation"]) - {*letters}) or (
        _OTHER_WORK in letters.values()
    ):
        yield f"{_OTHER_WORK} other own work"
    yield from (f"{letter} {what}" for what, letter in _OTHERS.items() if what in occur)
