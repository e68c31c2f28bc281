"""Run analyses on timing files of any size: with all rows in memory, or batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from timing_logger.analysis.accounting.part import (
    LineStretches,
    map_own_stretches,
    map_stretches_of_main_thread,
)
from timing_logger.analysis.accounting.stack_code import code_table
from timing_logger.analysis.rows.analysis import (
    COLUMNS_OF,
    COLUMNS_OF_COLLECTIVES,
    EPOCH_OF_STEP,
    MEANING_OF_EPOCHS,
    PROCESS_RESTARTS,
    ROW_OF_PROCESS,
    RUN_OF_RANK,
    Analysis,
    ByProcess,
    OfCommunication,
    answers_from,
)
from timing_logger.analysis.rows.arrays import coded_text, dense_codes, each_text, processes_of
from timing_logger.analysis.rows.files import runs_of
from timing_logger.analysis.rows.operations import is_collective, is_communication, is_wait
from timing_logger.analysis.rows.steps import Meaning, epochs_of
from timing_logger.analysis.rows.tables import opened
from timing_logger.analysis.verdict.typical_step import StepOfRanks, ranks_to_show
from timing_logger.engine.rows import TIMES_THE_TABLE, Query, RowsOf, require_room
from timing_logger.engine.workers import Cluster, Processes, Threads, Workers
from timing_logger.errors import TooLargeError
from timing_logger.process.progress import begin, each, steps
from timing_logger.reading.beside import stack_samples_of
from timing_logger.reading.machine import free_memory_bytes, keep_freed_memory, usable_cores
from timing_logger.reading.sources import compact, joined
from timing_logger.results.plain import ShownStep

if TYPE_CHECKING:
    from timing_logger.analysis.rows.arrays import Ints
    from timing_logger.reading.batches import File

MAX_THREADS = 4
"""The most files that are read at a time by threads; more are read by processes."""

_KEPT_ROW_BYTES = 150
"""The memory that a row of communication takes while it is kept."""

_LEAST_LINE_BYTES = 80
"""The size of a short line of a timing file."""


class Result(NamedTuple):
    """The answers of analyses, and how they were computed.

    Attributes:
        answers: one for each analysis.
        engine: what read the rows: "pandas", "pyarrow" or "cluster".
        by_file: whether files were processed in batches.
    """

    answers: tuple[Any, ...]
    engine: str
    by_file: bool = False

    @property
    def answer(self) -> Any:
        """The answer of the only analysis."""
        (found,) = self.answers
        return found


def run(query: Query, *analyses: Analysis[Any], cluster: Cluster | None = None) -> Result:
    """Ask these analyses of the chosen rows, which are read once for all of them.

    All rows of small files are held in memory. Large files, or files on a cluster, are read in batches: what
    an analysis needs of each process is held, and for analyses that compare ranks the rows of communication.

    Args:
        cluster: who works; None for this machine's cores.

    Raises:
        ConfigurationError: one of the chosen ranks has no file.
        TooLargeError: memory has no room for the rows of communication.
    """
    is_small = cluster is None and query.timing_files.engine == "pandas"
    if is_small and (result := _in_memory(query, analyses)) is not None:
        return result
    workers = cluster or _threads_or_processes(_most_workers(query))
    if isinstance(workers, Threads):
        keep_freed_memory()
    engine = query.timing_files.engine if cluster is None else "cluster"
    return Result(answers_in_batches(analyses, query, workers), engine, by_file=True)


def _in_memory(query: Query, analyses: Sequence[Analysis[Any]]) -> Result | None:
    """None if the rows do not fit into memory together."""
    try:
        rows = query.in_one_table()
    except TooLargeError:
        return None
    return Result(tuple(one.of(rows) for one in each("answering", analyses)), query.timing_files.engine)


class _Part(NamedTuple):
    """What was made of a batch: a part for each analysis by process, and the rows of communication.

    ``n_communication`` is how many of these there are, kept or not.
    """

    of_processes: list[Any]
    communication: KeptRows | None
    n_communication: int


class _Plan(NamedTuple):
    """What is made of each batch."""

    rows_of: RowsOf
    by_process: list[ByProcess[Any, Any]]
    wanted: Wanted | None

    def part_of(self, batch: Sequence[File]) -> _Part:
        rows = self.rows_of(batch)
        kept = kept_of(rows, self.wanted) if self.wanted else None
        return _Part([one.map(rows) for one in self.by_process], kept, n_communication(rows))


def answers_in_batches(analyses: Sequence[Analysis[Any]], query: Query, workers: Workers) -> tuple[Any, ...]:
    """What analyses say of all chosen rows, of which only some batches' are held together.

    Raises:
        TooLargeError: memory has no room for the rows of communication.
    """
    by_process = [one for one in analyses if isinstance(one, ByProcess)]
    comparing = [one for one in analyses if isinstance(one, OfCommunication)]
    plan = _Plan(query.rows_of, by_process, Wanted.by(comparing) if comparing else None)
    parts = _read(plan, _row_bytes(analyses), query, workers)
    begin("answering", len(analyses))
    of_processes = iter(answers_from(steps(by_process), [part.of_processes for part in parts]))
    of_all = iter(())
    if comparing:
        rows = in_one_table([part.communication for part in parts if part.communication])
        of_all = (one.of(rows) for one in steps(comparing))
    return tuple(next(of_processes if isinstance(one, ByProcess) else of_all) for one in analyses)


def _read(plan: _Plan, row_bytes: int, query: Query, workers: Workers) -> list[_Part]:
    """Make a part of each batch. If memory may be short, the first batch tells how much all would need."""
    batches = query.batches
    begin("reading", len(batches))
    sizes = [sum(source.n_bytes for source, _ in batch) for batch in batches]
    if row_bytes * (sum(sizes) // _LEAST_LINE_BYTES) < free_memory_bytes():
        return workers.map(plan.part_of, batches)
    first = plan.part_of(batches[0])
    require_room(row_bytes * first.n_communication * sum(sizes) // max(1, sizes[0]))
    return [first, *workers.map(plan.part_of, batches[1:])]


def _row_bytes(analyses: Sequence[Analysis[Any]]) -> int:
    """Return the memory that each row of communication takes while one of the analyses answers."""
    keeping = [one for one in analyses if one.row_bytes]
    most = max((one.row_bytes for one in keeping), default=0)
    return most + _KEPT_ROW_BYTES * max(0, len(keeping) - 1)


def _most_workers(query: Query) -> int:
    """As many as can hold a batch's rows each."""
    batches = query.batches
    largest_bytes = max(sum(source.n_bytes for source, _ in batch) for batch in batches)
    fit = free_memory_bytes() / (TIMES_THE_TABLE * max(largest_bytes, 1))
    return int(max(1, min(fit, usable_cores(), len(batches))))


def _threads_or_processes(most: int) -> Threads | Processes:
    """Return threads, if Python's lock costs them less than it costs to start processes; else processes."""
    return Threads(most) if most <= MAX_THREADS else Processes(most)


# -- rows of communication of all ranks, for analyses that compare ranks -------------------------------


class Wanted(NamedTuple):
    """What is kept of all rows.

    Attributes:
        columns: the columns, beside ``rank`` and ``incarnation``.
        others: each tells of an operation whether its rows are kept; those of collectives and of the waits
            for them always are.
    """

    columns: frozenset[str]
    others: tuple[Callable[[str], bool], ...]

    @classmethod
    def by(cls, analyses: Sequence[OfCommunication[Any]]) -> Wanted:
        """Return what these analyses want."""
        columns = frozenset(name for one in analyses for name in one.columns)
        return cls(columns, tuple(one.others for one in analyses))

    def keeps(self, operation: str) -> bool:
        """Tell whether rows of an operation are kept."""
        is_shared = is_collective(operation) or is_wait(operation)
        return is_shared or any(wants(operation) for wants in self.others)


class KeptRows(NamedTuple):
    """The rows of communication of some processes.

    Attributes:
        rank, incarnation: of each process that has rows, of whatever operation.
        meaning: what epochs are for in these processes.
        rows: a list with their table, which is taken out when it is joined with others.
    """

    rank: Ints
    incarnation: Ints
    meaning: Meaning
    rows: list[pd.DataFrame]


def n_communication(timings: pd.DataFrame) -> int:
    """Count the rows of communication, of whatever kind."""
    frame = opened(timings, ["operation"], by_rank=False, as_recorded=True)
    return int(each_text(coded_text(frame, "operation"), is_communication).sum())


def kept_of(timings: pd.DataFrame, wanted: Wanted) -> KeptRows:
    """Select the rows of communication of some processes, with what the rows of others tell of them."""
    frame = opened(timings, COLUMNS_OF_COLLECTIVES)
    process, epochs = processes_of(frame), epochs_of(frame)
    begins = np.flatnonzero(np.diff(process, prepend=-1))
    row = np.flatnonzero(each_text(coded_text(frame, "operation"), wanted.keeps))
    columns = [name for name in timings if name in {"rank", "incarnation", *wanted.columns}]
    rows = compact(timings[columns].iloc[row].reset_index(drop=True))
    rows = rows.assign(**{
        EPOCH_OF_STEP: epochs.of_row[row],
        PROCESS_RESTARTS: epochs.restarts[row],
        MEANING_OF_EPOCHS: np.full(len(row), int(epochs.meaning), np.int8),
    })  # fmt: skip
    if ROW_OF_PROCESS in wanted.columns:
        position = np.arange(len(process)) - np.repeat(begins, np.diff(begins, append=len(process)))
        rows[ROW_OF_PROCESS] = position[row]
    rank, incarnation = (frame[name].to_numpy()[begins] for name in ("rank", "incarnation"))
    return KeptRows(rank, incarnation, epochs.meaning, [rows])


def in_one_table(kept: Sequence[KeptRows]) -> pd.DataFrame:
    """Join the rows of all processes, and tell of each row which run it is of. This empties ``kept``."""
    rank, incarnation = (
        np.concatenate([getattr(one, name) for one in kept]) for name in ("rank", "incarnation")
    )
    run = runs_of(rank, incarnation)
    tables = [{str(name): rows[name] for name in rows} for one in kept for rows in [one.rows.pop()]]
    rows = joined(tables, list(tables[0]))
    place = dense_codes(np.append(rank, rows["rank"]), np.append(incarnation, rows["incarnation"]))
    run_of = np.zeros(int(place.max(initial=-1)) + 1, np.int32)
    run_of[place[: len(rank)]] = run
    rows[RUN_OF_RANK] = run_of[place[len(rank) :]]
    rows[MEANING_OF_EPOCHS] = np.full(len(rows), max(int(one.meaning) for one in kept), np.int8)
    return rows


def code_in_files(ranks: Collection[int], query: Query, cluster: Cluster | None = None) -> pd.DataFrame:
    """Return what ``sampled_code`` returns of some ranks; no row where they have no stack samples.

    Args:
        ranks: those that are asked for, each with a file.
        query: which rows were asked.
        cluster: who reads; None for this machine's cores.
    """
    theirs = replace(query, ranks=sorted(ranks))
    samples = stack_samples_of(theirs.files) if ranks else pd.DataFrame()
    if samples.empty:
        return code_table([], stack_samples_of([]))
    own: list[LineStretches] = run(theirs, _OF_MAIN_THREAD, cluster=cluster).answer
    return code_table(own, samples)


def _of_main_thread(timings: pd.DataFrame) -> LineStretches:
    return map_stretches_of_main_thread(opened(timings, COLUMNS_OF["account"]))


_OF_MAIN_THREAD = ByProcess(COLUMNS_OF["account"], _of_main_thread, list)


def shown_in_files(
    step: StepOfRanks, named: Sequence[int], query: Query, cluster: Cluster | None = None
) -> ShownStep:
    """Return what is shown of a step.

    Args:
        step: the step.
        named: the ranks that the verdict names.
        query: which rows were asked.
        cluster: who reads; None for this machine's cores.
    """
    ranks = ranks_to_show(step, named)
    own: list[LineStretches] = run(replace(query, ranks=ranks), _OWN, cluster=cluster).answer
    return step.shown(ranks, own)


def _own(timings: pd.DataFrame) -> LineStretches:
    return map_own_stretches(opened(timings, COLUMNS_OF["account"]))


_OWN = ByProcess(COLUMNS_OF["account"], _own, list)
