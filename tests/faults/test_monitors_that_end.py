"""Whatever happens to the monitor of a run, or to what it writes to: the training ends as without one."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import warm
from conditions import wait_for
from http_receivers import receiving, status
from limits import JOB_S, LIMIT_S, MONITOR_S
from monitored_runs import judges_of
from mpi_runner import PROGRAMS, environment_of_a_job
from processes import run_job
from sidecars import sidecar_when
from slow import slow

from timing_logger import Monitor, TimingLogger
from timing_logger.process import monitor

RANKS = 2
OUTSIDE, INSIDE = "198.18.7.1", "198.18.7.2"  # of the range for benchmarks (RFC 2544)


def result_of(
    folder: Path, *arguments: str, meanwhile: Callable[[Path], None] | None = None, within: Sequence[str] = ()
) -> tuple[int, str]:
    """Run the training, do something to it meanwhile, and return its exit code and its result.

    ``within`` begins the command; what is there, a warm parent is not.
    """
    helper = threading.Thread(target=meanwhile, args=(folder,)) if meanwhile else None
    if helper:
        helper.start()
    python = sys.executable if within else warm.python()
    mpiexec = [Path(sys.executable).with_name("mpiexec"), "-n", RANKS]
    command = [*within, *mpiexec, python, "-m", "mpi4py", PROGRAMS / "reproducible.py", folder, *arguments]
    with environment_of_a_job() as environment:
        done = run_job(command, environment={**environment, "PYTHON": python}, name="training")
    if helper:
        helper.join(LIMIT_S)
    (result,) = re.findall(r"^RESULT (.*)$", done.stdout, re.MULTILINE) or [done.stderr[-2000:]]
    return done.returncode, result


def once_it_judges(act: Callable[[Path], object]) -> Callable[[Path], None]:
    def meanwhile(folder: Path) -> None:
        wait_for(lambda: judges_of(folder), limit_s=MONITOR_S)
        act(folder)
        (folder / "done").touch()

    return meanwhile


def send(number: int) -> Callable[[Path], None]:
    def to_all(folder: Path) -> None:
        for pid in judges_of(folder):
            os.kill(pid, number)

    return to_all


def replace_with_a_file(folder: Path) -> None:
    shutil.rmtree(folder / "monitor")
    (folder / "monitor").write_text("no folder")


def link_to_the_full_device(folder: Path) -> None:
    (folder / "verdicts.jsonl").symlink_to("/dev/full")


FAULTS: dict[str, Callable[[Path], object]] = {
    "killed": send(signal.SIGKILL),
    "stopped": send(signal.SIGSTOP),
    "terminated": send(signal.SIGTERM),
    "its folder is no folder": replace_with_a_file,
    "what it writes to is full": link_to_the_full_device,
    "its files cannot be written": lambda folder: [
        link_to_the_full_device(folder),
        replace_with_a_file(folder),
    ],
}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> tuple[int, str]:
    return result_of(tmp_path_factory.mktemp("plain") / "logs")


@pytest.mark.parametrize(
    "fault",
    [
        slow("stopped", "two trainings on two ranks; a logger whose monitor is stopped is quick below"),
        slow("killed", "tests/process/test_monitor_of_a_logger.py kills one"),
        slow(
            "its files cannot be written",
            "test_delivery_receivers.py of tests/live has the full disk, test_looking.py what is no folder",
        ),
        slow("terminated", "as one that is killed"),
        slow("its folder is no folder", "test_looking.py of tests/live has it"),
        slow("what it writes to is full", "test_delivery_receivers.py of tests/live has it"),
    ],
)
def test_the_training_ends_as_without_a_monitor(tmp_path: Path, plain: tuple[int, str], fault: str) -> None:
    folder = tmp_path / "logs"
    found = result_of(folder, "monitored", meanwhile=once_it_judges(FAULTS[fault]))
    for pid in judges_of(folder):  # one that was stopped
        os.kill(pid, signal.SIGKILL)
    assert (folder / "done").exists(), "the monitor never judged"
    assert plain[0] == 0
    assert found == plain


def test_a_monitor_that_is_stopped_keeps_its_logger_neither_from_writing_nor_from_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(monitor, "_GRACE_S", 0.1)
    logger = TimingLogger(0, tmp_path, monitor=Monitor())
    assert logger._monitor is not None
    pid = logger._monitor.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        logger.record_timing("A", 1.0)
        logger.close()
        assert Path(f"/proc/{pid}/stat").read_text().split()[2] == "T", "it is stopped to the end"
    finally:
        os.kill(pid, signal.SIGKILL)
    assert logger.stats == (1, 1, 0, 0)
    assert sidecar_when(tmp_path, lambda content: content["closed"])


@pytest.fixture
def namespace() -> Iterator[int]:
    """A process with a network of its own, which a link joins to this one."""
    with subprocess.Popen(["unshare", "--net", "sleep", str(2 * JOB_S)]) as shell:
        enter = ["nsenter", "--net", "--target", str(shell.pid)]
        try:
            wait_for(lambda: os.readlink(f"/proc/{shell.pid}/ns/net") != os.readlink("/proc/self/ns/net"))
            for within, arguments in (
                ([], f"link add tl-test type veth peer name tl-test netns {shell.pid}"),
                ([], f"addr add {OUTSIDE}/30 dev tl-test"),
                ([], "link set tl-test up"),
                (enter, f"addr add {INSIDE}/30 dev tl-test"),
                (enter, "link set tl-test up"),
                (enter, "link set lo up"),
            ):
                subprocess.run([*within, "ip", *arguments.split()], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError) as error:
            pytest.skip(f"no network namespace can be made: {error}")
        else:
            yield shell.pid
        finally:
            shell.kill()


@pytest.mark.slow("two trainings of 20 s; a webhook without an answer is in tests/live/test_webhook.py")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes a network namespace")
def test_the_training_ends_as_it_would_though_the_link_to_the_webhook_is_gone(
    tmp_path: Path, namespace: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The link goes when the first event has come, so what is told at the end goes nowhere."""

    def take_the_link_away(folder: Path) -> None:
        server.wait_for(1)
        subprocess.run(["ip", "link", "delete", "tl-test"], check=True)
        (folder / "done").touch()

    enter = ["nsenter", "--net", "--target", str(namespace)]
    plain = result_of(tmp_path / "plain", "slow", within=enter)
    with receiving(status(204), OUTSIDE) as server:
        monkeypatch.setenv("WEBHOOK", server.url)
        folder = tmp_path / "logs"
        found = result_of(folder, "slow", "monitored", meanwhile=take_the_link_away, within=enter)
    assert (folder / "done").exists(), "no event came"
    assert plain[0] == 0
    assert found == plain
