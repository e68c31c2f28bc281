"""A job that was started again and again into the same folder: which files are of which of its runs."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from timing_logger.errors import ConfigurationError
from timing_logger.reading.sources import Source

Incarnations: TypeAlias = "Literal['latest', 'all'] | int"


class LeftOut(NamedTuple):
    path: Path
    reason: str


def check_incarnations(incarnations: object) -> None:
    """See that it is something that :func:`of_run` knows.

    Raises:
        ConfigurationError: it is something else.
    """
    is_number = isinstance(incarnations, int) and not isinstance(incarnations, bool)
    if not is_number and incarnations not in ("latest", "all"):
        raise ConfigurationError(
            f"incarnations={incarnations!r}: say 'latest', 'all' or the number of a run."
        )


def of_run(sources: list[Source], incarnations: Incarnations) -> tuple[list[Source], list[LeftOut]]:
    """The files of the latest run, of all runs, or of the run with this number; and the others.

    Args:
        sources: by rank and incarnation.

    Raises:
        ConfigurationError: no run has this number.
    """
    if incarnations == "all":
        return sources, []
    if incarnations == "latest":
        return _newest_run(sources)
    runs = _numbered_runs(sources)
    if incarnations not in runs:
        there = ", ".join(map(str, sorted(runs)))
        raise ConfigurationError(f"incarnations={incarnations}: no run has this number. There are {there}.")
    others = {id(source): number for number, run in runs.items() for source in run if number != incarnations}
    left_out = [LeftOut(s.path, f"of run {others[id(s)]}") for s in sources if id(s) in others]
    return runs[incarnations], left_out


def _numbered_runs(sources: list[Source]) -> dict[int, list[Source]]:
    """All runs, the oldest first, with their numbers.

    The number is the one in the names of a run's files. A rank that was not there in some run before has a
    lower one in its name, so the highest counts; and no two runs have one.
    """
    runs: list[list[Source]] = []
    while sources:
        newest, _ = _newest_run(sources)
        for source in sources:  # of many runs the rows need not fit into memory together
            source.forget_rows()
        taken = set(map(id, newest))
        sources = [source for source in sources if id(source) not in taken]
        runs.insert(0, newest)
    numbered: dict[int, list[Source]] = {}
    for run in runs:
        highest = max(source.name.incarnation for source in run)
        numbered[max(highest, max(numbered, default=0) + 1)] = run
    return numbered


def _newest_run(sources: list[Source]) -> tuple[list[Source], list[LeftOut]]:
    """The newest file of each rank, unless that rank took no part in the newest run.

    A run with fewer ranks than the one before leaves files of the ranks that it lacks. Such a file
    had ended before some other rank's present file began, and was written while the file which
    that one replaced still was.
    """
    newest = {source.name.rank: source for source in sources}  # sorted: the last one of a rank stays
    replaced = {s.name.rank: s for s in sources if s is not newest[s.name.rank]}
    # Whether a rank took part is seen in the times of others: of one alone no file need be read for them.
    restarts = _restarts(newest, replaced) if len(newest) > 1 else []
    kept, left_out = [], []
    for source in sources:
        present = newest[source.name.rank]
        if source is not present:
            left_out.append(LeftOut(source.path, f"{present.path.name} of the same rank is newer"))
            continue
        successor = _successor(source, restarts)
        if successor is None:
            kept.append(source)
        else:
            reason = f"of an earlier job: it had ended when {successor.path.name} began"
            left_out.append(LeftOut(source.path, reason))
    return kept, left_out


class _Restart(NamedTuple):
    """The newest file of a rank, when it began, and when the one before it ended, in Unix nanoseconds."""

    new: Source
    began: int
    old_ended: int


def _restarts(newest: dict[int, Source], replaced: dict[int, Source]) -> list[_Restart]:
    pairs = [(newest[rank], newest[rank].lifetime, old.lifetime) for rank, old in replaced.items()]
    return [_Restart(new, span.start, old.end) for new, span, old in pairs if span and old]


def _successor(source: Source, restarts: list[_Restart]) -> Source | None:
    """The file of another rank that shows ``source`` to be of an earlier job."""
    span = source.lifetime if restarts else None
    if span is None:
        return None
    for new, began, old_ended in restarts:
        if span.end < began and span.start <= old_ended and new.name.rank != source.name.rank:
            return new
    return None
