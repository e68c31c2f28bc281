"""Ctrl-C ends a command at once, wherever it stands, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import warm
from conditions import wait_for
from limits import PROCESS_S
from places import TESTS
from processes import INTERRUPTIBLE_CLI
from simulated_runs import data_parallel, factors
from slow import slow
from terminals import CTRL_C, LIMIT_S, end_session, of_session, on_terminal, wait_for_end_of_session
from timing_files import write_table

from timing_logger.cli import ctrl_c
from timing_logger.process.interrupts import INTERRUPTED

PROGRAM = TESTS / "command_programs" / "standing.py"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_table(tmp_path_factory.mktemp("run") / "timing", data_parallel(factors(20, 4)))


class Command:
    """A command in a session of its own, and the folders of what it writes and of its temporary files."""

    def __init__(self, folder: Path, command: Sequence[object]) -> None:
        self.stands, self.written, self.temporary = folder / "stands", folder / "out", folder / "tmp"
        self.written.mkdir()
        self.temporary.mkdir()
        self.process = subprocess.Popen(
            list(map(str, command)), cwd=self.written, env={**os.environ, "TMPDIR": str(self.temporary)},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip

    def wait_until_it_stands(self) -> None:
        wait_for(self.stands.exists, by=self.process)

    def ended(self) -> tuple[int, str, str]:
        """Its exit code and output; all its processes have ended, and it has left no file."""
        out, errors = self.process.communicate(timeout=LIMIT_S)
        wait_for_end_of_session(self.process.pid)
        assert [*self.written.iterdir(), *self.temporary.iterdir()] == []
        return self.process.returncode, out, errors


@contextmanager
def standing(folder: Path, place: str, workers: str, *command: object) -> Iterator[Command]:
    started = Command(folder, [sys.executable, PROGRAM, place, workers, folder / "stands", *command])
    try:
        started.wait_until_it_stands()
        yield started
    finally:
        end_session(started.process.pid)
        started.process.communicate()


PLACES = [
    ("reading", "threads", ["summary"]),
    ("reading-in-c", "threads", ["stragglers"]),
    ("reading-in-c", "processes", ["waits"]),
    ("communication", "processes", ["bandwidth"]),
    ("communication", "threads", ["report", "-o", "report.html"]),
    ("answering-in-c", "processes", ["overlap", "--json"]),
    ("writing", "threads", ["trace", "-o", "trace.json"]),
]


@pytest.mark.slow(
    "each place is a command of its own; make test interrupts one that reads, and one that imports"
)
@pytest.mark.parametrize(("place", "workers", "command"), PLACES, ids=lambda value: str(value))
@pytest.mark.parametrize("to_all", [True, False], ids=["all", "parent"])
def test_an_interrupt_ends_a_command_wherever_it_stands(
    folder: Path, tmp_path: Path, place: str, workers: str, command: list[str], to_all: bool
) -> None:
    with standing(tmp_path, place, workers, *command, folder, "--engine", "pyarrow") as started:
        (os.killpg if to_all else os.kill)(started.process.pid, signal.SIGINT)
        assert started.ended() == (INTERRUPTED, "", "")


@pytest.mark.slow("a command and its worker processes; ctrl-c on a terminal ends one with threads below")
def test_an_interrupt_ends_worker_processes(folder: Path, tmp_path: Path) -> None:
    command = "waits", folder, "--engine", "pyarrow"
    with standing(tmp_path, "reading-in-c", "processes", *command) as started:
        assert len(of_session(started.process.pid)) > 1
        os.killpg(started.process.pid, signal.SIGINT)
        assert started.ended() == (INTERRUPTED, "", "")


@pytest.mark.slow("a rarer end of a command than the interrupt above")
def test_the_death_of_a_command_ends_its_worker_processes(folder: Path, tmp_path: Path) -> None:
    command = "summary", folder, "--engine", "pyarrow"
    with standing(tmp_path, "reading-in-c", "processes", *command) as started:
        os.kill(started.process.pid, signal.SIGKILL)
        started.process.wait(LIMIT_S)
        wait_for_end_of_session(started.process.pid)
        assert of_session(started.process.pid) == []


def test_an_interrupt_while_libraries_are_imported_is_no_traceback(folder: Path, tmp_path: Path) -> None:
    """Some of them swallow exceptions, or make others of them."""
    held = "import pathlib, sys, time; pathlib.Path(sys.argv[1]).touch(); time.sleep(600)"
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "pandas.py").write_text(
        f"try:\n    {held.replace('sys.argv[1]', repr(str(tmp_path / 'stands')))}\n"
        "except BaseException:\n    raise ImportError('pandas is not usable') from None\n"
    )
    program = f"import sys; sys.path.insert(0, {str(tmp_path / 'lib')!r})\n{INTERRUPTIBLE_CLI}"
    started = Command(tmp_path, [sys.executable, "-c", program, "summary", folder])
    try:
        started.wait_until_it_stands()
        os.kill(started.process.pid, signal.SIGINT)
        assert started.ended() == (INTERRUPTED, "", "")
    finally:
        end_session(started.process.pid)


@pytest.mark.parametrize("output", ["new/rows", "new/rows.csv"])
def test_a_conversion_that_is_interrupted_leaves_no_folder(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str
) -> None:
    from timing_logger.reading import converting

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(converting, "_input", interrupted)
    with pytest.raises(KeyboardInterrupt):
        converting.convert(folder, "csv" if output.endswith("csv") else "parquet", tmp_path / output)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def with_workers(tmp_path: Path) -> Iterator[Command]:
    """A program of one's own, whose workers stand."""
    program = tmp_path / "program.py"
    program.write_text(
        "import hashlib, pathlib, signal, sys\n"
        "from timing_logger.engine.workers import Processes\n"
        "def work(path):\n"
        "    pathlib.Path(path).touch()\n"
        "    hashlib.pbkdf2_hmac('sha256', b'', b'', 10**9)\n"
        "if __name__ == '__main__':\n"
        "    signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "    try:\n"
        "        Processes(2).map(work, sys.argv[1:2] * 2)\n"
        "    except KeyboardInterrupt:\n"
        "        print('interrupted')\n"
    )
    started = Command(tmp_path, [sys.executable, program, tmp_path / "stands"])
    try:
        started.wait_until_it_stands()
        yield started
    finally:
        end_session(started.process.pid)
        started.process.communicate()


@pytest.mark.slow("starts three interpreters; ctrl-c on a terminal ends a command and its threads below")
def test_an_interrupt_in_a_program_of_ones_own_is_an_exception_and_ends_the_workers(
    with_workers: Command,
) -> None:
    assert len(of_session(with_workers.process.pid)) > 1
    os.killpg(with_workers.process.pid, signal.SIGINT)
    assert with_workers.ended() == (0, "interrupted\n", "")


@pytest.mark.slow("a rarer end of a program than the interrupt above, which ends the same workers")
def test_the_death_of_a_program_of_ones_own_ends_its_workers(with_workers: Command) -> None:
    with_workers.process.kill()
    with_workers.process.wait(LIMIT_S)
    wait_for_end_of_session(with_workers.process.pid)


@pytest.mark.parametrize(
    "workers", ["threads", slow("processes", "the interrupt of worker processes has a test of its own")]
)
def test_ctrl_c_on_a_terminal_erases_the_progress_and_says_nothing(
    folder: Path, tmp_path: Path, workers: str
) -> None:
    command = [warm.python(), PROGRAM, "reading", workers, tmp_path / "stands", "--at-once"]
    with on_terminal([*command, "summary", folder, "--engine", "pyarrow"]) as started:
        started.until(b"reading the files")
        started.press(CTRL_C)
        code, out, said = started.ended()
        assert (code, out) == (INTERRUPTED, "")
        assert said.endswith(b"\x1b[2K")  # the line is empty
        assert b"\x1b[?25l" not in started.all_said  # and the cursor was never hidden
        assert b"Traceback" not in said


# -- which handlers are in place, in this process -----------------------------------------------------------


@pytest.fixture
def as_python_begins() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("as_python_begins")
def test_an_interrupt_ends_the_process_during_a_command_only_and_is_raised_where_it_asks_for_that() -> None:
    with ctrl_c.ended_at_once():
        assert signal.getsignal(signal.SIGINT) is ctrl_c._on_interrupt
        with ctrl_c.raised():
            assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        assert signal.getsignal(signal.SIGINT) is ctrl_c._on_interrupt
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.set_wakeup_fd(-1) == -1


@pytest.mark.usefixtures("as_python_begins")
@pytest.mark.parametrize("handler", [signal.SIG_IGN, lambda number, frame: None], ids=["ignored", "own"])
def test_what_a_program_does_with_an_interrupt_is_left_as_it_is(handler: Any) -> None:
    signal.signal(signal.SIGINT, handler)
    with ctrl_c.ended_at_once(), ctrl_c.raised():
        assert signal.getsignal(signal.SIGINT) is handler
    assert signal.getsignal(signal.SIGINT) is handler


@pytest.mark.usefixtures("as_python_begins")
def test_a_signal_that_is_noted_ends_nothing_and_one_that_was_ignored_is_not_noted() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    before = signal.getsignal(signal.SIGTERM)
    with ctrl_c.noted() as came:
        signal.raise_signal(signal.SIGINT)
        assert not came()
        signal.raise_signal(signal.SIGTERM)
        assert came()
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.usefixtures("as_python_begins")
def test_only_a_second_interrupt_ends_a_process_that_notes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    ends: list[str] = []
    monkeypatch.setattr(ctrl_c, "end_process", lambda: ends.append("ended"))
    with ctrl_c.noted():
        for expected in ([], ["ended"]):
            signal.raise_signal(signal.SIGINT)
            assert ends == expected
            signal.raise_signal(signal.SIGTERM)
            assert ends == expected


@pytest.mark.usefixtures("as_python_begins")
@pytest.mark.parametrize("block", [ctrl_c.raised, ctrl_c.noted])
def test_an_interrupt_in_a_block_that_outlives_it_ends_nothing_after_the_block(
    block: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends: list[str] = []
    block_is_over, has_looked = threading.Event(), threading.Event()
    reads = iter([block_is_over.wait, has_looked.set])

    def read(descriptor: int, n_bytes: int) -> bytes:
        next(reads, str)()
        return os.read(descriptor, n_bytes)

    monkeypatch.setattr(ctrl_c, "os", SimpleNamespace(**{**vars(os), "read": read}))
    monkeypatch.setattr(ctrl_c, "end_process", lambda: ends.append("ended"))
    monkeypatch.setattr(ctrl_c, "_PATIENCE_S", 0.0)
    with ctrl_c.ended_at_once():
        with suppress(KeyboardInterrupt), block():
            signal.raise_signal(signal.SIGINT)
        signal.signal(signal.SIGUSR1, lambda *_: None)
        signal.raise_signal(signal.SIGUSR1)  # the thread has something to read in any case
        block_is_over.set()
        assert has_looked.wait(PROCESS_S)
    signal.signal(signal.SIGUSR1, signal.SIG_DFL)
    assert ends == []
