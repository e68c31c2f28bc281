"""The third writer, the library of ``timing-logger run --native-mpi``, under the faults of other campaigns.

A program in C, ``native_programs/struck.c``, records from two threads while faults strike it. It is alone, so
that no launcher's faults are counted, and the library is preloaded as ``run`` does it.
"""

from __future__ import annotations

import atexit
import contextlib
import csv
import functools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from array import array
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from places import TESTS

from campaign.injected import ERRORS, in_writes, windows_of_errors
from campaign.trial import Trial, Untried

_PROGRAM = TESTS / "native_programs" / "struck.c"
_MPICC = Path(sys.executable).parent / "mpicc"
_RECORDERS, _MOST = 3, 2**20
_LIMIT_S = 30.0
_MPI_ENDS_WITHIN_S = 1.0

_HEALTHY = {"exit", "_exit", "MPI_Abort"}
_ENDS = {"SIGKILL", "abort", "SIGTERM", "SIGINT", "exec", *_HEALTHY}
_BY_DROPS = {"full queue", "unlinked file", "removed folder", "closed descriptors", "size limit"}


class Left(NamedTuple):
    """What a process left.

    Attributes:
        status: of the process.
        said: what it wrote to stderr.
        ended_ns: when it ended, on the axis of ``perf_counter_ns``.
    """

    status: int
    said: str
    ended_ns: int


@functools.cache
def _folder_for_builds() -> Path:
    made = tempfile.TemporaryDirectory(prefix="native-mpi-")
    atexit.register(made.cleanup)
    return Path(made.name)


@functools.cache
def _built() -> tuple[str, str]:
    """Return the paths of the program and of the library that times it."""
    from timing_logger.native_mpi.build import library

    if not _MPICC.exists() or shutil.which("cc") is None:
        raise Untried("no mpicc next to this Python, or no C compiler")
    os.environ["PATH"] = f"{_MPICC.parent}:{os.environ['PATH']}"
    program = _folder_for_builds() / "struck"
    command = [str(_MPICC), "-O1", "-pthread", str(_PROGRAM), "-o", str(program)]
    subprocess.run(command, check=True, timeout=60)
    return str(program), str(library())


@functools.cache
def _stalling() -> str:
    """Return the path of a library with which writes of timing files take a minute."""
    path = _folder_for_builds() / "stalled_writes.so"
    source = _PROGRAM.with_name("stalled_writes.c")
    command = [str(_MPICC), "-shared", "-fPIC", "-w", str(source), "-o", str(path)]
    subprocess.run(command, check=True, timeout=60)
    return str(path)


def _environment(folder: Path, *, timed: bool) -> dict[str, str]:
    from mpi_runner import OPEN_MPI

    from timing_logger.native_mpi import build

    timing = {"LD_PRELOAD": _built()[1], build.VARIABLE: str(folder / "logs")}
    return {**os.environ, **OPEN_MPI, "TMPDIR": "/tmp", **(timing if timed else {})}


def _run(
    folder: Path,
    run_ms: float,
    faults: Sequence[tuple[str, float]] = (),
    *,
    timed: bool = True,
    before: Sequence[str] = (),
    per_s: int = 10_000,
    stalled: bool = False,
) -> Left:
    """Run the program in ``folder``, struck by each of ``faults`` so many ms after its first record.

    Args:
        before: a command that the program is an argument of.
        per_s: records per second of each thread.
        stalled: whether each write of the timing file takes a minute.
    """
    for name in ("logs", "unlinked"):
        (folder / name).mkdir(exist_ok=True)
    notes = folder / "notes"
    with notes.open("wb") as file:
        file.truncate(8 * _RECORDERS * _MOST)
    struck = [str(part) for fault in faults for part in fault]
    command = [*before, _built()[0], str(notes), str(run_ms), *struck]
    environment = {**_environment(folder, timed=timed), "PER_S": str(per_s)}
    if stalled:
        environment["LD_PRELOAD"] += f":{_stalling()}"
        environment["STALLED"] = "the timing file"
    with (folder / "stderr").open("wb") as said:
        process = subprocess.Popen(
            command,
            env=environment,
            stdout=said,
            stderr=said,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            kills_ms = [after_ms for name, after_ms in faults if name == "SIGKILL"]
            if kills_ms and _recorded(notes, process):
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(kills_ms[0] / 1e3)
                process.kill()
            process.wait(_LIMIT_S)
            ended_ns = time.perf_counter_ns()
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return Left(process.returncode, (folder / "stderr").read_text(errors="replace"), ended_ns)


def _recorded(notes: Path, process: subprocess.Popen[bytes]) -> bool:
    """Wait for the first record; return whether there is one."""
    until_s = time.monotonic() + _LIMIT_S
    with notes.open("rb", buffering=0) as file:
        while time.monotonic() < until_s and process.poll() is None:
            if any(os.pread(file.fileno(), 8, 0)):
                return True
            time.sleep(0.001)
    return False


# -- what must hold -----------------------------------------------------------------------------------------


def _check(folder: Path, faults: set[str], left: Left) -> None:
    """Check the rows, the sums and the sidecar, whatever the faults were."""
    assert "PAIRS:" not in left.said, left.said
    _recover_unless_closed(folder / "logs")
    found, (due, _) = _rows(folder), _due(folder / "notes")
    if twice := [record for record, times in found.items() if times > 1]:
        raise AssertionError(f"{len(twice)} rows twice, such as {sorted(twice)[:3]}")
    missing = [record for record in due if record not in found]
    sidecar_file = folder / "logs" / "timing-rank0.meta.json"
    if not sidecar_file.exists():
        assert "removed folder" in faults, f"no sidecar: {left.said}"
        return
    sidecar = json.loads(sidecar_file.read_text())
    counts = sidecar["counters"]
    assert counts["accepted"] == counts["written"] + counts["dropped"] + counts["pending"], counts
    allowed = counts["dropped"] if faults & _BY_DROPS else 0
    assert len(missing) <= allowed, (
        f"{len(missing)} of {len(due)} rows are missing, such as {sorted(missing)[:3]}, and {counts}"
    )
    if not faults & _ENDS:
        assert sidecar["closed"] is True
        n_visible = sum(_rows(folder, kept=False).values())
        assert n_visible <= counts["written"] <= sum(found.values()), f"{n_visible} rows, and {counts}"


def _recover_unless_closed(logs: Path) -> None:
    """Have the rows written that the process left in its ring; twice, as it must make no difference.

    Of two ends at once, the second one may cut the first one short.
    """
    from timing_logger.reading.recovery import recover

    sidecar = logs / "timing-rank0.meta.json"
    for _ in range(2 if sidecar.exists() and not json.loads(sidecar.read_text())["closed"] else 0):
        recovered = recover(logs)
        assert all("ring" not in one.trouble for one in recovered), recovered


def _due(notes: Path) -> tuple[dict[tuple[str, int], int], int]:
    """Return the records whose calls had returned before the end began, and the last instant noted."""
    values = array("q", notes.read_bytes())
    due, last_ns = {}, 0
    for who in range(_RECORDERS):
        for number in range(_MOST):
            instant_ns = values[who * _MOST + number]
            if instant_ns == 0:
                break
            last_ns = max(last_ns, abs(instant_ns))
            if instant_ns > 0 and who < 2:  # the third comes in bursts, from several threads
                due[f"who{who}", number] = instant_ns
    return due, last_ns


def _rows(folder: Path, *, kept: bool = True) -> Counter[tuple[str, int]]:
    """Return how often each record has a row, and one for each call that is no record, as ``MPI_Init``.

    Every line has to be whole, and one of the program's.
    """
    found: Counter[tuple[str, int]] = Counter()
    places = [folder / "logs", folder / "unlinked"] if kept else [folder / "logs"]
    for path in (path for place in places if place.is_dir() for path in place.glob("*.csv")):
        text = path.read_text()
        assert text.endswith("\n"), f"the last line of {path.name} is torn: {text[-200:]!r}"
        for line, row in enumerate(csv.DictReader(text.splitlines())):
            assert None not in row.values(), f"{path.name} has a row {row}"
            if row["status"] == "ok":
                is_record = row["operation"] == "BARRIER"
                other = f"{path.name} {row['operation']}", line
                found[(row["group"], int(row["seq"])) if is_record else other] += 1
    for mine in folder.glob("mine-*"):
        assert mine.read_bytes() in (b"mine\n", b""), (  # the process may end before it writes there
            f"rows are in a file of the program's: {mine.read_bytes()[:200]!r}"
        )
    return found


def _one(
    trial: Trial, number: int, faults: Sequence[tuple[str, float]], run_ms: float = 300, **how: Any
) -> None:
    """Try once: what the program leaves must hold, and its status is that which it has untimed."""
    with trial.new_folder() as folder, trial.one(f"{faults}, {number}"):
        left = _run(folder, run_ms, faults, **how)
        names = {name for name, _ in faults}
        _check(folder, names, left)
        assert left.status in _statuses(trial, tuple(sorted(names))), f"status {left.status}: {left.said}"


def _statuses(trial: Trial, names: tuple[str, ...]) -> set[int]:
    """Return with what the program ends untimed: of two ends, one comes first."""
    return {_untimed(trial.folder, name) for name in names if name in _ENDS} or {_untimed(trial.folder, "")}


@functools.cache
def _untimed(folder: Path, name: str) -> int:
    untimed = folder / f"untimed-{name.replace(' ', '-')}"
    untimed.mkdir(exist_ok=True)
    return _run(untimed, 100, [(name, 20)] if name else [], timed=False).status


# -- the campaigns ------------------------------------------------------------------------------------------


def kills(trial: Trial, per_s: int = 1000) -> str:
    """Kill it at random instants, from its first record on."""
    for number in range(trial.times(100, 3)):
        after_ms = trial.chance(number).uniform(0, 1500)
        _one(trial, number, [("SIGKILL", after_ms)], 20_000, per_s=per_s)
    return "all rows are there after a recovery"


kills_fast = functools.partial(kills, per_s=50_000)


def exits(trial: Trial) -> str:
    """End it in every way, at random instants."""
    ways = ["", *sorted(_ENDS - {"SIGKILL", "exec"})]
    for number in range(trial.times(10, 1)):
        for way in ways:
            after_ms = trial.chance(number).uniform(0, 1000)
            _one(trial, number, [(way, after_ms)] if way else [], 500)
    return ", ".join(way or "falling off the end" for way in ways)


def _repeated(trial: Trial, fault: str, long: int, short: int, note: str = "", run_ms: float = 800) -> str:
    for number in range(trial.times(long, short)):
        _one(trial, number, [(fault, trial.chance(number).uniform(0, run_ms / 2))], run_ms)
    return note


forks = functools.partial(_repeated, fault="fork", long=100, short=3)
removed = functools.partial(_repeated, fault="removed folder", long=20, short=1)
size_limit = functools.partial(_repeated, fault="size limit", long=20, short=1, note="of 20,000 bytes")
full_queue = functools.partial(
    _repeated, fault="full queue", long=10, short=1, note="100,000 calls at once, beside two threads"
)


def errors(trial: Trial) -> str:
    """Have some writes of the file, or all from one on, end with an error."""
    for error, window in windows_of_errors(trial, trial.times(10, 1), first_before=6, most=3):
        with trial.new_folder() as folder, trial.one(f"{error} in writes {window}"):
            file = folder / "logs" / "timing-rank0.csv"
            before = in_writes(file, f"error={error}:when={window}", "write,writev,pwrite64")
            left = _run(folder, 1500, before=before)
            assert left.status == _untimed(trial.folder, ""), f"status {left.status}: {left.said}"
            _check(folder, {"size limit"}, left)
    return ", ".join(ERRORS)


def stalled_disk(trial: Trial) -> str:
    """Have every write of the file take a minute: calls go on, and the process ends within 2 s of its end."""
    slowest_s = 0.0
    for number in range(trial.times(10, 1)):
        with trial.new_folder() as folder, trial.one(f"stall {number}"):
            left = _run(folder, 1000, stalled=True)
            due, last_ns = _due(folder / "notes")
            took_s = (left.ended_ns - last_ns) / 1e9
            slowest_s = max(slowest_s, took_s)
            assert took_s < 2 + _MPI_ENDS_WITHIN_S, f"P11: it ended {took_s:.1f} s after its last call"
            assert len(due) > 5000, f"P1: only {len(due)} calls returned meanwhile"
            assert left.status == _untimed(trial.folder, ""), f"status {left.status}: {left.said}"
            sidecar = json.loads((folder / "logs" / "timing-rank0.meta.json").read_text())
            counts = sidecar["counters"]
            assert counts["accepted"] == counts["written"] + counts["dropped"] + counts["pending"], counts
            assert counts["dropped"] + counts["pending"] > 0
    return f"each write takes a minute; it ended {slowest_s:.1f} s after its last call at the latest"


def races(trial: Trial) -> str:
    """Start two processes of one rank at the same moment."""
    for number in range(trial.times(30, 2)):
        with trial.new_folder() as folder, trial.one(f"race {number}"):
            (folder / "logs").mkdir()
            for name in "ab":
                (folder / name).mkdir()
                (folder / name / "logs").symlink_to(folder / "logs")
            _built()  # not by both at once
            with ThreadPoolExecutor(2) as both:
                left = list(both.map(lambda name: _run(folder / name, 100), "ab"))
            assert [one.status for one in left] == [7, 7], left
            files = sorted(path.name for path in (folder / "logs").glob("*.csv"))
            assert len(files) == 2, files
            found = _rows(folder)
            for name in "ab":
                due, _ = _due(folder / name / "notes")
                assert all(found[record] >= 1 for record in due), f"rows of {name} are missing"
    return ""


def restarts(trial: Trial) -> str:
    """Restart after the file was cut anywhere: it stays as it is."""
    for number in range(trial.times(30, 2)):
        with trial.new_folder() as folder, trial.one(f"restart {number}"):
            _run(folder, 50)
            old = folder / "logs" / "timing-rank0.csv"
            torn = old.read_bytes()[: trial.chance(number).randrange(old.stat().st_size)]
            old.write_bytes(torn)
            left = _run(folder, 50)
            assert left.status == _untimed(trial.folder, ""), left.said
            assert old.read_bytes() == torn
            assert (folder / "logs" / "timing-rank0.run2.csv").stat().st_size > 1000
    return ""


def planted(trial: Trial) -> str:
    """Put something else in the place of the timing file: the program runs, nothing is written through it."""
    from campaign.files import PLANTS

    for kind, plant in PLANTS.items():
        with trial.new_folder() as folder, trial.one(f"{kind} as timing-rank0.csv"):
            (folder / "logs").mkdir()
            plant(folder / "logs" / "timing-rank0.csv")
            left = _run(folder, 50)
            assert left.status == _untimed(trial.folder, ""), left.said
            target = folder / "logs" / "target"
            assert not target.exists() or target.read_text() == "precious"
    return ", ".join(PLANTS)


# -- pairs --------------------------------------------------------------------------------------------------

PAIRED = (
    "fork", "signal handler", "thread exit", "full queue", "unlinked file", "closed descriptors",
    "size limit", "sub-process", "SIGKILL", "exit", "_exit", "MPI_Abort", "SIGTERM", "exec",
)  # fmt: skip
_CANNOT_BE_FIRST = {"SIGKILL", "_exit", "SIGTERM", "exec"}


def pairs(trial: Trial) -> str:
    """Have two faults strike in every order, the second up to 20 ms after the first."""
    every = [(first, second) for first in PAIRED for second in PAIRED if first not in _CANNOT_BE_FIRST]
    chosen = trial.chance().sample(every, 12) if trial.short else every
    times = trial.times(10, 1)
    tries = [(pair, number) for number in range(times) for pair in chosen]
    random.Random(trial.seed).shuffle(tries)
    for (first, second), number in tries:
        chance = trial.chance(number)
        first_ms = chance.uniform(0, 300)
        second_ms = first_ms + chance.uniform(0, chance.choice((0.5, 5, 20)))
        _one(trial, number, [(first, first_ms), (second, second_ms)], 350)
    return (
        f"{len(chosen)} ordered pairs of {len(PAIRED)} faults, {times} times each; after "
        f"{', '.join(sorted(_CANNOT_BE_FIRST))} none can follow"
    )
