"""What a campaign is given, and what it says afterwards."""

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
_OUTCOMES = (Exception, pytest.fail.Exception)  # what the helpers of the tests raise is no Exception


class Untried(Exception):
    """The promise cannot be tried here; the message says why."""


@dataclass
class Result:
    """What came of a campaign.

    Attributes:
        tried, held: how often the fault was made, and how often the promise was kept.
        note: what else is worth knowing.
        untried: why it could not be tried; "" if it was.
        failures: a few of the failures, each with what it takes to see it again.
    """

    tried: int = 0
    held: int = 0
    note: str = ""
    untried: str = ""
    failures: list[str] = field(default_factory=list)

    @property
    def is_broken(self) -> bool:
        return self.held < self.tried or bool(self.failures) or not (self.tried or self.untried)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class Trial:
    """One campaign under way.

    Args:
        name: of the campaign.
        folder: its own, for whatever it writes.
        short: the short form.
        seed: of all that is random in it.
        fuzz_s: for how long a reader is fuzzed.
    """

    def __init__(
        self, name: str, folder: Path, *, short: bool = True, seed: int = 0, fuzz_s: float = 4.0
    ) -> None:
        self.name, self.folder, self.short, self.seed, self.fuzz_s = name, folder, short, seed, fuzz_s
        self.result = Result()

    def times(self, long: int, short: int) -> int:
        return short if self.short else long

    def chance(self, number: int = 0) -> random.Random:
        """The same in every run with this seed."""
        return random.Random(f"{self.seed}/{self.name}/{number}")

    @contextmanager
    def new_folder(self) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(dir=self.folder) as made:
            yield Path(made)

    @contextmanager
    def one(self, what: str) -> Iterator[None]:
        """Try once: the promise was broken if the block raises anything."""
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
        """So many tries, each of the failures one of them."""
        self.result.tried += tried
        self.result.held += tried - len(failures or ())
        self.result.failures = (self.result.failures + (failures or []))[:_MOST_KEPT]


def _shortened(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 600 else f"{text[:300]} ... {text[-300:]}"


class Campaign(NamedTuple):
    """A line of the page.

    Attributes:
        name: for ``--only``.
        promise: its number, and what is promised.
        how: what is done.
        run: tries it, and returns a note.
        alone: it measures, or holds a time limit: nothing else of ours runs beside it.
        limit_s: after which it is given up, in the short and in the long form.
    """

    name: str
    promise: str
    how: str
    run: Callable[[Trial], str]
    alone: bool = False
    limit_s: tuple[float, float] = (120.0, 3600.0)


def tried(campaign: Campaign, trial: Trial) -> Result:
    """Run it to its end, whatever happens in it."""
    try:
        trial.result.note = campaign.run(trial)
    except Untried as reason:
        trial.result.untried = str(reason)
    except pytest.skip.Exception as reason:
        trial.result.untried = str(reason)
    return trial.result
