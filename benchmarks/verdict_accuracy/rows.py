"""Collects the calls of a simulated run with their times, and makes the table of its rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from timing_logger.analysis.rows.operations import is_own_work
from timing_logger.schema.record import COLUMNS, FIELDS, FURTHER, HOST_CLOCK, TEXTS

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Kept = Callable[[str, str], bool]
"""A function that tells whether rows of (operation, group) are logged."""

_INTEGERS = tuple(field.name for field in FIELDS if field.kind == "integer")
_ALL_ALIKE = {
    "layer_name": "", "phase": "train", "clock": HOST_CLOCK, "thread": "MainThread",
    "status": "ok", "stream": "", **{name: "" if name in TEXTS else np.nan for name in FURTHER},
}  # fmt: skip


class Call(NamedTuple):
    """One call on several ranks, with the columns that are the same in each step.

    Attributes:
        operation: the operation's name.
        ranks: the ranks that make the call.
        groups: the group's name for each of ``ranks``; empty without a group.
        peers: the other rank for each of ``ranks``; None if it is no message.
        group_size: the number of ranks in each group.
        size_bytes: the message size.
        numbered_as: the operation whose latest sequence numbers its rows have, as for a WAIT; "" if they
            have numbers of their own.
        clock: the clock of its rows.
    """

    operation: str
    ranks: Integers
    groups: Sequence[str] = ()
    peers: Integers | None = None
    group_size: int | None = None
    size_bytes: int | None = None
    numbered_as: str = ""
    clock: str = HOST_CLOCK

    @property
    def group(self) -> str:
        return self.groups[0] if self.groups else ""

    @property
    def counters(self) -> list[tuple[object, ...]]:
        """The key of each rank's sequence numbers; empty for work, which has none.

        Collectives are numbered per group, messages per direction and peer.
        """
        if self.peers is None:
            return list(zip(self.groups, self.ranks.tolist(), strict=False))
        operation = self.numbered_as or self.operation
        pairs = zip(self.groups, self.ranks.tolist(), self.peers.tolist(), strict=True)
        return [(operation, *pair) for pair in pairs]


class Rows:
    """The rows of a run whose steps all make the same calls, in the same order."""

    def __init__(self, n_steps: int, n_ranks: int) -> None:
        self._shape = (n_steps, n_ranks)
        self._calls: list[Call] = []
        self._inside: list[int | None] = []
        self._numbers: list[list[int]] = []
        self._spans: list[list[tuple[Floats, Floats]]] = []
        self._counts: Counter[object] = Counter()
        self._at, self._outer = 0, None

    def begin_step(self) -> None:
        """Begin the next step, with its first call."""
        self._at = 0

    def add(self, operation: str, ranks: Integers, begin_ms: Floats, end_ms: Floats, **columns: Any) -> None:
        """Add the next call of the step; ``columns`` are attributes of ``Call``."""
        if self._at == len(self._calls):
            self._meet(Call(operation, ranks, **columns))
        self._spans[self._at].append((begin_ms, end_ms))
        self._at += 1

    @contextmanager
    def around(self, operation: str, ranks: Integers, now_ms: Callable[[], Floats]) -> Iterator[None]:
        """Return a context manager that adds a row around the calls in its block, from begin to end."""
        place, begin_ms, outer = self._at, now_ms(), self._outer
        self.add(operation, ranks, begin_ms, begin_ms)
        self._outer = place
        yield
        self._outer = outer
        self._spans[place][-1] = (begin_ms, now_ms())

    def _meet(self, call: Call) -> None:
        if not call.numbered_as:
            self._counts.update(call.counters)
        self._calls.append(call)
        self._inside.append(self._outer)
        self._numbers.append([self._counts[counter] - 1 for counter in call.counters])
        self._spans.append([])

    # -- what they come to -------------------------------------------------------------------------

    def self_ms(self, kept: Kept) -> Floats | None:
        """Return the time of own work, less the logged communication inside it, as steps x ranks.

        None if no own work is logged.
        """
        own = {
            place
            for place, call in enumerate(self._calls)
            if is_own_work(call.operation) and kept(call.operation, call.group)
        }
        total = np.zeros(self._shape)
        for place, call in enumerate(self._calls):
            if place in own:
                total[:, call.ranks] += self._took_ms(place)
            elif self._inside[place] in own and kept(call.operation, call.group):
                total[:, call.ranks] -= self._took_ms(place)
        return total if own else None

    def _took_ms(self, place: int) -> Floats:
        return np.stack([end_ms - begin_ms for begin_ms, end_ms in self._spans[place]])

    def table(self, kept: Kept, clock_offsets_s: Floats) -> pd.DataFrame:
        """Return the rows that are logged as ``read_timings`` does: by rank, in the order of their ends.

        Args:
            kept: tells which rows are logged.
            clock_offsets_s: what each rank's clock showed when the run began, in s.
        """
        places = [i for i, call in enumerate(self._calls) if kept(call.operation, call.group)]
        begin_ms, end_ms = (self._instants_ms(places, i) for i in (0, 1))
        one_step = self._columns_of_a_step(places)
        n_steps = self._shape[0]
        values = {name: np.tile(column, n_steps) for name, column in one_step.items()}
        steps = np.repeat(np.arange(n_steps), len(one_step["rank"]))
        offsets_s = clock_offsets_s[values["rank"]]
        values["seq"] = values["seq"] + steps * values.pop("per_step")
        values["iteration"] = steps
        values["start_counter"], values["end_counter"] = (
            begin_ms / 1000 + offsets_s,
            end_ms / 1000 + offsets_s,
        )
        values["elapsed_ms"] = end_ms - begin_ms
        order = np.lexsort((end_ms, values["rank"]))
        return typed({name: column[order] for name, column in values.items()})

    def _instants_ms(self, places: Sequence[int], which: int) -> Floats:
        """Return begins (``which`` = 0) or ends (1) of the calls at ``places``, step by step, flat."""
        return np.concatenate(
            [np.stack([span[which] for span in self._spans[place]]) for place in places], axis=1
        ).ravel()

    def _columns_of_a_step(self, places: Sequence[int]) -> dict[str, npt.NDArray[Any]]:
        """Return the columns of one step's calls; NaN where there is no value.

        They are the same in each step, but for ``seq``, which grows by ``per_step``.
        """
        calls = [self._calls[place] for place in places]
        return {
            "operation": np.repeat(
                [call.operation for call in calls], [len(call.ranks) for call in calls]
            ).astype(object),
            "group": np.array(
                [name for c in calls for name in c.groups or [""] * len(c.ranks)], dtype=object
            ),
            "rank": np.concatenate([call.ranks for call in calls]),
            "group_size": _numbers(calls, [call.group_size for call in calls]),
            "message_size_bytes": _numbers(calls, [call.size_bytes for call in calls]),
            "peer": _numbers(calls, [call.peers for call in calls]),
            "seq": _numbers(calls, [self._numbers[place] for place in places]),
            "per_step": _numbers(calls, [[self._counts[c] for c in call.counters] for call in calls]),
        }


def _numbers(calls: Sequence[Call], values: Sequence[Any]) -> Floats:
    """Return one number per rank of each call: the rank's own, or the call's; NaN where there is none."""
    parts = (np.nan if value is None or not np.size(value) else value for value in values)
    return np.concatenate(
        [
            np.broadcast_to(np.asarray(part, float), len(call.ranks))
            for part, call in zip(parts, calls, strict=True)
        ]
    )


def typed(values: dict[str, npt.NDArray[Any]]) -> pd.DataFrame:
    """Return a table of ``values`` with the columns and types that ``read_timings`` returns."""
    length = len(values["rank"])
    alike = {name: np.full(length, value, dtype=object) for name, value in _ALL_ALIKE.items()}
    table = pd.DataFrame({**alike, **values, "epoch": np.full(length, np.nan), "incarnation": 1})
    table["timestamp"] = pd.Timestamp("2026-02-06", tz="UTC")
    return table.astype(dict.fromkeys(_INTEGERS, "Int64"))[[*COLUMNS, "rank", "incarnation"]]
