"""Fuzzes the readers: for a damaged file each gives an answer or one sentence on what is wrong. (P6, P7)

Inputs that reach new lines of the package are damaged further. The lines are traced for every tenth input
only, because that makes reading several times slower.
"""

from __future__ import annotations

import contextlib
import faulthandler
import io
import random
import resource
import shutil
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from campaign.mutations import mutated, mutated_json
from campaign.reading import sample
from campaign.trial import Trial, Untried

LIMIT_S = 20.0
"""The time limit in seconds for one input: the promise is an answer or an error, and no hang."""

MEMORY_BYTES = 4 * 2**30
"""The limit on the data of the process, in bytes."""

_TRACED_EVERY = 10
_MOST_KEPT = 300
_MOST_FAILURES = 20


class Reader(NamedTuple):
    """A reader that is fuzzed.

    Attributes:
        inputs: the pattern of the files in the folder that are damaged.
        damaged: returns the damaged content of a file.
        read: reads the folder; whatever it raises is judged.
        prepare: fills the folder with undamaged files.
    """

    inputs: str
    damaged: Callable[..., bytes]
    read: Callable[[Path, random.Random], None]
    prepare: Callable[[Path], object] = sample


class TooLong(BaseException):
    """The time limit was exceeded; no ``Exception``, so that no reader takes it for an error of its input."""


def fuzz(trial: Trial, reader: Reader) -> str:
    """Damage and read files for as long as the trial says; return a note on how many were kept."""
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES if soft < 0 else min(soft, MEMORY_BYTES), hard))
    logs = trial.folder / "logs"
    reader.prepare(logs)
    originals = {path.name: path.read_bytes() for path in logs.iterdir()}
    names = sorted(path.name for path in logs.glob(reader.inputs))
    kept: dict[str, list[bytes]] = {name: [originals[name]] for name in names}
    seen: set[tuple[str, int]] = set()
    kinds: dict[str, int] = {}
    reader.read(logs, trial.chance(-1))  # imports, and the undamaged files, are no part of it
    end_s, number = time.monotonic() + trial.fuzz_s, 0
    while time.monotonic() < end_s:
        chance = trial.chance(number)
        name = chance.choice(names)
        data = reader.damaged(chance.choice(kept[name]), kept[chance.choice(names)], chance)
        _put(logs, originals, name, data)
        reached: set[tuple[str, int]] = set()
        failure = _outcome(reader, logs, chance, reached if number % _TRACED_EVERY == 1 else None)
        trial.count(1, None if failure is None else [])
        if failure is not None:
            trial.result.held -= 1
            kind = failure.partition(":")[0]
            kinds[kind] = kinds.get(kind, 0) + 1
            if kinds[kind] == 1 and len(kinds) <= _MOST_FAILURES:
                saved = _saved(trial.folder / "failures" / str(number), logs)
                trial.result.failures.append(f"input {number}, {failure}; its folder is {saved}")
        elif not reached <= seen and len(kept[name]) < _MOST_KEPT:
            kept[name].append(data)
        seen |= reached
        number += 1
    ways = f"; {len(kinds)} kinds of failure" if kinds else ""
    return f"{sum(map(len, kept.values())) - len(names)} inputs reached new lines{ways}"


def _put(logs: Path, originals: dict[str, bytes], name: str, data: bytes) -> None:
    """Restore the folder, with ``data`` in the place of file ``name``."""
    for path in logs.iterdir():
        if path.name not in originals:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for other, content in originals.items():
        (logs / other).write_bytes(data if other == name else content)


def _saved(folder: Path, logs: Path) -> Path:
    shutil.copytree(logs, folder)
    return folder


def _outcome(
    reader: Reader, logs: Path, chance: random.Random, reached: set[tuple[str, int]] | None
) -> str | None:
    """Return None if the reader gave an answer or one sentence; else describe what came instead."""
    from timing_logger.errors import TimingLoggerError

    try:
        with _limited(), warnings.catch_warnings(), _traced(reached):
            warnings.simplefilter("ignore")
            reader.read(logs, chance)
    except TimingLoggerError as error:
        text = str(error).strip()
        return None if text and "\n" not in text else f"{type(error).__name__} is not one sentence: {text!r}"
    except TooLong:
        return f"no answer in {LIMIT_S:g} s, at {_place(sys.exc_info()[2])}"
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:
        return f"{type(error).__name__} at {_place(error.__traceback__)}: {_in_one_line(error)}"
    return None


def _in_one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200]


def _place(trace: Any) -> str:
    """Return file and number of the innermost line of the package in ``trace``."""
    frames = [frame for frame in traceback.extract_tb(trace) if "/timing_logger/" in frame.filename]
    return f"{Path(frames[-1].filename).name} {frames[-1].lineno}" if frames else "no line of the package"


@contextlib.contextmanager
def _limited() -> Iterator[None]:
    def stop(*_: object) -> None:
        raise TooLong

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, LIMIT_S)
    faulthandler.dump_traceback_later(2 * LIMIT_S, exit=True)  # code in C sees no signal
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextlib.contextmanager
def _traced(reached: set[tuple[str, int]] | None) -> Iterator[None]:
    """Return a context manager that collects the lines of the package that are reached in its block."""
    if reached is None:
        yield
        return

    def on_line(frame: FrameType, event: str, _: object) -> Any:
        if event == "line":
            reached.add((frame.f_code.co_filename, frame.f_lineno))
        return on_line

    def on_call(frame: FrameType, event: str, _: object) -> Any:
        return on_line if "/timing_logger/" in frame.f_code.co_filename else None

    sys.settrace(on_call)
    try:
        yield
    finally:
        sys.settrace(None)


# -- the readers --------------------------------------------------------------------------------


def _read_by_pandas(logs: Path, _: random.Random) -> None:
    from timing_logger import read_timings

    read_timings(logs, engine="pandas")


def _read_by_pyarrow(logs: Path, _: random.Random) -> None:
    from timing_logger import read_timings

    read_timings(logs, engine="pyarrow")


def _look(logs: Path, chance: random.Random) -> None:
    """Take two snapshots while a file grows; sometimes it is cut or replaced in between."""
    from timing_logger.live.watcher import Watcher

    path = logs / "timing-rank0.csv"
    data = path.read_bytes()
    path.write_bytes(data[: chance.randrange(len(data) + 1)])
    watcher = Watcher(logs)
    watcher.snapshot()
    path.write_bytes(data if chance.random() < 0.7 else data[chance.randrange(len(data) + 1) :])
    watcher.snapshot()


def _ask(logs: Path, chance: random.Random) -> None:
    """Run a whole command: it exits with 0, or with 2 and one sentence that says why."""
    from timing_logger.cli import main

    out_file = str(logs.parent / "out")
    commands = [
        ["summary"], ["summary", "--json"], ["stragglers"], ["stragglers", "--json"],
        ["report", "-o", f"{out_file}.html"], ["trace", "-o", f"{out_file}.json"],
        ["convert", "--to", "parquet", "-o", f"{out_file}.parquet"],
        ["hang"], ["hang", "--json"],
    ]  # fmt: skip
    command = chance.choice(commands)
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = main([command[0], str(logs), *command[1:]])
        except SystemExit as leaving:
            raise AssertionError(f"{command[0]}: {leaving}, {err.getvalue()[-200:]}") from None
    said = err.getvalue().strip()
    assert status in (0, 2), f"{command[0]}: exit status {status}: {said[-200:]}"
    if status == 2:
        assert said.startswith("timing-logger: "), f"{command[0]}: {said[-200:]}"
        assert len(said.splitlines()) == 1, f"{command[0]}: no sentence: {said[-200:]}"


def _sidecars(logs: Path, chance: random.Random) -> None:
    if chance.random() < 0.5:
        _read_by_pandas(logs, chance)
    else:
        _ask(logs, chance)


_FROM_SIDECARS = ("start_s", "end_s", "clock_uncertainty_s")


def _as_parquet(folder: Path) -> None:
    from timing_logger.reading.converting import convert

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        convert(sample(folder.with_name("made")), "parquet", folder / "all.parquet")


def _prepare_parquet(folder: Path) -> None:
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise Untried("no pyarrow here, which reads Parquet") from None
    folder.mkdir()
    _as_parquet(folder)


def _read_parquet(logs: Path, _: random.Random) -> None:
    """Read Parquet, whose pages have checksums: rows are as they were written, or there is an error."""
    from timing_logger import read_timings

    found = read_timings(logs / "all.parquet")
    wanted = read_timings(logs.with_name("made"))
    columns = [name for name in wanted if name not in _FROM_SIDECARS]
    by = ["rank", "start_counter", "operation"]
    sides = [side[columns].sort_values(by, ignore_index=True).astype(object) for side in (found, wanted)]
    differing = [name for name in columns if not sides[0][name].equals(sides[1][name])]
    assert not differing, f"other rows than were written, and no word of it: {', '.join(differing)}"


def _one_file(folder: Path) -> None:
    sample(folder, ranks=1, n_lines=40)


def fuzz_csv_by_pandas(trial: Trial) -> str:
    """Fuzz the reader of CSV files that uses pandas."""
    return fuzz(trial, Reader("*.csv", mutated, _read_by_pandas, _one_file))


def fuzz_csv_by_pyarrow(trial: Trial) -> str:
    """Fuzz the reader of CSV files that uses pyarrow."""
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise Untried("no pyarrow here") from None
    return fuzz(trial, Reader("*.csv", mutated, _read_by_pyarrow, _one_file))


def fuzz_sidecars(trial: Trial) -> str:
    """Fuzz the reader of sidecars, alone and in whole commands."""
    return fuzz(trial, Reader("*.meta.json", mutated_json, _sidecars))


def fuzz_parquet(trial: Trial) -> str:
    """Fuzz the reader of Parquet files."""
    return fuzz(trial, Reader("*.parquet", mutated, _read_parquet, _prepare_parquet))


def fuzz_watch(trial: Trial) -> str:
    """Fuzz the reader of growing files."""
    return fuzz(trial, Reader("timing-rank0.*", _of_any_kind, _look))


def fuzz_commands(trial: Trial) -> str:
    """Fuzz whole commands on folders with a damaged file."""
    return fuzz(trial, Reader("*", _of_any_kind, _ask))


def _of_any_kind(data: bytes, others: list[bytes], chance: random.Random) -> bytes:
    return (mutated_json if data[:1] == b"{" else mutated)(data, others, chance)
