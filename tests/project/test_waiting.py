"""What tests wait with: limits that a slow machine can raise, and messages that say what did not come."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from conditions import wait_for
from limits import LIMIT_S, VARIABLE
from places import HELPERS, TESTS
from processes import run_job, run_python

FACTOR = f"""
import sys
sys.path.insert(0, {str(HELPERS)!r})
from limits import LIMIT_S, scaled
print(LIMIT_S, scaled(10))
"""
HANGS = "echo begun; exec sleep 600"


def sleeping_loops(file: Path) -> list[int]:
    """Return the lines of loops that sleep: of the file's own code, not of programs that are text in it."""
    source = file.read_text("utf-8")
    nodes = ast.walk(ast.parse(source)) if "time.sleep(" in source and "while " in source else ()
    loops = [node for node in nodes if isinstance(node, ast.While)]
    return [loop.lineno for loop in loops if "time.sleep(" in ast.unparse(loop)]


def test_tests_wait_by_wait_for_and_by_no_loop_of_their_own() -> None:
    files = {*TESTS.rglob("test_*.py"), *HELPERS.glob("*.py")} - {HELPERS / "conditions.py"}
    files -= {*(TESTS / "gpu").iterdir()}  # where a loop that sleeps is the load
    assert {str(file): lines for file in files if (lines := sleeping_loops(file))} == {}


def test_what_comes_is_returned() -> None:
    came = iter([0, "", 7])
    assert wait_for(lambda: next(came)) == 7


def test_a_wait_that_is_over_says_the_source_of_its_condition_and_the_last_value() -> None:
    events: list[int] = []
    with pytest.raises(AssertionError, match=r"(?s)lambda: events and events\[0\].*It is \[\]"):
        wait_for(lambda: events and events[0], limit_s=0)


def test_a_wait_that_is_over_says_what_it_was_told_to_say() -> None:
    with pytest.raises(AssertionError, match="not in 0 s: the end of the job"):
        wait_for(lambda: None, "the end of the job", limit_s=0)


def test_a_wait_is_over_with_the_end_of_the_process_that_it_is_for_and_says_how_that_ended() -> None:
    command = [sys.executable, "-c", "import sys; sys.exit('for want of space')"]
    with (
        subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process,
        pytest.raises(AssertionError, match=r"status 1, which said \['for want of space\\n'\]: a file"),
    ):
        wait_for(lambda: None, "a file", by=process)


def test_what_a_process_did_before_its_end_is_found() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait(LIMIT_S)
        assert wait_for(lambda: 7, by=process) == 7


def test_what_is_to_be_said_is_asked_for_when_the_wait_is_over() -> None:
    said: list[str] = []

    def is_so() -> bool:
        said.append("line")
        return False

    with pytest.raises(AssertionError, match=r"\['line'\]"):
        wait_for(is_so, lambda: said, limit_s=0)


def test_a_slow_machine_has_longer_limits() -> None:
    usual = run_python(FACTOR, environment={VARIABLE: "1"})
    slow = run_python(FACTOR, environment={VARIABLE: "2.5"})
    assert (usual.stdout, slow.stdout) == ("120.0 10.0\n", "300.0 25.0\n")


@pytest.mark.parametrize("factor", ["0.5", "nan"])
def test_no_limit_is_made_shorter(factor: str) -> None:
    run = run_python(FACTOR, environment={VARIABLE: factor})
    assert f"{VARIABLE}={factor} must be >= 1" in run.stderr


def test_a_process_that_hangs_fails_the_test_with_what_it_is_and_said() -> None:
    with pytest.raises(AssertionError, match=r"(?s)not done in 0\.5 s:.*sleep 600.*It said:\nbegun"):
        run_python(HANGS, timeout_s=0.5, interpreter="sh")


def test_a_job_that_hangs_fails_the_test_with_what_it_said() -> None:
    with pytest.raises(pytest.fail.Exception, match=r"a job was not done in 0\.5 s:\nbegun"):
        run_job(["sh", "-c", HANGS], environment={}, limit_s=0.5, name="a job")
