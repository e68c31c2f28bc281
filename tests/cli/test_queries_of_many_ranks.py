"""A folder of thousands of ranks is not listed anew for each of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from slow import slow
from timing_files import record, write_timing_file

from timing_logger.cli import main
from timing_logger.schema.host_counters import HEADER, NAMES

_HEARD: list[list[str]] = []


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    if _HEARD and event in ("os.listdir", "os.scandir"):
        _HEARD[-1].append(str(arguments[0]))


sys.addaudithook(_hear)  # pathlib lists folders in another way with each version of Python


@contextmanager
def listings() -> Iterator[list[str]]:
    """Yield the paths of the folders that are listed meanwhile."""
    _HEARD.append([])
    try:
        yield _HEARD[-1]
    finally:
        _HEARD.pop()


def folder_of(n_ranks: int, path: Path) -> Path:
    for rank in range(n_ranks):
        write_timing_file(path, rank, [record(iteration=step) for step in range(3)])
        counters = ",".join("5" for _ in NAMES)
        (path / f"host-rank{rank}.csv").write_text(f"{HEADER}1.0,2.0,{counters}\n")
    return path


SAME = "asked for in the way of the verdict"
COMMANDS = ["stragglers", *(slow(one, SAME) for one in ("summary", "report", "trace"))]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_folder_is_listed_as_often_for_many_ranks_as_for_few(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    counts = []
    for n_ranks in (2, 6):
        folder = folder_of(n_ranks, tmp_path / str(n_ranks))
        output = ["-o", str(tmp_path / "output")] if command in ("report", "trace") else []
        with listings() as heard:
            assert main([command, str(folder), *output]) == 0
        counts.append(heard.count(str(folder)))
    assert 0 < counts[0] == counts[1]
