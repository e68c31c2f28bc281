"""Summarize the runs in folders, and read summaries that were kept: what comparing needs, one run at a
time."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from timing_logger.analysis.comparison.summarize_run import RUN_SUMMARY
from timing_logger.engine.rows import Query
from timing_logger.engine.run import run
from timing_logger.engine.workers import Cluster
from timing_logger.errors import LogPathError, RunSummaryError
from timing_logger.process.shared_files import (
    UntrustedFileError,
    content_of_small,
    make_folder,
    names_in,
    remove,
    write,
)
from timing_logger.reading.atomic_files import draft_of
from timing_logger.reading.runs_in_folders import FoundRun, runs_in
from timing_logger.reading.sources import LARGE_FOR_COMMANDS_BYTES
from timing_logger.reading.timings import timing_files
from timing_logger.results.run_summary import RunSummary, summary_from

SUFFIX = ".run.json"
"""How the name of a file ends that holds the summary of a run."""

_MOST_BYTES = 2**20  # a summary has some ten thousand


class SummarizedRun(NamedTuple):
    """The summary of a run, and where it comes from."""

    summary: RunSummary
    place: str


def summaries_of(
    paths: Iterable[Path],
    *,
    engine: str = "auto",
    cluster: Cluster | None = None,
    warn: Callable[[str], None] = lambda _: None,
) -> list[SummarizedRun]:
    """Return the summary of each run in these folders, and of each summary that is named as a file.

    Only what a run is summarized to is kept, so that there may be any number of them.

    Args:
        paths: folders with timing files, folders of such folders, or files that end in ``.run.json``.
        engine: what reads timing files, as for ``timing_files``.
        cluster: who reads them; None for this machine.
        warn: is told which world of spawned ranks a run is of, if there are several.

    Raises:
        RunSummaryError: a file holds no summary.
        TimingLoggerError: a folder cannot be read, as of ``read_timings``; or no step of a run has a length.
    """
    found: list[SummarizedRun] = []
    for path in paths:
        if path.name.endswith(SUFFIX):
            found.append(SummarizedRun(read_summary(path), str(path)))
        else:
            found += [_summarized(one, engine, cluster, warn) for one in runs_in(path)]
    return found


def _summarized(
    found: FoundRun, engine: str, cluster: Cluster | None, warn: Callable[[str], None]
) -> SummarizedRun:
    files = timing_files(
        [found.folder], incarnations=found.number, engine=engine, columns=RUN_SUMMARY.columns,
        large_bytes=LARGE_FOR_COMMANDS_BYTES,
    )  # fmt: skip
    if files.about and found.of == 1:  # else it says which of the runs this is, and all are compared
        warn(files.about)
    return SummarizedRun(run(Query(files), RUN_SUMMARY, cluster=cluster).answer, str(found))


def read_summary(path: Path) -> RunSummary:
    """Read the file of a summary, which anybody may have written; neither waits for a FIFO nor reads on and
    on.

    Raises:
        RunSummaryError: it is no regular file, too large, no JSON, or no summary.
        OSError: it cannot be read.
    """
    try:
        return summary_from(json.loads(content_of_small(path, _MOST_BYTES)))
    except UntrustedFileError:
        raise RunSummaryError(f"{str(path)!r}: it is no regular file of at most 1 MiB. Remove it.") from None
    except (ValueError, RecursionError) as error:
        raise RunSummaryError(f"{str(path)!r} holds no summary of a run: {error}. Remove it.") from None


def summary_text(summary: RunSummary) -> str:
    """Return a summary as the text of its file."""
    return json.dumps(summary.as_dict(), indent=1, allow_nan=False) + "\n"


# -- a folder that keeps the summaries of the newest runs, to compare the next ones with -----------------


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
        make_folder(folder)
    except OSError as error:
        raise LogPathError(f"history: {str(folder)!r} cannot be made: {error.strerror}.") from error
    before = _files(folder)
    batch = f"{time.time_ns():020d}-{os.getpid()}"
    for place, summary in enumerate(runs):
        with draft_of(folder / f"{batch}-{place:04d}{SUFFIX}") as draft:
            write(draft, summary_text(replace(summary, batch=batch)).encode())
    kept = _files(folder)
    gone = before if anew else kept[: max(0, len(kept) - max(1, keep))]
    for path in gone:
        remove(path)  # if no other process made room at the same time
    return len(kept) - len(gone)


def _files(folder: Path) -> list[Path]:
    """Return the files of summaries, the oldest first; only what this module named."""
    try:
        names = names_in(folder)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise LogPathError(f"history: {str(folder)!r} cannot be read: {error.strerror}.") from error
    return [folder / name for name in sorted(names) if name.endswith(SUFFIX) and not name.startswith(".")]
