"""Does all that has files in folders that others may write to, and says what was not done by the door.

Run: files_by_the_door.py FOLDER PART, where PART is of PARTS; FOLDER is all that others may write to. What it
says is an object of JSON: ``beside`` the door, a line for each place; ``by_door``, how often each event.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Any

from conditions import wait_for

EVENTS = {"open", "os.listdir", "os.scandir", "os.link", "os.symlink", "os.rename", "os.remove", "os.mkdir",
          "os.rmdir", "os.chmod", "os.chown", "os.truncate", "fcntl.flock"}  # fmt: skip
PACKAGES = ("timing_logger", "allreduce_instrumentation")
DOOR = "timing_logger.process.shared_files"

FOLDER = Path(sys.argv[1]).resolve()
beside: set[str] = set()
by_door: Counter[str] = Counter()


def audit(event: str, arguments: tuple[Any, ...]) -> None:
    if event in EVENTS and any(map(is_shared, arguments[:2])) and (frame := innermost(sys._getframe(1))):
        if frame.f_globals["__name__"] == DOOR:
            by_door[event] += 1
        else:
            beside.add(f"{frame.f_code.co_filename}:{frame.f_lineno}: {event} of {arguments[0]}")


def is_shared(path: object) -> bool:
    """Tell whether a path, or the file of a descriptor, lies in the folder."""
    if isinstance(path, int) and path > 2:
        with contextlib.suppress(OSError):
            path = os.readlink(f"/proc/self/fd/{path}")
    if not isinstance(path, (str, bytes, os.PathLike)):
        return False
    return f"{os.path.abspath(os.fsdecode(path))}/".startswith(f"{FOLDER}/")


def innermost(frame: FrameType | None) -> FrameType | None:
    """Return the frame of the packages that caused an event; None if a test did."""
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] not in PACKAGES:
        frame = frame.f_back
    return frame


# -- what is done -------------------------------------------------------------------------------------------


def logger_of(rank: int, **options: Any) -> Any:
    from timing_logger import TimingLogger

    return TimingLogger(
        rank, log_dir=FOLDER / "logs", world_size=2, ring_dir=rings(), flush_interval=0.02, **options
    )


def rings() -> Path | None:
    from timing_logger import recording_core

    (FOLDER / "rings").mkdir(exist_ok=True)
    return FOLDER / "rings" if recording_core == "native" else None


def record(logger: Any) -> None:
    for step in range(60):
        logger.record_interval("FORWARD", 10**7 * step, 10**7 * step + 10**6, iteration=step)


def writers() -> None:
    """Log with all files that a process may have."""
    logger = logger_of(0, host_counters=True, stack_samples=True)
    record(logger)
    wait_for(lambda: {"host-rank0.csv", "stacks-rank0.csv"} <= set(os.listdir(FOLDER / "logs")))
    from timing_logger.autologging.settings import note_problem

    note_problem(str(FOLDER / "logs"))
    logger.close()


def killed() -> None:
    """Leave a ring."""
    logger = logger_of(1, host_counters=False)
    record(logger)
    os.kill(os.getpid(), signal.SIGKILL)


def commands() -> None:
    logs, steps = str(FOLDER / "logs"), FOLDER / "steps.jsonl"
    job = [sys.executable, __file__, str(FOLDER), "writers"]
    run("run", "--log-dir", logs, "--report", FOLDER / "run.html", "--", *job)
    assert subprocess.run([*job[:-1], "killed"], check=False).returncode == -signal.SIGKILL
    run("recover", logs)
    for command in ("summary", "stragglers", "hang", "waits"):
        run(command, logs)
    run("watch", "--once", logs)
    run("report", logs, "-o", FOLDER / "report.html")
    run("trace", logs, "-o", FOLDER / "trace.json.gz")
    run("convert", logs, "--to", "csv", "-o", FOLDER / "rows.csv")
    if find_spec("pyarrow"):
        run("convert", logs, "--to", "parquet", "-o", FOLDER / "parquet")
        run("summary", FOLDER / "parquet")
        run("summary", "--engine", "pyarrow", logs)
    steps.write_text("".join(f'{{"rank": {n % 2}, "step": {n // 2}, "seconds": 0.1}}\n' for n in range(40)))
    run("import", "steps", "--seconds", "seconds", "-o", FOLDER / "imported", steps)
    run("import", "steps", "--seconds", "seconds", "--follow", "--until-idle", "0.1", "-o", FOLDER / "grown",
        steps)  # fmt: skip
    history = FOLDER / "history"
    for _ in range(2):
        run(
            "compare", FOLDER / "imported", "--history", history, "--keep", "1", "--report", FOLDER / "c.html"
        )


def run(*arguments: object) -> None:
    from timing_logger.cli import main

    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        status = main(list(map(str, arguments)))
    assert status == 0, (arguments, said.getvalue())


def monitor() -> None:
    from monitored_runs import Voice, write_run_of_this_host

    from timing_logger.live.destinations import PrometheusTextfile
    from timing_logger.live.digest_folder import DigestFolder
    from timing_logger.live.looking import Looking
    from timing_logger.process.monitor import MonitorSettings

    folder = write_run_of_this_host(FOLDER / "watched")
    shown = [PrometheusTextfile(path=str(FOLDER / "job.prom")).to_json()]
    looking = Looking(
        MonitorSettings(log_dir=str(folder), show_in=shown if find_spec("prometheus_client") else []),
        Voice().say,
    )
    looking.look()
    looking.look()
    looking.hear_other()
    looking.close()
    digests = DigestFolder(folder)
    digests.write("host", 1, b"damaged")
    assert list(digests.read()) == []
    assert (folder / "verdicts.jsonl").exists()


def caches() -> None:
    """Build libraries with what is no compiler, in a cache whose path no loader takes."""
    compiler = FOLDER / "compiler"
    compiler.write_text('#!/bin/sh\nwhile [ $# -gt 0 ]; do [ "$1" = -o ] && : > "$2"; shift; done\nexit 0\n')
    compiler.chmod(0o755)
    os.environ |= {"MPICC": str(compiler), "CXX": str(compiler), "XDG_CACHE_HOME": str(FOLDER / "a cache")}
    from timing_logger.native_mpi.build import preloadable_library

    assert preloadable_library().exists()
    if "torch" in sys.modules:
        from allreduce_instrumentation.torch_distributed import group_library

        with contextlib.suppress(ImportError):  # what was built is empty
            group_library.library()


def everything() -> None:
    commands()
    monitor()
    caches()


PARTS = {"writers": writers, "killed": killed, "everything": everything}


if __name__ == "__main__":
    (FOLDER / "tmp").mkdir(exist_ok=True)
    tempfile.tempdir = str(FOLDER / "tmp")  # temporary folders of others count as well
    sys.addaudithook(audit)
    PARTS[sys.argv[2]]()
    if sys.argv[2] == "everything":
        print(json.dumps({"beside": sorted(beside), "by_door": by_door}))
    elif beside:
        sys.exit("\n".join(sorted(beside)))
