"""What each command of the command line does: read, select, ask one question, and say the answer."""

from __future__ import annotations

import argparse
import contextlib
import shutil
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import pandas as pd

    from timing_logger._questions import Asked, Told
    from timing_logger._workers import Cluster
    from timing_logger.analysis import Summary
    from timing_logger.reading import TimingFiles

_MIN_WIDTH, _USUAL_WIDTH, _MAX_WIDTH = 60, 100, 140

BAD_NEWS = 1
"""The exit code of a verdict that ``--fail-on`` names."""


HANG, UNFINISHED = "hang", "unfinished"
"""What ``--fail-on`` calls a run that hung, and one whose files were not closed though nothing hangs."""

UNJUDGED = "unjudged"
"""What ``--fail-on`` calls a run of which nobody could be judged."""


class Answer(NamedTuple):
    """What is printed, and the exit code."""

    text: str
    exit_code: int = 0


Command = Callable[[argparse.Namespace], Answer]


def summary(arguments: argparse.Namespace) -> Answer:
    from timing_logger.report import summary_json, summary_text

    if arguments.by:
        return _totals(arguments)
    found, how = _overview(arguments)
    return Answer(summary_json(found) if arguments.json else summary_text(found, _width()) + how)


def _totals(arguments: argparse.Namespace) -> Answer:
    from timing_logger._questions import totals
    from timing_logger.report import rows_json, totals_text

    with _asked(arguments, "summarize") as asked:
        told = asked.of_processes(totals(arguments.by))
    if arguments.json:
        return Answer(rows_json(operations=told.answer))
    return Answer(totals_text(told.answer, arguments.by, _width()) + _how(told))


def bandwidth(arguments: argparse.Namespace) -> Answer:
    from timing_logger._questions import BANDWIDTH
    from timing_logger.report import bandwidth_text, rows_json

    with _asked(arguments, "bandwidth") as asked:
        told = asked.of_collectives(BANDWIDTH)
    found, _ = told.answer
    if arguments.json:
        return Answer(rows_json(bandwidth=found))
    return Answer(bandwidth_text(found, _width()) + _mixture(asked) + _how(told))


def stragglers(arguments: argparse.Namespace) -> Answer:
    from timing_logger._questions import STRAGGLERS
    from timing_logger.report import stragglers_text, verdict_json

    with _asked(arguments, "stragglers") as asked:
        told = asked.of_processes(STRAGGLERS)
    verdict, slow = told.answer
    said = {verdict.verdict if verdict.judged else UNJUDGED, *({HANG} if verdict.end.hangs else ())}
    exit_code = BAD_NEWS if said & {*arguments.fail_on} else 0
    if arguments.json:
        return Answer(verdict_json(verdict, slow), exit_code)
    return Answer(stragglers_text(verdict, slow, _width()) + _how(told), exit_code)


def hang(arguments: argparse.Namespace) -> Answer:
    """Asked now, of files that may still be written."""
    from timing_logger._questions import hang_asked_at
    from timing_logger.report import hang_json, hang_text

    with _asked(arguments, "hang") as asked:
        told = asked.of_processes(hang_asked_at(time.time()))
    end = told.answer
    exit_code = BAD_NEWS if end.state in arguments.fail_on else 0
    if arguments.json:
        return Answer(hang_json(end), exit_code)
    return Answer(hang_text(end, _width()) + _how(told), exit_code)


def overlap(arguments: argparse.Namespace) -> Answer:
    from timing_logger._questions import OVERLAP_AND_EFFICIENCIES
    from timing_logger.analysis import summarize_overlap
    from timing_logger.report import overlap_text, rows_json

    with _asked(arguments, "overlap") as asked:
        told = asked.of_processes(OVERLAP_AND_EFFICIENCIES)
    steps, whole = told.answer
    found = steps if arguments.by == "iteration" else summarize_overlap(steps)
    if arguments.json:
        return Answer(rows_json(overlap=found, efficiencies=whole))
    return Answer(overlap_text(found, whole, _width()) + _mixture(asked) + _how(told))


def waits(arguments: argparse.Namespace) -> Answer:
    from timing_logger._questions import WAITS
    from timing_logger.report import rows_json, waits_text

    with _asked(arguments, "waits") as asked:
        told = asked.of_collectives(WAITS)
    (totals, states, flawed), messages = told.answer
    if arguments.json:
        return Answer(rows_json(waits=totals, messages=messages, flawed_collectives=flawed))
    return Answer(waits_text(totals, messages, states, _width()) + _on_files(asked) + _how(told))


def compression(arguments: argparse.Namespace) -> Answer:
    from timing_logger._questions import BANDWIDTH, Asked, compression
    from timing_logger.report import compression_text, rows_json

    with _asked(arguments, "compression") as asked:
        dense = None
        if arguments.dense:
            found = _files([arguments.dense], "latest", arguments, "bandwidth")
            dense, _ = Asked(found, workers=asked.workers).of_collectives(BANDWIDTH).answer
        told = asked.of_collectives(compression(dense))
    table, _ = told.answer
    if arguments.json:
        return Answer(rows_json(compression=table))
    return Answer(compression_text(table, _width()) + _how(told))


def report(arguments: argparse.Namespace) -> Answer:
    from timing_logger.report.html._findings import FINDINGS, Findings
    from timing_logger.report.html.page import write_findings

    with _asked(arguments, None) as asked:
        told = asked.of_collectives(FINDINGS)
    write_findings(Findings.joined(*told.answer), arguments.output)
    said = f"{arguments.output}: {_size_of(arguments.output)}. It opens in a browser, also offline.\n"
    return Answer(said + _how(told))


def trace(arguments: argparse.Namespace) -> Answer:
    from timing_logger.report import clocks_text, write_trace

    timings = _read(arguments)
    with _progress("writing the trace") as progress:
        counts = write_trace(timings, arguments.output, progress=progress)
    return Answer(
        f"{arguments.output}: {counts.spans} spans and {counts.flows} flows of {counts.processes} processes, "
        f"{_size_of(arguments.output)}. Open it at ui.perfetto.dev, which keeps it in the browser.\n"
        + clocks_text(timings.attrs["files"], _width())
    )


def convert(arguments: argparse.Namespace) -> Answer:
    from timing_logger.converting import convert

    with _without_warnings(), _progress("converting") as progress:
        converted = convert(arguments.logdir, arguments.to, arguments.output, progress=progress)
    files = "1 file" if len(converted.files) == 1 else f"{len(converted.files)} files"
    per_row = converted.bytes / converted.rows if converted.rows else 0.0
    return Answer(f"{arguments.output}: {converted.rows} rows in {files}, {per_row:.1f} bytes a row.\n")


def watch(arguments: argparse.Namespace) -> Answer:
    """Draws again and again until it is interrupted; where nothing can be redrawn, one look after another."""
    from timing_logger.errors import NoTimingFilesError
    from timing_logger.report import look_text
    from timing_logger.watching import Watcher

    watcher = Watcher(Path(arguments.logdir), arguments.window)
    text = look_text(watcher.look(), _width())
    if arguments.once:
        return Answer(text)
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    try:
        with Live(Text(text), console=console, auto_refresh=False, transient=True) as live:
            live.refresh()
            while True:
                if not console.is_terminal:
                    print(text, flush=True)
                time.sleep(arguments.interval)
                # Before the next run, a folder may be emptied for it.
                with contextlib.suppress(NoTimingFilesError, FileNotFoundError):
                    text = look_text(watcher.look(), _width())
                live.update(Text(text), refresh=True)
    except KeyboardInterrupt:
        return Answer(text if console.is_terminal else "")


def _read(arguments: argparse.Namespace, analysis: str | None = None) -> pd.DataFrame:
    """The rows that the options choose, with the columns that the analysis looks at; None for all."""
    from timing_logger._file_by_file import rows_of_files

    found = _chosen(arguments, analysis)
    return rows_of_files(found, ranks=arguments.ranks, iterations=arguments.iterations)


@contextlib.contextmanager
def _asked(arguments: argparse.Namespace, analysis: str | None) -> Iterator[Asked]:
    """What the options choose of the files, with the columns that the analysis looks at (None for all)."""
    from timing_logger._questions import Asked

    found = _chosen(arguments, analysis)
    with _cluster(arguments) as workers:
        yield Asked(found, arguments.ranks, arguments.iterations, workers)


@contextlib.contextmanager
def _cluster(arguments: argparse.Namespace) -> Iterator[Cluster | None]:
    """The cluster that the options name, if they do."""
    from timing_logger._workers import cluster

    if arguments.scheduler is None and arguments.engine != "dask":
        yield None
    else:
        with cluster(arguments.scheduler) as workers:
            yield workers


def _overview(arguments: argparse.Namespace) -> tuple[Summary, str]:
    """Of large files one by one, so that they need not fit into memory together; and how, in words."""
    from timing_logger._file_by_file import overview_of_files
    from timing_logger._freed_memory import keep_freed_memory
    from timing_logger._questions import Told
    from timing_logger.analysis import overview

    with _asked(arguments, "overview") as asked:
        if asked.engine == "pandas":
            return overview(asked.rows()), ""
        address = asked.workers.address if asked.workers else None
        keep_freed_memory()
        found = overview_of_files(
            asked.found, ranks=asked.ranks, iterations=asked.iterations, scheduler=address
        )
        return found, _how(Told(found, asked.engine, by_file=True))


def _mixture(asked: Asked) -> str:
    """What warns of files of different runs, as far as their sidecars tell: rows need not be read again."""
    from timing_logger._file_by_file import chosen_files
    from timing_logger.analysis._mixed_runs import different_runs
    from timing_logger.report import different_runs_text

    sources = [source for source, _ in chosen_files(asked.found, asked.ranks)]
    said = different_runs_text(different_runs([source.stated() for source in sources]), _width())
    return f"\n{said}" if said else ""


def _on_files(asked: Asked) -> str:
    """What warns of comparing instants of these files."""
    from timing_logger._file_by_file import chosen_files
    from timing_logger.reading import known_unread
    from timing_logger.report import clocks_text

    said = clocks_text(known_unread(chosen_files(asked.found, asked.ranks)), _width())
    return _mixture(asked) + (f"\n{said}" if said else "")


def _how(told: Told) -> str:
    from timing_logger.report import reading_text

    said = reading_text(told.engine, _width(), by_file=told.by_file, n_blocks=told.n_blocks)
    return f"\n{said}" if said else ""


def _chosen(arguments: argparse.Namespace, analysis: str | None) -> TimingFiles:
    """The files that the options name, of which some have rows that the options choose."""
    from timing_logger._file_by_file import chosen_files, require_iterations

    found = _files(arguments.logdir, arguments.run, arguments, analysis)
    files = chosen_files(found, arguments.ranks)
    if arguments.iterations is not None:
        require_iterations(files, arguments.iterations)
    return found


def _files(paths: Any, incarnations: Any, arguments: argparse.Namespace, analysis: str | None) -> TimingFiles:
    from timing_logger.analysis import COLUMNS_OF
    from timing_logger.reading import timing_files

    columns = None if analysis is None else COLUMNS_OF[analysis]
    read_by = "auto" if arguments.engine == "dask" else arguments.engine  # for each worker to read with
    return timing_files(paths, incarnations=incarnations, engine=read_by, columns=columns)


@contextlib.contextmanager
def _without_warnings() -> Iterator[None]:
    """The summary says what they warn of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


@contextlib.contextmanager
def _progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """Yields what is to be told of done and all; a bar on stderr where that is a terminal."""
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, whole: bar.update(task, completed=done, total=whole)


def _size_of(path: str) -> str:
    from timing_logger.report import size

    return size(Path(path).stat().st_size)


def _width() -> int:
    columns = shutil.get_terminal_size((_USUAL_WIDTH, 24)).columns
    return min(max(columns, _MIN_WIDTH), _MAX_WIDTH)
