"""Summarize the runs in folders, and read summaries that were kept: what comparing needs, one run at a
time."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from timing_logger.analysis.comparison.run_summary import RunSummary, summary_from
from timing_logger.analysis.comparison.summarize_run import RUN_SUMMARY
from timing_logger.engine.cluster import Cluster
from timing_logger.engine.rows import Query
from timing_logger.engine.run import run
from timing_logger.errors import RunSummaryError
from timing_logger.reading.runs_in_folders import FoundRun, runs_in
from timing_logger.reading.sources import LARGE_FOR_COMMANDS_BYTES
from timing_logger.reading.timings import timing_files

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
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        about = os.fstat(file.fileno())
        if not stat.S_ISREG(about.st_mode) or about.st_size > _MOST_BYTES:
            raise RunSummaryError(f"{str(path)!r}: it is no regular file of at most 1 MiB. Remove it.")
        content = file.read(_MOST_BYTES)
    try:
        return summary_from(json.loads(content))
    except (ValueError, RecursionError) as error:
        raise RunSummaryError(f"{str(path)!r} holds no summary of a run: {error}. Remove it.") from None


def summary_text(summary: RunSummary) -> str:
    """Return a summary as the text of its file."""
    return json.dumps(summary.as_dict(), indent=1, allow_nan=False) + "\n"
