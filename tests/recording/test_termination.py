"""The handling of SIGTERM in parts: no signal ends anything here, nor is its handling changed for good."""

from __future__ import annotations

import os
import signal
import struct
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from timing_logger.errors import ConfigurationError
from timing_logger.recording import termination
from timing_logger.recording.termination import TerminationWatch, at_sigterm, not_at_sigterm, sigterm_came


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Iterator[TerminationWatch]:
    """One that the process seems to have, without the thread and the handlers."""
    watch = TerminationWatch.__new__(TerminationWatch)
    watch.told, watch.came, watch._previous, watch._previous_descriptor = [], False, signal.SIG_IGN, -1
    watch._read, watch._write = termination._socket_pair()
    monkeypatch.setattr(termination, "_watch", watch)
    yield watch
    watch._read.close()
    watch._write.close()


@pytest.fixture
def done(watch: TerminationWatch, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What would be done to this process and to its handling of signals."""
    done: list[tuple[Any, ...]] = []
    watch._handle_in_c = lambda *arguments: done.append(("in C", *arguments))
    monkeypatch.setattr(os, "kill", lambda *arguments: done.append(("kill", *arguments)))
    monkeypatch.setattr(signal, "set_wakeup_fd", lambda *arguments: done.append(("wakeup", *arguments)))
    monkeypatch.setattr(signal, "signal", lambda *arguments: done.append(("handler", *arguments)))
    return done


def told(ends: bool) -> None:
    """Nothing is to be done."""


# -- the thread that is told ------------------------------------------------------------------------------


def test_what_this_process_wrote_is_received_and_nothing_that_another_did() -> None:
    read, write = termination._socket_pair()
    write.send(bytes([15]))
    assert termination._received(read) == bytes([15])
    read.close()
    write.close()
    messages = iter([(b"of a child", os.getpid() + 1), (b"mine", os.getpid()), (b"of nobody", None)])

    def recvmsg(*sizes: int) -> tuple[bytes, list[tuple[int, int, bytes]], int, None]:
        data, pid = next(messages)
        return data, [] if pid is None else [(1, 2, struct.pack("iii", pid, 0, 0))], 0, None

    scripted: Any = SimpleNamespace(recvmsg=recvmsg)
    assert [termination._received(scripted) for _ in range(2)] == [b"mine", b"of nobody"]


def test_no_signal_is_lost_for_who_had_the_wakeup_descriptor_before(
    watch: TerminationWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = iter([bytes([signal.SIGINT]), bytes([signal.SIGINT, signal.SIGTERM])])
    n_told: list[bool] = []

    def received(read: object) -> bytes:
        return next(numbers)

    monkeypatch.setattr(termination, "_received", received)
    watch.told = [n_told.append]
    get, watch._previous_descriptor = os.pipe()
    with pytest.raises(StopIteration):
        watch._run()
    assert os.read(get, 9) == bytes([signal.SIGINT, signal.SIGINT, signal.SIGTERM])
    os.close(get)
    os.close(watch._previous_descriptor)
    assert n_told == [False], "only SIGTERM is told"


def test_a_descriptor_that_is_closed_by_now_keeps_nobody_from_being_told(
    watch: TerminationWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = iter([bytes([signal.SIGTERM])] * 2)
    n_told: list[bool] = []
    monkeypatch.setattr(termination, "_received", lambda read: next(numbers))
    get, closed = os.pipe()
    os.close(get)
    os.close(closed)
    watch._previous_descriptor, watch.told = closed, [n_told.append]
    with pytest.raises(StopIteration):
        watch._run()
    assert n_told == [False, False]


@pytest.mark.parametrize("previous", [signal.SIG_DFL, signal.SIG_IGN])
def test_all_are_told_and_a_process_that_would_have_ended_ends(
    watch: TerminationWatch, done: list[tuple[Any, ...]], previous: signal.Handlers
) -> None:
    ends: list[bool] = []

    def fail(ends: bool) -> None:
        raise ValueError("mine")

    watch._previous, watch.told = previous, [fail, ends.append]
    watch._tell()
    if previous is signal.SIG_DFL:
        assert ends == [True]
        assert done == [("in C", signal.SIGTERM, 0), ("kill", os.getpid(), signal.SIGTERM)]
    else:
        assert (ends, done) == ([False], [])


def test_the_handler_that_was_set_before_is_called_as_before(watch: TerminationWatch) -> None:
    calls: list[tuple[Any, ...]] = []
    watch._previous = lambda *arguments: calls.append(arguments)
    watch.told.append(told)
    assert not sigterm_came(told)
    watch._handle(signal.SIGTERM, None)
    assert calls == [(signal.SIGTERM, None)]
    assert termination._received(watch._read) == bytes([signal.SIGTERM])
    assert sigterm_came(told)
    watch._previous = signal.SIG_IGN
    watch._write.close()
    watch._handle(signal.SIGTERM, None)


# -- who is told ------------------------------------------------------------------------------------------


def test_whoever_is_not_among_those_who_are_told_does_not_know(watch: TerminationWatch) -> None:
    not_at_sigterm(told)
    at_sigterm(told)
    watch.came = True
    assert sigterm_came(told)
    not_at_sigterm(told)
    assert not sigterm_came(told)
    assert watch.told == []


def test_without_a_watch_nothing_came_and_nobody_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(termination, "_watch", None)
    not_at_sigterm(told)
    assert not sigterm_came(told)


def test_a_handler_that_python_did_not_set_is_left_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(termination, "_watch", None)
    monkeypatch.setattr(signal, "getsignal", lambda number: None)
    with pytest.raises(ConfigurationError, match=r"SIGTERM has a handler that Python did not set"):
        at_sigterm(told)
    assert termination._watch is None


def test_only_the_main_thread_can_begin_to_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(termination, "_watch", None)
    monkeypatch.setattr(threading, "current_thread", lambda: None)
    with pytest.raises(ConfigurationError, match=r"make the logger on the main thread\.$"):
        at_sigterm(told)


def test_there_is_one_watch_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(termination, "_watch", None)
    monkeypatch.setattr(termination, "TerminationWatch", lambda: SimpleNamespace(told=[], came=False))
    at_sigterm(told)
    first: Any = termination._watch
    at_sigterm(told)
    assert (termination._watch, first.told) == (first, [told, told])


# -- forks ------------------------------------------------------------------------------------------------


def test_sigterm_waits_while_a_process_forks(watch: TerminationWatch) -> None:
    def is_blocked() -> bool:
        return signal.SIGTERM in signal.pthread_sigmask(signal.SIG_BLOCK, ())

    termination._before_fork()
    assert is_blocked()
    termination._after_fork()
    assert not is_blocked()
    termination._after_fork()
    assert not is_blocked()


def test_without_a_watch_a_fork_blocks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(termination, "_watch", None)
    termination._before_fork()
    assert signal.SIGTERM not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    termination._leave_in_child()


def test_a_child_has_the_handling_from_before_and_tells_nobody(
    watch: TerminationWatch, done: list[tuple[Any, ...]]
) -> None:
    watch.told.append(told)
    termination._before_fork()
    termination._leave_in_child()
    assert termination._watch is None
    assert signal.SIGTERM not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    assert done == [("wakeup", -1), ("handler", signal.SIGTERM, signal.SIG_IGN)]
    assert (watch.told, watch._read.fileno(), watch._write.fileno()) == ([], -1, -1)


def test_the_socket_that_is_written_to_never_blocks() -> None:
    read, write = termination._socket_pair()
    assert not write.getblocking()
    assert read.getblocking()
    read.close()
    write.close()
