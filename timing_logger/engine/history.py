"""A folder that keeps the summaries of the newest runs, to compare the next ones with."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from timing_logger.analysis.comparison.run_summary import RunSummary
from timing_logger.engine.run_summaries import SUFFIX, read_summary, summary_text
from timing_logger.errors import LogPathError, RunSummaryError
from timing_logger.reading.atomic_files import draft_of


class History(NamedTuple):
    """What a folder keeps.

    Attributes:
        runs: the summaries, the oldest first.
        unusable: the names of files that hold none, with what is wrong.
    """

    runs: list[RunSummary]
    unusable: list[str]


def read_history(folder: Path) -> History:
    """Read the summaries in a folder; one that is not there yet holds none.

    Raises:
        LogPathError: it is no folder, or cannot be read.
    """
    kept: list[tuple[str, RunSummary]] = []
    unusable: list[str] = []
    for path in _files(folder):
        try:
            kept.append((path.name, read_summary(path)))
        except (RunSummaryError, OSError) as error:
            unusable.append(str(error))
    return History([summary for _, summary in sorted(kept, key=lambda one: one[0])], unusable)


def add_to_history(folder: Path, runs: Sequence[RunSummary], keep: int, *, anew: bool = False) -> int:
    """Add runs to a folder as one batch, each in a file that appears whole; the oldest beyond ``keep`` go.

    Several processes may add at once: names tell the time to the nanosecond, and the process.

    Args:
        folder: made if it is not there.
        runs: the summaries.
        keep: how many are kept, at least one.
        anew: whether those that were there before go, all of them.

    Returns:
        How many are kept now.

    Raises:
        LogPathError: the folder cannot be made, or written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LogPathError(f"history: {str(folder)!r} cannot be made: {error.strerror}.") from error
    before = _files(folder)
    batch = f"{time.time_ns():020d}-{os.getpid()}"
    for place, summary in enumerate(runs):
        with draft_of(folder / f"{batch}-{place:04d}{SUFFIX}") as draft:
            draft.write_text(summary_text(summary.in_batch(batch)), encoding="utf-8")
    kept = _files(folder)
    gone = before if anew else kept[: max(0, len(kept) - max(1, keep))]
    for path in gone:
        with suppress(FileNotFoundError):  # another process made room at the same time
            path.unlink()
    return len(kept) - len(gone)


def _files(folder: Path) -> list[Path]:
    """Return the files of summaries, the oldest first; only what this module named."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise LogPathError(f"history: {str(folder)!r} cannot be read: {error.strerror}.") from error
    return [folder / name for name in sorted(names) if name.endswith(SUFFIX) and not name.startswith(".")]
