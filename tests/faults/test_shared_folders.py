"""In folders that others may write to, nobody can stop, slow or falsify the run of another user."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from left_folders import LeftFolders, emptied
from processes import run_python, run_warm
from slow import slow

from timing_logger import TimingLogger, read_timings
from timing_logger.process.sidecar_files import read_sidecar
from timing_logger.reading.living import ALIVE, as_it_stands
from timing_logger.reading.recovery import recover
from timing_logger.recording.cores import chosen as core

pytestmark = [
    pytest.mark.skipif(core.NAME != "native", reason="the Python core has no ring"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]
as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can make files of two users")

NOBODY = 65534
FILE, SIDECAR = "timing-rank0.csv", "timing-rank0.meta.json"

RECORDS = """
import os, signal, sys
from timing_logger import TimingLogger
logger = TimingLogger(0, sys.argv[1], flush_interval=3600, ring_dir=sys.argv[2])
for i in range(10):
    logger.record_timing("A", 1.0, iteration=i)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o777)
        yield Path(name)


@pytest.fixture
def folder(place: Path) -> Path:
    """A folder that everybody may write to, which pytest's own are not; the same for all tests, and empty."""
    found = emptied(place / "one place")
    found.chmod(0o777)
    return found


@pytest.fixture
def tmp_path(folder: Path) -> Path:
    return folder


left_folders = LeftFolders()


def leave(folder: Path) -> tuple[Path, Path]:
    """Have a process record and be killed; return the folder of its files, and its ring."""
    left_folders.leave(folder, RECORDS, lambda: run_python(RECORDS, folder / "logs", folder))
    (ring,) = folder.glob("*.ring")
    return folder / "logs", ring


def n_rows(logs: Path) -> int:
    return max(0, len((logs / FILE).read_bytes().splitlines()) - 1)


def state(logs: Path, **fields: object) -> None:
    """Change what a sidecar states."""
    sidecar = logs / SIDECAR
    sidecar.write_text(json.dumps({**json.loads(sidecar.read_text()), **fields}))


# -- the next logger of the same user -----------------------------------------------------------------------


def a_fifo(path: Path) -> None:
    os.mkfifo(path)


def a_link_to_a_fifo(path: Path) -> None:
    os.mkfifo(path.with_name("fifo"))
    path.symlink_to(path.with_name("fifo"))


def a_link_to_a_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def a_folder(path: Path) -> None:
    path.mkdir()


def an_endless_file(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(2**40)


def test_what_is_named_like_a_ring_holds_up_no_logger(tmp_path: Path) -> None:
    traps = (a_fifo, a_link_to_a_fifo, a_link_to_a_device, a_folder, an_endless_file)
    paths = [tmp_path / f"timing-logger-{os.getuid()}-{number}-x.ring" for number, _ in enumerate(traps, 1)]
    for trap, path in zip(traps, paths, strict=True):
        trap(path)
    program = "import sys; from timing_logger import TimingLogger; TimingLogger(0, {!r}, ring_dir={!r})"
    run = run_python(program.format(str(tmp_path / "logs"), str(tmp_path)))
    assert run.returncode == 0, run.stderr
    assert all(map(os.path.lexists, paths))


@as_root
def test_the_ring_of_another_user_is_not_removed(folder: Path) -> None:
    logs, ring = leave(folder)
    os.chown(ring, NOBODY, NOBODY)
    shutil.rmtree(logs)
    TimingLogger(0, folder / "other", ring_dir=folder).close()
    assert ring.exists()


# -- rows that another user invents -------------------------------------------------------------------------


@as_root
@pytest.mark.parametrize("closed", [True, False])
def test_a_ring_that_another_user_made_adds_no_row(folder: Path, closed: bool) -> None:
    logs, ring = leave(folder)
    os.chown(ring, NOBODY, NOBODY)
    state(logs, closed=closed)
    said = " ".join(map(str, recover(logs)))
    assert n_rows(logs) == 0
    assert closed or "is not used: it belongs to another user" in said


def test_a_ring_that_others_may_write_to_adds_no_row(folder: Path) -> None:
    logs, ring = leave(folder)
    ring.chmod(0o622)
    (recovery,) = recover(logs)
    assert "is not used: other users may write to it" in str(recovery)
    assert n_rows(logs) == 0


def test_nothing_is_added_to_a_run_that_was_closed(tmp_path: Path) -> None:
    logs, _ = leave(tmp_path)
    state(logs, closed=True)
    assert recover(logs) == []
    assert n_rows(logs) == 0


def test_the_ring_of_another_run_adds_no_row(tmp_path: Path) -> None:
    logs, ring = leave(tmp_path)
    with TimingLogger(0, tmp_path / "mine") as logger:
        logger.record_timing("MINE", 1.0)
    state(tmp_path / "mine", closed=False, ring_path=str(ring))
    (recovery,) = recover(tmp_path / "mine")
    assert "is not used: it is of another run" in str(recovery)
    assert n_rows(tmp_path / "mine") == 1
    assert n_rows(logs) == 0


@as_root
def test_a_sidecar_that_another_user_put_there_has_nothing_added(folder: Path) -> None:
    logs, _ = leave(folder)
    os.chown(logs / SIDECAR, NOBODY, NOBODY)
    (recovery,) = recover(logs)
    assert "it belongs to another user than the timing file" in str(recovery)
    assert n_rows(logs) == 0


@as_root
def test_a_further_part_that_another_user_put_there_is_not_written(folder: Path) -> None:
    logs, _ = leave(folder)
    planted = logs / "timing-rank0.part2.csv"
    planted.write_text("")
    os.chown(planted, NOBODY, NOBODY)
    (recovery,) = recover(logs)
    assert "cannot be added here" in str(recovery)
    assert not planted.read_text()


def test_a_part_that_is_a_fifo_holds_up_no_reader(tmp_path: Path) -> None:
    logs, _ = leave(tmp_path)
    os.mkfifo(logs / "timing-rank0.part2.csv")
    (recovery,) = recover(logs)
    assert "cannot be added here" in str(recovery)


@as_root
def test_what_another_user_says_of_a_process_that_runs_is_not_told(folder: Path) -> None:
    with TimingLogger(0, folder / "logs", ring_dir=folder, flush_interval=3600) as logger:
        logger.flush()
        (ring,) = folder.glob("*.ring")
        planted = folder / "planted.ring"
        shutil.copy(ring, planted)
        os.chown(planted, NOBODY, NOBODY)
        state(folder / "logs", ring_path=str(planted))
        sidecar = read_sidecar(folder / "logs" / FILE)
        found = as_it_stands(sidecar, folder / "logs" / FILE) or {}
        assert {key: value for key, value in found.items() if key != ALIVE} == sidecar


# -- what a sidecar makes a reader open ---------------------------------------------------------------------

OPENED = """
import sys
opened = []
sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == "open" else None)
from timing_logger import read_timings
read_timings(sys.argv[1])
print(*[path for path in opened if path.startswith(("/dev/", sys.argv[2]))])
"""


@pytest.mark.parametrize(
    "trap",
    [
        a_fifo,
        a_link_to_a_device,
        slow(a_link_to_a_fifo, "a FIFO is tried, and a link"),
        slow(a_folder, "what is no regular file is told by one look, of which others are tried"),
    ],
)
def test_what_is_no_regular_file_is_not_even_opened(tmp_path: Path, trap: Callable[[Path], None]) -> None:
    logs, _ = leave(tmp_path)
    trap(tmp_path / "trap")
    state(logs, ring_path=str(tmp_path / "trap"))
    run = run_warm(OPENED, logs, tmp_path / "trap")
    assert (run.stdout, run.returncode) == ("\n", 0), run.stderr


def test_a_sidecar_that_is_a_link_to_a_device_is_not_opened(tmp_path: Path) -> None:
    logs, _ = leave(tmp_path)
    (logs / SIDECAR).unlink()
    (logs / SIDECAR).symlink_to("/dev/ptmx")
    run = run_warm(OPENED, logs, logs / SIDECAR)
    assert (run.stdout, run.returncode) == ("\n", 0), run.stderr


@as_root
def test_root_reads_the_rings_of_others_for_their_own_files_only(folder: Path) -> None:
    logs, ring = leave(folder)
    theirs = folder / "theirs"
    shutil.copytree(logs, theirs)
    for path in (theirs, theirs / FILE, theirs / SIDECAR):
        os.chown(path, NOBODY, NOBODY)
    recover(theirs)
    assert n_rows(theirs) == 0
    assert ring.exists()
    assert len(read_timings(logs)) == 10
