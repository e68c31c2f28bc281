"""What ``timing-logger run`` tells the processes of a job reaches them as it was."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from timing_logger.autologging.settings import (
    HANG_AFTER,
    VARIABLE,
    Settings,
    from_environment,
    hang_after_s,
    note_problem,
    problem_file,
)
from timing_logger.errors import ConfigurationError
from timing_logger.process.this_process import VARIABLE as RUN_ID
from timing_logger.schema.defaults import HANG_AFTER_S


def test_by_default_all_iterations_are_recorded_with_work_and_counters_and_no_stacks() -> None:
    settings = Settings(log_dir="/logs")
    assert (settings.every, settings.batch_work, settings.host_counters) == (1, True, True)
    assert not settings.stack_samples


@pytest.mark.parametrize("wanted", [True, False])
def test_settings_are_the_same_in_the_processes_of_the_job(
    wanted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(
        log_dir="/logs", every=5, batch_work=wanted, host_counters=not wanted, stack_samples=wanted
    )
    for name, value in settings.to_environment().items():
        monkeypatch.setenv(name, value)
    assert from_environment() == settings


@pytest.mark.parametrize("text", [None, ""])
def test_without_the_variable_the_job_is_not_timed(text: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    if text is not None:
        monkeypatch.setenv(VARIABLE, text)
    assert from_environment() is None


@pytest.mark.parametrize("text", ["{", "[]", '{"log_dir": "/logs", "colour": 1}', "{}", "3"])
def test_a_variable_of_something_else_is_named(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, text)
    with pytest.raises(ConfigurationError, match=f"{VARIABLE} is set by `timing-logger run`, and is"):
        from_environment()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0.5", 0.5),
        ("1e-9", 1e-9),
        ("0", HANG_AFTER_S),
        ("-1", HANG_AFTER_S),
        ("999999999", 999999999.0),
        ("1e9", HANG_AFTER_S),
        ("2e9", HANG_AFTER_S),
        ("nan", HANG_AFTER_S),
        ("inf", HANG_AFTER_S),
        ("soon", HANG_AFTER_S),
        ("", HANG_AFTER_S),
    ],
)
def test_a_call_hangs_after_what_the_environment_says_if_that_is_a_time(text: str, seconds: float) -> None:
    assert hang_after_s({HANG_AFTER: text}) == seconds


def test_a_call_hangs_after_the_usual_time_if_the_environment_says_nothing() -> None:
    assert hang_after_s({}) == HANG_AFTER_S


def test_a_problem_has_a_file_for_each_launch_and_process() -> None:
    assert problem_file("run-7", "12") == "autolog-problem-run-7-12.txt"


def noted(folder: Path) -> None:
    """Note an exception in ``folder`` while it is handled."""
    try:
        raise ValueError("of the timing")
    except ValueError:
        note_problem(str(folder))


def test_a_problem_is_noted_in_the_file_of_this_process_and_launch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(RUN_ID, "run-7")
    noted(tmp_path / "not" / "there")
    noted(tmp_path / "not" / "there")
    problem = tmp_path / "not" / "there" / problem_file("run-7", str(os.getpid()))
    assert problem.read_text().startswith("Traceback")
    assert problem.read_text().endswith("ValueError: of the timing\n")


def test_a_problem_that_cannot_be_noted_raises_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    noted(tmp_path / "file" / "below")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
