"""Computes the times of all calls in a simulated run, and in the same run without its fault.

A step is a program of work, messages, and collectives that no rank leaves before all have entered. Times are
arrays of variants x ranks. Variant 0 is the run itself, and its rows are kept. Variant 1 has the same random
numbers, but the culprits are healthy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from verdict_accuracy.noise import lognormal
from verdict_accuracy.rows import Rows

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

JITTER = 0.01
"""Sigma of the lognormal noise of each single piece of work, in addition to the noise of its step."""

TRANSFER_JITTER = 0.05
"""Sigma of the lognormal noise of each transfer."""

RowsOf = Callable[[int, int], Any]
"""Makes the collection of a run's rows, of the numbers of its steps and ranks."""

POSTING_MS = 0.1
"""The time in ms that a message costs its sender, and its receiver after it has arrived."""


class Conditions(NamedTuple):
    """The conditions under which ranks work; each array is variants x steps x ranks.

    Attributes:
        factor: what the ranks' usual times are multiplied by.
        pause_ms: how long the ranks pause in the step, in ms.
        link: what the time of each transfer in which a rank takes part is multiplied by.
        load: what the rank's share of uneven work, such as the tokens of its experts, is multiplied by.
        save_ms: how long the rank saves at the end of the step, in ms.
    """

    factor: Floats
    pause_ms: Floats
    link: Floats
    load: Floats
    save_ms: Floats


class Timeline:
    """The clocks of all ranks in both variants, in ms since the run began.

    Attributes:
        now_ms: the current time of each rank, as variants x ranks.
        everybody: all ranks.
        rows: the rows of variant 0.
    """

    def __init__(self, conditions: Conditions, rng: np.random.Generator, rows_of: RowsOf = Rows) -> None:
        self._conditions, self._rng = conditions, rng
        n_variants, self._n_steps, self.n_ranks = conditions.factor.shape
        self.now_ms = np.zeros((n_variants, self.n_ranks))
        self.everybody = np.arange(self.n_ranks)
        self.rows = rows_of(self._n_steps, self.n_ranks)
        self._mail: dict[object, Floats] = {}

    def steps(self) -> Iterator[int]:
        """Yield one step after the other; each must make the same calls."""
        for step in range(self._n_steps):
            now = Conditions(*(each[:, step] for each in self._conditions))
            self._factor, self._link, self._load, self._save_ms = now.factor, now.link, now.load, now.save_ms
            self._pause_ms = now.pause_ms.copy()
            self.rows.begin_step()
            yield step

    def work(self, name: str, usual_ms: float | Floats, ranks: Integers | None = None) -> None:
        """Do own work, with a row unless ``name`` is ""; a pause falls into the first work of a step.

        Args:
            name: the operation's name.
            usual_ms: how long it usually takes, in ms: one number, or one for each of ``ranks``.
            ranks: the ranks that work; None for all.
        """
        ranks = self.everybody if ranks is None else ranks
        jitter = lognormal(self._rng, JITTER, len(ranks))
        took_ms = usual_ms * self._factor[:, ranks] * jitter + self._pause_ms[:, ranks]
        self._pause_ms[:, ranks] = 0.0
        self._until(name, ranks, self.now_ms[:, ranks] + took_ms)

    @contextmanager
    def block(self, name: str) -> Iterator[None]:
        """Return a context manager that makes a row of all ranks around its block."""
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
        """Run a collective in each group: no rank leaves before the last one has come and all is transferred.

        Args:
            operation: the operation's name.
            transfer_ms: how long the transfer usually takes, in ms.
            groups: the ranks of each group; all groups have the same size.
            names: the groups' names.
            size_bytes: the message size.
        """
        members = np.asarray(groups)
        n_groups, size = members.shape
        jitter = lognormal(self._rng, TRANSFER_JITTER, n_groups)
        transfer = transfer_ms * jitter * self._link[:, members].max(axis=-1)
        done_ms = self.now_ms[:, members].max(axis=-1) + transfer
        self._until(
            operation, members.ravel(), np.repeat(done_ms, size, axis=1),
            groups=np.repeat(names, size).tolist(), group_size=size, size_bytes=size_bytes,
        )  # fmt: skip

    def send(self, group: str, ranks: Integers, to: Integers, tag: object, latency_ms: float) -> None:
        """Send a message, identified by ``tag``; the sender does not wait for its arrival."""
        slower = np.maximum(self._link[:, ranks], self._link[:, to])
        self._mail[tag] = self.now_ms[:, ranks] + latency_ms * slower
        self._until("SEND", ranks, self.now_ms[:, ranks] + POSTING_MS, **self._message(group, ranks, to))

    def receive(self, group: str, ranks: Integers, source: Integers, tag: object) -> None:
        """Wait for the message ``tag`` from ``source``, and receive it."""
        ends_ms = np.maximum(self.now_ms[:, ranks], self._mail.pop(tag)) + POSTING_MS
        self._until("RECV", ranks, ends_ms, **self._message(group, ranks, source))

    def exchange(self, group: str, latency_ms: float) -> None:
        """Have each rank send to the next one and receive from the one before, then wait for both."""
        ranks, posted_ms = self.everybody, self.now_ms.copy()
        to, source = np.roll(ranks, -1), np.roll(ranks, 1)
        sent_ms = posted_ms + latency_ms * np.maximum(self._link, self._link[:, to])
        for operation, peers, done_ms in (("ISEND", to, sent_ms), ("IRECV", source, sent_ms[:, source])):
            columns, begin_ms = self._message(group, ranks, peers), self.now_ms[0]
            self.now_ms = np.maximum(self.now_ms, done_ms)
            self.rows.add(operation, ranks, posted_ms[0], self.now_ms[0], **columns)
            self.rows.add("WAIT", ranks, begin_ms, self.now_ms[0], numbered_as=operation, **columns)
        self.now_ms = self.now_ms.copy()  # the rows keep the array itself

    def _message(self, group: str, ranks: Integers, peers: Integers) -> dict[str, Any]:
        return {"groups": [group] * len(ranks), "peers": peers, "group_size": self.n_ranks}

    def _until(self, name: str, ranks: Integers, ends_ms: Floats, **columns: Any) -> None:
        begin_ms = self.now_ms[0, ranks]
        self.now_ms[:, ranks] = ends_ms
        if name:
            self.rows.add(name, ranks, begin_ms, ends_ms[0], **columns)
