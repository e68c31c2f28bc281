"""One step as text: a line for each rank, in which a letter is what the rank did at that time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pandas as pd

from timing_logger.analysis.stragglers.shown_step import ShownStep
from timing_logger.record import escape_text
from timing_logger.report._text_tables import wrapped
from timing_logger.report._wording import as_tenths
from timing_logger.report.pictured_step import PicturedStep

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
        wrapped(_legend(picture.stretches, letters), width),
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


def _legend(stretches: pd.DataFrame, letters: Mapping[str, str]) -> str:
    return ", ".join(_told(stretches, letters))


def _told(stretches: pd.DataFrame, letters: Mapping[str, str]) -> Iterator[str]:
    yield from (f"{letter} {escape_text(name)}" for name, letter in letters.items() if letter != _OTHER_WORK)
    occur: Sequence[str] = stretches["what"].unique().tolist()
    if len(set(stretches.loc[stretches["what"] == "own work", "operation"]) - {*letters}) or (
        _OTHER_WORK in letters.values()
    ):
        yield f"{_OTHER_WORK} other own work"
    yield from (f"{letter} {what}" for what, letter in _OTHERS.items() if what in occur)
