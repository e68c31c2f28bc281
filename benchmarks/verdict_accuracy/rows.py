"""The rows of a simulated run: which calls a step makes, when each was made, and the table of it all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from timing_logger.analysis.operations import is_own_work
from timing_logger.record import COLUMNS

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Kept = Callable[[str, str], bool]
"""Whether rows of (operation, group) are logged."""

_INTEGERS = ("iteration", "epoch", "message_size_bytes", "group_size", "seq", "peer")
_ALL_ALIKE = {
    "layer_name": "", "phase": "train", "clock": "host", "thread": "MainThread", "status": "ok", "stream": "",
}  # fmt: skip


class Call(NamedTuple):
    """What is the same in each step of the rows of one call on several ranks.

    Attributes:
        ranks: that make it; ``groups`` and ``peers`` go with them.
        numbered_as: its rows have the numbers of this operation's latest, as a WAIT has; "" if their own.
    """

    operation: str
    ranks: Integers
    groups: Sequence[str] = ()
    peers: Integers | None = None
    group_size: int | None = None
    size_bytes: int | None = None
    numbered_as: str = ""

    @property
    def group(self) -> str:
        return self.groups[0] if self.groups else ""

    @property
    def counters(self) -> list[tuple[object, ...]]:
        """Collectives are numbered in their group, messages by direction and peer; work is not."""
        if self.peers is None:
            return list(zip(self.groups, self.ranks.tolist(), strict=False))
        operation = self.numbered_as or self.operation
        pairs = zip(self.groups, self.ranks.tolist(), self.peers.tolist(), strict=True)
        return [(operation, *pair) for pair in pairs]


class Rows:
    """Of a run whose steps all make the same calls, in the same order."""

    def __init__(self, n_steps: int, n_ranks: int) -> None:
        self._shape = (n_steps, n_ranks)
        self._calls: list[Call] = []
        self._inside: list[int | None] = []
        self._numbers: list[list[int]] = []
        self._spans: list[list[tuple[Floats, Floats]]] = []
        self._counts: Counter[object] = Counter()
        self._at, self._outer = 0, None

    def begin_step(self) -> None:
        self._at = 0

    def add(self, operation: str, ranks: Integers, begin_ms: Floats, end_ms: Floats, **columns: Any) -> None:
        """The next call of the step; ``columns`` as in ``Call``."""
        if self._at == len(self._calls):
            self._meet(Call(operation, ranks, **columns))
        self._spans[self._at].append((begin_ms, end_ms))
        self._at += 1

    @contextmanager
    def around(self, operation: str, ranks: Integers, now_ms: Callable[[], Floats]) -> Iterator[None]:
        """A row from now until then, around the calls that are made inside."""
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
        """Steps x ranks: rows of own work less the logged communication inside; None if none is logged."""
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
        """The rows that are logged, as ``read_timings`` returns them: by rank, in the order of their ends.

        Args:
            clock_offsets_s: what each rank's clock showed when the run began.
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
        return _typed({name: column[order] for name, column in values.items()})

    def _instants_ms(self, places: Sequence[int], which: int) -> Floats:
        """Step after step, in each the calls at these places."""
        return np.concatenate(
            [np.stack([span[which] for span in self._spans[place]]) for place in places], axis=1
        ).ravel()

    def _columns_of_a_step(self, places: Sequence[int]) -> dict[str, npt.NDArray[Any]]:
        """The columns that are the same in each step, or grow by ``per_step``; NaN where there is nothing."""
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
    """One for each rank of each call: its own, or the call's; NaN where there is none."""
    parts = (np.nan if value is None or not np.size(value) else value for value in values)
    return np.concatenate(
        [
            np.broadcast_to(np.asarray(part, float), len(call.ranks))
            for part, call in zip(parts, calls, strict=True)
        ]
    )


def _typed(values: dict[str, npt.NDArray[Any]]) -> pd.DataFrame:
    length = len(values["rank"])
    texts = {name: np.full(length, text, dtype=object) for name, text in _ALL_ALIKE.items()}
    table = pd.DataFrame({**values, **texts, "epoch": np.full(length, np.nan), "incarnation": 1})
    table["timestamp"] = pd.Timestamp("2026-02-06", tz="UTC")
    return table.astype(dict.fromkeys(_INTEGERS, "Int64"))[[*COLUMNS, "rank", "incarnation"]]
