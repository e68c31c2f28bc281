"""What starts the timing in a process, and what that puts in place."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from timing_logger.autologging import start, torch_operations
from timing_logger.autologging import start as communication
from timing_logger.autologging.session import Session
from timing_logger.autologging.settings import VARIABLE, Settings


class Hooks:
    """What was to happen after the import of a module, by the module's name."""

    def __init__(self) -> None:
        self.after: dict[str, Callable[[Any], None]] = {}
        self.around: dict[str, Callable[[Callable[[], None]], None] | None] = {}

    def add(self, name: str, then: Callable[[Any], None], around: Any = None) -> None:
        assert name not in self.after
        self.after[name], self.around[name] = then, around


@pytest.fixture
def hooks(monkeypatch: pytest.MonkeyPatch) -> Hooks:
    hooks = Hooks()
    monkeypatch.setattr(start, "_session", None)
    monkeypatch.setattr(start, "after_import", hooks.add)
    return hooks


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Iterator[logging.Logger]:
    log = logging.getLogger("timing_logger")
    monkeypatch.setattr(log, "handlers", list(log.handlers))
    monkeypatch.setattr(log, "propagate", True)
    before = list(log.handlers)
    yield log
    for handler in set(log.handlers) - set(before):
        handler.close()


def settings() -> Settings:
    assert start._session is not None
    return start._session.settings


def test_by_default_the_program_is_timed_in_full_into_the_usual_folder(hooks: Hooks) -> None:
    start.autolog()
    assert settings() == Settings(log_dir=os.path.abspath("logs/timing"))
    assert set(hooks.after) == {"torch", "mpi4py.MPI"}


@pytest.mark.parametrize("wanted", [True, False])
def test_the_program_is_timed_as_it_says(wanted: bool, hooks: Hooks) -> None:
    start.autolog("here", every=4, batch_work=wanted, host_counters=not wanted, stack_samples=wanted)
    assert settings() == Settings(
        log_dir=os.path.abspath("here"),
        every=4,
        batch_work=wanted,
        host_counters=not wanted,
        stack_samples=wanted,
    )


@pytest.mark.usefixtures("hooks")
def test_a_second_call_changes_nothing() -> None:
    start.autolog("first")
    first = start._session
    start.autolog("second")
    assert start._session is first


def test_a_process_that_nobody_asked_is_not_timed(
    hooks: Hooks, log: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    before = list(log.handlers)
    start.start_if_asked()
    assert (start._session, hooks.after, log.handlers, log.propagate) == (None, {}, before, True)


@pytest.mark.usefixtures("hooks")
def test_in_a_job_that_is_timed_warnings_go_into_a_file_of_the_folder_and_nowhere_else(
    log: logging.Logger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in Settings(log_dir=str(tmp_path), every=2).to_environment().items():
        monkeypatch.setenv(name, value)
    start.start_if_asked()
    assert settings().every == 2
    assert not log.propagate
    file = tmp_path / f"autolog-messages-{os.getpid()}.txt"
    assert not file.exists()
    log.warning("a message")
    assert file.read_text() == "a message\n"


# -- what is put in place once torch or mpi4py is there --------------------------------------------------


@pytest.fixture
def put(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return what was put in place, in that order; none of it is."""
    names: list[str] = []

    class Operations:
        def __init__(self, session: Session) -> None:
            pass

        def attach(self, torch: object) -> None:
            names.append("operations")

    monkeypatch.setattr(communication, "time_process_groups", lambda *_: names.append("groups"))
    monkeypatch.setattr(communication, "time_world", lambda *_: names.append("world"))
    monkeypatch.setattr(start, "time_rendezvous", lambda *_: names.append("rendezvous"))
    monkeypatch.setattr(start, "appear_soon", lambda *_: names.append("appearance"))
    monkeypatch.setattr(start, "time_mpi_init", lambda session, load: names.append("init"))
    monkeypatch.setattr(torch_operations, "TorchOperations", Operations)
    return names


@pytest.mark.parametrize(
    ("has_groups", "expected"),
    [(True, ["groups", "rendezvous", "appearance", "operations"]), (False, ["operations"])],
)
def test_torch_gets_its_groups_timed_where_it_has_them(
    has_groups: bool, expected: list[str], hooks: Hooks, put: list[str]
) -> None:
    start.autolog("here")
    hooks.after["torch"](SimpleNamespace(distributed=SimpleNamespace(is_available=lambda: has_groups)))
    assert put == expected


def test_mpi_is_timed_around_and_after_its_import(hooks: Hooks, put: list[str]) -> None:
    start.autolog("here")
    around = hooks.around["mpi4py.MPI"]
    assert around is not None
    around(lambda: None)
    hooks.after["mpi4py.MPI"](SimpleNamespace())
    assert put == ["init", "world"]
    assert hooks.around["torch"] is None


def test_an_error_of_the_timing_harms_no_import(hooks: Hooks, tmp_path: Path) -> None:
    start.autolog(tmp_path)
    hooks.after["torch"](SimpleNamespace())  # a torch without its parts
    assert start._session is not None
    assert start._session.broken
