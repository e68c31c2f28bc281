"""Several processes of one rank, restarts, and other things in the place of a file. (P8, P18)"""

from __future__ import annotations

import os
import socket
import stat
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from processes import rows, run_python

from campaign.trial import Trial

_RACES = """
import os, sys, time
from timing_logger import TimingLogger
for race in range(int(sys.argv[2])):
    start_s, pids = time.monotonic() + 0.02, []
    for name in "AB":
        pids.append(os.fork())
        if pids[-1] == 0:
            status = 1
            try:
                while time.monotonic() < start_s:
                    pass
                logger = TimingLogger(0, f"{sys.argv[1]}/{race}", flush_interval=0.005)
                for i in range(100):
                    logger.record_timing(name, 1.0, iteration=i)
                logger.close()
                status = 0
            finally:
                os._exit(status)
    for pid in pids:
        assert os.waitpid(pid, 0)[1] == 0, race
"""


def races(trial: Trial) -> str:
    """Have two processes make the file of one rank at the same moment."""
    times = trial.times(100, 10)
    with trial.new_folder() as folder:
        run = run_python(_RACES, folder, times, timeout_s=300)
        for race in range(times):
            with trial.one(f"race {race}"):
                assert run.returncode == 0, run.stderr
                files = [rows(path) for path in sorted((folder / str(race)).glob("*.csv"))]
                assert sorted({row[4] for row in file}.pop() for file in files) == ["A", "B"]
                assert all([int(row[1]) for row in file] == list(range(100)) for file in files)
    return ""


def restarts(trial: Trial) -> str:
    """Restart after a file was cut anywhere: it stays as it is, and another one is written."""
    from timing_logger import TimingLogger, read_timings

    for number in range(trial.times(100, 10)):
        with trial.new_folder() as folder, trial.one(f"restart {number}"):
            _write(TimingLogger, folder, "OLD")
            old = folder / "timing-rank0.csv"
            torn = old.read_bytes()[: trial.chance(number).randrange(old.stat().st_size)]
            old.write_bytes(torn)
            _write(TimingLogger, folder, "NEW")
            assert old.read_bytes() == torn
            assert [row[4] for row in rows(folder / "timing-rank0.run2.csv")] == ["NEW"] * 20
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = read_timings(folder, incarnations="all")
            assert (found["operation"] == "OLD").sum() == max(0, torn.count(b"\n") - 1)
    return ""


def _write(logger_class: Any, folder: Path, operation: str) -> None:
    with logger_class(0, folder) as logger:
        for _ in range(20):
            logger.record_timing(operation, 1.0)


def _link(path: Path) -> None:
    path.with_name("target").write_text("precious")
    path.symlink_to(path.with_name("target"))


def _dangling(path: Path) -> None:
    path.symlink_to(path.with_name("nowhere"))


def _loop(path: Path) -> None:
    path.symlink_to(path)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(os.path.relpath(path))


def _device(path: Path) -> None:
    try:
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 3))
    except PermissionError:
        path.symlink_to("/dev/null")


PLANTS: dict[str, Callable[[Path], None]] = {
    "link": _link, "dangling link": _dangling, "link to itself": _loop, "FIFO": os.mkfifo,
    "socket": _socket, "device": _device, "folder": Path.mkdir,
}  # fmt: skip
PLACES = ("timing-rank0.csv", "timing-rank0.meta.json", "")
RANKS = ("../../x", -1, "0\n", "0", 1.5, None, True, 2**70, float("nan"), [0], b"0")


def planted(trial: Trial) -> str:
    """Check that things in the place of a file or folder are refused, and nothing is written through them."""
    from timing_logger import TimingLogger
    from timing_logger.errors import LogPathError, TimingLoggerError

    for kind, plant in PLANTS.items():
        for place in PLACES:
            if place or kind != "folder":
                with trial.new_folder() as folder, trial.one(f"{kind} as {place or 'log_dir'}"):
                    logs = folder / "logs"
                    if place:
                        logs.mkdir()
                    plant(logs / place if place else logs)
                    _refused(TimingLogger, LogPathError, 0, logs)
                    target = (logs if place else folder) / "target"
                    assert not target.exists() or target.read_text() == "precious"
    for rank in RANKS:
        with trial.new_folder() as folder, trial.one(f"rank={rank!r}"):
            _refused(TimingLogger, TimingLoggerError, rank, folder / "logs")
            assert not list(folder.rglob("*.csv"))
    return f"{', '.join(PLANTS)}; {len(RANKS)} values that are not ranks"


def _refused(logger_class: Any, error: type[Exception], rank: Any, folder: Path) -> None:
    try:
        logger_class(rank, folder).close()
    except error:
        return
    raise AssertionError("it was taken")
