"""Find out whether a run ended, and if not, which ranks hang in which call since when, and which never came.

The answer is based on what is on disk when the processes are gone: rows of calls that were still open,
written after ``hang_after``, and sidecars that every living process refreshes every 10 s.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import pandas as pd
from narwhals.typing import IntoDataFrame

from timing_logger.analysis.hangs.last_rows import INTERRUPTED, has_failed, last_rows
from timing_logger.analysis.hangs.open_calls import Ending, ending_of, rows_by_rank
from timing_logger.analysis.hangs.sidecar_state import (
    LastWords,
    Moment,
    end_of_last_stall,
    end_of_longest_stall,
    last_words,
    went_on_after,
)
from timing_logger.analysis.hangs.stuck_groups import stuck_groups
from timing_logger.analysis.hangs.who_waits import Causes, stuck_messages, why_it_hangs
from timing_logger.analysis.rows.analysis import COLUMNS_OF, ByProcess
from timing_logger.analysis.rows.arrays import Record
from timing_logger.analysis.rows.files import File, different_runs
from timing_logger.analysis.rows.operations import is_own_work
from timing_logger.reading.named_ranks import lacking, lacking_in_words, stated_world_size
from timing_logger.results import criteria
from timing_logger.results.plain import SET_UP
from timing_logger.results.run_end import Fate, How, RankEnd, RunEnd, RunState, StuckGroup
from timing_logger.schema.defaults import HANG_AFTER_S
from timing_logger.schema.record import INFLIGHT
from timing_logger.words.hang import in_words, with_earlier


def fates_of(ending: Ending) -> tuple[Fate, ...]:
    """Return how the ranks ended, of which it is known, the first to end first."""
    last = ending.rows[ending.rows["ended_s"].notna()].sort_values("ended_s").groupby("rank")["status"].last()
    found: dict[tuple[How, str], list[int]] = {}
    for rank in sorted(ending.words, key=lambda rank: ending.seen_s.get(rank, math.inf)):
        fate = _fate(ending.words[rank], str(last.get(rank, "")))
        if fate is not None:
            found.setdefault(fate, []).append(rank)
    return tuple(Fate(how, what, tuple(sorted(ranks))) for (how, what), ranks in found.items())


def _fate(one: LastWords, last_status: str) -> tuple[How, str] | None:
    if "KeyboardInterrupt" in one.ended_by or (one.closed and last_status in INTERRUPTED):
        return "interrupted", ""
    if one.signal:
        return "signal", one.signal
    if one.killed:
        return "killed", ""
    if not one.closed:
        return None
    if one.ended_by:
        return "failed", one.ended_by
    return ("failed", last_status.removeprefix("error:")) if has_failed(last_status) else ("closed", "")


def hang(timings: IntoDataFrame, *, now_unix_s: float | None = None) -> RunEnd:
    """Find out whether the run came to its end, and which ranks hang if not.

    Args:
        timings: as ``read_timings`` returns, with its attributes: the sidecars tell which processes closed
            their logs, and when each was alive.
        now_unix_s: the current Unix time in seconds, to tell a run in progress from one that was killed.
            Without it, no run is in progress.
    """
    return run_end_of([last_rows(timings)], getattr(timings, "attrs", {}).get("files", []), now_unix_s)


def run_end_of(
    parts: Sequence[pd.DataFrame], files: Sequence[File], now_unix_s: float | None = None
) -> RunEnd:
    """Find out from the last rows of all processes whether the run ended, as :func:`hang` does.

    Args:
        parts: as :func:`last_rows` returned them, at least one.
        files: ``attrs["files"]`` of ``read_timings``.
        now_unix_s: as that of :func:`hang`.
    """
    words = last_words(files)
    rows = pd.concat(parts, ignore_index=True) if len(parts) > 1 else parts[0]
    if not words and not (rows["status"] == INFLIGHT).any():
        return RunEnd(state="unknown")
    ending = ending_of(rows, words)
    world_size, mixed = stated_world_size(files), different_runs(files)
    lacks = lacking_in_words(lacking(files))
    n_hosts = len({one.host for one in ending.words.values()} - {""})
    say = partial(in_words, n_hosts=n_hosts, mixed=mixed, lacks=lacks)
    end = replace(_end_of(ending, world_size, mixed, now_unix_s), fates=fates_of(ending))
    if lacks and end.state == "ended":
        end = replace(end, state="unfinished")
    if any("end" in one.not_told for one in words.values()):
        return _as_far_as_told(say(end), words)
    earlier = None if _lives(ending, now_unix_s) else _stood_still(rows, words, world_size, mixed)
    if earlier is None:
        return say(end)
    then, moment = earlier
    if not went_on_after(ending.rows, moment):
        return say(replace(then, fates=end.fates))
    return with_earlier(say(end), in_words(then, n_hosts=n_hosts), moment.at_unix_s - moment.since_unix_s)


def _stood_still(
    rows: pd.DataFrame, words: Mapping[int, LastWords], world_size: int | None, mixed: str
) -> tuple[RunEnd, Moment] | None:
    """Return how the run stood when it last hung, or hung for longest, and when that was; None if never."""
    for moment in (end_of_last_stall(words), end_of_longest_stall(words)):
        if moment is not None:
            then = _end_of(ending_of(rows, words, moment), world_size, mixed, None)
            if then.hangs:
                return then, moment
    return None


def _lives(ending: Ending, now_unix_s: float | None) -> bool:
    """Tell whether some process of the run lives, as far as is known."""
    open_ones = (rank for rank, one in ending.words.items() if one.closed is False and not one.killed)
    seen_s = max((ending.seen_s.get(rank, -math.inf) for rank in open_ones), default=-math.inf)
    return now_unix_s is not None and now_unix_s - seen_s < criteria.GONE_AFTER_S


def _end_of(ending: Ending, world_size: int | None, mixed: str, now_unix_s: float | None) -> RunEnd:
    """Find out how a run stood at its last sign of life; without ``sentences``."""
    dead = _dead(ending)
    found_groups = [*stuck_set_up(ending, world_size), *stuck_groups(ending, world_size)]
    groups = [_never_to_end(one, dead) for one in found_groups]
    messages = stuck_messages(ending, world_size)
    gone = sorted({*_silent(ending), *dead})
    hanging = [one for one in groups if one.hangs], [one for one in messages if one.hangs]
    failed = tuple(one for one in groups if not one.hangs and one.failed)
    state = _state(ending, any(hanging) or _stands_still(ending, gone), bool(failed), now_unix_s)
    may_blame = state == "hang" and not mixed
    found = why_it_hangs(groups, messages, gone) if may_blame else Causes((), ())
    return RunEnd(
        state=state,
        culprits=found.culprits,
        circle=found.circle,
        groups=tuple(hanging[0]),
        messages=tuple(hanging[1]),
        younger=tuple(one for one in groups if not one.hangs and one.inside),
        failed=failed,
        gone=tuple(gone),
        unclosed=tuple(rank for rank, one in ending.words.items() if one.closed is False),
        ranks=tuple(_rank_ends(ending, gone, dead)),
        hang_after_s=min((one.hang_after_s for one in ending.words.values()), default=HANG_AFTER_S),
        last_sign_unix_s=None if math.isnan(ending.last_sign_s) else ending.last_sign_s,
    )


def _state(ending: Ending, hangs: bool, failed: bool, now_unix_s: float | None) -> RunState:
    if hangs:
        return "hang"
    closed = [one.closed for one in ending.words.values()]
    if False in closed:
        lives = any(one.closed is False and not one.killed for one in ending.words.values())
        is_live = lives and now_unix_s is not None and now_unix_s - ending.last_sign_s < criteria.GONE_AFTER_S
        return "running" if is_live else "unfinished"
    if not any(closed):
        return "unknown"
    return "failed" if failed else "ended"


def _stands_still(ending: Ending, gone: Collection[int]) -> bool:
    """Tell whether some ranks fell silent, and all others began and recorded nothing for ``hang_after``.

    A rank that fell silent may be in a call that holds the interpreter's lock, so that no thread could write
    of it.
    """
    left = [one for rank, one in ending.words.items() if rank not in gone]
    idle = [one.closed is False and (one.idle_s or 0.0) >= one.hang_after_s for one in left]
    return bool(gone) and bool(idle) and all(idle)


def _dead(ending: Ending) -> frozenset[int]:
    """Return the ranks that are known to have ended without closing, where not all did.

    Of a job that was killed as a whole nobody can say who ended first.
    """
    killed = frozenset(rank for rank, one in ending.words.items() if one.killed)
    return killed if len(killed) < len(ending.words) else frozenset()


def _never_to_end(group: StuckGroup, dead: frozenset[int]) -> StuckGroup:
    """Return the collective as one that hangs, of whatever age, if ranks wait in it for one that is dead."""
    waits_in_vain = bool(group.inside) and not dead.isdisjoint(group.missing)
    return replace(group, hangs=True) if waits_in_vain else group


def _silent(ending: Ending) -> list[int]:
    """Return the ranks that did not close, and whose refreshes stopped long before those of the others."""
    return [
        rank
        for rank, one in ending.words.items()
        if one.closed is False
        and one.has_heartbeat
        and not (one.alive_ns and one.open_calls)  # it holds the interpreter's lock in that call
        and rank in ending.seen_s
        and ending.last_sign_s - ending.seen_s[rank] > criteria.GONE_AFTER_S
    ]


def _rank_ends(ending: Ending, gone: Collection[int], dead: Collection[int]) -> Iterable[RankEnd]:
    rows = ending.rows
    ended = rows[rows["ended_s"].notna()]
    last = ended.loc[ended.groupby("rank")["ended_s"].idxmax()].set_index("rank").to_dict("index")
    is_open = rows[rows["is_open"]]
    busy = rows_by_rank(is_open[is_open["operation"].map(is_own_work).astype(bool)].sort_values("began_s"))
    none = rows[:0]
    for rank in ending.words:
        told = last.get(rank), busy.get(rank, none)
        yield _rank_end(ending, rank, *told, gone=rank in gone, dead=rank in dead)


def _rank_end(
    ending: Ending, rank: int, last: Record | None, busy: pd.DataFrame, *, gone: bool, dead: bool
) -> RankEnd:
    """Collect the last that is known of a rank.

    Args:
        ending: the end of the run.
        rank: the rank.
        last: the row of the rank that ended last; None if no row tells an end.
        busy: the rows of the rank's own work that were open, the innermost last.
        gone: whether the rank is gone.
        dead: whether it is known to have ended without closing, and others are not.
    """
    one = ending.words[rank]
    seen_s, not_told = ending.seen_s.get(rank, math.nan), "instants" in one.not_told
    return RankEnd(
        rank=rank,
        incarnation=one.incarnation,
        closed=one.closed,
        gone=gone,
        killed=dead,
        silent_s=ending.before_the_end_s(seen_s),
        operation="" if last is None else str(last["operation"]),
        layer_name="" if last is None else str(last["layer_name"]),
        iteration=None if last is None or math.isnan(last["iteration"]) else int(last["iteration"]),
        status="" if last is None else str(last["status"]),
        ended_s=None if last is None or not_told else ending.before_the_end_s(float(last["ended_s"])),
        busy_with=str(busy["operation"].iloc[-1]) if len(busy) else "",
        busy_s=ending.before_the_end_s(float(busy["began_s"].iloc[-1])) if len(busy) else None,
        idle_stack=one.idle_stack,
        signal=one.signal,
    )


# -- from parts --------------------------------------------------------------------------------------


class _Part(NamedTuple):
    rows: pd.DataFrame
    files: list[File]


def _map(timings: pd.DataFrame) -> _Part:
    return _Part(last_rows(timings), timings.attrs.get("files", []))


def _reduce(parts: Sequence[_Part], now_unix_s: float | None = None) -> RunEnd:
    files = [file for part in parts for file in part.files]
    return run_end_of([part.rows for part in parts], files, now_unix_s)


HANG = ByProcess(COLUMNS_OF["hang"], _map, _reduce)
"""The analysis :func:`hang` in parts: a part holds the last rows of each process."""


def hang_as_of(now_unix_s: float) -> ByProcess[_Part, RunEnd]:
    """Return the analysis :func:`hang` of files that may still be written.

    Args:
        now_unix_s: the current Unix time in seconds.
    """
    return replace(HANG, reduce=partial(_reduce, now_unix_s=now_unix_s))


# -- what can be said of the end of a run that was imported from a source that does not tell it ----------
# Its files are closed when the import ends, and open as long as it follows what grows: neither is of the run.


def _as_far_as_told(end: RunEnd, words: Mapping[int, LastWords]) -> RunEnd:
    """Return the end of a run without what only the files of the import tell.

    Args:
        end: the end as it was if processes of the run had written the files, with its ``sentences``.
        words: what the sidecars say, by rank, of which some were made from what does not tell the end.
    """
    fates = tuple(fate for fate in end.fates if fate.how != "closed")
    if end.state not in ("ended", "unfinished", "running"):
        return replace(end, fates=fates)
    goes_on = any(one.goes_on for one in words.values())
    state: RunState = "running" if end.state == "running" and goes_on else "unknown"
    return replace(end, state=state, fates=fates, sentences=tuple(_sentences(end, goes_on)))


def _sentences(end: RunEnd, goes_on: bool) -> Iterable[str]:
    if end.state == "running":
        yield (
            "The import goes on, and follows what grows. Whether the run does is not told by what it was "
            "imported from."
        )
    elif goes_on:
        yield (
            "The import followed what grows, and had not ended when it was last heard of. How the run went "
            "on is not known."
        )
    else:
        yield "How the run ended is not told by what it was imported from."


# -- ranks that wait for each other before there is a group of them, and those that never came -----------


def stuck_set_up(ending: Ending, world_size: int | None) -> Iterator[StuckGroup]:
    """Find the calls of the set-up that did not end: each is made by all ranks, the nth of a name together.

    Args:
        ending: the end of the run.
        world_size: the number of ranks in the run; None if unknown.
    """
    rows = ending.rows[ending.rows["operation"].isin(SET_UP)]
    is_open = rows[rows["is_open"]]
    for (operation, seq), inside in is_open.groupby(["operation", "seq"]):
        entered = set(rows["rank"][(rows["operation"] == operation) & (rows["seq"] >= seq)])
        yield _stuck(ending, str(operation), int(seq), inside, entered, world_size)


def _stuck(
    ending: Ending, operation: str, seq: int, inside: pd.DataFrame, entered: set[int], world_size: int | None
) -> StuckGroup:
    began_s = {int(row["rank"]): float(row["began_s"]) for _, row in inside.iterrows()}
    size = world_size or max((int(size) for size in inside["group_size"].dropna()), default=None)
    return StuckGroup(
        group="",
        group_size=size,
        seq=seq or None,
        operation=operation,
        inside=tuple(sorted(began_s)),
        inside_s={rank: ending.before_the_end_s(began_s[rank]) for rank in sorted(began_s)},
        missing=tuple(rank for rank in ending.words if rank not in entered),
        unread=tuple(rank for rank in range(size or 0) if rank not in ending.words),
        since_s=ending.before_the_end_s(min(began_s.values())),
        hangs=bool(inside["hangs"].any()),
    )
