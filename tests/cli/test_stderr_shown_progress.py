"""A command that takes long says on a terminal which stage it is in, and how far that has come."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import warm
from limits import PROCESS_S
from places import TESTS
from set_clock import SetClock
from simulated_runs import data_parallel, factors
from slow import slow
from terminals import on_terminal
from timing_files import write_table

from timing_logger.cli import stderr
from timing_logger.cli.stderr import Estimate
from timing_logger.process import progress

PROGRAM = TESTS / "command_programs" / "standing.py"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_table(tmp_path_factory.mktemp("run") / "timing", data_parallel(factors(20, 4)))


# -- what is estimated -----------------------------------------------------------------------------------


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
def estimate(clock: SetClock) -> Estimate:
    return Estimate(clock)


def test_nothing_is_estimated_before_a_step_is_done(estimate: Estimate, clock: SetClock) -> None:
    assert (estimate.stage, estimate.n_steps, estimate.left_s()) == (None, 0, None)
    estimate.begin("reading", 10)
    clock.now_s += 5.0
    assert (estimate.stage, estimate.n_steps, estimate.n_done, estimate.left_s()) == ("reading", 10, 0, None)


def test_the_time_left_is_that_of_the_steps_that_are_not_done(estimate: Estimate, clock: SetClock) -> None:
    estimate.begin("reading", 10)
    clock.now_s += 6.0
    estimate.done(4)
    assert (estimate.n_done, estimate.left_s()) == (4, 9.0)


def test_each_stage_is_estimated_by_its_own_steps(estimate: Estimate, clock: SetClock) -> None:
    estimate.begin("reading", 1)
    clock.now_s += 60.0
    estimate.done(1)
    assert estimate.left_s() == 0.0
    estimate.begin("answering", 2)
    assert (estimate.stage, estimate.n_done, estimate.left_s()) == ("answering", 0, None)
    clock.now_s += 2.0
    estimate.done(1)
    assert estimate.left_s() == 2.0


@pytest.mark.parametrize(
    ("left_s", "said"),
    [(None, ""), (0.0, ""), (0.2, "about 1 s left"), (99.4, "about 99 s left"), (150.1, "about 3 min left")],
)
def test_the_time_left_is_said_in_few_words(left_s: float | None, said: str) -> None:
    assert stderr._in_words(left_s) == said


# -- what is told ----------------------------------------------------------------------------------------


class Heard:
    def __init__(self) -> None:
        self.all: list[object] = []

    def begin(self, stage: progress.Stage, n_steps: int) -> None:
        self.all.append((stage, n_steps))

    def done(self, n_steps: int) -> None:
        self.all.append(n_steps)


def test_each_item_is_a_step_that_is_done_when_the_next_is_asked_for() -> None:
    heard = Heard()
    with progress.heard_by(heard):
        for _ in progress.each("reading", "ab"):
            heard.all.append("item")
    assert heard.all == [("reading", 2), "item", 1, "item", 2]


def test_where_nobody_listens_the_items_are_the_same() -> None:
    assert list(progress.each("reading", "ab")) == ["a", "b"]


# -- what is shown ---------------------------------------------------------------------------------------


def command_on(
    folder: Path, stands: Path, *command: object, at_once: bool, place: str = "reading"
) -> list[object]:
    at = ["--at-once"] if at_once else []
    return [warm.python(), PROGRAM, place, "threads", stands, *at, *command, folder]


def go(stands: Path) -> None:
    stands.with_name(f"{stands.name}.go").touch()


@pytest.mark.parametrize(
    "command",
    [
        slow(["stragglers"], "the stages of this engine are told in the same way", id="stragglers"),
        pytest.param(["bandwidth", "--json", "--engine", "pyarrow"], id="bandwidth --json --engine pyarrow"),
    ],
)
def test_a_terminal_shows_the_stages_and_is_left_as_it_was(
    folder: Path, tmp_path: Path, command: list[str]
) -> None:
    stands = tmp_path / "stands"
    with on_terminal(command_on(folder, stands, *command, at_once=True)) as shown:
        shown.until(b"reading the files")
        shown.until(b"0/")
        go(stands)
        code, out, said = shown.ended()
    assert code == 0
    assert out.startswith("{" if "--json" in command else "Verdict")
    assert said.endswith(b"\x1b[2K")


@pytest.mark.slow(
    "that nothing is shown for two seconds is tried below, and other commands write nothing beside answers"
)
def test_a_command_that_is_quick_shows_nothing(folder: Path, tmp_path: Path) -> None:
    go(tmp_path / "stands")
    program = (
        "import sys; from timing_logger.cli import main, stderr; stderr._QUIET_S = 3600.0; sys.exit(main())"
    )
    with on_terminal([warm.python(), "-c", program, "bandwidth", folder]) as shown:
        assert shown.ended()[::2] == (0, b"")


def test_nothing_is_shown_before_two_seconds_have_passed() -> None:
    assert stderr._QUIET_S == 2.0


@pytest.mark.slow("other tests of commands run without a terminal, and look at stderr")
def test_without_a_terminal_nothing_is_shown(folder: Path, tmp_path: Path) -> None:
    go(tmp_path / "stands")
    command = command_on(folder, tmp_path / "stands", "bandwidth", "--json", at_once=True)
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, timeout=PROCESS_S, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow("a terminal more, for a run that lacks a file; its progress is as that above")
def test_a_warning_is_above_the_progress(folder: Path, tmp_path: Path) -> None:
    """It is a line of its own, and whole, however narrow the terminal is."""
    run = write_table(tmp_path / "run", data_parallel(factors(5, 4)))
    (run / "timing-rank2.csv").unlink()
    stands = tmp_path / "stands"
    with on_terminal(command_on(run, stands, "bandwidth", at_once=True, place="finding")) as shown:
        shown.until(b"finding the files")
        go(stands)
        assert shown.ended()[0] == 0
    shown_then = [line.rsplit(b"\x1b[2K", 1)[-1] for line in shown.all_said.split(b"\r\n")]
    (warning,) = [line for line in shown_then if b"lacks those rows" in line]
    assert warning.startswith(b"timing-logger: There is no file")
    assert len(warning) > 60
