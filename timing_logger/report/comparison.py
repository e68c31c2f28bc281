"""The text report of a comparison: the verdict first, what explains it, and the differences by their size."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd

from timing_logger.report._limits import on_left_out
from timing_logger.report._text_tables import Column, table_text
from timing_logger.report.json import strict_json
from timing_logger.results.comparison import Comparison, Difference
from timing_logger.schema.record import escape_text
from timing_logger.words.comparison import (
    DIVIDED,
    cause_sentences,
    is_sure,
    of_what,
    signed,
    verdict_of_comparison,
    what_differs,
    what_is_compared,
)
from timing_logger.words.units import as_hundredths, as_word, count, page, paragraph, size

_MOST = 12
"""The most differences that are shown: what is smaller than the twelfth explains little."""

_LEAST_SHARE = 0.001
"""Of a step: what differs by less is left out."""

_COLUMNS = (
    Column("what", "what", as_word), Column("of", "of", as_word), Column("ms", "ms", as_hundredths),
    Column("against_ms", "against", as_hundredths), Column("change_ms", "change ms"),
    Column("between", "between"), Column("bytes", "bytes"), Column("sure", "sure"),
)  # fmt: skip


def comparison_text(found: Comparison, width: int, *, everything: bool = False) -> str:
    """Return the report on a comparison.

    Args:
        found: what ``compare_runs`` returns.
        width: columns of the terminal.
        everything: whether to show all differences, however many.
    """
    least_ms = _LEAST_SHARE * found.step.against_ms
    telling = [one for one in found.differences if everything or abs(one.shift.estimate) >= least_ms]
    shown = telling if everything else telling[:_MOST]
    rows = pd.DataFrame([_row(one) for one in shown])
    table = table_text(rows, _COLUMNS, width) if shown else "Nothing else differs."
    return page(
        *paragraph(width, *what_is_compared(found)),
        *paragraph(width, verdict_of_comparison(found), *cause_sentences(found)),
        table,
        *paragraph(width, *on_left_out(len(telling), len(shown), "differences", "that are largest")),
        *(paragraph(width, _note(shown)) if shown else ()),
    )


_NOTE_WITHOUT = (
    "Of an average step of an average rank, in ms. Rows may lie in each other, so that differences do not "
    "add up."
)
_NOTE = (
    f"{_NOTE_WITHOUT} Between: where the difference lies, 99% sure. Sure: beyond chance, as one of "
    "all that were compared."
)


def _note(shown: Sequence[Difference]) -> str:
    note = _NOTE if any(math.isfinite(one.shift.low) for one in shown) else _NOTE_WITHOUT
    return f"{note} {DIVIDED}" if any(one.does == "divided" for one in shown) else note


def _row(one: Difference) -> dict[str, object]:
    shift = one.shift
    between = f"{signed(shift.low)} {signed(shift.high)}" if math.isfinite(shift.low) else ""
    return {
        "what": what_differs(one), "of": of_what(one), "ms": one.ms, "against_ms": one.against_ms,
        "change_ms": signed(shift.estimate), "between": between, "bytes": _bytes(one),
        "sure": "yes" if is_sure(one) else "",
    }  # fmt: skip


def _bytes(one: Difference) -> str:
    """Return the bytes of both sides where they differ."""
    if one.bytes is None or one.against_bytes is None or one.bytes == one.against_bytes:
        return ""
    return f"{size(one.bytes)} / {size(one.against_bytes)}"


# -- what became of the history that runs were compared with, in words -----------------------------------


def history_text(folder: str, n_runs: int, kept: int, *, adds: bool, is_slower: bool) -> str:
    """Return what became of a history: whether the runs were added, and how many it keeps."""
    where = escape_text(folder)
    if adds:
        return f"\n{count(n_runs, 'run')} added to {where}, which keeps {kept:,} now.\n"
    if is_slower:
        return (
            f"\nNot added to {where}, as later runs would be compared with these. If they are meant to be "
            "slower, --accept begins the history anew with them.\n"
        )
    return f"\nNot added to {where} (--no-add), which keeps {kept:,}.\n"


def history_begun_text(folder: str, n_runs: int, *, as_json: bool, adds: bool) -> str:
    """Return that there is nothing to compare with, as the history is empty: as text, or one JSON object."""
    became = f"{count(n_runs, 'run')} added." if adds else "Nothing was added (--no-add)."
    text = f"{escape_text(folder)} keeps no runs yet: nothing is compared. {became}"
    return strict_json({"verdict": None, "text": [text]}) + "\n" if as_json else f"{text}\n"
