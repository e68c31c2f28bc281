"""``timing-logger run`` says in one line that its job hangs, while it hangs, and leaves the job alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from conditions import wait_for
from hung_runs import Rank, open_call, trained, write_run
from limits import LIMIT_S
from monitored_runs import is_of_host, judges_of
from places import ROOT
from processes import run_python
from snapshots import BEGINS, HANGS
from timing_files import EPOCH_S

from timing_logger.analysis import RunEnd
from timing_logger.cli.launch import HangNotice, JobMonitor, _is_first_here, _what_hangs
from timing_logger.live.events import WatchedRun, event_of
from timing_logger.live.now import snapshot_text
from timing_logger.live.watcher import Watcher
from timing_logger.process.this_process import host_name
from timing_logger.results.run_end import StuckGroup, StuckMessage

HANGS_FOR_A_TIME = """
import sys, time
from timing_logger import TimingLogger
folder = sys.argv[1]
loggers = [TimingLogger(rank, folder, world_size=2, hang_after=0.5) for rank in range(2)]
group = {"group": "world", "group_size": 2}
for step in range(3):
    for logger in loggers:
        logger.set_current_iteration(step)
        with logger.record_mpi_operation("ALLREDUCE", 8, seq=step, **group): pass
with loggers[0].record_mpi_operation("ALLREDUCE", 8, seq=3, **group):
    time.sleep(float(sys.argv[2]))
sys.exit(7)
"""


HANGS_ON_REQUEST = """
import sys, time
from pathlib import Path
from timing_logger import TimingLogger
folder = Path(sys.argv[1])
def until(name):
    deadline_s = time.monotonic() + 120
    while not (folder / name).exists() and time.monotonic() < deadline_s: time.sleep(0.01)
loggers = [TimingLogger(rank, str(folder), world_size=2, hang_after=0.5) for rank in range(2)]
until("hang")
with loggers[0].record_mpi_operation("ALLREDUCE", 8, seq=0, group="world", group_size=2): until("end")
"""
NEVER_ENTERED = "Rank 1 never entered ALLREDUCE 0 of world"


@contextmanager
def monitored_run(folder: Path) -> Iterator[Callable[[str], str]]:
    """Run a job with a monitor; what is yielded waits for a text on stderr, and returns all of it."""
    job = subprocess.Popen(
        [
            sys.executable, "-m", "timing_logger", "run", "--monitor", "--monitor-every", "1", "--log-dir",
            folder, "--", sys.executable, "-c", HANGS_ON_REQUEST, folder,
        ],
        env={**os.environ, "TIMING_LOGGER_HANG_AFTER": "0.5", "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert job.stderr is not None
    lines: list[str] = []
    reader = threading.Thread(target=lines.extend, args=(job.stderr,), daemon=True)
    reader.start()

    def heard(text: str) -> str:
        wait_for(lambda: text in "".join(lines))
        return "".join(lines)

    try:
        yield heard
    finally:
        (folder / "end").touch()
        job.wait(LIMIT_S)
        reader.join(LIMIT_S)
        job.stderr.close()


def kill_monitor(folder: Path) -> None:
    (judge,) = wait_for(lambda: judges_of(folder))
    os.kill(judge, signal.SIGKILL)


def run(folder: Path, seconds: float, *options: str) -> tuple[int, str]:
    command = [
        "run",
        "--log-dir",
        folder,
        *options,
        "--",
        sys.executable,
        "-c",
        HANGS_FOR_A_TIME,
        folder,
        seconds,
    ]
    job = run_python(
        "import sys; from timing_logger.cli import main; sys.exit(main())", *command,
        environment={"TIMING_LOGGER_HANG_AFTER": "0.5", "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    return job.returncode, job.stderr


@pytest.mark.slow("a hang of twelve seconds; what is said of one is tested with files of a hung run")
def test_a_job_that_hangs_is_told_of_once_with_who_is_missing_and_its_exit_code_stays(tmp_path: Path) -> None:
    code, said = run(tmp_path, 12)
    notices = [line for line in said.splitlines() if "The job goes on" in line]
    assert code == 7
    assert len(notices) == 1, said
    assert notices[0].startswith(
        "timing-logger: Rank 1 never entered ALLREDUCE 3 of world, in which rank 0 has"
    )
    assert notices[0].endswith(f"more: timing-logger hang {os.path.relpath(tmp_path)}")


@pytest.mark.slow("a hang of six seconds, of which nothing is said")
def test_a_quiet_run_says_nothing_of_a_hang(tmp_path: Path) -> None:
    assert run(tmp_path, 6, "--quiet") == (7, "")


@pytest.mark.slow("waits for a hang; what a monitor told before it ended is tested with files")
def test_a_job_whose_monitor_was_killed_is_told_to_hang_once(tmp_path: Path) -> None:
    with monitored_run(tmp_path) as heard:
        kill_monitor(tmp_path)
        heard("the monitor ended (-9)")
        (tmp_path / "hang").touch()
        said = heard("The job goes on")
    assert said.count(NEVER_ENTERED) == 1, said


@pytest.mark.slow("waits for a hang beside a monitor")
def test_while_its_monitor_is_at_work_that_alone_tells_of_a_hang(tmp_path: Path) -> None:
    with monitored_run(tmp_path) as heard:
        wait_for(lambda: judges_of(tmp_path))
        (tmp_path / "hang").touch()
        said = heard(NEVER_ENTERED)
    assert "The job goes on" not in said, said


class Hanging:
    """The files of a run that hangs, and a job that ends when they were looked at three times."""

    def __init__(self, folder: Path) -> None:
        write_run(folder, *[Rank(trained(), sidecar={"host": host_name(), "open_calls": [open_call()]})] * 2)
        self.folder, self.looks = folder, 0
        self.job = subprocess.Popen(["cat"], stdin=subprocess.PIPE)

    def files(self) -> list[Path]:
        self.looks += 1
        if self.looks == 3:
            self.job.communicate(timeout=LIMIT_S)
        return sorted(self.folder.glob("*.csv"))


@pytest.mark.parametrize("told_before", [False, True])
def test_what_the_monitor_told_before_it_ended_is_not_told_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], told_before: bool
) -> None:
    monitor, hanging = JobMonitor(), Hanging(tmp_path)
    if told_before:
        monitor.hear({"event": event_of(BEGINS._replace(verdict=HANGS), WatchedRun())})
    monitor.hear({"ended": -9})
    HangNotice(tmp_path, hanging.files, 0.01, monitor).wait(hanging.job)
    said = capsys.readouterr().err
    assert hanging.looks == 3
    assert said.count("The job goes on; more") == (0 if told_before else 1), said


def test_a_hang_is_told_beside_rank_0_alone_once_a_monitor_is_gone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monitor, hanging = JobMonitor(), Hanging(tmp_path)
    is_of_host(tmp_path / "timing-rank0.csv", "elsewhere")
    monitor.hear({"ended": -9})
    HangNotice(tmp_path, hanging.files, 0.01, monitor).wait(hanging.job)
    assert "The job goes on; more" not in capsys.readouterr().err
    assert hanging.looks == 3


@pytest.mark.slow("live/test_watcher_told_groups.py names who is missing; this counts the open calls, too")
def test_whoever_watches_reads_the_number_of_open_calls_and_who_is_missing(tmp_path: Path) -> None:
    """The process has not yet written a row of the call, but its sidecar or its ring knows it."""
    write_run(tmp_path, Rank(trained(), sidecar={"open_calls": [open_call()]}), Rank(trained()))
    end = Watcher(tmp_path).snapshot()
    assert [rank.unfinished for rank in end.ranks] == [1, 0]
    assert "Rank 1 never entered ALLREDUCE 10 of MPI_COMM_WORLD" in snapshot_text(end, 140)


@pytest.mark.slow("a rarer look than that at a hang; live/test_watcher_told_groups.py names who is missing")
def test_whoever_watches_reads_who_is_missing_before_it_is_a_hang(tmp_path: Path) -> None:
    now_s = time.time() - EPOCH_S
    began = {"seen_s": now_s, "progressed_s": now_s - 4}
    young = Rank([], **began, sidecar={"open_calls": [open_call(start_s=now_s - 4, group_size=2)]})
    write_run(tmp_path, young, Rank([], **began))
    said = " ".join(snapshot_text(Watcher(tmp_path).snapshot(), 140).split())
    assert "which is no hang yet; rank 1 had not entered it." in said


# -- what is told ----------------------------------------------------------------------------------------


def group(name: str, seq: int) -> StuckGroup:
    return StuckGroup(group=name, group_size=2, seq=seq, operation="ALLREDUCE")


def hang_of(*groups: StuckGroup, **further: Any) -> RunEnd:
    return RunEnd(state="hang", groups=groups, **further)


def notice(monitor: JobMonitor | None = None, folder: Path = Path("logs")) -> HangNotice:
    return HangNotice(folder, list, 1.0, monitor)


def test_a_hang_is_told_once_and_told_again_only_where_all_of_it_is_new() -> None:
    found = notice()
    first, more, other = hang_of(group("a", 1)), hang_of(group("a", 1), group("b", 7)), hang_of(group("b", 7))
    assert [found._is_told(end) for end in (first, first, more, other)] == [False, True, True, True]
    assert not found._is_told(hang_of(group("a", 2)))


def test_messages_are_told_apart_by_who_is_in_them_and_the_gone_where_nothing_else_hangs() -> None:
    message = StuckMessage(
        rank=1, operation="RECV", group="world", seq=3, thread="main", iteration=None, peer=2,
        has_partner=False, since_s=6.0, hangs=True,
    )  # fmt: skip
    assert _what_hangs(hang_of(messages=(message,), gone=(4,))) == {(1, "RECV", "world", 3)}
    assert _what_hangs(hang_of(gone=(4, 5))) == {(4, 5)}


@pytest.mark.parametrize(("n_looks", "is_told"), [(3, True), (4, False)])
def test_what_a_monitor_told_counts_for_the_next_three_looks_and_for_one_hang(
    n_looks: int, is_told: bool
) -> None:
    monitor = JobMonitor()
    monitor.hang_stands = True
    found = notice(monitor)
    found._looks = n_looks
    assert found._is_told(hang_of(group("a", 1))) is is_told
    assert monitor.hang_stands is False
    assert not found._is_told(hang_of(group("a", 2)))


def test_the_first_two_sentences_are_told_with_the_command_for_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = notice(folder=tmp_path / "my logs")._said(hang_of(sentences=("One.", "Two.", "Three.")))
    assert said == "One. Two. The job goes on; more: timing-logger hang 'my logs'"


@pytest.mark.parametrize(
    ("rank", "sidecar", "is_first"),
    [(0, {}, True), (0, {"host": host_name()}, True), (0, {"host": "elsewhere"}, False), (1, {}, False)],
)
def test_rank_0_is_first_on_the_host_that_its_sidecar_names_if_any(
    rank: int, sidecar: dict[str, str], is_first: bool
) -> None:
    assert _is_first_here({"rank": rank, "sidecar": sidecar}) is is_first


def test_while_a_monitor_is_at_work_no_file_is_looked_at() -> None:
    looks: list[int] = []

    def files() -> list[Path]:
        looks.append(1)
        return []

    monitor = JobMonitor()
    found = HangNotice(Path("logs"), files, 1.0, monitor)
    found._look()
    assert (looks, found._looks) == ([], 0)
    monitor.is_at_work = False
    found._look()
    assert (looks, found._looks) == ([1], 1)


def test_what_goes_wrong_at_a_look_does_not_concern_the_job() -> None:
    def files() -> list[Path]:
        raise PermissionError

    HangNotice(Path("logs"), files, 1.0)._look()
