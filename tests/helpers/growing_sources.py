"""Follow sources that grow, with one thing done between two looks: no clock decides what is seen."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from timing_logger import read_timings
from timing_logger.importing import Imported, Until

Act = Callable[[], object]


class Followed(NamedTuple):
    """What an import of what grows has made, and what it said meanwhile."""

    made: Imported
    said: list[str]


def followed(
    follow: Callable[[Until, Callable[[str], None]], Imported], *acts: Act, stops: bool = False
) -> Followed:
    """Follow, do an act after each look, and look once more.

    Args:
        follow: follows sources until it is told to end, and says things.
        acts: what is done.
        stops: whether the import is then stopped; else it ends since nothing more is added.
    """
    waiting: list[Act] = [*acts, lambda: None]
    said: list[str] = []

    class BetweenLooks(Until):
        @property
        def idle_s(self) -> float | None:
            return None if waiting else 1e-9

        @property
        def is_now(self) -> bool:
            return stops and not waiting

        def checked(self) -> Until:
            return self

        def wait(self) -> None:
            if waiting:
                waiting.pop(0)()

    return Followed(follow(BetweenLooks(), said.append), said)


def added(path: Path, content: bytes) -> Act:
    """Return what appends to a file."""

    def add() -> None:
        with path.open("ab") as file:
            file.write(content)

    return add


def pieces(drawn: random.Random, files: Mapping[Path, bytes]) -> list[Act]:
    """Return acts that write files bit by bit, in an order by chance, each cut anywhere."""
    left = {path: memoryview(content) for path, content in files.items()}
    acts: list[Act] = []
    while left:
        path = drawn.choice(sorted(left))
        n = min(len(left[path]), drawn.choice([1, 3, 40, 500, 20_000]))
        acts.append(added(path, bytes(left[path][:n])))
        left[path] = left[path][n:]
        if not left[path]:
            del left[path]
    return acts


def rows_by_rank(folder: Path, *, by_instants: bool, columns: list[str]) -> pd.DataFrame:
    """Return rows in Unix time; from the first of each rank, if no instant is known."""
    rows = read_timings(folder)
    moved_s = {
        file["rank"]: file["wall_minus_counter_s"] if by_instants else -first
        for file in rows.attrs["files"]
        for first in [rows.start_counter[rows["rank"] == file["rank"]].min()]
    }
    rows["start_s"] = (rows.start_counter + rows["rank"].map(moved_s)).round(6)
    kept = ["rank", "start_s", "operation", "elapsed_ms", "status", *columns]
    return pd.DataFrame(rows[kept].sort_values(kept, ignore_index=True))
