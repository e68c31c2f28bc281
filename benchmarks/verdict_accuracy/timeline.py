"""When each rank of a simulated run does what: of the run as it went, and of the same had nobody been slow.

A step is told as a program: work, collectives that nobody leaves before all have come, messages. Times are
arrays of variants x ranks: variant 0 is the run as it went, and its rows are kept; variant 1 went through the
same random numbers with the culprits healthy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from verdict_accuracy.rows import Rows

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

JITTER = 0.01
"""Sigma of the lognormal noise of each single piece of work, beside that of its step."""

TRANSFER_JITTER = 0.05
POSTING_MS = 0.1
"""What a message takes its sender, and its receiver once it is there."""


class Conditions(NamedTuple):
    """What happens to the ranks; each is variants x steps x ranks.

    Attributes:
        factor: what their usual times are multiplied by.
        pause_ms: how long they stand still in the step.
        link: what the time of each transfer in which they take part is multiplied by.
    """

    factor: Floats
    pause_ms: Floats
    link: Floats


class Timeline:
    """The clocks of all ranks in both variants, in ms since the run began.

    Attributes:
        now_ms: variants x ranks.
        everybody: all ranks.
        rows: of variant 0.
    """

    def __init__(self, conditions: Conditions, rng: np.random.Generator) -> None:
        self._conditions, self._rng = conditions, rng
        n_variants, self._n_steps, self.n_ranks = conditions.factor.shape
        self.now_ms = np.zeros((n_variants, self.n_ranks))
        self.everybody = np.arange(self.n_ranks)
        self.rows = Rows(self._n_steps, self.n_ranks)
        self._mail: dict[object, Floats] = {}

    def steps(self) -> Iterator[int]:
        """Every step in its turn; each must make the same calls."""
        for step in range(self._n_steps):
            self._factor, pause_ms, self._link = (each[:, step] for each in self._conditions)
            self._pause_ms = pause_ms.copy()
            self.rows.begin_step()
            yield step

    def work(self, name: str, usual_ms: float, ranks: Integers | None = None) -> None:
        """Own work, with a row unless ``name`` is "". A pause falls into the first of a step."""
        ranks = self.everybody if ranks is None else ranks
        jitter = np.exp(self._rng.normal(0.0, JITTER, len(ranks)))
        took_ms = usual_ms * self._factor[:, ranks] * jitter + self._pause_ms[:, ranks]
        self._pause_ms[:, ranks] = 0.0
        self._until(name, ranks, self.now_ms[:, ranks] + took_ms)

    @contextmanager
    def block(self, name: str) -> Iterator[None]:
        """A row around all that is done inside it."""
        with self.rows.around(name, self.everybody, lambda: self.now_ms[0].copy()):
            yield

    def collective(
        self,
        operation: str,
        transfer_ms: float,
        groups: Sequence[Integers],
        names: Sequence[str],
        size_bytes: int,
    ) -> None:
        """Within each group, equal in size, nobody leaves before the last has come and all is transferred."""
        members = np.asarray(groups)
        n_groups, size = members.shape
        jitter = np.exp(self._rng.normal(0.0, TRANSFER_JITTER, n_groups))
        transfer = transfer_ms * jitter * self._link[:, members].max(axis=-1)
        done_ms = self.now_ms[:, members].max(axis=-1) + transfer
        self._until(
            operation, members.ravel(), np.repeat(done_ms, size, axis=1),
            groups=np.repeat(names, size).tolist(), group_size=size, size_bytes=size_bytes,
        )  # fmt: skip

    def send(self, group: str, ranks: Integers, to: Integers, tag: object, latency_ms: float) -> None:
        """A message, known by its tag, that its sender need not see arrive."""
        slower = np.maximum(self._link[:, ranks], self._link[:, to])
        self._mail[tag] = self.now_ms[:, ranks] + latency_ms * slower
        self._until("SEND", ranks, self.now_ms[:, ranks] + POSTING_MS, **self._message(group, ranks, to))

    def receive(self, group: str, ranks: Integers, source: Integers, tag: object) -> None:
        """Wait for a message."""
        ends_ms = np.maximum(self.now_ms[:, ranks], self._mail.pop(tag)) + POSTING_MS
        self._until("RECV", ranks, ends_ms, **self._message(group, ranks, source))

    def exchange(self, group: str, latency_ms: float) -> None:
        """Each rank sends to the next and receives from the one before, then waits for both."""
        ranks, posted_ms = self.everybody, self.now_ms.copy()
        to, source = np.roll(ranks, -1), np.roll(ranks, 1)
        sent_ms = posted_ms + latency_ms * np.maximum(self._link, self._link[:, to])
        for operation, peers, done_ms in (("ISEND", to, sent_ms), ("IRECV", source, sent_ms[:, source])):
            columns, begin_ms = self._message(group, ranks, peers), self.now_ms[0]
            self.now_ms = np.maximum(self.now_ms, done_ms)
            self.rows.add(operation, ranks, posted_ms[0], self.now_ms[0], **columns)
            self.rows.add("WAIT", ranks, begin_ms, self.now_ms[0], numbered_as=operation, **columns)
        self.now_ms = self.now_ms.copy()  # rows hold the old ones

    def _message(self, group: str, ranks: Integers, peers: Integers) -> dict[str, Any]:
        return {"groups": [group] * len(ranks), "peers": peers, "group_size": self.n_ranks}

    def _until(self, name: str, ranks: Integers, ends_ms: Floats, **columns: Any) -> None:
        begin_ms = self.now_ms[0, ranks]
        self.now_ms[:, ranks] = ends_ms
        if name:
            self.rows.add(name, ranks, begin_ms, ends_ms[0], **columns)
