"""What Ctrl-C undoes, and when it has to wait."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator

import pytest

from timing_logger.process import interrupts
from timing_logger.process.interrupts import end_process, held_back, is_held_back, undone_by


class Ended(BaseException):
    """Stands for the end of this process."""


@pytest.fixture(autouse=True)
def process(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """A process whose end is an exception; the codes with which it ended."""
    codes: list[int] = []

    def end(code: int) -> None:
        codes.append(code)
        raise Ended

    monkeypatch.setattr(interrupts, "_state", interrupts._Interrupts())
    monkeypatch.setattr(os, "_exit", end)
    hooks = threading.excepthook, sys.unraisablehook
    yield codes
    threading.excepthook, sys.unraisablehook = hooks


def test_what_is_listed_is_undone_the_latest_first_and_the_process_ends(process: list[int]) -> None:
    undone: list[str] = []
    inner, outer = (lambda: undone.append("file in it")), (lambda: undone.append("folder"))
    with undone_by(outer), undone_by(inner), pytest.raises(Ended):
        end_process()
    assert (undone, process) == (["file in it", "folder"], [130])


def test_what_cannot_be_undone_keeps_nothing_else_from_being_undone() -> None:
    undone: list[str] = []

    def fail() -> None:
        raise OSError("gone already")

    with undone_by(lambda: undone.append("folder")), undone_by(fail), pytest.raises(Ended):
        end_process()
    assert undone == ["folder"]


@pytest.mark.parametrize("error", [None, KeyError])
def test_after_its_block_nothing_is_undone(error: type[Exception] | None) -> None:
    undone: list[str] = []

    def block() -> None:
        with undone_by(lambda: undone.append("draft")):
            if error is not None:
                raise error

    if error is None:
        block()
    else:
        with pytest.raises(error):
            block()
    with pytest.raises(Ended):
        end_process()
    assert undone == []


def test_threads_of_a_process_that_ends_say_nothing() -> None:
    with pytest.raises(Ended):
        end_process()
    assert threading.excepthook is sys.unraisablehook is interrupts._unsaid
    assert interrupts._unsaid(KeyError()) is None  # type: ignore[func-returns-value]


def test_ctrl_c_need_not_wait_outside_of_such_a_block(process: list[int]) -> None:
    assert not is_held_back()
    with held_back():
        pass
    assert process == []


def interrupted(process: list[int], n_blocks: int, error: type[Exception] | None = None) -> None:
    """Have Ctrl-C come in the innermost of some blocks, which may fail then."""
    with held_back():
        if n_blocks > 1:
            interrupted(process, n_blocks - 1, error)
        assert is_held_back()
        assert process == []
        if error is not None:
            raise error


@pytest.mark.parametrize("n_blocks", [1, 2, 3])
def test_ctrl_c_during_a_block_ends_the_process_after_the_outermost(
    process: list[int], n_blocks: int
) -> None:
    with pytest.raises(Ended):
        interrupted(process, n_blocks)
    assert process == [130]


def test_ctrl_c_ends_the_process_after_a_block_that_fails(process: list[int]) -> None:
    with pytest.raises(Ended):
        interrupted(process, 1, KeyError)
    assert process == [130]


def test_a_block_without_ctrl_c_is_not_ended_by_one_that_another_block_held_back() -> None:
    with held_back():
        pass
    assert not is_held_back()
    with held_back():
        pass
