"""MPI's world is timed in the ranks of MPI's, and left alone in other processes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from known_logger import KnownLogger

import allreduce_instrumentation.mpi as timed_mpi
from allreduce_instrumentation.torch_distributed import initialization
from timing_logger import TimingLogger
from timing_logger.autologging import start as communication
from timing_logger.autologging.session import Session
from timing_logger.autologging.settings import Rank, Settings
from timing_logger.autologging.start import time_process_groups, time_world


@pytest.fixture
def session(tmp_path: Path, logger: TimingLogger) -> KnownLogger:
    return KnownLogger(tmp_path, logger)


def is_timed(
    session: Session,
    monkeypatch: pytest.MonkeyPatch,
    *,
    stated: Rank | None,
    size: int,
    is_initialised: bool = True,
) -> bool:
    """Tell whether MPI's world of this size would be replaced in a process with this rank."""
    monkeypatch.setattr(communication, "stated_rank", lambda: stated)
    monkeypatch.setattr(timed_mpi, "TimedIntracomm", lambda world, timing_logger: ("timed", world))
    world = SimpleNamespace(rank=0, size=size)
    mpi: Any = SimpleNamespace(Is_initialized=lambda: is_initialised, COMM_WORLD=world)
    time_world(session, mpi)
    assert mpi.COMM_WORLD in (world, ("timed", world))
    return mpi.COMM_WORLD is not world


@pytest.mark.parametrize(
    ("stated", "size", "expected"),
    [
        (None, 1, False),
        (None, 2, True),
        (Rank(0, 2), 2, True),
        (Rank(0, 2), 1, False),
        (Rank(0, 2), 4, False),
        (Rank(0, None), 1, True),
        (Rank(0, 1), 1, True),
    ],
)
def test_the_world_is_timed_if_it_is_that_of_the_launcher_or_has_several_ranks(
    stated: Rank | None,
    size: int,
    expected: bool,
    session: KnownLogger,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert is_timed(session, monkeypatch, stated=stated, size=size) is expected
    assert session.asked == ([Rank(0, size)] if expected else [])


def test_without_an_initialised_mpi_its_world_is_left_alone(
    session: KnownLogger, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not is_timed(session, monkeypatch, stated=None, size=2, is_initialised=False)


def asked_by_torch(session: Session, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return what torch's groups would ask for their logger."""
    askers: list[Any] = []
    monkeypatch.setattr(initialization, "time_all_groups", askers.append)
    time_process_groups(session)
    (logger_of,) = askers
    return logger_of


def test_a_group_gets_the_logger_of_its_rank(
    session: KnownLogger, logger: TimingLogger, monkeypatch: pytest.MonkeyPatch
) -> None:
    logger_of = asked_by_torch(session, monkeypatch)
    assert logger_of(SimpleNamespace(rank=lambda: 3, size=lambda: 4)) is logger
    assert session.asked == [Rank(3, 4)]


def test_a_group_gets_none_where_the_logger_cannot_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Session(Settings(log_dir=str(tmp_path)))

    def fails(rank: Rank) -> TimingLogger:
        raise OSError("no folder")

    monkeypatch.setattr(session, "logger", fails)
    assert asked_by_torch(session, monkeypatch)(SimpleNamespace(rank=lambda: 0, size=lambda: 1)) is None
    assert session.broken
