"""The commands of the command line: each reads files, selects rows, runs analyses, and formats the answer."""

from __future__ import annotations

import argparse
import contextlib
import shutil
import sys
import time
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from timing_logger.analysis.analysis import Analysis
    from timing_logger.analysis.files import File
    from timing_logger.engine.rows import Query
    from timing_logger.engine.run import Result
    from timing_logger.engine.workers import Cluster
    from timing_logger.reading.runs_of_job import Incarnations
    from timing_logger.reading.timings import TimingFiles

_MIN_WIDTH, _USUAL_WIDTH, _MAX_WIDTH = 60, 100, 140

BAD_NEWS = 1
"""The exit code for a verdict that ``--fail-on`` names."""


HANG, UNFINISHED = "hang", "unfinished"
"""The names in ``--fail-on`` for a run that hung, and for one that was not closed though nothing hangs."""

UNJUDGED = "unjudged"
"""The name in ``--fail-on`` for a run in which no rank could be judged."""


class Answer(NamedTuple):
    """The text to print, and the exit code."""

    text: str
    exit_code: int = 0


Command = Callable[[argparse.Namespace], Answer]


def summary(arguments: argparse.Namespace) -> Answer:
    """Report operations, ranks, files and counters; with ``--by`` only totals by any key."""
    from timing_logger.analysis.ranks.overview import OVERVIEW
    from timing_logger.report import summary_json, summary_text

    if arguments.by:
        return _totals(arguments)
    asked = _ask(arguments, OVERVIEW)
    if arguments.json:
        return Answer(summary_json(asked.answer))
    return Answer(summary_text(asked.answer, _width()) + asked.how)


def _totals(arguments: argparse.Namespace) -> Answer:
    from timing_logger.analysis.ranks.summarize import totals_by
    from timing_logger.report import rows_json, totals_text

    asked = _ask(arguments, totals_by(arguments.by))
    if arguments.json:
        return Answer(rows_json(operations=asked.answer))
    return Answer(totals_text(asked.answer, arguments.by, _width()) + asked.how)


def bandwidth(arguments: argparse.Namespace) -> Answer:
    """Report algorithm and bus bandwidth by operation, group and size."""
    from timing_logger.analysis.collectives.bandwidth import BANDWIDTH
    from timing_logger.report import bandwidth_text, rows_json

    asked = _ask(arguments, BANDWIDTH)
    if arguments.json:
        return Answer(rows_json(bandwidth=asked.answer))
    return Answer(bandwidth_text(asked.answer, _width()) + asked.mixture + asked.how)


def stragglers(arguments: argparse.Namespace) -> Answer:
    """Report which rank is slow, in which phase, since when and at what cost."""
    from timing_logger.analysis.stragglers.windows import STRAGGLERS
    from timing_logger.report import stragglers_text, verdict_json

    asked = _ask(arguments, STRAGGLERS)
    verdict, slow = asked.answer
    said = {verdict.verdict if verdict.judged else UNJUDGED, *({HANG} if verdict.end.hangs else ())}
    exit_code = BAD_NEWS if said & {*arguments.fail_on} else 0
    if arguments.json:
        return Answer(verdict_json(verdict, slow), exit_code)
    return Answer(stragglers_text(verdict, slow, _width()) + asked.how, exit_code)


def hang(arguments: argparse.Namespace) -> Answer:
    """Report how the run ended, as of now: its files may still be written."""
    from timing_logger.analysis.hangs.diagnosis import hang_asked_at
    from timing_logger.report import hang_json, hang_text

    asked = _ask(arguments, hang_asked_at(time.time()))
    end = asked.answer
    exit_code = BAD_NEWS if end.state in arguments.fail_on else 0
    if arguments.json:
        return Answer(hang_json(end), exit_code)
    return Answer(hang_text(end, _width()) + asked.how, exit_code)


def overlap(arguments: argparse.Namespace) -> Answer:
    """Report how much communication was exposed, and how much hidden behind own work."""
    from timing_logger.analysis import summarize_overlap
    from timing_logger.analysis.ranks.overlap import EFFICIENCIES, OVERLAP
    from timing_logger.report import overlap_text, rows_json

    asked = _ask(arguments, OVERLAP, EFFICIENCIES)
    steps, whole = asked.result.answers
    found = steps if arguments.by == "iteration" else summarize_overlap(steps)
    if arguments.json:
        return Answer(rows_json(overlap=found, efficiencies=whole))
    return Answer(overlap_text(found, whole, _width()) + asked.mixture + asked.how)


def waits(arguments: argparse.Namespace) -> Answer:
    """Report which ranks waited for which, in collectives and messages."""
    from timing_logger.analysis.collectives.messages import MESSAGES
    from timing_logger.analysis.collectives.waits_summary import WAITS
    from timing_logger.report import rows_json, waits_text

    asked = _ask(arguments, WAITS, MESSAGES)
    (totals, states, flawed), messages = asked.result.answers
    if arguments.json:
        return Answer(rows_json(waits=totals, messages=messages, flawed_collectives=flawed))
    said = waits_text(totals, messages, states, _width())
    return Answer(said + asked.mixture + asked.clocks + asked.how)


def compression(arguments: argparse.Namespace) -> Answer:
    """Report for each compressed layer whether compression pays."""
    from timing_logger.analysis.collectives.bandwidth import BANDWIDTH
    from timing_logger.analysis.collectives.compression import compression_against
    from timing_logger.engine.rows import Query
    from timing_logger.engine.run import run
    from timing_logger.report import compression_text, rows_json

    dense = None
    if arguments.dense:
        found = _files([arguments.dense], "latest", arguments, BANDWIDTH.columns)
        with _cluster(arguments) as workers:
            dense = run(Query(found), BANDWIDTH, cluster=workers).answer
    asked = _ask(arguments, compression_against(dense))
    if arguments.json:
        return Answer(rows_json(compression=asked.answer))
    return Answer(compression_text(asked.answer, _width()) + asked.how)


def report(arguments: argparse.Namespace) -> Answer:
    """Write the HTML report."""
    from timing_logger.report.html._findings import FINDINGS, Findings
    from timing_logger.report.html.page import write_findings

    asked = _ask(arguments, *FINDINGS)
    write_findings(Findings.joined(*asked.result.answers), arguments.output)
    said = f"{arguments.output}: {_size_of(arguments.output)}. It opens in a browser, also offline.\n"
    return Answer(said + asked.how)


def trace(arguments: argparse.Namespace) -> Answer:
    """Write the trace for Perfetto."""
    from timing_logger.analysis.files import unread_files
    from timing_logger.report import clocks_text
    from timing_logger.report.trace import write_trace_of_files

    query = _query(arguments, None)
    with _progress("writing the trace") as progress:
        counts = write_trace_of_files(query, arguments.output, progress=progress)
    return Answer(
        f"{arguments.output}: {counts.spans} spans and {counts.flows} flows of {counts.processes} processes, "
        f"{_size_of(arguments.output)}. Open it at ui.perfetto.dev, which keeps it in the browser.\n"
        + clocks_text(unread_files(query.files), _width())
    )


def convert(arguments: argparse.Namespace) -> Answer:
    """Convert the timing files to Parquet, CSV or JSON lines."""
    from timing_logger.reading.converting import convert

    with _without_warnings(), _progress("converting") as progress:
        converted = convert(arguments.logdir, arguments.to, arguments.output, progress=progress)
    files = "1 file" if len(converted.files) == 1 else f"{len(converted.files)} files"
    per_row = converted.bytes / converted.rows if converted.rows else 0.0
    return Answer(f"{arguments.output}: {converted.rows} rows in {files}, {per_row:.1f} bytes a row.\n")


def watch(arguments: argparse.Namespace) -> Answer:
    """Draw the table repeatedly until interrupted; without a terminal, print one after the other."""
    from timing_logger.engine.live import Watcher
    from timing_logger.errors import NoTimingFilesError
    from timing_logger.report import snapshot_text

    watcher = Watcher(Path(arguments.logdir), arguments.window)
    text = snapshot_text(watcher.snapshot(), _width())
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
                # The folder may be emptied before the next run starts in it.
                with contextlib.suppress(NoTimingFilesError, FileNotFoundError):
                    text = snapshot_text(watcher.snapshot(), _width())
                live.update(Text(text), refresh=True)
    except KeyboardInterrupt:
        return Answer(text if console.is_terminal else "")


class _Asked(NamedTuple):
    """The rows that were analysed, and the answers."""

    query: Query
    result: Result

    @property
    def answer(self) -> Any:
        return self.result.answer

    @property
    def files(self) -> list[File]:
        """What is known of the files without reading their rows again."""
        from timing_logger.analysis.files import unread_files

        return unread_files(self.query.files)

    @property
    def how(self) -> str:
        """A note on how the rows were read; "" if there is nothing to mention."""
        from timing_logger.report import reading_text

        result = self.result
        said = reading_text(result.engine, _width(), by_file=result.by_file, n_blocks=result.n_blocks)
        return f"\n{said}" if said else ""

    @property
    def mixture(self) -> str:
        """The warning that files are of different runs; "" without one.

        It is based on their sidecars: no rows are read again.
        """
        from timing_logger.analysis.runs import different_runs
        from timing_logger.report import different_runs_text

        said = different_runs_text(different_runs(self.files), _width())
        return f"\n{said}" if said else ""

    @property
    def clocks(self) -> str:
        """The warning about comparing instants of these files; "" if there is none."""
        from timing_logger.report import clocks_text

        said = clocks_text(self.files, _width())
        return f"\n{said}" if said else ""


def _ask(arguments: argparse.Namespace, *analyses: Analysis[Any, Any]) -> _Asked:
    """Run the analyses on the rows and with the engine that the options select."""
    from timing_logger.engine.run import run

    query = _query(arguments, {name for one in analyses for name in one.columns})
    with _cluster(arguments) as workers:
        return _Asked(query, run(query, *analyses, cluster=workers))


@contextlib.contextmanager
def _cluster(arguments: argparse.Namespace) -> Iterator[Cluster | None]:
    """Yield the cluster that the options name, or None."""
    from timing_logger.engine.workers import cluster

    if arguments.scheduler is None:
        yield None
    else:
        with cluster(arguments.scheduler) as workers:
            yield workers


def _query(arguments: argparse.Namespace, columns: Collection[str] | None) -> Query:
    """What the options choose of the files that they name; some file has such rows."""
    from timing_logger.engine.rows import Query

    found = _files(arguments.logdir, arguments.run, arguments, columns)
    query = Query(found, arguments.ranks, arguments.iterations)
    query.require_iterations()
    return query


def _files(
    paths: Sequence[str],
    incarnations: Incarnations,
    arguments: argparse.Namespace,
    columns: Collection[str] | None,
) -> TimingFiles:
    """Return the timing files under ``paths``; only ``columns`` are read, or all if that is None."""
    from timing_logger.reading.timings import timing_files

    return timing_files(paths, incarnations=incarnations, engine=arguments.engine, columns=columns)


@contextlib.contextmanager
def _without_warnings() -> Iterator[None]:
    """Suppress warnings during the block, because the output states what they warn of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


@contextlib.contextmanager
def _progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """Yield a callback that takes the numbers done and in total, and draws a bar if stderr is a terminal."""
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
