"""Summarize a run to compare it with others: what an average step takes, and on what it is spent."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import pandas as pd
from narwhals.typing import IntoDataFrame

from timing_logger.analysis.accounting.account import PARTS, summarize_account
from timing_logger.analysis.comparison.quantities import (
    CountedSteps,
    SpentByProcess,
    StepLength,
    counted_steps,
    joined_quantities,
    spent_in,
)
from timing_logger.analysis.rows.analysis import COLUMNS_OF, ByProcess
from timing_logger.analysis.rows.arrays import Bools, Floats, Ints
from timing_logger.analysis.rows.files import File, SidecarContent, not_told, sidecar_of
from timing_logger.analysis.rows.tables import opened, taken
from timing_logger.analysis.verdict.verdict import JudgementPart, map_judgement, reduce_judgement
from timing_logger.analysis.verdict.windows import STRAGGLERS
from timing_logger.errors import TableError
from timing_logger.reading.named_ranks import stated_world_size
from timing_logger.results.run_summary import (
    MOST_RANKS,
    MOST_STRETCHES,
    OF_RANK,
    Course,
    CourseKind,
    Quantity,
    RunSummary,
    SummarizedVerdict,
)

_OPTIONS = (
    "record_every_n_steps", "ranks", "start_step", "end_step", "pause_rows", "host_counters", "stack_samples"
)  # fmt: skip
"""The options that change what is recorded, or what recording costs."""


def summarize_run(timings: IntoDataFrame) -> RunSummary:
    """Summarize a run: what an average step of an average rank takes, and on what it is spent.

    The first tenth of the steps is left out, at most ten of them, and so is what is of no step: the set-up,
    and what comes after the last step.

    Args:
        timings: as ``read_timings`` returns.

    Raises:
        TableError: no step has a known length.
    """
    return _reduce([_map(timings)])


class _Part(NamedTuple):
    """What the summary needs of some processes.

    Attributes:
        lengths: of each process, how long its steps were.
        kind: what these steps are.
        spent: of each process, what it spent them on.
        sums: how long each step was.
        judgement: what a verdict and the account need, and the files of the timings.
        ranks: that have rows.
    """

    lengths: list[StepLength]
    kind: str
    spent: list[SpentByProcess]
    sums: list[StepSums]
    judgement: JudgementPart
    ranks: list[int]


def _map(timings: IntoDataFrame) -> _Part:
    frame = opened(timings, COLUMNS_OF["summarize_run"])
    files: list[File] = getattr(timings, "attrs", {}).get("files", [])
    steps = counted_steps(frame)
    rows: Any = taken(frame, frame.columns, steps.rows).to_native()
    if isinstance(rows, pd.DataFrame):
        rows.attrs = {"files": files}
    ranks = sorted(set(frame["rank"].to_list()))
    judged = map_judgement(rows, with_account=True)._replace(files=files)
    spent, sums = spent_in(frame, steps), step_sums(steps)
    return _Part(steps.lengths, steps.kind, spent, sums, judged, ranks)


def _reduce(parts: Sequence[_Part]) -> RunSummary:
    files = [file for part in parts for file in part.judgement.files]
    n_ranks = len({rank for part in parts for rank in part.ranks})
    kind = next(kind for kind in ("iterations", "rounds", "run") if kind in {part.kind for part in parts})
    parts = [part for part in parts if part.kind == kind]
    counted = [
        (length, spent)
        for part in parts
        for length, spent in zip(part.lengths, part.spent, strict=True)
        if length.mean_ms > 0
    ]
    if not counted:
        raise TableError(
            "timings: no step has a known length, as a run has of at least three iterations whose rows state "
            "start_counter. Call set_current_iteration in each step, or record a longer run."
        )
    lengths = [length for length, _ in counted]
    n_steps = sum(one.n_steps for one in lengths)
    quantities, n_left_out = joined_quantities([spent for _, spent in counted], n_steps)
    judgement = reduce_judgement([part.judgement for part in parts])
    most = max(one.n_steps for one in lengths)
    account = _of_account(judgement.case.times.account, n_steps, len(lengths))
    said = judgement.verdict
    cost_ms = said.cost_ms / (most * said.recorded_every)
    return RunSummary(
        **_facts(files),
        n_ranks=n_ranks,
        steps_are=kind,
        n_steps=most,
        n_warm_up=max(one.n_warm_up for one in lengths),
        step_mean_ms=float(np.mean([one.mean_ms for one in lengths])),
        step_median_ms=float(np.mean([one.median_ms for one in lengths])),
        quantities=sorted([*quantities, *account], key=lambda one: -one.mean_ms),
        n_left_out=n_left_out,
        course=course_of([one for part in parts for one in part.sums]),
        verdict=SummarizedVerdict(said.verdict, said.judged, [*said.ranks], said.operation, cost_ms),
    )


def _of_account(account: pd.DataFrame | None, n_steps: int, n_processes: int) -> list[Quantity]:
    """Return the parts of the account per step, and the own time of each rank where these are few."""
    if account is None or not len(account):
        return []
    by_rank = summarize_account(account)
    found = [
        _timed("account", what, None, float(by_rank[column].sum()) / n_steps)
        for what, column in PARTS.items()
    ]
    if len(by_rank) > MOST_RANKS:
        return found
    of_process = n_steps / n_processes
    return [
        *found,
        *(
            _timed("rank", what, rank, ms / of_process)
            for what in OF_RANK
            for rank, ms in zip(by_rank["rank"].tolist(), by_rank[PARTS[what]].tolist(), strict=True)
        ),
    ]


def _timed(kind: str, what: str, rank: int | None, ms: float) -> Quantity:
    return Quantity(kind, what, "", "", "", rank, max(ms, 0.0), None, 0.0, None)


# -- what the sidecars tell --------------------------------------------------------------------------


def _facts(files: Sequence[File]) -> dict[str, Any]:
    """Return what is known of a run beside its rows."""
    sidecars = [sidecar_of(file) for file in files]
    spans = [span for file in files if (span := file.get("span_unix_ns"))]
    ids = {one["run_id"] for one in sidecars if one.get("run_id")}
    commits = {commit for one in sidecars if (commit := str(one.get("commit") or ""))}
    return {
        "run_id": ids.pop() if len(ids) == 1 else "",
        "began_unix_ns": min((span[0] for span in spans), default=None),
        "ended_unix_ns": max((span[1] for span in spans), default=None),
        "world_size": stated_world_size(files),
        "hosts": sorted({host for one in sidecars if (host := one.get("host"))}),
        "versions": _of_all(one.get("versions") for one in sidecars),
        "commit": commits.pop() if len(commits) == 1 else "",
        "options": _of_all(map(_options, sidecars)),
        "not_told": not_told(files),
        "n_lost": sum((one.get("counters") or {}).get("dropped", 0) for one in sidecars)
        + sum(file.get("bad_lines", 0) for file in files),
    }


def _options(sidecar: SidecarContent) -> dict[str, str]:
    stated = sidecar.get("options") or {}
    return {name: json.dumps(stated[name])[:_LONGEST_TEXT] for name in _OPTIONS if name in stated}


_LONGEST_TEXT = 100


def _of_all(stated: Iterable[object]) -> dict[str, str]:
    """Return what the sidecars state under each name; where they disagree, all of it."""
    found: dict[str, set[str]] = {}
    for one in stated:
        for name, value in cast("dict[str, str]", one if isinstance(one, dict) else {}).items():
            found.setdefault(name[:_LONGEST_TEXT], set()).add(str(value)[:_LONGEST_TEXT])
    return {name: ", ".join(sorted(values)) for name, values in sorted(found.items())}


RUN_SUMMARY: ByProcess[_Part, RunSummary] = ByProcess(
    COLUMNS_OF["summarize_run"], _map, _reduce, STRAGGLERS.row_bytes
)
"""The analysis :func:`summarize_run` in parts."""


# -- how long steps were in the course of a run: the sums over processes, and the medians of stretches ---


_NS_PER_MS = 1e6
_MOST_NS = 1e15  # eleven days: the sums over a million processes stay within 64 bits
_DIGITS = 6


class StepSums(NamedTuple):
    """How long the steps of some processes were, summed over these: whole numbers, so that their order does
    not matter.

    Attributes:
        counted_by: what ``at`` is.
        at: the number of each step, ascending.
        ns: the sum of its lengths in ns.
        n: how many processes have it.
    """

    counted_by: CourseKind
    at: Ints
    ns: Ints
    n: Ints


def step_sums(steps: CountedSteps) -> list[StepSums]:
    """Return the sums of some processes, of those whose iterations restart apart.

    The steps of a process whose iterations restart are counted, as an iteration is not one step there.
    """
    if (taken := steps.taken) is None:
        return []
    known, restarts = (taken.ms > 0) & (taken.number >= 0), taken.restarts
    kinds: tuple[tuple[CourseKind, Bools, Ints], ...] = (
        ("iterations", known & ~restarts, taken.number), ("steps", known & restarts, taken.place),
    )  # fmt: skip
    return [_summed(kind, at[of], taken.ms[of]) for kind, of, at in kinds if of.any()]


def _summed(kind: CourseKind, at: Ints, ms: Floats) -> StepSums:
    ns = np.minimum(np.rint(_NS_PER_MS * ms), _MOST_NS).astype(np.int64)
    return _joined([StepSums(kind, at, ns, np.ones(len(at), np.int64))])


def _joined(parts: Sequence[StepSums]) -> StepSums:
    at, place = np.unique(np.concatenate([part.at for part in parts]), return_inverse=True)
    ns, n = np.zeros(len(at), np.int64), np.zeros(len(at), np.int64)
    np.add.at(ns, place, np.concatenate([part.ns for part in parts]))
    np.add.at(n, place, np.concatenate([part.n for part in parts]))
    return StepSums(parts[0].counted_by, at, ns, n)


def course_of(parts: Sequence[StepSums]) -> Course | None:
    """Return the course of a run in at most ``MOST_STRETCHES`` stretches; None where there is no single one.

    A stretch is as many iterations as a power of two, and begins at a multiple of these, so that runs of
    other lengths have the same stretches, or some that are two, four, ... of them.
    """
    if len({part.counted_by for part in parts}) != 1:
        return None
    steps = _joined(parts)
    width = 1
    while steps.at[-1] // width - steps.at[0] // width >= MOST_STRETCHES:
        width *= 2
    stretch, began, n_steps = np.unique(steps.at // width, return_index=True, return_counts=True)
    of_stretch = np.split(steps.ns / steps.n / _NS_PER_MS, began[1:])
    return Course(
        steps.counted_by, width, (width * stretch).tolist(),
        [float(f"{np.median(ms):.{_DIGITS}g}") for ms in of_stretch], n_steps.tolist(),
    )  # fmt: skip
