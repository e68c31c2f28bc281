"""Campaigns, the ``Trial`` that a campaign is given, and the ``Result`` that it leaves."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pytest

_MOST_KEPT = 20
_OUTCOMES = (Exception, pytest.fail.Exception)  # pytest.fail, which test helpers call, raises no Exception


class Untried(Exception):
    """The promise cannot be tried here; the message says why."""


@dataclass
class Result:
    """The result of a campaign.

    Attributes:
        tried, held: how often the fault was made, and how often the promise was kept.
        note: what else is worth knowing.
        untried: why the promise could not be tried; "" if it was.
        failures: a few of the failures, each with what is needed to reproduce it.
    """

    tried: int = 0
    held: int = 0
    note: str = ""
    untried: str = ""
    failures: list[str] = field(default_factory=list)

    @property
    def is_broken(self) -> bool:
        """Whether the promise was broken, or the campaign neither tried it nor said why not."""
        return self.held < self.tried or bool(self.failures) or not (self.tried or self.untried)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class Trial:
    """One campaign under way.

    Args:
        name: the campaign's name.
        folder: the campaign's own folder, for whatever it writes.
        short: whether it runs in the short form.
        seed: the seed of everything that is random in it.
        fuzz_s: for how long a reader is fuzzed, in s.
        most: how often each thing is tried at most; None for no limit.

    Attributes:
        result: the result so far.
    """

    def __init__(
        self,
        name: str,
        folder: Path,
        *,
        short: bool = True,
        seed: int = 0,
        fuzz_s: float = 4.0,
        most: int | None = None,
    ) -> None:
        self.name, self.folder, self.short, self.seed, self.fuzz_s = name, folder, short, seed, fuzz_s
        self.most = most
        self.result = Result()

    def times(self, long: int, short: int) -> int:
        """Return ``short`` in the short form, else ``long``; at most as many as were asked for."""
        times = short if self.short else long
        return times if self.most is None else min(times, self.most)

    def chance(self, number: int = 0) -> random.Random:
        """Return a random generator for try ``number``, the same in every run with this seed."""
        return random.Random(f"{self.seed}/{self.name}/{number}")

    @contextmanager
    def new_folder(self) -> Iterator[Path]:
        """Return a context manager that gives a new folder, which is removed at the end."""
        with tempfile.TemporaryDirectory(dir=self.folder) as made:
            yield Path(made)

    @contextmanager
    def one(self, what: str) -> Iterator[None]:
        """Return a context manager that counts its block as one try; an exception means a broken promise.

        Args:
            what: describes the try, for the list of failures.

        Raises:
            Untried: the block raised it, or skipped the test.
        """
        try:
            yield
        except Untried:
            raise
        except pytest.skip.Exception as reason:
            raise Untried(str(reason)) from None
        except _OUTCOMES as error:
            self.count(1, [f"{what}: {type(error).__name__}: {_shortened(str(error))}"])
        else:
            self.count(1)

    def count(self, tried: int, failures: list[str] | None = None) -> None:
        """Count ``tried`` tries, of which one failed for each of ``failures``."""
        self.result.tried += tried
        self.result.held += tried - len(failures or ())
        self.result.failures = (self.result.failures + (failures or []))[:_MOST_KEPT]


def _shortened(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 600 else f"{text[:300]} ... {text[-300:]}"


class Campaign(NamedTuple):
    """A campaign, which is one line of the page.

    Attributes:
        name: the name, for ``--only``.
        promise: the number of the promise, and what is promised.
        how: how it is tried.
        run: tries it, and returns a note.
        alone: whether no other campaign may run beside it, as it measures or holds a time limit.
        limit_s: the time limits in s, in the short and in the long form.
        records: whether it is about recording, and so tried over each writer; else it is about reading.
        native_mpi: tries the same over ``timing-logger run --native-mpi``; or why that makes no sense.
    """

    name: str
    promise: str
    how: str
    run: Callable[[Trial], str]
    alone: bool = False
    limit_s: tuple[float, float] = (120.0, 3600.0)
    records: bool = True
    native_mpi: Callable[[Trial], str] | str = ""


CORES = ("native", "python")
NATIVE_MPI = "native-mpi"
WRITERS = (*CORES, NATIVE_MPI)
"""What writes timing files: the two cores, and the library of ``timing-logger run --native-mpi``."""


class Tried(NamedTuple):
    """A campaign that was run over one writer.

    Attributes:
        writer: one of ``WRITERS``; "" if the campaign is about reading.
    """

    campaign: Campaign
    writer: str
    result: Result


def tried(campaign: Campaign, trial: Trial, writer: str = "") -> Result:
    """Run ``campaign`` and return its result, also if it cannot be tried."""
    run = campaign.native_mpi if writer == NATIVE_MPI else campaign.run
    if isinstance(run, str):
        return Result(untried=run or "not written for this writer yet")
    try:
        trial.result.note = run(trial)
    except Untried as reason:
        trial.result.untried = str(reason)
    except pytest.skip.Exception as reason:
        trial.result.untried = str(reason)
    return trial.result
