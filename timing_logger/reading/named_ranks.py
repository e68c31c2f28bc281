"""Name ranks in sentences and tables."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from timing_logger.reading.content import SharedFacts
from timing_logger.results import criteria

SELECTED = "selected_ranks"
"""The key under which a file's description lists the ranks that were asked for, if not all were."""


def select(
    timings: pd.DataFrame, *, ranks: Collection[int] | None = None, iterations: slice | None = None
) -> pd.DataFrame:
    """Return the rows of ``ranks`` in ``iterations``, with the attributes of the files of those ranks.

    Args:
        timings: a table that ``read_timings`` returned.
        ranks: the ranks; None for all.
        iterations: the iterations from ``start`` to before ``stop``, in every epoch; rows outside of any
            iteration are left out then. None for all rows.
    """
    chosen: pd.DataFrame = timings
    if ranks is not None:
        chosen = chosen[chosen["rank"].isin(list(ranks))]
    if iterations is not None:
        start, stop = iterations.start, iterations.stop
        chosen = chosen[chosen["iteration"].notna()]
        if start is not None:
            chosen = chosen[chosen["iteration"] >= start]
        if stop is not None:
            chosen = chosen[chosen["iteration"] < stop]
    chosen = chosen.reset_index(drop=True)
    chosen.attrs = dict(timings.attrs)
    if ranks is not None and "files" in timings.attrs:
        chosen.attrs["files"] = SharedFacts(
            {**file, SELECTED: sorted(ranks)} for file in timings.attrs["files"] if file["rank"] in ranks
        )
    return chosen


def in_ranges(numbers: Iterable[int]) -> str:
    """Format numbers as ranges, as the command line takes them: ``{0, 1, 2, 5}`` -> ``0-2,5``."""
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in successive(numbers))


def successive(numbers: Iterable[int]) -> list[list[int]]:
    """Return numbers in ascending order, successive ones in one list."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return runs


def as_given(iterations: slice) -> str:
    """Format a range of iterations as the command line takes it: ``slice(100, None)`` -> ``100:``."""
    return ":".join("" if end is None else str(end) for end in (iterations.start, iterations.stop))


MOST_NAMED = 8
"""The most ranks, or ranges of ranks, that are named; the others are only counted."""


def named_ranks(ranks: Iterable[int]) -> str:
    """Name ranks in words, as ``rank 3``, ``ranks 0, 1 and 3`` or ``ranks 0 to 62 and 64``."""
    chosen = set(ranks)
    told = _told(chosen)
    listed = f"{', '.join(told[:-1])} and {told[-1]}" if len(told) > 1 else "".join(told)
    return f"rank{'s' * (len(chosen) > 1)} {listed}"


def listed_ranks(ranks: Iterable[int]) -> str:
    """List ranks without a word between, as ``4 to 7`` or ``0, 4, 8``; of many the rest are counted."""
    return ", ".join(_told(set(ranks)))


def capital(sentence: str) -> str:
    """Return a sentence with its first letter in upper case."""
    return sentence[:1].upper() + sentence[1:]


def _told(ranks: set[int]) -> list[str]:
    """Return each rank as text, more than 3 successive ones as a range; last, how many are left out."""
    told: list[str] = []
    n_named = 0
    for run in successive(ranks):
        for part in [run] if len(run) > 3 else [[rank] for rank in run]:
            if len(told) == MOST_NAMED:
                return [*told, f"{len(ranks) - n_named} more"]
            told.append(f"{part[0]} to {part[-1]}" if len(part) > 1 else str(part[0]))
            n_named += len(part)
    return told


# -- of which ranks of a run there are no rows, or not all: absent data is no good news ------------------


class Lack(NamedTuple):
    """A rank of which rows are missing.

    Attributes:
        rank: the rank.
        reason: what is known of it, with a place for the name of the rank: "the file of {} is empty".
        by_choice: whether its logger was told to record nothing.
    """

    rank: int
    reason: str
    by_choice: bool = False


def stated_world_size(files: Iterable[Mapping[str, Any]]) -> int | None:
    """Return the number of ranks in the run that its sidecars state; None if none does, or they disagree.

    A number that no run can have counts as none.

    Args:
        files: ``attrs["files"]`` of ``read_timings``.
    """
    stated = {(file.get("sidecar") or {}).get("world_size") for file in files} - {None}
    size = stated.pop() if len(stated) == 1 else None
    return size if size and size <= criteria.MAX_RANKS else None


def lacking(files: Sequence[Mapping[str, Any]]) -> list[Lack]:
    """Return the ranks of a run of which rows are missing, as far as the sidecars of the others tell.

    Args:
        files: ``attrs["files"]`` of ``read_timings``, of all files that were read.
    """
    return [*_without_file(files), *filter(None, map(_cut, files))]


def lacking_in_words(lacks: Iterable[Lack], *, by_choice: bool = False) -> str:
    """Say in a sentence, without a full stop, of which ranks rows are missing; "" if of none.

    Args:
        lacks: what :func:`lacking` returned.
        by_choice: whether to say it of ranks that were to record nothing, or of all others.
    """
    ranks_by_reason: dict[str, list[int]] = {}
    for lack in lacks:
        if lack.by_choice is by_choice:
            ranks_by_reason.setdefault(lack.reason, []).append(lack.rank)
    return "; ".join(reason.format(named_ranks(ranks)) for reason, ranks in ranks_by_reason.items())


def _without_file(files: Sequence[Mapping[str, Any]]) -> Iterator[Lack]:
    recording = _recording_ranks(files)
    present = {file["rank"] for file in files}
    for rank in sorted(_expected_ranks(files) - present):
        if recording is not None and rank not in recording:
            yield Lack(rank, "{} recorded nothing, as the option ranks of the loggers asks", by_choice=True)
        else:
            yield Lack(rank, f"there is no file of {{}}, and the run had {stated_world_size(files)} ranks")


def _expected_ranks(files: Sequence[Mapping[str, Any]]) -> set[int]:
    everybody = set(range(stated_world_size(files) or 0))
    asked = [set(file[SELECTED]) for file in files if file.get(SELECTED) is not None]
    return everybody.intersection(*asked)


def _recording_ranks(files: Sequence[Mapping[str, Any]]) -> set[int] | None:
    """Return the ranks that were to record; None for all."""
    stated = [((file.get("sidecar") or {}).get("options") or {}).get("ranks") for file in files]
    chosen = [ranks for ranks in stated if isinstance(ranks, list)]
    return {rank for ranks in chosen for rank in ranks} if len(chosen) == len(stated) > 0 else None


def _cut(file: Mapping[str, Any]) -> Lack | None:
    """Return that a file is shorter than its logger left it; None if it is not, as far as is known."""
    n_bytes, written = file.get("bytes"), (file.get("sidecar") or {}).get("written_bytes")
    if n_bytes == 0:
        return Lack(file["rank"], "the file of {} is empty")
    if n_bytes is None or not isinstance(written, int) or n_bytes >= written:
        return None
    return Lack(
        file["rank"], f"of the {written:,} bytes that the logger of {{}} wrote, {n_bytes:,} are there"
    )
