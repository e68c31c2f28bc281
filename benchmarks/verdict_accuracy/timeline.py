"""When each rank of a simulated run does what: of a faulty run, and of the same run had nobody been slow.

A step is told as a program: work, collectives that nobody leaves before all have come, messages. Every step
of a run makes the same calls in the same order. Times are arrays of variants x ranks: variant 0 is the run as
it went, and its rows are kept; variant 1 went through the same random numbers with the culprits healthy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from timing_logger.analysis.operations import is_own_work
from timing_logger.record import COLUMNS

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Kept = Callable[[str, str], bool]
"""Whether rows of (operation, group) are logged."""

JITTER = 0.01
"""Sigma of the lognormal noise of each single piece of work, beside that of its step."""

TRANSFER_JITTER = 0.05
MAX_CLOCK_OFFSET_S = 10_000.0
"""Each rank's clock begins anywhere up to this: nothing may compare two of them."""

_INTEGERS = ("iteration", "epoch", "message_size_bytes", "group_size", "seq", "peer")


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


class _Slot(NamedTuple):
    """The rows of one call, which every step repeats: all but their times, one entry for each rank."""

    operation: str
    group: str
    inside: int | None
    ranks: Integers
    groups: Sequence[str]
    group_size: int | None
    size_bytes: int | None
    peers: Integers | None
    counters: Sequence[object]
    numbers: Sequence[int]


class Timeline:
    """The clocks of all ranks in both variants, in ms since the run began.

    Attributes:
        now_ms: variants x ranks.
        n_steps: of the run.
    """

    def __init__(self, conditions: Conditions, rng: np.random.Generator) -> None:
        self._conditions, self._rng = conditions, rng
        n_variants, self.n_steps, self.n_ranks = conditions.factor.shape
        self.now_ms = np.zeros((n_variants, self.n_ranks))
        self._slots: list[_Slot] = []
        self._spans: list[tuple[Floats, Floats]] = []
        self._counts: Counter[object] = Counter()
        self._mail: dict[object, Floats] = {}
        self._step, self._inside = 0, None

    def steps(self) -> Iterator[int]:
        """Every step, in its turn."""
        for step in range(self.n_steps):
            self._step, self._at = step, 0
            self._pause_ms = self._conditions.pause_ms[:, step].copy()
            yield step

    @property
    def everybody(self) -> Integers:
        return np.arange(self.n_ranks)

    # -- what a rank does --------------------------------------------------------------------------

    def work(self, name: str, usual_ms: float, ranks: Integers | None = None) -> None:
        """Own work, with a row unless ``name`` is "". A pause falls into the first of a step."""
        ranks = self.everybody if ranks is None else ranks
        jitter = np.exp(self._rng.normal(0.0, JITTER, len(ranks)))
        took_ms = usual_ms * self._conditions.factor[:, self._step, ranks] * jitter + self._pause_ms[:, ranks]
        self._pause_ms[:, ranks] = 0.0
        self._until(name, ranks, self.now_ms[:, ranks] + took_ms)

    @contextmanager
    def block(self, name: str) -> Iterator[None]:
        """A row around all that is done inside it."""
        begin_ms, place = self.now_ms[0].copy(), self._at
        self._write(name, self.everybody, begin_ms, begin_ms)
        outer, self._inside = self._inside, place
        yield
        self._inside = outer
        self._spans[self._step * len(self._slots) + place] = (begin_ms, self.now_ms[0].copy())

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
        arrived_ms = self.now_ms[:, members]
        jitter = np.exp(self._rng.normal(0.0, TRANSFER_JITTER, len(members)))
        link = self._conditions.link[:, self._step, members].max(axis=-1)
        done_ms = arrived_ms.max(axis=-1) + transfer_ms * jitter * link
        ends_ms = np.broadcast_to(done_ms[..., None], arrived_ms.shape).reshape(len(self.now_ms), -1)
        width = members.shape[1]
        self._until(
            operation, members.ravel(), ends_ms, groups=np.repeat(names, width).tolist(), group_size=width,
            size_bytes=size_bytes,
        )  # fmt: skip

    def send(self, group: str, ranks: Integers, to: Integers, tag: object, latency_ms: float) -> None:
        """A message that the sender need not see arrive."""
        link = np.maximum(*(self._conditions.link[:, self._step, ends] for ends in (ranks, to)))
        self._mail[tag] = self.now_ms[:, ranks] + latency_ms * link
        self._message("SEND", group, ranks, to, self.now_ms[:, ranks] + 0.1)

    def receive(self, group: str, ranks: Integers, source: Integers, tag: object) -> None:
        """Wait for the message with this tag."""
        self._message(
            "RECV", group, ranks, source, np.maximum(self.now_ms[:, ranks], self._mail.pop(tag)) + 0.1
        )

    def exchange(self, group: str, latency_ms: float) -> None:
        """Each rank sends to the next and receives from the one before, then waits for both."""
        ranks, to, source = self.everybody, np.roll(self.everybody, -1), np.roll(self.everybody, 1)
        posted_ms = self.now_ms.copy()
        link = self._conditions.link[:, self._step]
        sent_ms = posted_ms + latency_ms * np.maximum(link, link[:, to])
        received_ms = np.maximum(sent_ms[:, source], posted_ms)
        for operation, peers, done_ms in (("ISEND", to, sent_ms), ("IRECV", source, received_ms)):
            begin_ms = self.now_ms[0].copy()
            self.now_ms = np.maximum(self.now_ms, done_ms)
            counters = self._numbered(operation, group, ranks, peers)
            for name, since_ms in ((operation, posted_ms[0]), ("WAIT", begin_ms)):
                self._write(
                    name, ranks, since_ms, self.now_ms[0].copy(), groups=[group] * len(ranks), peers=peers,
                    group_size=self.n_ranks, numbered=counters,
                )  # fmt: skip

    # -- rows --------------------------------------------------------------------------------------

    def _message(self, operation: str, group: str, ranks: Integers, peers: Integers, ends_ms: Floats) -> None:
        self._until(
            operation, ranks, ends_ms, groups=[group] * len(ranks), peers=peers, group_size=self.n_ranks,
            numbered=self._numbered(operation, group, ranks, peers),
        )  # fmt: skip

    def _numbered(
        self, operation: str, group: str, ranks: Integers, peers: Integers
    ) -> tuple[list[object], list[int]]:
        """Messages are numbered by direction and peer."""
        if self._step:
            return [], []
        return self._next(
            [(operation, group, *pair) for pair in zip(ranks.tolist(), peers.tolist(), strict=True)]
        )

    def _next(self, counters: list[object]) -> tuple[list[object], list[int]]:
        numbers = [self._counts[counter] for counter in counters]
        self._counts.update(counters)
        return counters, numbers

    def _until(self, name: str, ranks: Integers, ends_ms: Floats, **columns: object) -> None:
        begin_ms = self.now_ms[0, ranks]
        self.now_ms[:, ranks] = ends_ms
        if name:
            self._write(name, ranks, begin_ms, ends_ms[0], **columns)

    def _write(
        self, name: str, ranks: Integers, begin_ms: Floats, end_ms: Floats, *, groups: Sequence[str] = (),
        group_size: int | None = None, size_bytes: int | None = None, peers: Integers | None = None,
        numbered: tuple[list[object], list[int]] | None = None,
    ) -> None:  # fmt: skip
        if not self._step:
            if numbered is None and groups:  # a collective has one number on all ranks of its group
                counters = list(zip(groups, ranks.tolist(), strict=True))
                numbered = self._next(counters)
            self._slots.append(_Slot(
                name, groups[0] if groups else "", self._inside, ranks, groups, group_size, size_bytes, peers,
                *(numbered or ((), ())),
            ))  # fmt: skip
        self._spans.append((begin_ms, end_ms))
        self._at += 1

    # -- the table ---------------------------------------------------------------------------------

    def self_ms(self, kept: Kept) -> Floats | None:
        """Steps x ranks: rows of own work less the logged communication inside; None if none is logged."""
        total = np.zeros((self.n_steps, self.n_ranks))
        spans = self._spans_by_slot()
        own = {place for place, slot in enumerate(self._slots) if is_own_work(slot.operation)}
        own = {place for place in own if kept(self._slots[place].operation, "")}
        for place, slot in enumerate(self._slots):
            begin_ms, end_ms = spans[place]
            if place in own:
                total[:, slot.ranks] += end_ms - begin_ms
            elif slot.inside in own and kept(slot.operation, slot.group):
                total[:, slot.ranks] -= end_ms - begin_ms
        return total if own else None

    def _spans_by_slot(self) -> list[tuple[Floats, Floats]]:
        n = len(self._slots)
        return [
            (
                np.stack([begin for begin, _ in self._spans[place::n]]),
                np.stack([end for _, end in self._spans[place::n]]),
            )
            for place in range(n)
        ]

    def table(self, kept: Kept) -> pd.DataFrame:
        """The rows of variant 0 that are logged, as ``read_timings`` returns them."""
        spans = self._spans_by_slot()
        chosen = [place for place, slot in enumerate(self._slots) if kept(slot.operation, slot.group)]
        slots = [self._slots[place] for place in chosen]
        begin_ms, end_ms = (np.concatenate([spans[place][i] for place in chosen], axis=1) for i in (0, 1))
        one_step = _columns_of_a_step(slots, self._counts)
        width = begin_ms.shape[1]
        steps = np.repeat(np.arange(self.n_steps), width)
        ranks = np.tile(one_step["rank"], self.n_steps)
        order = np.lexsort((end_ms.ravel(), ranks))
        offsets_s = self._rng.uniform(0.0, MAX_CLOCK_OFFSET_S, self.n_ranks)[ranks]
        values = {name: np.tile(column, self.n_steps) for name, column in one_step.items()}
        values["seq"] = values["seq"] + steps * values.pop("per_step")
        values["iteration"] = steps
        values["start_counter"] = begin_ms.ravel() / 1000 + offsets_s
        values["end_counter"] = end_ms.ravel() / 1000 + offsets_s
        values["elapsed_ms"] = (end_ms - begin_ms).ravel()
        return _typed({name: column[order] for name, column in values.items()})


def _columns_of_a_step(slots: Sequence[_Slot], counts: Counter[object]) -> dict[str, npt.NDArray[np.generic]]:
    """The columns that are the same in each step, or grow by ``per_step``; NaN where there is nothing."""

    def numbers(of: Callable[[_Slot], object]) -> Floats:
        parts = []
        for slot in slots:
            value = of(slot)
            part = np.asarray(np.nan if value is None or not np.size(value) else value, dtype=np.float64)
            parts.append(np.broadcast_to(part, len(slot.ranks)))
        return np.concatenate(parts)

    def texts(of: Callable[[_Slot], Sequence[str]]) -> npt.NDArray[np.object_]:
        return np.array([text for slot in slots for text in of(slot)], dtype=object)

    return {
        "operation": texts(lambda slot: [slot.operation] * len(slot.ranks)),
        "group": texts(lambda slot: slot.groups or [""] * len(slot.ranks)),
        "rank": np.concatenate([slot.ranks for slot in slots]),
        "group_size": numbers(lambda slot: slot.group_size),
        "message_size_bytes": numbers(lambda slot: slot.size_bytes),
        "peer": numbers(lambda slot: slot.peers),
        "seq": numbers(lambda slot: slot.numbers),
        "per_step": numbers(lambda slot: [counts[counter] for counter in slot.counters]),
    }


def _typed(values: dict[str, npt.NDArray[np.generic]]) -> pd.DataFrame:
    length = len(values["rank"])
    constant = {"layer_name": "", "phase": "train", "clock": "host", "thread": "MainThread", "status": "ok"}
    table = pd.DataFrame({
        **values,
        **{name: np.full(length, text, dtype=object) for name, text in constant.items()},
        "timestamp": pd.Timestamp("2026-02-06", tz="UTC"), "epoch": np.full(length, np.nan), "incarnation": 1,
    })  # fmt: skip
    return table.astype(dict.fromkeys(_INTEGERS, "Int64"))[[*COLUMNS, "rank", "incarnation"]]
