"""Tell the incarnations of a job apart by the times of its files, where nothing else tells them apart."""

from __future__ import annotations

from typing import NamedTuple

from timing_logger.reading.sources import Source


def runs_by_times(sources: list[Source]) -> list[list[Source]]:
    """Return the files of each incarnation of a job, the oldest first.

    Args:
        sources: the files, in the order of rank and incarnation.
    """
    runs: list[list[Source]] = []
    while sources:
        newest, _ = newest_run(sources)
        for source in sources:  # the rows of many runs may not fit into memory together
            source.forget_rows()
        taken = set(map(id, newest))
        sources = [source for source in sources if id(source) not in taken]
        runs.insert(0, newest)
    return runs


def newest_run(sources: list[Source]) -> tuple[list[Source], list[tuple[Source, str]]]:
    """Return the newest file of each rank, without ranks that took no part in the newest run, and the others.

    A run with fewer ranks than the one before leaves files of the ranks that it lacks. Such a file had ended
    before the newest file of some other rank began, and it was begun while that rank's file before was still
    being written.
    """
    newest = {source.name.rank: source for source in sources}  # sorted: the last one of a rank stays
    replaced = {s.name.rank: s for s in sources if s is not newest[s.name.rank]}
    # Whether a rank took part shows in the times of other ranks: with one rank alone, no file has to be read.
    restarts = _restarts(newest, replaced) if len(newest) > 1 else []
    kept, left_out = [], []
    for source in sources:
        present = newest[source.name.rank]
        if source is not present:
            left_out.append((source, f"{present.path.name} of the same rank is newer"))
            continue
        successor = _successor(source, restarts)
        if successor is None:
            kept.append(source)
        else:
            reason = f"of an earlier job: it had ended when {successor.path.name} began"
            left_out.append((source, reason))
    return kept, left_out


class _Restart(NamedTuple):
    """The newest file of a rank, when it began, and when the file before it ended, in Unix nanoseconds."""

    new: Source
    began: int
    old_ended: int


def _restarts(newest: dict[int, Source], replaced: dict[int, Source]) -> list[_Restart]:
    pairs = [(newest[rank], newest[rank].lifetime, old.lifetime) for rank, old in replaced.items()]
    return [_Restart(new, span.start, old.end) for new, span, old in pairs if span and old]


def _successor(source: Source, restarts: list[_Restart]) -> Source | None:
    """Return the file of another rank that shows ``source`` to be of an earlier job; None without one."""
    span = source.lifetime if restarts else None
    if span is None:
        return None
    for new, began, old_ended in restarts:
        if span.end < began and span.start <= old_ended and new.name.rank != source.name.rank:
            return new
    return None
