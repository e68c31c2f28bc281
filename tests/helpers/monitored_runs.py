"""Folders of runs that a monitor finds on this host, and what it says of them."""

from __future__ import annotations

import functools
import json
import os
import queue
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from conditions import wait_for
from digests import on_one_axis
from limits import LIMIT_S, MONITOR_S
from simulated_runs import data_parallel, factors
from timing_files import write_table

from timing_logger.live import looking
from timing_logger.live.looking import Looking
from timing_logger.process.monitor import MonitorProcess, MonitorSettings
from timing_logger.process.this_process import boot_id, host_name
from timing_logger.schema.timing_files import sidecar_path

EVERY_S = 12.0
"""As long as these runs last: all of one is in the first digest."""


def write_run_of_this_host(folder: Path, *, slow_rank: int | None = 2, steps: int = 150) -> Path:
    """Write the files of four ranks of this host, of which one is slow throughout."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in _files_of_run(slow_rank, steps):
        (folder / name).write_bytes(content)
    return folder


@functools.cache
def _files_of_run(slow_rank: int | None, steps: int) -> tuple[tuple[str, bytes], ...]:
    """The names and contents of the files of such a run."""
    times = factors(steps, 4, noise=0.05)
    if slow_rank is not None:
        times[:, slow_rank] *= 1.4
    with tempfile.TemporaryDirectory() as made:
        folder = write_table(Path(made) / "run", on_one_axis(data_parallel(times)))
        for rank in range(4):
            is_of_host(folder / f"timing-rank{rank}.csv", host_name())
        return tuple((path.name, path.read_bytes()) for path in sorted(folder.iterdir()))


def is_of_host(timing_file: Path, host: str) -> None:
    """State in the sidecar of a file on which host its process ran."""
    path = sidecar_path(timing_file)
    content = {**json.loads(path.read_text()), "host": host, "boot_id": boot_id()}
    path.write_text(json.dumps(content))


class Heard:
    """What a monitor says."""

    def __init__(self) -> None:
        self._said: queue.Queue[Mapping[str, Any]] = queue.Queue()

    def __call__(self, content: Mapping[str, Any]) -> None:
        self._said.put(content)

    def next(self, key: str) -> Any:
        """Wait for the next object that has a key, and return what it has there."""
        passed: list[Mapping[str, Any]] = []
        while True:
            wait_for(
                lambda: not self._said.empty(),
                lambda: f"an object with {key!r} after {passed}",
                limit_s=MONITOR_S,
            )
            content = self._said.get()
            if key in content:
                return content[key]
            passed.append(content)


@contextmanager
def monitor_of(folder: Path, **settings: Any) -> Iterator[tuple[MonitorProcess, Heard]]:
    """Have a folder looked at each second; the process is ended."""
    heard = Heard()
    process = MonitorProcess(MonitorSettings(log_dir=str(folder), **{"every_s": 1.0, **settings}), heard)
    try:
        yield process, heard
    finally:
        process.close(LIMIT_S)


class Voice:
    """Keeps what it is told to say."""

    def __init__(self) -> None:
        self.said: list[dict[str, Any]] = []

    def say(self, **content: Any) -> None:
        self.said.append(content)

    @property
    def events(self) -> list[tuple[str, list[int]]]:
        return [(one["event"]["change"], one["event"]["ranks"]) for one in self.said if "event" in one]


def monitor_on(host: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Looking, Voice]:
    """Return what the monitor of a host of this name does, and whom it tells."""
    monkeypatch.setattr(looking, "host_name", lambda: host)
    voice = Voice()
    return Looking(MonitorSettings(log_dir=str(folder), every_s=EVERY_S), voice.say), voice


def judges_of(folder: Path) -> list[int]:
    """Return the processes that hold the lock of the monitor that judges this folder."""
    lock = folder / "monitor" / "judge.lock"
    found: list[int] = []
    if not lock.exists():
        return found
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                opened = [os.readlink(link) for link in (entry / "fd").iterdir()]
            except OSError:
                continue
            if str(lock) in opened:
                found.append(int(entry.name))
    return found
