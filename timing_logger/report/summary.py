"""The text report of a folder: plain ASCII of a given width, the same in a terminal and in a file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
import pandas as pd

from timing_logger.analysis.rows.operations import BACKEND, WAIT, base_operation
from timing_logger.report._account_figures import NOT_TIMED, AccountFigures, operations_and_not_timed
from timing_logger.report._diagnostics import HEADS_OF_FILE, cells_of_file, diagnostics, is_complete
from timing_logger.report._limits import MOST_LINES, MOST_SETS, ends_and_middle, on_left_out
from timing_logger.report._text_tables import WHOSE, Column, bar, drawn, new_table, table_text
from timing_logger.report.account import most_waited_for, on_ranks_left_out, on_the_unmatched, part_columns
from timing_logger.report.pictured_step import step_text
from timing_logger.schema.record import escape_text
from timing_logger.words.units import (
    as_hundredths,
    count,
    fixed,
    page,
    paragraph,
    percent,
    seconds,
    size,
    wrapped,
)

if TYPE_CHECKING:
    from rich.table import Table

    from timing_logger.analysis.rows.arrays import Record
    from timing_logger.analysis.rows.files import File, FileCounters
    from timing_logger.analysis.verdict.overview import Summary
    from timing_logger.results.plain import ShownStep


def summary_text(
    summary: Summary,
    width: int = 100,
    *,
    step: ShownStep | None = None,
    code: Iterable[str] = (),
    everything: bool = False,
) -> str:
    """Return the report of a folder: operations, ranks, files; then what is remarkable or missing.

    Args:
        summary: what ``analysis.overview`` returns.
        width: columns of the terminal; from 80 on, only long names are folded.
        step: a typical step; None if there is none to draw.
        code: sentences on the code that ran while no row told of it.
        everything: whether to show all operations, ranks and files, instead of the longest operations, the
            worst of many ranks, and the files that are not complete.
    """
    figures = AccountFigures.of(summary.account)
    operations = _records(operations_and_not_timed(summary.operations, summary.account))
    by_operation = [list(rows) for _, rows in groupby(operations, key=lambda row: row["operation"])]
    named = [rows for rows in by_operation if rows[0]["operation"] != NOT_TIMED]
    left_out = [] if everything else named[MOST_SETS:]
    shown = [rows for rows in by_operation if rows not in left_out]
    return page(
        wrapped(_heading(summary), width),
        wrapped(summary.end.warning, width) if summary.end.warning else "",
        step_text(step, width) if step else "",
        drawn(_operations_table(shown, 8 if width < 100 else 16, everything), width),
        _on_operations_left_out(left_out),
        *(wrapped(line, width) for line in _on_operations(summary, figures, everything)),
        _ranks_table(summary, figures, width, everything),
        *(wrapped(line, width) for line in code),
        _files(summary, width, everything),
        *paragraph(width, *diagnostics(summary, everything=everything)),
    )


def _heading(summary: Summary) -> str:
    folders = {str(Path(file["path"]).parent) for file in summary.files}
    folder = folders.pop() if len(folders) == 1 else os.path.commonpath(map(os.path.abspath, folders))
    n_ranks = len({file["rank"] for file in summary.files})
    n_rows = sum(file["rows"] for file in summary.files)
    return f"{escape_text(folder)}: {count(n_rows, 'row')} of {count(n_ranks, 'rank')}"


# -- tables ------------------------------------------------------------------------------------


def _operations_table(by_operation: Sequence[Sequence[Record]], bar_width: int, everything: bool) -> Table:
    """Draw the ranks of each operation next to each other, so that one that differs is visible."""
    several = len({row["incarnation"] for rows in by_operation for row in rows}) > 1
    whose = WHOSE if several else WHOSE[:1]
    heads = ["count", "bytes", "p50 ms", "p99 ms", "total ms", "", "% wall"]
    table = new_table("operation", *(column.head for column in whose), *heads)
    table.columns[-2].justify = "left"
    for rows in by_operation:
        name = escape_text(rows[0]["operation"])
        group = rows if everything else ends_and_middle(rows, "total_ms")
        most_ms = max(row["total_ms"] for row in group)
        for i, row in enumerate(group):
            table.add_row(
                name if i == 0 else "", *(str(row[column.name]) for column in whose), str(row["count"]),
                size(row["bytes"]), fixed(row["p50_ms"], 3), fixed(row["p99_ms"], 3),
                fixed(row["total_ms"], 1), bar(row["total_ms"], most_ms, bar_width),
                percent(row["wall_share"]),
            )  # fmt: skip
        table.add_section()
    return table


_COUNTED = Column("rows", "rows"), Column("iterations", "iterations")
_WALL = Column("wall_s", "wall s", as_hundredths)


def _ranks_table(summary: Summary, figures: AccountFigures, width: int, everything: bool) -> str:
    ranks = summary.ranks.merge(figures.ranks, on=["rank", "incarnation"], how="left")
    is_cut = len(ranks) > MOST_LINES and not everything
    shown = _worst_first(ranks, figures).head(MOST_LINES) if is_cut else ranks
    if ranks.empty:
        return ""
    table = table_text(shown, [*WHOSE, *_COUNTED, _WALL, *part_columns(figures)], width)
    return "\n\n".join([table, *paragraph(width, *(on_ranks_left_out(len(ranks)) if is_cut else ()))])


def _worst_first(ranks: pd.DataFrame, figures: AccountFigures) -> pd.DataFrame:
    """Return the ranks, those without an account first: what they did is not known."""
    worst = figures.worst_first()
    place = {key: at for at, key in enumerate(zip(worst["rank"], worst["incarnation"], strict=True))}
    at = [place.get(key, -1) for key in zip(ranks["rank"], ranks["incarnation"], strict=True)]
    found: pd.DataFrame = ranks.iloc[np.argsort(at, kind="stable")]
    return found


def _files(summary: Summary, width: int, everything: bool) -> str:
    """Draw the table of the files that are not complete, or of all, and their counters."""
    files = list(zip(summary.files, summary.counters, strict=True))
    chosen = [(file, counters) for file, counters in files if everything or not is_complete(counters)]
    if chosen:
        n_shown = len(chosen) if everything else min(len(chosen), MOST_LINES)
        note = on_left_out(len(chosen), n_shown, "files that are not complete", "that come first")
        table = drawn(_files_table(chosen[:n_shown]), width)
        return "\n\n".join([table, *(wrapped(line, width) for line in note)])
    return f"{count(len(files), 'file')}: closed, every record written." if files else ""


def _files_table(files: Sequence[tuple[File, FileCounters]]) -> Table:
    table = new_table(*HEADS_OF_FILE)
    for file, counters in files:
        table.add_row(*cells_of_file(file, counters))
    return table


def _records(table: pd.DataFrame) -> list[Record]:
    return cast("list[Record]", table.to_dict("records"))


# -- sentences -----------------------------------------------------------------------------------


def _on_operations(summary: Summary, figures: AccountFigures, everything: bool) -> Iterable[str]:
    if not everything:
        yield from _on_many_ranks(len(summary.ranks))
    yield from _on_rows_beside_others(summary)
    yield from most_waited_for(figures)
    yield from on_the_unmatched(figures)


def _on_operations_left_out(by_operation: Sequence[Sequence[Record]]) -> str:
    if not by_operation:
        return ""
    most_ms = max(row["total_ms"] for rows in by_operation for row in rows)
    left_out = count(len(by_operation), "operation")
    return f"{left_out} more, with {seconds(most_ms)} or less on a rank: --all shows them."


def _on_many_ranks(n_processes: int) -> Iterable[str]:
    """Yield the sentence that explains which rows such tables show, if ``n_processes`` is large."""
    if n_processes > MOST_LINES:
        yield (
            f"Of {n_processes:,} ranks each operation shows the two that spent least in it, the middle one, "
            "and the two that spent most; the others are left out. --all shows all, --ranks LIST those that "
            "you name."
        )


_BESIDE_OTHERS = {
    WAIT: "time blocked on an operation that has rows of its own. The two overlap, so the parts of a rank's "
    "wall time in this table may add up to more than 100%; in the next one they are 100%.",
    BACKEND: "what the backend (NCCL) itself measured of a collective that has a row of its own. It is no "
    "communication beside that one, and counts in no other figure.",
}


def _on_rows_beside_others(summary: Summary) -> Iterable[str]:
    names = {base_operation(row["operation"]) for row in _records(summary.operations)}
    yield from (f"{name}: {about}" for name, about in _BESIDE_OTHERS.items() if name in names)
