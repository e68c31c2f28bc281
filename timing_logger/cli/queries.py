"""Run analyses on the rows that a command's arguments select."""

from __future__ import annotations

import argparse
import contextlib
import gc
import logging
import shutil
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

if TYPE_CHECKING:
    import pandas as pd

    from timing_logger.analysis.rows.analysis import Analysis
    from timing_logger.analysis.rows.files import File
    from timing_logger.analysis.verdict.causes.search import HostCounters
    from timing_logger.analysis.verdict.typical_step import StepOfRanks
    from timing_logger.engine.rows import Query
    from timing_logger.engine.run import Result
    from timing_logger.engine.workers import Cluster
    from timing_logger.reading.runs_of_job import Incarnations
    from timing_logger.reading.timings import TimingFiles
    from timing_logger.results.plain import ShownStep

AnswerT = TypeVar("AnswerT")

_MIN_WIDTH, _USUAL_WIDTH, _MAX_WIDTH = 60, 100, 140


class Answer(NamedTuple):
    """The text to print, and the exit code."""

    text: str
    exit_code: int = 0


class QueryResult(NamedTuple):
    """The rows that were analysed, and the answers of the analyses."""

    query: Query
    result: Result

    @property
    def answer(self) -> Any:
        """The answer of the only analysis."""
        return self.result.answer

    @property
    def answers(self) -> tuple[Any, ...]:
        """The answers of all analyses, in their order."""
        return self.result.answers

    @property
    def files(self) -> list[File]:
        """What is known of the files without reading their rows again."""
        from timing_logger.analysis.rows.files import unread_files

        return unread_files(self.query.files)

    @property
    def how(self) -> str:
        """A note on how the rows were read; "" if there is nothing to mention."""
        from timing_logger.report import reading_text

        return _after(reading_text(self.result.engine, terminal_width(), by_file=self.result.by_file))

    @property
    def mixture(self) -> str:
        """The warning that files are of different runs; "" without one.

        It is based on their sidecars: no rows are read again.
        """
        from timing_logger.analysis.rows.files import different_runs
        from timing_logger.report import different_runs_text

        return _after(different_runs_text(different_runs(self.files), terminal_width()))

    def tells(self, name: str) -> bool:
        """Tell whether the sources of all files tell something, by its name in ``sidecar.NOT_TOLD``."""
        from timing_logger.analysis.rows.files import not_told

        return all(name not in names for names in not_told(self.files).values())

    def not_told_text(self, answer: str) -> str:
        """The note on what the sources of imported files do not tell; "" if there is nothing.

        Args:
            answer: which answer would need it, by ``report.not_told.NEEDED_BY``.
        """
        from timing_logger.analysis.rows.files import not_told
        from timing_logger.report import not_told_text

        return _after(not_told_text(answer, not_told(self.files), terminal_width()))

    def not_told(self, answer: str) -> list[dict[str, str]]:
        """The same for JSON."""
        from timing_logger.analysis.rows.files import not_told
        from timing_logger.report import not_told_values

        return not_told_values(answer, not_told(self.files))

    @property
    def clocks(self) -> str:
        """The warning about comparing instants of these files; "" if there is none."""
        from timing_logger.report import clocks_text

        return _after(clocks_text(self.files, terminal_width()))


def _after(said: str) -> str:
    """Return a paragraph as it follows another; "" if there is nothing to say."""
    return f"\n{said}" if said else ""


def run_query(arguments: argparse.Namespace, *analyses: Analysis[Any]) -> QueryResult:
    """Run the analyses on the rows and with the engine that the options select."""
    columns = {name for one in analyses for name in one.columns}
    query = selected_rows(arguments, columns if arguments.iterations is None else {*columns, "iteration"})
    return _answered(arguments, query, *analyses)


def run_query_beside_host(
    arguments: argparse.Namespace, analysis_with: Callable[[HostCounters], Analysis[Any]]
) -> QueryResult:
    """Run an analysis that may ask for what hosts counted beside the same files."""
    from timing_logger.reading.host_rows import host_counters_of

    query: Query
    analysis = analysis_with(lambda: host_counters_of(query.files))
    query = selected_rows(arguments, analysis.columns)
    return _answered(arguments, query, analysis)


def _answered(arguments: argparse.Namespace, query: Query, *analyses: Analysis[Any]) -> QueryResult:
    from timing_logger.engine.run import run

    with cluster_of(arguments) as workers:
        return QueryResult(query, run(query, *analyses, cluster=workers))


def shown_of(
    arguments: argparse.Namespace, step: StepOfRanks, named: Sequence[int], query: Query
) -> ShownStep:
    """Return what is shown of a step of rows that were asked, of which some are read again."""
    from timing_logger.engine.run import shown_in_files

    with cluster_of(arguments) as workers:
        return shown_in_files(step, named, query, workers)


def code_of(arguments: argparse.Namespace, ranks: Collection[int], query: Query) -> pd.DataFrame:
    """Return in which functions ranks were, as far as it was sampled; some of the rows are read again."""
    from timing_logger.engine.run import code_in_files

    with cluster_of(arguments) as workers:
        return code_in_files(ranks, query, workers)


def run_query_on(logdir: str, arguments: argparse.Namespace, analysis: Analysis[AnswerT]) -> AnswerT:
    """Return what ``analysis`` says of all rows of the latest run in another folder."""
    from timing_logger.engine.rows import Query
    from timing_logger.engine.run import run

    found = _files([logdir], "latest", "", arguments, analysis.columns)
    with cluster_of(arguments) as workers:
        answer: AnswerT = run(Query(found), analysis, cluster=workers).answer
    return answer


@contextlib.contextmanager
def cluster_of(arguments: argparse.Namespace) -> Iterator[Cluster | None]:
    """Yield the cluster that the options name, or None."""
    from timing_logger.engine.workers import cluster

    if arguments.scheduler is None:
        yield None
    else:
        with _no_logs(), cluster(arguments.scheduler) as workers:
            yield workers


@contextlib.contextmanager
def _no_logs() -> Iterator[None]:
    """Have nothing logged during the block: Dask logs a traceback of what is said here in one line."""
    before = logging.root.manager.disable
    logging.disable()
    try:
        yield
    finally:
        gc.collect()  # asyncio logs errors that nobody asked for when it drops them
        logging.disable(before)


def selected_rows(arguments: argparse.Namespace, columns: Collection[str] | None) -> Query:
    """Return what the options choose of the files that they name; some file has such rows."""
    from timing_logger.engine.rows import Query

    found = _files(arguments.logdir, arguments.run, arguments.world, arguments, columns)
    query = Query(found, arguments.ranks, arguments.iterations)
    query.require_iterations()
    return query


def _files(
    paths: Sequence[str],
    incarnations: Incarnations,
    world: str,
    arguments: argparse.Namespace,
    columns: Collection[str] | None,
) -> TimingFiles:
    """Return the timing files under ``paths``; only ``columns`` are read, or all if that is None."""
    from timing_logger.reading.sources import LARGE_FOR_COMMANDS_BYTES
    from timing_logger.reading.timings import timing_files

    found = timing_files(
        paths, incarnations=incarnations, world=world, engine=arguments.engine, columns=columns,
        large_bytes=LARGE_FOR_COMMANDS_BYTES,
    )  # fmt: skip
    if found.about:
        warnings.warn(found.about, stacklevel=2)
    return found


def terminal_width() -> int:
    """Return how many columns a report may use."""
    columns = shutil.get_terminal_size((_USUAL_WIDTH, 24)).columns
    return min(max(columns, _MIN_WIDTH), _MAX_WIDTH)
