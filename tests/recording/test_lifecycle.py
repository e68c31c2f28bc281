"""What is done at the exit and at the forks of a process, and what a signal may not abort."""

from __future__ import annotations

import atexit
import importlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from multiprocessing import util
from types import FrameType, SimpleNamespace
from typing import Any

import pytest

from timing_logger.errors import ConfigurationError
from timing_logger.recording import lifecycle
from timing_logger.recording.lifecycle import (
    Closable,
    at_exit,
    detach_in_forked_children,
    exception_that_ends_us,
    interrupts_held_back,
    refuse_sub_interpreters,
)

# -- exit ------------------------------------------------------------------------------------------------


class Door(Closable):
    def __init__(self) -> None:
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


def test_a_block_closes_what_it_was_entered_with() -> None:
    door = Door()

    def enter_and_fail() -> None:
        with door as entered:
            assert (entered, door.closed) == (door, 0)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        enter_and_fail()
    assert door.closed == 1


@pytest.fixture
def hooks(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], None]]:
    """What this process would run at its exit."""
    hooks: list[Callable[[], None]] = []
    monkeypatch.setattr(atexit, "register", hooks.append)
    return hooks


def test_what_is_to_be_done_at_the_exit_is_done_though_an_interrupt_ends_one_hook(
    hooks: list[Callable[[], None]],
) -> None:
    done: list[str] = []
    at_exit(lambda: done.append("done"))
    assert len(hooks) > 1
    for hook in hooks[-2:]:
        hook()
    assert done == ["done", "done"]


def test_a_child_that_runs_the_hooks_of_its_parent_does_nothing(
    hooks: list[Callable[[], None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    at_exit(lambda: done.append("done"))
    monkeypatch.setattr(os, "getpid", lambda: -1)
    hooks[0]()
    assert done == []


@pytest.mark.parametrize("is_child", [False, True])
def test_a_child_of_multiprocessing_runs_no_hooks_and_has_a_finalizer(
    hooks: list[Callable[[], None]], monkeypatch: pytest.MonkeyPatch, is_child: bool
) -> None:
    made: list[tuple[Any, ...]] = []
    monkeypatch.setattr("multiprocessing.parent_process", lambda: object() if is_child else None)
    monkeypatch.setattr(
        util, "Finalize", lambda of, call, exitpriority: made.append((of, call, exitpriority))
    )
    at_exit(lambda: None)
    assert made == ([(None, hooks[0], 10)] if is_child else [])


@pytest.mark.parametrize(
    ("last", "name"),
    [(None, ""), (KeyError, "KeyError"), (SystemExit, ""), (KeyboardInterrupt, "KeyboardInterrupt")],
)
def test_the_exception_that_ended_the_program_is_named_unless_it_is_an_exit(
    monkeypatch: pytest.MonkeyPatch, last: type[BaseException] | None, name: str
) -> None:
    monkeypatch.setattr(sys, "last_type", last, raising=False)
    assert exception_that_ends_us() == name


def test_the_exception_that_is_under_way_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "last_type", KeyError, raising=False)
    try:
        raise ValueError
    except ValueError:
        assert exception_that_ends_us() == "ValueError"


# -- interrupts ------------------------------------------------------------------------------------------


class Interrupted(Exception):
    """What the program's handler raises."""


@pytest.fixture(params=[signal.SIGINT, signal.SIGTERM])
def number(request: pytest.FixtureRequest) -> Iterator[int]:
    """A signal whose handler raises."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise Interrupted(number)

    before = signal.signal(request.param, interrupt)
    yield request.param
    signal.signal(request.param, before)


def test_an_interrupt_comes_after_the_block_that_it_would_have_aborted(number: int) -> None:
    done: list[str] = []

    def block() -> None:
        with interrupts_held_back():
            signal.raise_signal(number)
            done.append("done")

    with pytest.raises(Interrupted):
        block()
    assert done == ["done"]
    with pytest.raises(Interrupted):
        signal.raise_signal(number)


def test_a_block_without_an_interrupt_leaves_the_handler_as_it_was(number: int) -> None:
    before = signal.getsignal(number)
    with interrupts_held_back():
        assert signal.getsignal(number) is not before
    assert signal.getsignal(number) is before


def test_a_signal_that_is_ignored_is_left_alone(number: int) -> None:
    signal.signal(number, signal.SIG_IGN)
    with interrupts_held_back():
        assert signal.getsignal(number) is signal.SIG_IGN


def test_the_hook_at_the_exit_holds_interrupts_back(number: int, hooks: list[Callable[[], None]]) -> None:
    done: list[str] = []

    def close() -> None:
        signal.raise_signal(number)
        done.append("done")

    at_exit(close)
    with pytest.raises(Interrupted):
        hooks[0]()
    assert done == ["done"]


def test_on_another_thread_nothing_is_held_back(number: int) -> None:
    before = signal.getsignal(number)
    found: list[Any] = []

    def block() -> None:
        with interrupts_held_back():
            found.append(signal.getsignal(number))
        found.append("left")

    thread = threading.Thread(target=block)
    thread.start()
    thread.join()
    assert found == [before, "left"]


# -- forks, and interpreters -----------------------------------------------------------------------------


class Detached:
    """Counts how often it was told to let go."""

    def __init__(self) -> None:
        self.n = 0

    def detach(self) -> None:
        self.n += 1


def test_a_child_lets_go_of_all_that_its_parent_holds() -> None:
    kept, forgotten = Detached(), Detached()
    for one in (kept, forgotten):
        detach_in_forked_children(one)
    assert {kept, forgotten} <= set(lifecycle._detachables)
    del one, forgotten
    held = [each for each in lifecycle._detachables if isinstance(each, Detached)]
    assert held == [kept], "it keeps nothing alive"
    lifecycle._detachables.discard(kept)


def test_each_that_is_registered_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = [Detached(), Detached()]
    monkeypatch.setattr(lifecycle, "_detachables", set(mine))
    lifecycle._detach_all()
    assert [one.n for one in mine] == [1, 1]


@pytest.mark.parametrize("known_as", ["_interpreters", "_xxsubinterpreters"])
@pytest.mark.parametrize("current", [0, 1])
def test_only_the_main_interpreter_can_write_files(
    monkeypatch: pytest.MonkeyPatch, known_as: str, current: int
) -> None:
    def find(name: str) -> SimpleNamespace:
        if name != known_as:
            raise ImportError(name)
        return SimpleNamespace(get_current=lambda: current, get_main=lambda: 0)

    monkeypatch.setattr(lifecycle, "import_module", find)
    if current == 0:
        refuse_sub_interpreters()
    else:
        with pytest.raises(ConfigurationError, match=r"^this is a sub-interpreter"):
            refuse_sub_interpreters()


def test_a_python_without_sub_interpreters_is_the_main_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifecycle, "import_module", lambda name: importlib.import_module("no such module"))
    refuse_sub_interpreters()
