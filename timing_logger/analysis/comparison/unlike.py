"""What the runs of two sides do not have in common, beside their times."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from timing_logger.analysis.comparison.result import Unlike
from timing_logger.analysis.comparison.run_summary import RunSummary

_FACTS: dict[str, Callable[[RunSummary], object]] = {
    "steps": lambda run: run.steps_are,
    "ranks": lambda run: run.n_ranks,
    "world size": lambda run: run.world_size,
    "hosts": lambda run: ", ".join(run.hosts),
}


def unlike_in(runs: Sequence[RunSummary], against: Sequence[RunSummary]) -> tuple[Unlike, ...]:
    """Return in what the sides differ: ranks, hosts, versions and options. What is unknown is not
    compared."""
    return tuple(_unlike(runs, against))


def _unlike(runs: Sequence[RunSummary], against: Sequence[RunSummary]) -> Iterator[Unlike]:
    for about, fact in _FACTS.items():
        yield from _if_unlike(about, runs, against, fact)
    for kind, name in (("version of", "versions"), ("option", "options")):
        for key in sorted({key for run in (*runs, *against) for key in getattr(run, name)}):
            yield from _if_unlike(f"{kind} {key}", runs, against, _stated(name, key))


def _stated(name: str, key: str) -> Callable[[RunSummary], object]:
    return lambda run: getattr(run, name).get(key)


def _if_unlike(
    about: str,
    runs: Sequence[RunSummary],
    against: Sequence[RunSummary],
    fact: Callable[[RunSummary], object],
) -> Iterator[Unlike]:
    here, there = (_texts(side, fact) for side in (runs, against))
    if here and there and here != there:
        yield Unlike(about, here, there)


def _texts(runs: Sequence[RunSummary], fact: Callable[[RunSummary], object]) -> tuple[str, ...]:
    known = {str(value) for run in runs if (value := fact(run)) not in (None, "")}
    return tuple(sorted(known))
