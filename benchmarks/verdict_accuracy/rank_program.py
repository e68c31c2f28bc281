"""The clocks of jobs whose steps differ: calls of some ranks only, uneven shares, one-sided waits, saves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from timing_logger.schema.record import DEVICE_CLOCK, HOST_CLOCK
from verdict_accuracy.free_rows import FreeRows
from verdict_accuracy.noise import lognormal, single
from verdict_accuracy.timeline import POSTING_MS, TRANSFER_JITTER, Conditions, Timeline

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


class Pending(NamedTuple):
    """A collective in the background.

    Attributes:
        done_ms: when it is done, as variants x ranks.
        numbers: its sequence numbers.
        columns: the other columns of its rows.
    """

    done_ms: Floats
    numbers: Sequence[int]
    columns: Mapping[str, Any]


class RankProgram(Timeline):
    """A timeline whose steps may make any calls.

    Attributes:
        rng: draws what the job itself leaves to chance, such as the tokens of an expert; both variants of the
            run get the same.
        conditions: what befalls the ranks, in all steps.
    """

    rows: FreeRows

    def __init__(self, conditions: Conditions, rng: np.random.Generator) -> None:
        super().__init__(conditions, rng, FreeRows)
        self.rng, self.conditions, self.n_steps = rng, conditions, self._n_steps
        self._idle_ms: Floats = np.zeros(2)

    # -- work ----------------------------------------------------------------------------------------

    def shares(self, evenness: float) -> Floats:
        """Return what each rank gets of uneven work, as variants x ranks; 1 on average.

        Args:
            evenness: the parameter of the Dirichlet distribution: shares vary by 1 / sqrt(evenness).
        """
        drawn = single(self.rng.dirichlet(np.full(self.n_ranks, evenness))) * self._load
        return drawn / drawn.mean(axis=1, keepdims=True)

    def save(self) -> None:
        """Have the ranks save that save in this step, in a row ``SAVE``."""
        saving = np.flatnonzero(self._save_ms.any(axis=0))
        if len(saving):
            self._until("SAVE", saving, self.now_ms[:, saving] + self._save_ms[:, saving])

    def start_over(self, after_ms: float) -> None:
        """Have all ranks go on together, some time after the last one has come."""
        self.now_ms[:] = self.now_ms.max(axis=1, keepdims=True) + after_ms

    @contextmanager
    def device(self) -> Iterator[None]:
        """Return a context manager in whose block rows are on the device's clock."""
        self.rows.clock = DEVICE_CLOCK
        yield
        self.rows.clock = HOST_CLOCK

    # -- communication -------------------------------------------------------------------------------

    def together(
        self, operation: str, transfer_ms: float, ranks: Integers | None = None, name: str = "world"
    ) -> None:
        """Run a collective of one group, all ranks unless ``ranks`` are given."""
        self.collective(
            operation, transfer_ms, [self.everybody if ranks is None else ranks], [name], 8_000_000
        )

    def all_to_all(self, operation: str, transfer_ms: float, shares: Floats) -> None:
        """Run an all-to-all of all ranks, which each leaves when it has received its own share.

        Args:
            operation: ``ALLTOALL`` or ``ALLTOALLV``.
            transfer_ms: how long the transfer of an average share takes, in ms.
            shares: the ranks' shares, as variants x ranks.
        """
        jitter = lognormal(self.rng, TRANSFER_JITTER)
        done_ms = self.now_ms.max(axis=1, keepdims=True) + transfer_ms * jitter * shares * self._link
        self._until(
            operation, self.everybody, done_ms, groups=["ep"] * self.n_ranks, group_size=self.n_ranks,
            size_bytes=np.rint(4e6 * shares[0]),
        )  # fmt: skip

    def issue(self, operation: str, transfer_ms: float) -> Pending:
        """Begin a collective of all ranks in the background, which goes on when those before it are done."""
        jitter = lognormal(self.rng, TRANSFER_JITTER)
        begun_ms = np.maximum(self.now_ms.max(axis=1), self._idle_ms)
        self._idle_ms = begun_ms + transfer_ms * jitter * self._link.max(axis=1)
        done_ms = np.repeat(self._idle_ms[:, None], self.n_ranks, axis=1)
        columns = {"groups": ["world"] * self.n_ranks, "group_size": self.n_ranks, "size_bytes": 8_000_000}
        numbers = self.rows.add(operation, self.everybody, self.now_ms[0].copy(), done_ms[0], **columns)
        return Pending(done_ms, numbers, columns)

    def wait(self, pending: Pending) -> None:
        """Wait until a collective in the background is done."""
        done_ms = np.maximum(self.now_ms, pending.done_ms)
        self._until("WAIT", self.everybody, done_ms, numbers=pending.numbers, **pending.columns)

    def broadcast(self, ranks: Integers, name: str, transfer_ms: float) -> None:
        """Broadcast from the first of ``ranks``, for which the others wait, and it for none."""
        ready_ms, root_ms = self.now_ms[:, ranks], self.now_ms[:, ranks[:1]]
        jitter = lognormal(self.rng, TRANSFER_JITTER)
        self._until(
            "BCAST", ranks, np.maximum(ready_ms, root_ms) + transfer_ms * jitter, groups=[name] * len(ranks),
            group_size=len(ranks), size_bytes=1000,
        )  # fmt: skip

    def to_root(self, operation: str, transfer_ms: float) -> None:
        """Run a REDUCE or GATHER of all ranks: rank 0 waits for the others, and they for nobody."""
        jitter = lognormal(self.rng, TRANSFER_JITTER)
        done_ms = self.now_ms + transfer_ms * jitter
        done_ms[:, 0] = done_ms.max(axis=1)
        columns = {"groups": ["world"] * self.n_ranks, "group_size": self.n_ranks, "size_bytes": 1_000_000}
        self._until(operation, self.everybody, done_ms, **columns)

    def shift(self, name: str, latency_ms: float) -> None:
        """Have each rank send to the next one and receive from the one before in one ``SENDRECV``."""
        ranks, to, source = self.everybody, np.roll(self.everybody, -1), np.roll(self.everybody, 1)
        sent_ms = self.now_ms + latency_ms * np.maximum(self._link, self._link[:, to])
        done_ms = np.maximum(sent_ms, sent_ms[:, source]) + POSTING_MS
        self._until("SENDRECV", ranks, done_ms, size_bytes=1_000_000, **self._message(name, ranks, to))

    def message(self, source: int, to: int, latency_ms: float) -> None:
        """Send a message from one rank to another, which waits for it."""
        one, other = np.array([source]), np.array([to])
        self.send("world", one, other, "message", latency_ms)
        self.receive("world", other, one, "message")
