"""The process groups of a trace: their names in rows, their sizes, and the ranks in them."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from timing_logger.importing.trace_events import Args
from timing_logger.schema.timing_files import MAX_RANK

_UNKNOWN = ("", "undefined", "None")
_MOST_INTEGER = 2**62


class Group(NamedTuple):
    """A process group.

    Attributes:
        name: its name in rows: the description and number, as those of groups that time themselves.
        size: the number of its ranks; None if it is not known.
        ranks: its ranks in order; empty if they are not known, or not all of them.
    """

    name: str
    size: int | None
    ranks: tuple[int, ...] = ()

    def place_of(self, rank: Any) -> int | None:
        """Return the place of a rank in the group; the rank itself where its ranks are not known."""
        number = integer(rank)
        return self.ranks.index(number) if number in self.ranks else number


def group_of(args: Args) -> Group | None:
    """Return the group that the arguments of a collective name; None if they name none."""
    if not isinstance(args.group, str):
        return None
    ranks = _ranks(args.group_ranks)
    size = integer(args.group_size) or (len(ranks) or None)
    return Group(_name(args.group_kind, args.group), size, ranks if len(ranks) == size else ())


def only_group(distributed: dict[str, Any]) -> Group | None:
    """Return the group of a run that has only one, by ``distributedInfo`` of its trace; else None."""
    groups = distributed.get("pg_config")
    if not isinstance(groups, list) or len(groups) != 1 or not isinstance(groups[0], dict):
        return None
    only = groups[0]
    size = integer(only.get("pg_size")) or integer(distributed.get("world_size"))
    return Group(_name(only.get("pg_desc"), only.get("pg_name")), size, _ranks(only.get("ranks")))


def integer(value: Any) -> int | None:
    """Return a whole number of at least 0 that a row can hold; None for all else."""
    return value if type(value) is int and 0 <= value < _MOST_INTEGER else None


def rank_of(value: Any) -> int | None:
    """Return a rank, or None for what is none."""
    number = integer(value)
    return number if number is not None and number <= MAX_RANK else None


def _name(kind: Any, name: Any) -> str:
    described = kind if isinstance(kind, str) and kind not in _UNKNOWN else "process group"
    return f"{described} {name}".rstrip()


def _ranks(stated: Any) -> tuple[int, ...]:
    """Return the ranks of a list, which older traces have as text; none if it is shortened by an ellipsis."""
    if isinstance(stated, str):
        try:
            stated = json.loads(stated)
        except (ValueError, RecursionError):
            return ()
    if not isinstance(stated, list) or not all(type(rank) is int for rank in stated):
        return ()
    return tuple(stated)
