"""One try: starts the process, has two faults strike, waits for its end and has it judged."""

from __future__ import annotations

import contextlib
import os
import random
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

from pairs.faults import CANNOT_FOLLOW, FAULTS
from pairs.judge import Ended, faults_of, recovered
from pairs.notes import BYTES, read_notes
from pairs.world import EXIT_CODE, EXIT_WAYS, exit_way
from timing_logger.recording.cores import chosen as core

LIMIT_S = 30.0
_CHILDREN_LIMIT_S = 5.0

ENDS = {name for name, fault in FAULTS.items() if fault.ends}
PAIRS = tuple((first, second) for first in FAULTS for second in FAULTS if first not in CANNOT_FOLLOW)


def try_pair(folder: Path, first: str, second: str, seed: str, *, without_logger: bool = False) -> list[str]:
    """Return what did not hold when ``second`` struck during ``first`` or right after it, in words."""
    for name in ("logs", "unlinked"):
        (folder / name).mkdir()
    with open(folder / "notes", "wb") as file:
        file.truncate(BYTES)
    reading, writing = os.pipe()
    command = [sys.executable, "-m", "pairs.program", str(folder), first, second, "--seed", seed,
               "--generation", "0", "--to-judge", str(writing)]  # fmt: skip
    with (folder / "stderr").open("wb") as said:
        process = subprocess.Popen(
            command + ["--without-logger"] * without_logger, stdin=subprocess.DEVNULL, stderr=said,
            stdout=said, pass_fds=[writing], start_new_session=True, env=_environment(),
        )  # fmt: skip
    os.close(writing)
    lost, stay = 0, []
    try:
        _wait(process, reading, random.Random(f"{seed}/kill"))
        lost = recovered(folder / "logs")  # while its children may still live
        stay = _children_that_stay(process.pid)
    except subprocess.TimeoutExpired:
        return [f"it was not done in {LIMIT_S} s: {_said(folder)[-4000:]}"]
    finally:
        os.close(reading)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    notes = read_notes(folder / "notes")
    way = exit_way(random.Random(f"{seed}/{int(first == 'exec')}"))
    is_healthy = _is_healthy(first, second, way)
    ended = Ended(
        process.returncode, _said(folder), process.pid, notes, exit_codes(first, second, way), is_healthy,
        "full queue" in (first, second), lost, is_by_time=core.NAME == "python" and not is_healthy,
    )  # fmt: skip
    if without_logger:
        return [] if ended.status in ended.exit_codes else [f"exit code {ended.status}: {ended.said}"]
    if first not in ENDS and not notes[0].struck[1]:
        stay.append("the second fault did not strike")
    return [*stay, *faults_of(folder, ended)]


def _environment() -> dict[str, str]:
    """Return that of this process, with which the package of this module is found as well."""
    paths = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def exit_codes(first: str, second: str, way: str) -> set[int]:
    """Return the statuses with which the process may end, as it would without a logger."""
    codes = {"SIGKILL": -signal.SIGKILL, "interpreter exit": EXIT_WAYS[way], "exec": EXIT_CODE}
    return {codes[name] for name in (first, second) if name in ENDS} or {EXIT_CODE}


def _is_healthy(first: str, second: str, way: str) -> bool:
    """Tell whether the interpreter comes to its end by itself, so that nothing may be lost."""
    ends = {first, second} & ENDS
    return not ends or (ends == {"interpreter exit"} and way in ("sys.exit", "an exception"))


def _wait(process: subprocess.Popen[bytes], asked: int, chance: random.Random) -> None:
    """Wait for the end, and kill the process if it asks for that."""
    ends = os.pidfd_open(process.pid)
    try:
        until_s = time.monotonic() + LIMIT_S
        while not process.poll() and time.monotonic() < until_s:
            ready, _, _ = select.select([asked, ends], [], [], max(0.0, until_s - time.monotonic()))
            if ends in ready:
                break
            if not os.read(asked, 100):  # its other end is closed
                break
            time.sleep(chance.uniform(0, chance.choice((0.0005, 0.005, 0.05))))
            process.kill()
    finally:
        os.close(ends)
    process.wait(max(0.1, until_s - time.monotonic()))


def _children_that_stay(group: int) -> list[str]:
    """Wait for all processes of the group; return what there is to say if some hang."""
    until_s = time.monotonic() + _CHILDREN_LIMIT_S
    while time.monotonic() < until_s:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return []
        time.sleep(0.01)
    return ["a child hangs after the end of its parent"]


def _said(folder: Path) -> str:
    return (folder / "stderr").read_text(errors="replace")


def main() -> None:
    """Try one pair, to see a failure again: ``python -m pairs.trying FOLDER FIRST SECOND SEED``."""
    folder, first, second, seed = sys.argv[1:]
    Path(folder).mkdir(parents=True)
    print("\n".join(try_pair(Path(folder), first, second, seed)) or "all holds")


if __name__ == "__main__":
    main()
