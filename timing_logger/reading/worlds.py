"""Tell the worlds of a run apart: ranks that ``MPI_Comm_spawn`` started count from 0, like the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from timing_logger.errors import ConfigurationError
from timing_logger.reading.sources import Source


class WorldOfRun(NamedTuple):
    """The files of one world of a run.

    Attributes:
        sources: the files, in order.
        others: the files of its other worlds, each with the reason why it is left out.
        about: which worlds there are, and how to ask for the others; "" if there is one.
    """

    sources: list[Source]
    others: list[tuple[Source, str]]
    about: str


def stated_by(source: Source, key: str) -> str:
    """Return a text of the sidecar; "" if it states none."""
    text = (source.sidecar or {}).get(key)
    return text if isinstance(text, str) else ""


def of_world(runs: Mapping[str, list[Source]], world: str) -> dict[str, WorldOfRun]:
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
        raise ConfigurationError(
            f"There is no world {world!r} in these files. "
            + (
                f"The spawned worlds in them: {', '.join(there)}."
                if there
                else "None of their runs spawned one."
            )
        )
    return found


def _worlds(sources: Sequence[Source]) -> dict[str, list[Source]]:
    worlds: dict[str, list[Source]] = {}
    for source in sources:
        worlds.setdefault(stated_by(source, "world"), []).append(source)
    return worlds


def _chosen(worlds: Mapping[str, list[Source]], taken: str) -> WorldOfRun:
    others = {name: worlds[name] for name in sorted(worlds) if name != taken}
    if not others:
        return WorldOfRun(worlds[taken], [], "")
    left_out = [(source, f"of {_named(name)}") for name, sources in others.items() for source in sources]
    _number_incarnations(worlds[taken])
    return WorldOfRun(worlds[taken], left_out, f"This is about {_named(taken)}. {_also(others)}")


def _number_incarnations(sources: Sequence[Source]) -> None:
    seen: Counter[int] = Counter()
    for source in sources:
        seen[source.name.rank] += 1
        source.name = source.name._replace(incarnation=seen[source.name.rank])


def _also(others: Mapping[str, list[Source]]) -> str:
    each = []
    for name, sources in others.items():
        n_ranks = len({source.name.rank for source in sources})
        asked = f" (--world {name})" if name else ""
        each.append(f"{_named(name)}{asked}, {n_ranks} {'rank' if n_ranks == 1 else 'ranks'}")
    return f"The run also has {'; '.join(each)}."


def _named(world: str) -> str:
    return f"the spawned world {world}" if world else "the world that was started first"
