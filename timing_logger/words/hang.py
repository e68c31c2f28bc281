"""State the end of a run in sentences, the most important first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from timing_logger.reading.named_ranks import capital, named_ranks
from timing_logger.results.plain import ONE_SIDED, SET_UP
from timing_logger.results.run_end import Fate, RankEnd, RunEnd, StuckGroup, StuckMessage, by_signals
from timing_logger.schema.record import escape_text

_MOST_TOLD = 6
_SETTLED = (
    "A rank counts as gone when its sidecar, which a living process refreshes every 10 s, is more than 30 s "
    "older than the newest."
)


def in_words(end: RunEnd, *, n_hosts: int, lacks: str = "", mixed: str = "") -> RunEnd:
    """Return the end of a run with its ``sentences``.

    Args:
        end: the end of the run.
        lacks: of which ranks rows are missing; "" if of none.
        n_hosts: the number of hosts that the ranks were on; their wall clocks may differ.
        mixed: why the files look like those of different runs; "" if they do not.
    """
    if end.state == "hang":
        told = [*_hang(end), *_on_fates(end.fates), *_rests_on(end, n_hosts)]
    elif end.state in ("unfinished", "running"):
        told = [*_without_a_hang(end), *_on_failed(end), *(_rests_on(end, n_hosts) if end.gone else ())]
    elif end.state == "failed":
        told = list(_on_failed(end))
    elif end.state == "ended":
        told = ["The run ended: every file was closed, and nothing was left open."]
    else:
        told = []
    if end.state not in ("hang", "unknown") and by_signals(end.fates):
        told += _on_fates(end.fates)
    if lacks:
        told.append(f"{capital(lacks)}.")
    if told and mixed:
        told.append(f"The files look like those of different runs, so nobody can be blamed: {mixed}.")
    return replace(end, sentences=tuple(map(escape_text, told)))


def with_earlier(end: RunEnd, then: RunEnd, lasted_s: float) -> RunEnd:
    """Return the end of a run whose sentences tell, too, of an earlier hang from which it went on.

    Args:
        end: the end of the run.
        then: how it stood at the end of that hang, with its ``sentences``.
        lasted_s: how long nothing was begun or recorded, in s.
    """
    told = f"Before, the run stood still for {_seconds(lasted_s)}, and went on:"
    return replace(end, sentences=(*end.sentences, " ".join((told, *then.sentences[:2]))))


# -- a hang --------------------------------------------------------------------------------------------


def _hang(end: RunEnd) -> Iterable[str]:
    if not end.groups and not end.messages:
        yield from _standing_still(end)
    groups = sorted(end.groups, key=lambda group: _distance_from_the_end(end, group))
    told = [one for one in end.messages if not one.in_background or not groups or one.rank in end.culprits]
    messages = sorted(told, key=lambda one: (one.in_background, one.peer not in end.culprits))
    if end.circle and not any(group.mismatch for group in groups):
        yield _circle(end)
    if not groups and messages:
        yield _on_message(end, messages.pop(0))
    for i, group in enumerate(groups[:_MOST_TOLD]):
        yield _on_group(end, group)
        if i == 0:
            yield from _on_culprits(end)
    for message in messages[:_MOST_TOLD]:
        yield _on_message(end, message)
    if not groups:
        yield from _on_culprits(end)
    if (left := max(0, len(groups) - _MOST_TOLD) + max(0, len(messages) - _MOST_TOLD)) > 0:
        yield f"{left} more calls hang."


def _standing_still(end: RunEnd) -> Iterable[str]:
    left = [rank.rank for rank in end.ranks if not rank.gone]
    yield (
        f"The run stands still: {named_ranks(end.gone)} fell silent, and of {named_ranks(left)} nothing more "
        "was recorded. No call is known to hang, so nobody can tell who waits for whom."
    )
    yield from _on_silent_and_idle(end)


def _distance_from_the_end(end: RunEnd, group: StuckGroup) -> int:
    """Return how far a collective is from the cause of the hang, from 0 to 2.

    It is 0 where ranks disagree, and where they wait only for culprits or for no known rank; 1 where they
    wait for a culprit among others; else 2.
    """
    awaited = {*group.missing, *group.odd, *group.unblocked, *(set(group.inside) & set(end.gone))}
    culprits = set(end.culprits)
    if group.mismatch or awaited <= culprits:
        return 0
    return 1 if awaited & culprits else 2


def _on_group(end: RunEnd, group: StuckGroup) -> str:
    what, long = _collective(group), _for(group.since_s)
    inside = f"{named_ranks(group.inside)} {_have(group.inside)} been"
    if group.mismatch:
        where = f"{inside} in it{long}" if group.inside else _failures(group)
        return f"Ranks disagree on {what}: {group.mismatch}; {where}."
    if group.missing:
        among = _both(f"{inside}{long}" if group.inside else "", _failures(group))
        came = "left no sign of having entered" if group.silent == group.missing else "never entered"
        return f"{capital(named_ranks(group.missing))} {came} {what}, in which {among}."
    if group.unread or group.unknown_ranks:
        failures = f"{_failures(group)} in {what}" if group.failed else ""
        among = _both(f"{inside} in {what}{long}" if group.inside else "", failures)
        return f"{capital(among)}; {_unread(group)}."
    lost = sorted(set(group.inside) & set(end.gone))
    if lost:
        return f"{capital(named_ranks(lost))} fell silent inside {what}, in which {inside}{long}."
    if group.unblocked:
        return (
            f"{capital(inside)} in {what}{long}; {named_ranks(group.unblocked)} {_have(group.unblocked)} it "
            f"under way too, but {_are(group.unblocked)} not waiting for it."
        )
    return (
        f"{capital(inside)} in {what}{long}, and nobody is missing: what hangs is the exchange itself, in "
        "the network or the library, or ranks of which nothing was recorded."
    )


def _both(*parts: str) -> str:
    return " and ".join(filter(None, parts))


def _collective(group: StuckGroup) -> str:
    """Name a collective, as ``ALLREDUCE 100 of MPI_COMM_WORLD``."""
    name = (
        "a collective" if group.mismatch.startswith("operations") or not group.operation else group.operation
    )
    number = (
        "" if group.seq is None else f" {group.seq}" if name == group.operation else f" (number {group.seq})"
    )
    return f"{name}{number}{f' of {group.group}' if group.group else ''}"


def _failures(group: StuckGroup) -> str:
    by_status: dict[str, list[int]] = {}
    for rank, status in group.failed.items():
        by_status.setdefault(status, []).append(rank)
    return ", ".join(f"{named_ranks(ranks)} failed ({status})" for status, ranks in by_status.items())


def _unread(group: StuckGroup) -> str:
    if group.unread and group.operation in SET_UP:
        return f"{_no_file_of(group.unread)}, or not come so far as to import torch or mpi4py"
    if group.unread:
        return f"nothing was read of {named_ranks(group.unread)}"
    n = group.unknown_ranks
    return f"nothing was read of {n} other rank{'s' * (n > 1)} of the group"


def _no_file_of(ranks: Sequence[int]) -> str:
    if len(ranks) == 1:
        return f"there is no file of {named_ranks(ranks)}, whose process has not started"
    return f"there are no files of {named_ranks(ranks)}, whose processes have not started"


def _on_message(end: RunEnd, message: StuckMessage) -> str:
    numbered = "" if message.seq is None else f" (number {message.seq} of {message.group or 'its group'})"
    is_one_sided = message.operation.strip().upper() in ONE_SIDED  # nothing goes before or after these
    where = "of" if is_one_sided else "to" if "SEND" in message.operation.upper() else "from"
    peer = {"from": "any source", "of": "its window"}.get(where, "a rank that cannot be told")
    with_whom = peer if message.peer is None else f"rank {message.peer}"
    call = f"{message.operation} {where} {with_whom}{numbered}"
    told = f"Rank {message.rank} has been in {call}{_for(message.since_s)}"
    if message.in_background:
        return (
            f"Rank {message.rank} has had {call} under way{_for(message.since_s)}, and is in no call that "
            "waits for it."
        )
    if message.peer is None:
        return f"{told}."
    if message.has_partner:
        return f"{told}; rank {message.peer} made the call that belongs to it, so their tags may differ."
    other = end.of_rank().get(message.peer)
    if other is None:
        return f"{told}, of which nothing was read."
    return f"{told}; rank {message.peer} {_where(end, other)}."


# -- who caused it -------------------------------------------------------------------------------------


def _on_culprits(end: RunEnd) -> Iterable[str]:
    ranks = end.of_rank()
    for rank in end.culprits[:_MOST_TOLD]:
        if rank in ranks:
            yield _on_rank(end, ranks[rank])
    if len(end.culprits) > _MOST_TOLD:
        yield f"The same may hold for {len(end.culprits) - _MOST_TOLD} more ranks."


def _on_rank(end: RunEnd, rank: RankEnd) -> str:
    return f"Rank {rank.rank} {_where(end, rank)}{_last(rank)}."


def _where(end: RunEnd, rank: RankEnd) -> str:
    """State what the rank was doing, in words that begin with a verb."""
    if rank.killed:
        seen = f"; before, it was seen at {rank.idle_stack[0]}" if rank.idle_stack else ""
        return f"ended without closing its log, as a killed process does{seen}"
    if rank.gone:
        return f"is gone, stopped, or stuck in C code: its last sign of life was {_ago(rank.silent_s)}"
    if rank.closed:
        return "had come to its end and closed its log"
    for group in (*end.groups, *end.younger):
        if rank.rank in group.inside and rank.rank not in (*group.unblocked, *group.pending):
            return f"is in {_collective(group)}{_for(group.inside_s.get(rank.rank))}"
    for message in end.messages:
        if message.rank == rank.rank and not message.in_background:
            return f"is in {message.operation}{_for(message.since_s)}"
    stack = f", at {rank.idle_stack[0]}" if rank.idle_stack else ""
    if rank.busy_with:
        return f"has been in {rank.busy_with}{_for(rank.busy_s)}{stack}"
    if rank.idle_stack:
        return f"was last seen at {rank.idle_stack[0]}"
    return "is in no call that is recorded"


def _last(rank: RankEnd) -> str:
    if not rank.operation:
        return "; it has no row that tells an end"
    of = f" of iteration {rank.iteration}" if rank.iteration is not None else ""
    layer = f" ({rank.layer_name})" if rank.layer_name else ""
    failed = f", which ended as {rank.status}" if rank.status.startswith("error") else ""
    return f"; the last that it recorded was {rank.operation}{of}{layer}, {_ago(rank.ended_s)}{failed}"


def _circle(end: RunEnd) -> str:
    round_trip = " -> ".join(map(str, (*end.circle, end.circle[0])))
    return (
        f"{capital(named_ranks(end.circle))} wait for each other in a circle ({round_trip}): nobody in it "
        "can go on, so they communicate in different orders."
    )


# -- without a hang --------------------------------------------------------------------------------------


def _without_a_hang(end: RunEnd) -> Iterable[str]:
    dead = [rank.rank for rank in end.ranks if rank.killed]
    if dead:
        yield _on_dead(dead)
    if end.state == "running":
        yield f"The run is in progress: nothing is open for longer than {end.hang_after_s:.0f} s."
    elif not end.unclosed:
        yield "Whether the run ended is not known: only the files that are here were closed."
    else:
        n_files = len(end.ranks)
        files = "its file was" if n_files == 1 else f"{len(end.unclosed)} of {n_files} files were"
        yield (
            f"The run did not end: {files} not closed, so it was killed or is still running"
            f"{_signalled(end)}. Nothing is known to hang."
        )
    yield from _on_silent_and_idle(end)
    for group in end.younger[:_MOST_TOLD]:
        if group.mismatch and group.inside:
            yield _on_group(end, group)
            continue
        told = f"{capital(named_ranks(group.inside))} {_are(group.inside)} in {_collective(group)}"
        absent = f"; {named_ranks(group.missing)} had not entered it" if group.missing else ""
        if group.inside:
            yield f"{told}{_for(group.since_s)}, which is no hang yet{absent}."


def _on_dead(dead: Sequence[int]) -> str:
    one = len(dead) == 1
    logs, processes = ("its log", "a killed process does") if one else ("their logs", "killed processes do")
    return f"{capital(named_ranks(dead))} ended without closing {logs}, as {processes}."


def _on_silent_and_idle(end: RunEnd) -> Iterable[str]:
    ranks = end.of_rank()
    idle = [rank for rank in end.unclosed if rank not in end.gone and ranks[rank].idle_stack]
    silent = [rank for rank in end.gone if not ranks[rank].killed]
    for rank in (*silent[:_MOST_TOLD], *idle):
        yield _on_rank(end, ranks[rank])


def _on_failed(end: RunEnd) -> Iterable[str]:
    for group in end.failed[:_MOST_TOLD]:
        yield f"{capital(_failures(group))} in {_collective(group)}, after which its group never met again."


def _on_fates(fates: Sequence[Fate]) -> Iterable[str]:
    """State how the ranks ended, in the order of time."""
    if any(fate.how != "closed" for fate in fates):
        yield f"What ended it: {'; then '.join(map(_fate, fates))}."


def _fate(fate: Fate) -> str:
    ranks, were = named_ranks(fate.ranks), "was" if len(fate.ranks) == 1 else "were"
    said = {
        "closed": "closed the log",
        "interrupted": f"{were} interrupted, as by Ctrl-C",
        "signal": f"got {fate.what}",
        "killed": "ended without closing the log, as a killed process does",
        "failed": f"failed ({fate.what})",
    }
    return f"{ranks} {said[fate.how]}"


def _signalled(end: RunEnd) -> str:
    signals = sorted({rank.signal for rank in end.ranks} - {""})
    return f" ({signals[0]} came)" if signals else ""


def _rests_on(end: RunEnd, n_hosts: int) -> Iterable[str]:
    if any(rank.gone and not rank.killed for rank in end.ranks):
        yield _SETTLED
    if n_hosts > 1:
        yield f"Times compare the wall clocks of {n_hosts} hosts, and are as far off as these differ."


# -- words -------------------------------------------------------------------------------------------------


def _for(since_s: float | None) -> str:
    return "" if since_s is None else f" for {_seconds(since_s)}"


def _ago(before_s: float | None) -> str:
    return (
        "at an unknown time"
        if before_s is None
        else f"{_seconds(before_s)} before the run's last sign of life"
    )


def _seconds(duration_s: float) -> str:
    return f"{duration_s:.0f} s" if duration_s >= 9.95 else f"{duration_s:.1f} s"


def _have(ranks: Iterable[int]) -> str:
    return "has" if len(list(ranks)) == 1 else "have"


def _are(ranks: Iterable[int]) -> str:
    return "is" if len(list(ranks)) == 1 else "are"
