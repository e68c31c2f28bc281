"""Select the files of one run of a job that was started several times into the same folder."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from timing_logger.errors import ConfigurationError
from timing_logger.reading.sources import Source

Incarnations: TypeAlias = "Literal['latest', 'all'] | int"


class LeftOut(NamedTuple):
    """A file that is not read, and why."""

    path: Path
    reason: str


def check_incarnations(incarnations: object) -> None:
    """Check that ``incarnations`` is a value that :func:`of_run` takes.

    Raises:
        ConfigurationError: it is not.
    """
    is_number = isinstance(incarnations, int) and not isinstance(incarnations, bool)
    if not is_number and incarnations not in ("latest", "all"):
        raise ConfigurationError(
            f"incarnations={incarnations!r}: say 'latest', 'all' or the number of a run."
        )


def of_run(sources: list[Source], incarnations: Incarnations) -> tuple[list[Source], list[LeftOut]]:
    """Select the files of the latest run, of all runs, or of the run with a number.

    Args:
        sources: the files, in the order of rank and incarnation.
        incarnations: "latest", "all", or the number of a run.

    Returns:
        The selected files, and the others with the reason why they are left out.

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
        raise ConfigurationError(f"There is no run {incarnations} in these files. The runs in them: {there}.")
    others = {id(source): number for number, run in runs.items() for source in run if number != incarnations}
    left_out = [LeftOut(s.path, f"of run {others[id(s)]}") for s in sources if id(s) in others]
    return runs[incarnations], left_out


def _numbered_runs(sources: list[Source]) -> dict[int, list[Source]]:
    """Return the files of all runs by the number of the run, the oldest first.

    A run has the number in the names of its files. A rank that took no part in some earlier run has a lower
    number in its name, so the highest counts. Numbers are raised where needed, so that no two runs share one.
    """
    runs: list[list[Source]] = []
    while sources:
        newest, _ = _newest_run(sources)
        for source in sources:  # the rows of many runs may not fit into memory together
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
