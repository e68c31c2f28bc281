"""The findings of the analyses about a run, computed once and drawn in several places."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
import pandas as pd

from timing_logger.analysis.accounting.stack_code import sampled_code
from timing_logger.analysis.collectives.bandwidth import Benchmark, bandwidth_of, with_expectation
from timing_logger.analysis.collectives.compression import (
    compression_of,
    measured_with_work,
    moves_bytes_or_is_work,
)
from timing_logger.analysis.collectives.matching import Instances, find_instances
from timing_logger.analysis.collectives.problems import STATES, find_problems, reasons_for, states
from timing_logger.analysis.collectives.waits import (
    Arrivals,
    clock_free_wait_ms,
    clock_violations,
    complete_among,
)
from timing_logger.analysis.hangs.diagnosis import run_end_of
from timing_logger.analysis.rows.analysis import COLUMNS_OF, ByProcess, OfCommunication
from timing_logger.analysis.rows.arrays import (
    Floats,
    Frame,
    Ints,
    coded_text,
    dense_codes,
    numbers,
    processes_of,
)
from timing_logger.analysis.rows.files import laid_end_to_end
from timing_logger.analysis.rows.grouping import least_of_each
from timing_logger.analysis.rows.intervals import union_lengths
from timing_logger.analysis.rows.operations import BACKEND, PAUSES, base_operation
from timing_logger.analysis.rows.overlap import OVERLAP, OverlapPart
from timing_logger.analysis.rows.steps import epochs_of, steps_of
from timing_logger.analysis.rows.tables import new_column, nullable_integers, of_pandas, opened, taken
from timing_logger.analysis.verdict.causes.search import HostCounters, given
from timing_logger.analysis.verdict.overview import Summary, SummaryPart, map_summary, reduce_summary
from timing_logger.analysis.verdict.typical_step import StepOfRanks, shown_in_table, typical_step
from timing_logger.analysis.verdict.verdict import JudgementPart, map_judgement, reduce_judgement
from timing_logger.analysis.verdict.windows import verdict_and_windows
from timing_logger.engine.rows import Query
from timing_logger.engine.run import Result, code_in_files, run, shown_in_files
from timing_logger.engine.workers import Cluster
from timing_logger.reading.named_ranks import stated_world_size
from timing_logger.report._limits import FEW_PROCESSES
from timing_logger.report.code import code_sentences, ranks_out_of_rows, ranks_to_ask_about
from timing_logger.report.html._crowd import Crowd, InTimeline, OwnTimes
from timing_logger.report.html._timeline import Spans, Timeline, spans_of, timeline_of
from timing_logger.results.plain import ShownStep
from timing_logger.results.verdict import Verdict
from timing_logger.schema.record import COLUMNS

LOOKS_AT = frozenset({*COLUMNS_OF["waits"], *COLUMNS_OF["compression"]})
"""The columns of timings that the analysis of collectives needs."""


@dataclass(frozen=True)
class Collectives:
    """What a report says of the collectives of a run.

    Attributes:
        bandwidth, compression: as the analyses of that name return them.
        waits: a row for each part of a collective of which ``clock_free_wait_ms`` is known, with ``rank``,
            ``incarnation``, ``epoch`` and ``iteration``, in integers of as few bytes as hold them.
        violations: the number of rows that ended before all ranks had arrived that they needed.
        flawed: the number of collectives of each state and reason, except "complete"; most first.
    """

    bandwidth: pd.DataFrame
    compression: pd.DataFrame
    waits: pd.DataFrame
    violations: int
    flawed: dict[tuple[str, str], int]


def collectives(timings: pd.DataFrame) -> Collectives:
    """Analyse all collectives of a table of timings, which are matched once."""
    frame = opened(timings, LOOKS_AT)
    parts = find_instances(frame)
    problems = find_problems(frame, parts)
    complete = complete_among(parts, problems)
    arrivals = Arrivals.of(frame, complete)
    measured, sends = measured_with_work(frame, complete)
    return Collectives(
        bandwidth=bandwidth_of(frame, measured).to_native(),
        compression=compression_of(frame, measured, sends).to_native(),
        waits=_waits(frame, complete, arrivals),
        violations=int(clock_violations(complete, arrivals).sum()),
        flawed=_flawed(frame, parts, problems),
    )


def _waits(frame: Frame, parts: Instances, arrivals: Arrivals) -> pd.DataFrame:
    wait_ms = clock_free_wait_ms(parts, arrivals.elapsed_s * 1e3, arrivals.counts)
    known = np.flatnonzero(~np.isnan(wait_ms))
    row = parts.row[known]
    epoch = epochs_of(frame).of_row
    table = taken(frame, ["rank", "incarnation", "iteration"], row).with_columns(
        nullable_integers(frame, "epoch", epoch[row]),
        new_column(frame, "clock_free_wait_ms", wait_ms[known]),
    )
    found: pd.DataFrame = table.to_native()
    for name in ("rank", "incarnation", "epoch", "iteration"):
        found[name] = pd.to_numeric(found[name], downcast="integer")
    return found


def _flawed(frame: Frame, parts: Instances, problems: Ints) -> dict[tuple[str, str], int]:
    reasons, reason_of = reasons_for(frame, parts, problems)
    pairs = (states(problems) * len(reasons) + reason_of)[problems > 0]
    counts: dict[tuple[str, str], int] = {}
    for pair in np.flatnonzero(np.bincount(pairs)) if len(pairs) else ():
        state, reason = divmod(int(pair), len(reasons))
        counts[STATES[state], reasons[reason]] = int((pairs == pair).sum())
    return dict(sorted(counts.items(), key=_most_first))


def _most_first(counted: tuple[tuple[str, str], int]) -> tuple[int, tuple[str, str]]:
    why, count = counted
    return -count, why


COLLECTIVES = OfCommunication(LOOKS_AT, collectives, moves_bytes_or_is_work)
"""The analysis that makes :class:`Collectives`."""


@dataclass(frozen=True)
class ProcessFindings:
    """The findings about ranks on their own.

    Attributes:
        n_rows: the number of rows of all ranks.
        began: when the first row was recorded, in UTC; NaT if that is not known.
        summary, verdict, windows, overlap: the results of the analyses.
        own: the times that the verdict compared.
        step_begins: when each step of ``overlap`` began, and its pauses.
        crowd: the ranks, and which of many the page shows by name.
        timeline: the timeline of all rows, or of those of some of many ranks; one that lacks its rows if the
            parts had none.
        step: a typical slow step, as far as it is known without the rows of own work; None if there is none.
    """

    n_rows: int
    began: pd.Timestamp
    summary: Summary
    verdict: Verdict
    windows: pd.DataFrame
    own: OwnTimes
    overlap: pd.DataFrame
    step_begins: StepBegins
    crowd: Crowd
    timeline: Timeline | WithoutRows
    step: StepOfRanks | None


class WithoutRows(NamedTuple):
    """A timeline of which only the rows are lacking.

    Attributes:
        parts: the parts of all processes, without rows.
        world_size: the number of ranks of the run; None if unknown.
        whose: the ranks to draw; None for all.
    """

    parts: list[Spans]
    world_size: int | None
    whose: InTimeline | None


@dataclass(frozen=True)
class Findings(Collectives, ProcessFindings):
    """All findings that a page is drawn from.

    Attributes:
        shown: what is shown of ``step``.
        code: sentences on the code that ran, as far as it was sampled.
        benchmark: the name of the benchmark that ``bandwidth`` is held against; "" if there is none.
    """

    timeline: Timeline
    shown: ShownStep | None
    code: list[str]
    benchmark: str = ""

    def beside(self, benchmark: Benchmark | None) -> Findings:
        """Return the findings with what a benchmark reached beside the bandwidths, if there is one."""
        if benchmark is None:
            return self
        held = with_expectation(self.bandwidth, benchmark)
        return replace(self, bandwidth=held, benchmark=benchmark.name)

    @classmethod
    def of(
        cls, timings: pd.DataFrame, host: pd.DataFrame | None = None, stacks: pd.DataFrame | None = None
    ) -> Findings:
        """Return the findings about all rows of a table.

        Args:
            timings: the table.
            host: what ``read_host_counters`` returns, for what coincides with time that is lost.
            stacks: what ``read_stack_samples`` returns, for the code that ran.
        """
        attrs = timings.attrs
        timings = opened(timings, as_laid_out=True).to_native()  # with every column that any analysis needs
        timings.attrs = attrs
        processes = _processes(with_spans=True, host=given(host)).of(timings)
        shown = processes.step and shown_in_table(processes.step, processes.crowd.named, timings)
        code = [] if stacks is None else _told(processes, sampled_code(timings, stacks))
        return cls(**vars(processes), **vars(COLLECTIVES.of(timings)), shown=shown, code=code)


class _Part(NamedTuple):
    n_rows: int
    began: pd.Timestamp
    overview: SummaryPart
    stragglers: JudgementPart
    overlap: OverlapPart[pd.DataFrame]
    step_begins: StepBegins
    spans: Spans


def _map(timings: pd.DataFrame, *, with_spans: bool) -> _Part:
    stragglers = map_judgement(timings, with_account=True)
    return _Part(
        n_rows=len(timings),
        began=_began(timings),
        overview=map_summary(timings, stragglers.last, with_account=False),
        stragglers=stragglers,
        overlap=OVERLAP.map(timings),
        step_begins=step_begins(timings),
        spans=spans_of(timings, with_rows=with_spans),
    )


def _began(timings: pd.DataFrame) -> pd.Timestamp:
    """Return when the first row began; NaT if no source told that of any."""
    invented = {rank for rank, _ in laid_end_to_end(timings.attrs.get("files", []))}
    first: pd.Timestamp = timings["timestamp"][~timings["rank"].isin(invented)].min()
    return first


def _reduce(parts: Sequence[_Part], *, with_spans: bool, host: HostCounters | None) -> ProcessFindings:
    n_rows, began, overview, stragglers, overlap, begins, spans = map(list, zip(*parts, strict=True))
    del parts
    files = [file for part in stragglers for file in part.files]
    world_size = stated_world_size(files)
    n_processes = sum(len(part.ranks) for part in overview)
    # The timeline of few ranks draws all of them: their spans, most of the memory in use, can be freed first.
    early = _timeline(spans, world_size, None) if with_spans and n_processes <= FEW_PROCESSES else None
    end = run_end_of([part.last for part in stragglers], files)
    judgement = reduce_judgement(stragglers, end=end, host=host, with_blocked=True)
    verdict, windows = verdict_and_windows(judgement, of_pandas())
    own, account, step = OwnTimes.of(judgement), judgement.case.times.account, typical_step(judgement)
    del judgement  # of its times the page needs one array
    summary = reduce_summary(overview, end, account)
    crowd = Crowd.of(summary, verdict, own)
    return ProcessFindings(
        n_rows=sum(n_rows),
        began=min((one for one in began if one == one), default=began[0]),
        summary=summary,
        verdict=verdict,
        windows=windows,
        own=own,
        overlap=OVERLAP.reduce(overlap),
        step_begins=joined_begins(begins),
        crowd=crowd,
        timeline=early or (_timeline if with_spans else WithoutRows)(spans, world_size, crowd.in_timeline()),
        step=step,
    )


def _timeline(spans: list[Spans], world_size: int | None, whose: InTimeline | None) -> Timeline:
    """Return the timeline, and empty ``spans``."""
    found = timeline_of(spans, world_size, whose)
    spans.clear()
    return found


def _processes(*, with_spans: bool, host: HostCounters | None) -> ByProcess[_Part, ProcessFindings]:
    """Return the analysis for the findings about ranks on their own."""
    return ByProcess(
        COLUMNS, partial(_map, with_spans=with_spans), partial(_reduce, with_spans=with_spans, host=host),
        row_bytes=750,
    )  # fmt: skip


_SPANS = ByProcess(COLUMNS, spans_of, list)


def findings_in_files(
    query: Query, cluster: Cluster | None = None, host: HostCounters | None = None
) -> tuple[Findings, Result]:
    """Return the findings about the chosen rows of timing files, and how they were read.

    Args:
        query: the files, with all columns, and the chosen rows. Of many files those of the ranks in the
            timeline are read again, when it is known which these are: all spans would need much memory.
        cluster: who reads; None for this machine's cores.
        host: reads the host counters, which is asked for only where time is lost; None if there are none.

    Raises:
        ConfigurationError: one of the chosen ranks has no file.
        TooLargeError: memory has no room for the rows of communication.
    """
    are_many = len(query.files) > FEW_PROCESSES
    result = run(query, _processes(with_spans=not are_many, host=host), COLLECTIVES, cluster=cluster)
    processes, collectives = (vars(answer) for answer in result.answers)
    timeline = processes.pop("timeline")
    if isinstance(timeline, WithoutRows):
        theirs = replace(query, ranks=timeline.whose.ranks) if timeline.whose else query
        timeline = timeline_of(*timeline, run(theirs, _SPANS, cluster=cluster).answer)
    step, named = processes["step"], processes["crowd"].named
    shown = step and shown_in_files(step, named, query, cluster)
    asked = {*ranks_to_ask_about(processes["verdict"]), *ranks_out_of_rows(processes["summary"].account)}
    code = _told(result.answers[0], code_in_files(asked, query, cluster))
    return Findings(**processes, **collectives, timeline=timeline, shown=shown, code=code), result


def _told(processes: ProcessFindings, code: pd.DataFrame) -> list[str]:
    return code_sentences(processes.verdict, ranks_out_of_rows(processes.summary.account), code)


# -- when each step of a process began, and how long each kind of pause lasted in it ---------------------


class StepBegins(NamedTuple):
    """What a strip of causes needs of each step; arrays have an entry for each row of ``overlap``.

    Attributes:
        begin_s: when the step began, on the axis of its process (``start_counter``); NaN if unknown.
        pauses_ms: for each operation of ``PAUSES`` that is recorded, for how long some thread of the process
            was in one.
    """

    begin_s: Floats
    pauses_ms: Mapping[str, Floats]


def step_begins(timings: pd.DataFrame) -> StepBegins:
    """Return it of whole processes, such as those of one file."""
    frame = opened(timings)
    step = dense_codes(processes_of(frame), steps_of(frame).number)  # as ``overlap`` numbers its rows
    n_steps = int(step.max(initial=-1)) + 1
    start_s, end_s = numbers(frame, "start_counter"), numbers(frame, "end_counter")
    operation, names = coded_text(frame, "operation")
    told = np.array([base_operation(name) != BACKEND for name in names], bool)[operation]
    pauses_ms = {}
    for name in set(names) & set(PAUSES):
        its = operation == names.index(name)
        pauses_ms[name] = 1e3 * union_lengths(step[its], start_s[its], end_s[its], n_steps)
    return StepBegins(least_of_each(start_s[told], step[told], n_steps), pauses_ms)


def joined_begins(parts: Sequence[StepBegins]) -> StepBegins:
    """Return it of all processes: a pause that some of them never made lasted 0 ms there."""
    kinds = [name for name in PAUSES if any(name in part.pauses_ms for part in parts)]
    of_kind = {
        name: np.concatenate([part.pauses_ms.get(name, np.zeros(len(part.begin_s))) for part in parts])
        for name in kinds
    }
    return StepBegins(np.concatenate([part.begin_s for part in parts]), of_kind)
