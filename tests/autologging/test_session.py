"""The logger of a process that is timed unasked: made once, of the known rank, and never in the way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from timing_logger import TimingLogger
from timing_logger.autologging import session as module
from timing_logger.autologging.session import Session
from timing_logger.autologging.settings import HANG_AFTER, Rank, Settings
from timing_logger.process.launchers import LAUNCHERS


class Made:
    """A stand-in for the logger: it remembers what it was made with, and opens nothing."""

    enabled = True

    def __init__(self, *args: object, **options: object) -> None:
        self.args, self.options = args, options


@pytest.fixture
def lent(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Loggers that sessions make are stand-ins; return those that were lent to the process."""
    for launcher in LAUNCHERS:
        for variable in (launcher.rank, launcher.size):
            monkeypatch.delenv(variable or "NO_SUCH", raising=False)
    loggers: list[Any] = []
    monkeypatch.setattr(module, "TimingLogger", Made)
    monkeypatch.setattr(module, "lend_timing_logger", loggers.append)
    return loggers


def session_in(folder: Path, **settings: Any) -> Session:
    return Session(Settings(log_dir=str(folder), **settings))


# -- the logger --------------------------------------------------------------------------------------


def test_the_first_call_makes_the_logger_and_lends_it_and_later_calls_return_it(
    tmp_path: Path, lent: list[Any]
) -> None:
    session = session_in(tmp_path)
    assert not session.has_logger
    logger = session.logger()
    assert session.has_logger
    assert session.logger(Rank(3, 4)) is logger
    assert lent == [logger]


def test_a_logger_that_the_process_has_is_used_and_none_is_made(
    tmp_path: Path, lent: list[Any], logger: TimingLogger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "get_timing_logger", lambda: logger)
    session = session_in(tmp_path)
    assert session.logger() is logger
    assert session.has_logger
    assert lent == []


def test_without_a_launcher_the_logger_is_of_the_rank_that_the_caller_knows(
    tmp_path: Path, lent: list[Any]
) -> None:
    session_in(tmp_path).logger(Rank(3, 4))
    assert lent[0].args == (3, str(tmp_path))
    assert lent[0].options["world_size"] == 4


def test_a_launcher_is_believed_before_the_caller(
    tmp_path: Path, lent: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    session_in(tmp_path).logger(Rank(3, 4))
    assert (lent[0].args[0], lent[0].options["world_size"]) == (1, 2)


def test_where_nobody_knows_the_rank_it_is_0_of_an_unknown_number(tmp_path: Path, lent: list[Any]) -> None:
    session_in(tmp_path).logger()
    assert (lent[0].args[0], lent[0].options["world_size"]) == (0, None)


@pytest.mark.parametrize("wanted", [True, False])
def test_the_logger_has_the_options_of_the_job(
    wanted: bool, tmp_path: Path, lent: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(HANG_AFTER, "7.5")
    session_in(tmp_path, every=3, host_counters=wanted, stack_samples=not wanted).logger()
    assert lent[0].options == {
        "world_size": None,
        "record_every_n_steps": 3,
        "hang_after": 7.5,
        "pause_rows": True,
        "host_counters": wanted,
        "stack_samples": not wanted,
    }


@pytest.mark.parametrize("wanted", [True, False])
def test_it_says_whether_rows_of_batches_state_their_work(wanted: bool, tmp_path: Path) -> None:
    assert session_in(tmp_path, batch_work=wanted).settings.batch_work is wanted


# -- what went wrong -----------------------------------------------------------------------------------


def failing(session: Session) -> tuple[Callable[[], Any], list[str]]:
    """Return a function that raises, guarded by a session, and the list of its calls."""
    calls: list[str] = []

    def fails() -> None:
        calls.append("called")
        raise ValueError("of the timing")

    return session.harmless(fails), calls


def test_a_function_that_raises_returns_none_and_is_not_called_again(tmp_path: Path) -> None:
    session = session_in(tmp_path)
    guarded, calls = failing(session)
    assert guarded() is None
    assert guarded() is None
    assert calls == ["called"]


def test_after_the_first_failure_no_guarded_function_is_called(tmp_path: Path) -> None:
    session = session_in(tmp_path)
    guarded, _ = failing(session)
    other = session.harmless(lambda: "timed")
    assert other() == "timed"
    assert not session.broken
    guarded()
    assert session.broken
    assert other() is None


def test_a_guarded_function_takes_its_arguments_and_keeps_its_name(tmp_path: Path) -> None:
    def added(first: int, *, second: int) -> int:
        return first + second

    guarded = session_in(tmp_path).harmless(added)
    assert guarded(2, second=3) == 5
    assert guarded.__name__ == "added"


def test_what_ends_the_program_passes_through_a_guarded_function(tmp_path: Path) -> None:
    def ends() -> None:
        raise SystemExit(3)

    session = session_in(tmp_path)
    with pytest.raises(SystemExit):
        session.harmless(ends)()
    assert not session.broken


def test_the_exception_is_in_a_file_of_the_log_folder(tmp_path: Path) -> None:
    guarded, _ = failing(session_in(tmp_path / "logs"))
    guarded()
    (problem,) = (tmp_path / "logs").glob("autolog-problem-*.txt")
    assert problem.read_text().endswith("ValueError: of the timing\n")
