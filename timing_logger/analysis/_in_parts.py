"""Analyses that can be done in parts: of the rows of some processes at a time, such as one file's.

The answer from the parts is that of all rows together, to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import narwhals as nw
import numpy as np

from timing_logger._sources import joined
from timing_logger.analysis._frames import Frame, coded_text, each_text, opened
from timing_logger.analysis._group_members import stated_world_size
from timing_logger.analysis._last_rows import last_rows
from timing_logger.analysis._roles import roles_of
from timing_logger.analysis._step_times import PartOfStepTimes, part_of_step_times, whole_step_times
from timing_logger.analysis.columns import COLUMNS_OF
from timing_logger.analysis.hang import run_end_of
from timing_logger.analysis.messages import message_waits
from timing_logger.analysis.operations import base_operation
from timing_logger.analysis.overlap import (
    ProcessTimes,
    efficiencies_of,
    overlap_of_parts,
    part_of_overlap,
    process_times,
)
from timing_logger.analysis.per_rank import summarize_messages
from timing_logger.analysis.run_end import RunEnd
from timing_logger.analysis.scores import scores_of
from timing_logger.analysis.stragglers import Judgement, judgement_on
from timing_logger.analysis.summary import PartOfSummary, Summary, part_of_summary, whole_summary
from timing_logger.analysis.totals import PartOfTotals, part_of_totals, whole_totals
from timing_logger.analysis.windows import StragglersAndWindows, judged_with_windows

if TYPE_CHECKING:
    import pandas as pd

PartT = TypeVar("PartT")
AnswerT = TypeVar("AnswerT")


class InParts(NamedTuple, Generic[PartT, AnswerT]):
    """An analysis in two steps.

    Attributes:
        part: what is needed of the rows of whole processes. Can be pickled.
        whole: the answer from the parts of all processes, which come in the order of rank and incarnation.
    """

    part: Callable[[pd.DataFrame], PartT]
    whole: Callable[[Sequence[PartT]], AnswerT]


def both(one: InParts[Any, Any], other: InParts[Any, Any]) -> InParts[Any, tuple[Any, Any]]:
    """Two analyses of the same rows, which are read once."""
    return InParts(partial(_two_parts, one.part, other.part), partial(_two_answers, one.whole, other.whole))


def _two_parts(one: Callable[..., Any], other: Callable[..., Any], timings: pd.DataFrame) -> tuple[Any, Any]:
    return one(timings), other(timings)


def _two_answers(
    one: Callable[..., Any], other: Callable[..., Any], parts: Sequence[tuple[Any, Any]]
) -> tuple[Any, Any]:
    of_one, of_other = zip(*parts, strict=True)
    return one(of_one), other(of_other)


# -- overlap -----------------------------------------------------------------------------------------


OVERLAP: InParts[Any, Any] = InParts(part_of_overlap, overlap_of_parts)
"""``overlap``."""


def _process_times(timings: pd.DataFrame) -> ProcessTimes:
    return process_times(opened(timings, COLUMNS_OF["efficiencies"]))


def _efficiencies(parts: Sequence[ProcessTimes]) -> pd.DataFrame:
    times = ProcessTimes(*(np.concatenate(values) for values in zip(*parts, strict=True)))
    found: pd.DataFrame = efficiencies_of(_of_pandas(), times).to_native()
    return found


EFFICIENCIES = InParts(_process_times, _efficiencies)
"""``efficiencies``."""


def _in_one_table(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    columns: list[Any] = list(tables[0].columns)
    return joined([{name: table[name] for name in columns} for table in tables], columns)


def _of_pandas() -> Frame:
    """A table of pandas, for what is to be made in its library."""
    import pandas as pd

    none: Frame = nw.from_native(pd.DataFrame())
    return none


# -- stragglers --------------------------------------------------------------------------------------


class _Steps(NamedTuple):
    times: PartOfStepTimes
    roles: dict[int, str]
    files: list[dict[str, Any]]
    last: pd.DataFrame


def _steps(timings: pd.DataFrame) -> _Steps:
    ranks, files = timings["rank"].unique().tolist(), timings.attrs.get("files", [])
    return _Steps(part_of_step_times(timings), roles_of(timings, ranks, None), files, last_rows(timings))


def _judgement(parts: Sequence[_Steps], stated: Mapping[int, Any] | None) -> Judgement:
    files = [file for part in parts for file in part.files]
    times = whole_step_times([part.times for part in parts], stated_world_size(files))
    known = stated or {rank: role for part in parts for rank, role in part.roles.items()}
    judged = judgement_on(times, roles_of(_of_pandas(), times.ranks, known), files)
    return judged.ending_in(run_end_of([part.last for part in parts], files))


def _stragglers_and_windows(
    parts: Sequence[_Steps], *, roles: Mapping[int, Any] | None = None
) -> StragglersAndWindows:
    return judged_with_windows(_judgement(parts, roles), _of_pandas())


def _scores(parts: Sequence[_Steps], *, roles: Mapping[int, Any] | None = None) -> pd.DataFrame:
    found: pd.DataFrame = scores_of(_judgement(parts, roles), _of_pandas())
    return found


STRAGGLERS = InParts(_steps, _stragglers_and_windows)
"""``stragglers_and_windows``: what is held is a few numbers for each step, and for each collective."""

SCORES = InParts(_steps, _scores)
"""``scores``."""

# -- the end of the run ------------------------------------------------------------------------------


def _end_of_processes(timings: pd.DataFrame) -> tuple[pd.DataFrame, list[dict[str, Any]]]:
    return last_rows(timings), timings.attrs.get("files", [])


def _run_end(
    parts: Sequence[tuple[pd.DataFrame, list[dict[str, Any]]]], now_unix_s: float | None = None
) -> RunEnd:
    files = [file for _, of_part in parts for file in of_part]
    return run_end_of([rows for rows, _ in parts], files, now_unix_s)


HANG = InParts(_end_of_processes, _run_end)
"""``hang``: what is held is the last rows of each process."""


def hang_asked_at(now_unix_s: float) -> InParts[Any, RunEnd]:
    """``hang`` of files that may still be written."""
    return InParts(_end_of_processes, partial(_run_end, now_unix_s=now_unix_s))


# -- the summary ---------------------------------------------------------------------------------------


def _part_of_overview(timings: pd.DataFrame) -> tuple[PartOfSummary, dict[Any, Any]]:
    return part_of_summary(timings), timings.attrs


def _overview(parts: Sequence[tuple[PartOfSummary, dict[Any, Any]]]) -> Summary:
    found, attrs = zip(*parts, strict=True)
    files = [file for of_part in attrs for file in of_part.get("files", [])]
    return whole_summary(found, files, attrs[0].get("left_out", []))


OVERVIEW = InParts(_part_of_overview, _overview)
"""``overview``."""


# -- totals ----------------------------------------------------------------------------------------------


def totals(by: Sequence[str]) -> InParts[PartOfTotals, Any]:
    """``summarize`` by these columns: what is held is a duration for each row, and its group."""
    return InParts(partial(part_of_totals, by=by), partial(whole_totals, by=by))


# -- messages ------------------------------------------------------------------------------------------


def _messages_and_groups(timings: pd.DataFrame) -> pd.DataFrame:
    """The rows of messages, and as few others as tell which ranks a group has, and how many."""
    named = coded_text(opened(timings, ("operation",)), "operation")
    is_message = each_text(named, lambda name: base_operation(name) in ("SEND", "RECV"))
    tells = ~timings.duplicated(["rank", "incarnation", "group", "group_size"]).to_numpy()
    kept: pd.DataFrame = timings[tells | is_message].reset_index(drop=True)
    kept.attrs = timings.attrs  # sidecars tell how many ranks there are
    return kept


def _summed_messages(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    found: pd.DataFrame = summarize_messages(message_waits(_all_rows(tables)))
    return found


MESSAGES = InParts(_messages_and_groups, _summed_messages)
"""``summarize_messages(message_waits(timings))``: what is held is the rows of messages."""


# -- the rows themselves -------------------------------------------------------------------------------


def _themselves(timings: pd.DataFrame) -> pd.DataFrame:
    return timings


def _all_rows(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    rows = _in_one_table(tables)
    rows.attrs["files"] = [file for table in tables for file in table.attrs.get("files", [])]
    return rows


ROWS = InParts(_themselves, _all_rows)
"""All rows: for what cannot be done in parts."""


# -- nothing -------------------------------------------------------------------------------------------


def _nothing_of(_: Any) -> None:
    return None


NOTHING: InParts[None, None] = InParts(_nothing_of, _nothing_of)
"""For whoever asks nothing."""
