"""Collects the calls of a simulated run whose steps differ, and makes the table of its rows.

``Rows`` does the same faster for runs whose steps all make the same calls.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from timing_logger.analysis.rows.operations import goes_on, is_own_work
from timing_logger.schema.record import HOST_CLOCK
from verdict_accuracy.rows import Call, Kept, typed

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


class _Made(NamedTuple):
    """A call as it was made in one step, with an instant and a sequence number for each of its ranks.

    Attributes:
        call: what is the same whenever it is made.
        step: the step.
        begin_ms, end_ms: when the ranks began and ended it.
        numbers: the ranks' sequence numbers; empty for work.
        inside: the position of the call around it; None if there is none.
    """

    call: Call
    step: int
    begin_ms: Floats
    end_ms: Floats
    numbers: Sequence[int]
    inside: int | None

    @property
    def took_ms(self) -> Floats:
        return self.end_ms - self.begin_ms


class FreeRows:
    """The rows of a run each of whose steps makes calls of its own.

    Attributes:
        clock: the clock of the rows that are added from now on.
    """

    def __init__(self, n_steps: int, n_ranks: int) -> None:
        self.clock = HOST_CLOCK
        self._shape = (n_steps, n_ranks)
        self._made: list[_Made] = []
        self._counts: Counter[object] = Counter()
        self._step = -1
        self._outer: int | None = None

    def begin_step(self) -> None:
        """Begin the next step."""
        self._step += 1

    def add(
        self,
        operation: str,
        ranks: Integers,
        begin_ms: Floats,
        end_ms: Floats,
        numbers: Sequence[int] | None = None,
        **columns: Any,
    ) -> Sequence[int]:
        """Add a call of this step, and return its sequence numbers; ``columns`` are attributes of ``Call``.

        ``numbers`` are those of the call that this one waits for; None if it has numbers of its own.
        """
        call = Call(operation, ranks, **{"clock": self.clock, **columns})
        if numbers is None:
            numbers = self._next_numbers(call)
        self._made.append(_Made(call, self._step, begin_ms, end_ms, numbers, self._outer))
        return numbers

    def _next_numbers(self, call: Call) -> Sequence[int]:
        counters = call.counters
        if not call.numbered_as:
            self._counts.update(counters)
        return [self._counts[counter] - 1 for counter in counters]

    @contextmanager
    def around(self, operation: str, ranks: Integers, now_ms: Callable[[], Floats]) -> Iterator[None]:
        """Return a context manager that adds a row around the calls in its block, from begin to end."""
        place, outer = len(self._made), self._outer
        self.add(operation, ranks, now_ms(), now_ms())
        self._outer = place
        yield
        self._outer = outer
        self._made[place] = self._made[place]._replace(end_ms=now_ms())

    # -- what they come to -------------------------------------------------------------------------

    def self_ms(self, kept: Kept) -> Floats | None:
        """Return the time of own work, less the logged communication inside it, as steps x ranks.

        None if no own work is logged.
        """
        shown = [kept(one.call.operation, one.call.group) for one in self._made]
        own = {i for i, one in enumerate(self._made) if shown[i] and is_own_work(one.call.operation)}
        total = np.zeros(self._shape)
        for i, one in enumerate(self._made):
            if i in own:
                total[one.step, one.call.ranks] += one.took_ms
            elif one.inside in own and shown[i] and not goes_on(one.call.operation):
                total[one.step, one.call.ranks] -= one.took_ms
        return total if own else None

    def table(self, kept: Kept, clock_offsets_s: Floats) -> pd.DataFrame:
        """Return the rows that are logged as ``read_timings`` does: by rank, in the order of their ends.

        Args:
            kept: tells which rows are logged.
            clock_offsets_s: what each rank's clock showed when the run began, in s.
        """
        shown = [one for one in self._made if kept(one.call.operation, one.call.group)]
        values = _columns(shown)
        begin_ms = np.concatenate([one.begin_ms for one in shown])
        end_ms = np.concatenate([one.end_ms for one in shown])
        offsets_s = clock_offsets_s[values["rank"]]
        values["start_counter"] = begin_ms / 1000 + offsets_s
        values["end_counter"] = end_ms / 1000 + offsets_s
        values["elapsed_ms"] = end_ms - begin_ms
        order = np.lexsort((end_ms, values["rank"]))
        return typed({name: column[order] for name, column in values.items()})


def _columns(made: Sequence[_Made]) -> dict[str, npt.NDArray[Any]]:
    """Return the columns of all calls but their times; NaN where there is no value."""
    calls = [one.call for one in made]
    lengths = [len(call.ranks) for call in calls]

    def repeated(values: Sequence[object]) -> npt.NDArray[Any]:
        return np.repeat(np.array(values, dtype=object), lengths)

    return {
        "operation": repeated([call.operation for call in calls]),
        "clock": repeated([call.clock for call in calls]),
        "iteration": np.repeat([one.step for one in made], lengths),
        "rank": np.concatenate([call.ranks for call in calls]),
        "group": np.array([name for c in calls for name in c.groups or [""] * len(c.ranks)], dtype=object),
        "group_size": _numbers(lengths, [call.group_size for call in calls]),
        "message_size_bytes": _numbers(lengths, [call.size_bytes for call in calls]),
        "peer": _numbers(lengths, [call.peers for call in calls]),
        "seq": _numbers(lengths, [one.numbers or None for one in made]),
    }


def _numbers(lengths: Sequence[int], values: Sequence[Any]) -> Floats:
    """Return one number per rank of each call: the rank's own, or the call's; NaN where there is none."""
    return np.concatenate(
        [
            np.broadcast_to(np.asarray(np.nan if value is None else value, float), length)
            for length, value in zip(lengths, values, strict=True)
        ]
    )
