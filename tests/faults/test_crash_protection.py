"""Where the records of a process would not survive it, the log, the sidecar and every reader say so."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import pytest
from left_folders import LeftFolders, emptied
from limits import LIMIT_S, PROCESS_S
from processes import run_python
from sidecars import sidecar_when
from slow import slow

from timing_logger import TimingLogger, read_timings
from timing_logger.cli import main
from timing_logger.reading.recovery import recover
from timing_logger.recording import ring
from timing_logger.recording import ring as left_rings
from timing_logger.recording.cores import chosen as core

FILE = "timing-rank0.csv"
native = pytest.mark.skipif(core.NAME != "native", reason="the Python core has no ring")


def protection(logs: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((logs / "timing-rank0.meta.json").read_text())["crash_protection"]
    return found


@pytest.fixture(autouse=True)
def _says_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ring, "_said", set())


# -- folders in memory, as containers have them -------------------------------------------------------------


def in_a_container(shared_memory: str, program: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a program where ``shared_memory``, a shell command, changed /dev/shm for it alone."""
    if os.getuid() or subprocess.run(["unshare", "-m", "true"], check=False, capture_output=True).returncode:
        pytest.skip("needs the right to make a mount namespace")
    run = [sys.executable, "-c", textwrap.dedent(program), *map(str, arguments)]
    return subprocess.run(
        ["unshare", "-m", "sh", "-c", f'{shared_memory} && exec "$@"', "sh", *run],
        capture_output=True, text=True, timeout=PROCESS_S, check=False, env={**os.environ, "TMPDIR": "/"},
    )  # fmt: skip


def of_size(megabytes: float) -> str:
    return f"mount -t tmpfs -o size={int(megabytes * 1024)}k tmpfs /dev/shm"


# The last one takes all of /dev away.
SHARED_MEMORY = {
    "64 MB": of_size(64),
    "5 MB": of_size(5),
    "read-only": "mount -t tmpfs -o ro tmpfs /dev/shm",
    "none": "mount -t tmpfs tmpfs /dev && true > /dev/null",
}

KILLED = """
import json, logging, os, signal, subprocess, sys
from timing_logger import TimingLogger, read_timings
for name, shared_memory in json.loads(sys.argv[2]).items():
    folder = os.path.join(sys.argv[1], name)
    os.dup2(os.open(folder + ".stderr", os.O_CREAT | os.O_WRONLY), 2)
    subprocess.run(shared_memory, shell=True, check=True)
    child = os.fork()
    if not child:
        logging.basicConfig(level=logging.WARNING)
        logger = TimingLogger(0, folder, flush_interval=3600)
        for i in range(1000):
            logger.record_timing("A", 1.0, iteration=i)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    with open(folder + ".rows", "w") as file:
        print(len(read_timings(folder)), file=file)
"""


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Have a process killed and its files read with each kind of shared memory; return where they are."""
    found = tmp_path_factory.mktemp("killed")
    run = in_a_container("true", KILLED, found, json.dumps(SHARED_MEMORY))
    assert run.returncode == 0, run.stderr
    return found


@native
def test_in_64_megabytes_the_ring_is_smaller_which_is_said_and_a_kill_costs_nothing(killed: Path) -> None:
    said = (killed / "64 MB.stderr").read_text()
    assert (killed / "64 MB.rows").read_text() == "1000\n", said
    assert "the queue holds" in said
    assert "and not maxsize=100000, as there is no room in '/dev/shm' for more" in said
    assert protection(killed / "64 MB")["on"]
    assert "the queue holds" in protection(killed / "64 MB")["reason"]


@pytest.mark.slow("that one logger is content with less room is quick")
@native
def test_in_64_megabytes_eight_loggers_at_once_have_each_a_ring(tmp_path: Path) -> None:
    program = """
        import os, sys
        from timing_logger import TimingLogger
        loggers = [TimingLogger(rank, sys.argv[1]) for rank in range(8)]
        print(len(os.listdir("/dev/shm")), min(logger._channel.capacity for logger in loggers) >= 16384)
        """
    run = in_a_container(of_size(64), program, tmp_path)
    assert run.stdout == "8 True\n", run.stderr


@pytest.mark.parametrize(
    ("shared_memory", "why"),
    [
        ("5 MB", "MB are free, too few beside a ring of 4.4 MB"),
        ("read-only", "Read-only file system"),
        ("none", "'/dev/shm': No such file or directory"),
    ],
)
@native
def test_without_room_for_a_ring_the_log_the_sidecar_and_the_reader_say_what_a_kill_costs(
    killed: Path, shared_memory: str, why: str
) -> None:
    said = (killed / f"{shared_memory}.stderr").read_text()
    assert (killed / f"{shared_memory}.rows").read_text() == "0\n", said
    assert "what is recorded in the last 3600.5 s before a kill would be lost; ring_dir names" in said
    assert why in said
    assert not protection(killed / shared_memory)["on"]
    assert why in protection(killed / shared_memory)["reason"]
    assert "its process ended without closing it: whether rows of its last seconds are missing" in said


@native
def test_a_ring_is_put_on_no_disk_unasked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ring, "SHARED_MEMORY", tmp_path)
    monkeypatch.setattr(ring, "_IN_MEMORY", {"none"})
    with TimingLogger(0, tmp_path / "logs"):
        assert not list(tmp_path.glob("*.ring"))
    assert "it is not in memory but on" in protection(tmp_path / "logs")["reason"]


@native
def test_a_queue_that_was_asked_to_be_long_stays_long(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with TimingLogger(0, tmp_path, maxsize=2**21) as logger:
        assert logger._channel.capacity == 2**21
        assert type(logger._channel) is core.Channel
    assert "maxsize=2097152, and a ring holds at most 1048576 records" in protection(tmp_path)["reason"]
    assert caplog.text.count("before a kill would be lost") == 1


def test_the_python_core_says_that_it_has_no_protection(tmp_path: Path) -> None:
    program = "import sys; from timing_logger import TimingLogger; TimingLogger(0, sys.argv[1]).close()"
    run = run_python(program, tmp_path, environment={"TIMING_LOGGER_CORE": "python"})
    assert "no crash protection (the Python core has none)" in run.stderr
    assert protection(tmp_path) == {"on": False, "reason": "the Python core has none"}


@native
def test_a_protection_that_is_on_is_not_spoken_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with TimingLogger(0, tmp_path / "logs", ring_dir=tmp_path):
        pass
    assert not caplog.records
    assert protection(tmp_path / "logs") == {"on": True, "reason": ""}


# -- a ring that is taken away ------------------------------------------------------------------------------

TAKEN_AWAY = """
import logging, os, signal, sys, time
from pathlib import Path
from timing_logger import TimingLogger
logger = TimingLogger(0, sys.argv[1], ring_dir=sys.argv[2], flush_interval=3600)
for i in range(50):
    logger.record_timing("A", 1.0, iteration=i)
span = logger.record_mpi_operation("BARRIER", seq=7)
span.__enter__()
(ring,) = Path(sys.argv[2]).glob("*.ring")
ring.unlink()
said = []
class Telling(logging.StreamHandler):
    def emit(self, record):
        super().emit(record)
        said.append(record)  # once it is written, as the process is killed then
logging.getLogger("timing_logger").addHandler(Telling())
while not said:
    logger.flush_soon() if sys.argv[3] == "drain" else time.sleep(0.01)
for i in range(50, 100):
    logger.record_timing("A", 1.0, iteration=i)
os.kill(os.getpid(), signal.SIGKILL)
"""


@native
@pytest.mark.parametrize("when", ["idle", slow("drain", "as found by a thread that has nothing to do")])
def test_a_ring_that_was_removed_is_made_again_and_holds_what_the_old_one_held(
    tmp_path: Path, when: str
) -> None:
    run = run_python(TAKEN_AWAY, tmp_path / "logs", tmp_path, when)
    assert "was removed: a new one is in its place" in run.stderr
    with pytest.warns(UserWarning, match="rows added that its process had not written"):
        rows = read_timings(tmp_path / "logs")
    done = rows[rows.status == "ok"]
    assert sorted(done.iteration.tolist()) == list(range(100))


@native
def test_a_ring_that_cannot_be_made_again_ends_the_protection_and_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with TimingLogger(0, tmp_path / "logs", ring_dir=tmp_path) as logger:
        logger.record_timing("A", 1.0)
        (path,) = tmp_path.glob("*.ring")
        path.unlink()
        path.mkdir()
        said = sidecar_when(tmp_path / "logs", lambda content: not content["crash_protection"]["on"])
        assert "was removed, and no new one can be made: File exists" in said["crash_protection"]["reason"]
        path.rmdir()
        sidecar_when(tmp_path / "logs", lambda content: content["crash_protection"]["on"])
    assert caplog.text.count("what is recorded just before a kill would be lost") == 1
    assert not list(tmp_path.glob("*.ring"))


@native
def test_a_file_in_the_place_of_a_ring_is_not_removed_at_the_end(tmp_path: Path) -> None:
    with TimingLogger(0, tmp_path / "logs", ring_dir=tmp_path):
        (path,) = tmp_path.glob("*.ring")
        path.unlink()
        path.write_text("mine")
    assert path.read_text() == "mine"


@native
def test_a_ring_that_is_gone_when_the_process_is_killed_is_told_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = """
        import os, signal, sys
        from timing_logger import TimingLogger
        logger = TimingLogger(0, sys.argv[1], ring_dir=sys.argv[2], flush_interval=3600)
        logger.record_timing("A", 1.0)
        os.kill(os.getpid(), signal.SIGKILL)
        """
    run_python(program, tmp_path / "logs", tmp_path)
    next(tmp_path.glob("*.ring")).unlink()
    assert main(["recover", str(tmp_path / "logs")]) == 0
    said = capsys.readouterr().out
    assert "whether rows of its last seconds are missing cannot be known" in said
    assert "No process was killed" not in said


# -- what the command says of processes that run ------------------------------------------------------------


@pytest.mark.both_cores
def test_of_a_process_that_runs_it_is_not_said_that_it_was_not_killed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with TimingLogger(0, tmp_path) as logger:
        logger.record_timing("A", 1.0)
        logger.flush()
        assert main(["recover", str(tmp_path)]) == 0
    assert capsys.readouterr().out == (
        "Nothing was recovered. 1 of 1 files are of processes that still run.\n"
    )


def test_of_a_file_without_a_sidecar_it_is_not_said_that_nothing_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with TimingLogger(0, tmp_path):
        pass
    next(tmp_path.glob("*.meta.json")).unlink()
    assert main(["recover", str(tmp_path)]) == 0
    assert "Nothing is known of 1, as no sidecar can be read." in capsys.readouterr().out


# -- rings that others left ---------------------------------------------------------------------------------

LEFT = """
import os, signal, sys
from timing_logger import TimingLogger
logger = TimingLogger(0, sys.argv[1], ring_dir=sys.argv[2], flush_interval=3600)
class Group:
    size, collectives = 2, 5
group = Group()
logger.add_group(group, "world")
logger.record_timing("A", 1.0)
if "open" in sys.argv[3]:
    span = logger.record_mpi_operation("BARRIER", seq=7)
    span.__enter__()
if "flush" in sys.argv[3]:
    logger.flush()
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("left") / "one place"


@pytest.fixture
def one_place(place: Path) -> Path:
    """The same folder for all tests, which find it empty."""
    return emptied(place)


left_folders = LeftFolders()


def leave(folder: Path, how: str) -> None:
    """Have a process record and be killed; its files are in ``logs``, its ring in ``folder``."""
    left_folders.leave(folder, how, lambda: run_python(LEFT, folder / "logs", folder, how))
    assert list(folder.glob("*.ring"))


def left_after_another_logger(tmp_path: Path, how: str) -> list[Path]:
    leave(tmp_path, how)
    TimingLogger(0, tmp_path / "other", ring_dir=tmp_path).close()
    return list(tmp_path.glob("*.ring"))


@native
def test_a_ring_whose_rows_are_all_in_the_file_is_removed_by_the_next_logger(one_place: Path) -> None:
    assert not left_after_another_logger(one_place, "flush")
    said = json.loads((one_place / "logs" / "timing-rank0.meta.json").read_text())
    assert said["killed"]
    assert said["groups"] == [{"group": "world", "size": 2, "issued": 5, "completed": 5}]
    assert recover(one_place / "logs") == []


@native
@pytest.mark.parametrize("how", ["open and flush", ""])
def test_a_ring_that_holds_evidence_is_left_for_a_reader(one_place: Path, how: str) -> None:
    assert left_after_another_logger(one_place, how)
    (recovery,) = recover(one_place / "logs")
    assert recovery.rows == 1


@native
def test_a_ring_stays_whose_rows_go_into_a_later_part(one_place: Path) -> None:
    leave(one_place, "")
    (one_place / "logs" / FILE).rename(one_place / "logs" / "timing-rank0.part2.csv")
    TimingLogger(0, one_place / "other", ring_dir=one_place).close()
    (recovery,) = recover(one_place / "logs")
    assert recovery.rows == 1


@native
def test_a_disk_that_does_not_answer_holds_up_no_new_logger(
    one_place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave(one_place, "flush")
    released = threading.Event()
    monkeypatch.setattr(left_rings, "parts_of", lambda path: released.wait(LIMIT_S))
    monkeypatch.setattr(left_rings, "_MOST_SECONDS", 0.05)
    try:
        with TimingLogger(0, one_place / "other", ring_dir=one_place) as logger:
            logger.record_timing("A", 1.0)
            assert logger.flush()
            assert not released.is_set()
    finally:
        released.set()
