"""Select the files of one run out of a folder into which several runs wrote, one after another or at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from timing_logger.errors import ConfigurationError
from timing_logger.reading.sources import Source

Incarnations: TypeAlias = "Literal['latest', 'all'] | int"

_MOST_NAMED = 3


class LeftOutFile(NamedTuple):
    """A file that is not read, and why."""

    path: Path
    reason: str


class Chosen(NamedTuple):
    """The files of one run, of one world of it, or of all.

    Attributes:
        sources: the chosen files, in the order of rank and incarnation.
        left_out: the others.
        about: which run and world the files are of, and how to ask for other worlds; "" if there are none but
            incarnations.
    """

    sources: list[Source]
    left_out: list[LeftOutFile]
    about: str


def stated_by(source: Source, key: str) -> str:
    """Return a text of the sidecar; "" if it states none."""
    text = (source.sidecar or {}).get(key)
    return text if isinstance(text, str) else ""


class Run(NamedTuple):
    """The files of one run, or of one incarnation of it.

    Attributes:
        number: from 1, in the order in which they began.
        run_id: as the sidecars say; "" if they say none.
        sources: the files.
    """

    number: int
    run_id: str
    sources: list[Source]

    def __str__(self) -> str:
        return f"run {self.number} ({self.run_id})" if self.run_id else f"run {self.number}"


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


def of_run(sources: list[Source], incarnations: Incarnations, world: str = "") -> Chosen:
    """Select the files of the latest run, of all runs, or of the run with a number.

    Sidecars tell runs apart by their ``run_id``. Files of one run, and files that state none, are of the same
    incarnation or not by their times. If there are several runs, the incarnation of a file becomes the number
    of its run: jobs that run at the same time find different numbers free on different ranks.

    Args:
        sources: the files, in the order of rank and incarnation.
        incarnations: "latest", "all", or the number of a run.
        world: the world of the run whose files are wanted; "" for the one that was started first.

    Raises:
        ConfigurationError: no run has this number, or no file is of this world.
    """
    worlds = of_world(by_run_id(sources), world)
    if len(worlds) > 1:
        return _of_several(worlds, incarnations)
    (one,) = worlds.values()
    if incarnations == "all":
        found = Chosen(one.sources, [], "")
    elif incarnations == "latest":
        found = Chosen(*newest_run(one.sources), about="")
    else:
        numbered = _numbered(runs_by_times(one.sources), _highest_incarnation)
        runs = [Run(number, "", run) for number, run in numbered.items()]
        found = _of_number(runs, incarnations)
    return _with_other_worlds(found, one)


def by_run_id(sources: Iterable[Source]) -> dict[str, list[Source]]:
    """Return the files of each run that sidecars tell apart.

    Files that state no run count to the others if these are of one run; else they are on their own.
    """
    found: dict[str, list[Source]] = {}
    in_order = list(sources)
    for source in in_order:
        found.setdefault(stated_by(source, "run_id"), []).append(source)
    stated = [run_id for run_id in found if run_id]
    return {stated[0]: in_order} if len(stated) == 1 else found


def number_of_run(sources: list[Source], path: Path) -> int | None:
    """Return by which number :func:`of_run` knows the run of a file; None if that run is the latest."""
    worlds = of_world(by_run_id(sources), "")
    if len(worlds) == 1:
        return None
    *earlier, _ = _all_runs(worlds)
    of_file = [run.number for run in earlier if path in [source.path for source in run.sources]]
    return of_file[0] if of_file else None


def numbers_of_runs(sources: list[Source]) -> list[int]:
    """Return the numbers by which :func:`of_run` knows the runs of these files, the oldest first.

    Args:
        sources: the files, in the order of rank and incarnation.
    """
    worlds = of_world(by_run_id(sources), "")
    if len(worlds) > 1:
        return [run.number for run in _all_runs(worlds)]
    (one,) = worlds.values()
    if len({source.name.rank for source in one.sources}) == len(one.sources):
        return [max(source.name.incarnation for source in one.sources)]  # no file has to be read for it
    return list(_numbered(runs_by_times(one.sources), _highest_incarnation))


def _highest_incarnation(run: Sequence[Source]) -> int:
    return max(source.name.incarnation for source in run)


# -- several runs ----------------------------------------------------------------------------------------


def _of_several(worlds: dict[str, Chosen], incarnations: Incarnations) -> Chosen:
    runs = _all_runs(worlds)
    for run in runs:
        for source in run.sources:
            source.name = source.name._replace(incarnation=run.number)
    if incarnations == "all":
        everything = sorted((s for run in runs for s in run.sources), key=lambda source: source.name)
        chosen = Chosen(everything, [], f"This is about all runs in these files: {_named(runs)}.")
        of_chosen = list(worlds.values())
    else:
        number = runs[-1].number if incarnations == "latest" else incarnations
        chosen = _of_number(runs, number)
        of_chosen = [worlds[run.run_id] for run in runs if run.number == number]
    for one in of_chosen:
        chosen = _with_other_worlds(chosen, one)
    return chosen


def _all_runs(worlds: dict[str, Chosen]) -> list[Run]:
    """Return all runs in the order in which they began."""
    found = [(run_id, run) for run_id, one in worlds.items() for run in runs_by_times(one.sources)]
    found.sort(key=lambda run: _began_ns(run[1]))
    numbered = _numbered([run for _, run in found], lambda run: run[0].name.incarnation)
    ids = [run_id for run_id, _ in found]
    return [Run(number, of, run) for of, (number, run) in zip(ids, numbered.items(), strict=True)]


def _began_ns(run: Sequence[Source]) -> int:
    """Return when a run began: as its sidecars say, which needs no rows, or else as its rows do."""
    stated = [(source.sidecar or {}).get("started_unix_ns") for source in run]
    known = [instant for instant in stated if isinstance(instant, int)]
    known = known or [life.start for life in (source.lifetime for source in run) if life]
    return min(known, default=0)


def _numbered(
    runs: Iterable[list[Source]], number_of: Callable[[list[Source]], int]
) -> dict[int, list[Source]]:
    """Return the runs by their numbers, which are raised where needed, so that no two runs share one.

    Args:
        runs: the files of each run, the oldest run first.
        number_of: returns the number that the names of a run's files state. That is the highest among them if
            one run followed the other: a rank that took no part in some earlier run has a lower one. Jobs
            that ran at the same time took numbers by chance, and the first rank's counts.
    """
    numbered: dict[int, list[Source]] = {}
    for run in runs:
        numbered[max(number_of(run), max(numbered, default=0) + 1)] = run
    return numbered


def _of_number(runs: list[Run], number: int) -> Chosen:
    asked = next((run for run in runs if run.number == number), None)
    if asked is None:
        there = ", ".join(str(run.number) for run in runs)
        raise ConfigurationError(f"There is no run {number} in these files. The runs in them: {there}.")
    others = [run for run in runs if run is not asked]
    left_out = [LeftOutFile(source.path, f"of {run}") for run in others for source in run.sources]
    which = f"{asked}, which began last" if asked is runs[-1] else str(asked)
    about = f"This is about {which}. Left out: {_named(others)}." if others else ""
    return Chosen(asked.sources, sorted(left_out), about)


# -- worlds of a run -------------------------------------------------------------------------------------


def of_world(runs: Mapping[str, list[Source]], world: str) -> dict[str, Chosen]:
    """Select the files of one world in each run that has it.

    In a run with several worlds, whose ranks took names from each other, a file's incarnation becomes its
    place among those of its rank in its world.

    Args:
        runs: the files of each run.
        world: the name of the world; "" for the one that was started first, or, in a run without a file of
            it, the first by name.

    Raises:
        ConfigurationError: no run has this world.
    """
    found = {}
    for run_id, sources in runs.items():
        worlds = _worlds(sources)
        taken = world if world in worlds or world else min(worlds)
        if taken in worlds:
            found[run_id] = _chosen(worlds, taken)
    if not found:
        there = sorted({name for sources in runs.values() for name in _worlds(sources) if name})
        named = f"The spawned worlds in them: {', '.join(there)}."
        said = named if there else "None of their runs spawned one."
        raise ConfigurationError(f"There is no world {world!r} in these files. {said}")
    return found


def _worlds(sources: Sequence[Source]) -> dict[str, list[Source]]:
    worlds: dict[str, list[Source]] = {}
    for source in sources:
        worlds.setdefault(stated_by(source, "world"), []).append(source)
    return worlds


def _chosen(worlds: Mapping[str, list[Source]], taken: str) -> Chosen:
    others = {name: worlds[name] for name in sorted(worlds) if name != taken}
    if not others:
        return Chosen(worlds[taken], [], "")
    left_out = [
        LeftOutFile(source.path, f"of {_world_named(name)}")
        for name, sources in others.items()
        for source in sources
    ]
    seen: Counter[int] = Counter()
    for source in worlds[taken]:
        seen[source.name.rank] += 1
        source.name = source.name._replace(incarnation=seen[source.name.rank])
    return Chosen(worlds[taken], left_out, f"This is about {_world_named(taken)}. {_also(others)}")


def _also(others: Mapping[str, list[Source]]) -> str:
    each = []
    for name, sources in others.items():
        n_ranks = len({source.name.rank for source in sources})
        asked = f" (--world {name})" if name else ""
        each.append(f"{_world_named(name)}{asked}, {n_ranks} {'rank' if n_ranks == 1 else 'ranks'}")
    return f"The run also has {'; '.join(each)}."


def _world_named(world: str) -> str:
    return f"the spawned world {world}" if world else "the world that was started first"


# -- in words --------------------------------------------------------------------------------------------


def _with_other_worlds(chosen: Chosen, one: Chosen) -> Chosen:
    about = " ".join(filter(None, (chosen.about, one.about)))
    return chosen._replace(left_out=[*chosen.left_out, *one.left_out], about=about)


def _named(runs: Sequence[Run]) -> str:
    """Name the latest runs, and count the others."""
    earlier = len(runs) - _MOST_NAMED
    more = [f"{earlier} earlier"] if earlier > 0 else []
    return ", ".join([*map(str, runs[-_MOST_NAMED:]), *more])


# -- incarnations of a job told apart by the times of its files, where nothing else does -----------------


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


def newest_run(sources: list[Source]) -> tuple[list[Source], list[LeftOutFile]]:
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
            left_out.append(LeftOutFile(source.path, f"{present.path.name} of the same rank is newer"))
            continue
        successor = _successor(source, restarts)
        if successor is None:
            kept.append(source)
        else:
            reason = f"of an earlier job: it had ended when {successor.path.name} began"
            left_out.append(LeftOutFile(source.path, reason))
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
