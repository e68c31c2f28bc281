"""Which processes wait for others in the set-up of a job, and who among them is a rank."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from known_logger import KnownLogger

from timing_logger import TimingLogger
from timing_logger.autologging import set_up
from timing_logger.autologging.set_up import RANK_PROCESS, appear_soon, time_mpi_init, time_rendezvous
from timing_logger.autologging.settings import Rank
from timing_logger.process.launchers import LAUNCHERS
from timing_logger.sinks.memory import MemorySink


@pytest.fixture
def session(tmp_path: Path, logger: TimingLogger) -> KnownLogger:
    return KnownLogger(tmp_path, logger)


@pytest.fixture(autouse=True)
def without_a_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {name for one in LAUNCHERS for name in (one.rank, one.size, one.run, one.run_size)}
    for name in {*names, "LOCAL_RANK", RANK_PROCESS} - {""}:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "argv", ["train.py"])
    monkeypatch.setitem(sys.modules, "__main__", ModuleType("__main__"))


def is_rank(monkeypatch: pytest.MonkeyPatch, rank: int = 1, size: int = 2) -> None:
    """Let torchrun have started this process."""
    monkeypatch.setenv("RANK", str(rank))
    monkeypatch.setenv("WORLD_SIZE", str(size))


def is_rank_of_mpi(monkeypatch: pytest.MonkeyPatch, rank: int = 1, size: int = 2) -> None:
    monkeypatch.setenv("PMI_RANK", str(rank))
    monkeypatch.setenv("PMI_SIZE", str(size))


def told(sink: MemorySink, logger: TimingLogger) -> list[tuple[Any, ...]]:
    """Return operation, number, size of the group and status of each row."""
    logger.flush()
    return [(row.operation, row.seq, row.group_size, row.status) for row in sink.records]


def distributed() -> Any:
    """Return a stand-in for torch.distributed, whose functions return what they were given."""
    inner = ModuleType("distributed_c10d")
    dist: Any = ModuleType("distributed")

    def init_process_group(*args: object, **kwargs: object) -> tuple[object, ...]:
        return "init", args, kwargs

    def new_group(*args: object, **kwargs: object) -> tuple[object, ...]:
        return "new", args, kwargs

    for module in (dist, inner):
        vars(module).update(init_process_group=init_process_group, new_group=new_group)
    dist.distributed_c10d = inner
    return dist


# -- init_process_group and new_group -----------------------------------------------------------------


def test_the_calls_of_all_ranks_are_rows_with_numbers_of_their_own_for_each_function(
    session: KnownLogger, sink: MemorySink, logger: TimingLogger, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_rank(monkeypatch)
    dist = distributed()
    time_rendezvous(session, dist)
    assert dist.init_process_group("gloo", rank=1) == ("init", ("gloo",), {"rank": 1})
    dist.new_group([0, 1])
    dist.distributed_c10d.new_group()
    assert told(sink, logger) == [
        ("INIT_PROCESS_GROUP", 0, 2, "ok"),
        ("NEW_GROUP", 0, 2, "ok"),
        ("NEW_GROUP", 1, 2, "ok"),
    ]
    assert session.asked == [Rank(1, 2)] * 3


def test_a_function_that_another_module_replaced_is_left_alone(session: KnownLogger) -> None:
    dist = distributed()

    def mine() -> str:
        return "mine"

    dist.distributed_c10d.new_group = mine
    time_rendezvous(session, dist)
    assert dist.distributed_c10d.new_group is mine


def test_a_call_that_raises_is_a_row_with_the_error(
    session: KnownLogger, sink: MemorySink, logger: TimingLogger, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_rank(monkeypatch)
    dist = distributed()

    def refused() -> None:
        raise OSError("refused")

    dist.new_group = dist.distributed_c10d.new_group = refused
    time_rendezvous(session, dist)
    with pytest.raises(OSError, match="refused"):
        dist.new_group()
    assert told(sink, logger) == [("NEW_GROUP", 0, 2, "error:OSError")]


def rows_of_a_call(session: KnownLogger, sink: MemorySink, **kwargs: object) -> int:
    """Return how many rows the call of ``init_process_group`` with these arguments has."""
    dist = distributed()
    time_rendezvous(session, dist)
    assert dist.init_process_group(**kwargs)[0] == "init"
    session._given.flush()
    return len(sink.records)


@pytest.mark.parametrize(
    ("rank", "size", "rows"), [(0, 1, 0), (0, 2, 1), (1, 2, 1), (2, 2, 0), (-1, 2, 0), (0, None, 0)]
)
def test_without_a_launcher_the_arguments_tell_the_rank(
    rank: int, size: int | None, rows: int, session: KnownLogger, sink: MemorySink
) -> None:
    assert rows_of_a_call(session, sink, rank=rank, world_size=size) == rows


@pytest.mark.parametrize(("rank", "size"), [("0", 2), (0, "2"), (True, 2), (None, None)])
def test_arguments_that_are_no_numbers_tell_no_rank(
    rank: object, size: object, session: KnownLogger, sink: MemorySink
) -> None:
    assert rows_of_a_call(session, sink, rank=rank, world_size=size) == 0


@pytest.mark.parametrize(("size", "rows"), [(1, 0), (2, 1)])
def test_a_rank_that_is_alone_waits_for_nobody(
    size: int, rows: int, session: KnownLogger, sink: MemorySink, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_rank(monkeypatch, 0, size)
    assert rows_of_a_call(session, sink) == rows


@pytest.mark.parametrize(("local", "rows"), [(True, 0), (False, 1)])
def test_a_group_that_only_its_members_make_is_no_row(
    local: bool, rows: int, session: KnownLogger, sink: MemorySink, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_rank(monkeypatch)
    assert rows_of_a_call(session, sink, use_local_synchronization=local) == rows


def test_with_a_logger_that_is_off_the_call_is_only_made(
    tmp_path: Path, sink: MemorySink, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_rank(monkeypatch)
    off = KnownLogger(tmp_path, TimingLogger(0, enabled=False))
    assert rows_of_a_call(off, sink) == 0
    assert set_up._ranks_of(off, Rank(0, 2), itertools.count()) is None


def test_ranks_of_an_unknown_number_count_as_one(session: KnownLogger) -> None:
    ranks = set_up._ranks_of(session, Rank(0, None), itertools.count(3))
    assert ranks is not None
    assert (ranks.size, ranks.next_collective(), ranks.next_collective()) == (1, 3, 4)
    assert ranks.take_back(ValueError()) is False


# -- MPI -----------------------------------------------------------------------------------------------


def loads(session: KnownLogger, sink: MemorySink) -> list[tuple[Any, ...]]:
    """Return the rows of the load of mpi4py, which must happen once whatever comes."""
    calls: list[str] = []
    time_mpi_init(session, lambda: calls.append("loaded"))
    assert calls == ["loaded"]
    return told(sink, session._given)


@pytest.fixture
def initialises(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    def choose(initialize: bool) -> None:
        monkeypatch.setitem(sys.modules, "mpi4py", SimpleNamespace(rc=SimpleNamespace(initialize=initialize)))  # type: ignore[arg-type]

    choose(True)
    return choose


@pytest.mark.usefixtures("initialises")
def test_the_start_of_mpi_is_a_row_of_a_rank_of_mpi(
    session: KnownLogger, sink: MemorySink, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_rank_of_mpi(monkeypatch)
    monkeypatch.setenv(RANK_PROCESS, "")
    monkeypatch.delenv(RANK_PROCESS)
    assert loads(session, sink) == [("MPI_INIT", 0, 2, "ok")]
    assert session.asked == [Rank(1, 2)]
    assert os.environ[RANK_PROCESS].startswith(f"{os.getpid()} ")


@pytest.mark.usefixtures("initialises")
def test_a_child_of_a_rank_of_mpi_has_no_row(
    session: KnownLogger, sink: MemorySink, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_rank_of_mpi(monkeypatch)
    monkeypatch.setenv(RANK_PROCESS, f"{os.getppid()} {set_up._stated()}")
    assert loads(session, sink) == []


@pytest.mark.usefixtures("initialises")
@pytest.mark.parametrize(("size", "rows"), [(1, 0), (2, 1)])
def test_a_rank_of_mpi_that_is_alone_has_no_row(
    size: int, rows: int, session: KnownLogger, sink: MemorySink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(RANK_PROCESS, "")
    is_rank_of_mpi(monkeypatch, 0, size)
    assert len(loads(session, sink)) == rows


def test_an_mpi4py_that_does_not_initialise_mpi_has_no_row(
    session: KnownLogger,
    sink: MemorySink,
    monkeypatch: pytest.MonkeyPatch,
    initialises: Callable[[bool], None],
) -> None:
    is_rank_of_mpi(monkeypatch)
    initialises(False)
    assert loads(session, sink) == []


@pytest.mark.usefixtures("initialises")
def test_without_a_launcher_of_mpi_its_start_has_no_row(session: KnownLogger, sink: MemorySink) -> None:
    assert loads(session, sink) == []


# -- who is a rank -------------------------------------------------------------------------------------


def test_a_process_that_claims_its_rank_is_no_child_and_keeps_an_older_claim(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    is_rank(monkeypatch)
    monkeypatch.setenv(RANK_PROCESS, "")
    monkeypatch.delenv(RANK_PROCESS)
    assert not set_up.is_child_of_rank()
    set_up.claim_rank()
    assert not set_up.is_child_of_rank()
    mine = os.environ[RANK_PROCESS]
    monkeypatch.setenv("RANK", "0")
    set_up.claim_rank()
    assert os.environ[RANK_PROCESS] == mine


@pytest.mark.parametrize(
    ("variable", "of_another"), [("RANK", "0"), ("LOCAL_RANK", "1"), ("WORLD_SIZE", "4")]
)
def test_a_child_with_a_rank_of_its_own_is_a_rank(
    variable: str, of_another: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_rank(monkeypatch)
    monkeypatch.setenv(RANK_PROCESS, f"{os.getppid()} {set_up._stated()}")
    assert set_up.is_child_of_rank()
    monkeypatch.setenv(variable, of_another)
    assert not set_up.is_child_of_rank()


class Started:
    """A stand-in for threads: it remembers those that were started, and runs none."""

    def __init__(self) -> None:
        self.threads: list[dict[str, Any]] = []

    def __call__(self, **options: Any) -> SimpleNamespace:
        return SimpleNamespace(start=lambda: self.threads.append(options))


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    threads = Started()
    monkeypatch.setattr(set_up.threading, "Thread", threads)
    monkeypatch.setenv(RANK_PROCESS, "")
    monkeypatch.delenv(RANK_PROCESS)
    return threads.threads


def test_a_rank_appears_soon_on_a_thread_that_holds_no_exit_up(
    session: KnownLogger, started: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    is_rank(monkeypatch)
    appear_soon(session)
    (thread,) = started
    assert thread["daemon"]
    assert thread["args"] == (session,)
    assert os.environ[RANK_PROCESS].startswith(f"{os.getpid()} ")


def test_a_process_without_a_rank_does_not_appear(
    session: KnownLogger, started: list[dict[str, Any]]
) -> None:
    appear_soon(session)
    assert started == []
    assert RANK_PROCESS not in os.environ


@pytest.mark.parametrize(("size", "number"), [(1, 0), (2, 1)])
def test_a_rank_that_is_alone_does_not_appear_unasked(
    size: int,
    number: int,
    session: KnownLogger,
    started: list[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    is_rank(monkeypatch, 0, size)
    appear_soon(session)
    assert len(started) == number


def test_a_child_of_a_rank_does_not_appear(
    session: KnownLogger, started: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    is_rank(monkeypatch)
    monkeypatch.setenv(RANK_PROCESS, f"{os.getppid()} {set_up._stated()}")
    appear_soon(session)
    assert started == []


@pytest.mark.parametrize(
    ("argv", "appears"),
    [
        (["/usr/bin/torchrun", "train.py"], False),
        (["mpiexec"], False),
        (["train.py", "--multiprocessing-fork"], False),
        (["train.py", "torchrun"], True),
        ([], True),
    ],
)
def test_launchers_and_workers_do_not_appear(
    argv: list[str],
    appears: bool,
    session: KnownLogger,
    started: list[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    is_rank(monkeypatch)
    monkeypatch.setattr(sys, "argv", argv)
    appear_soon(session)
    assert bool(started) == appears


@pytest.mark.parametrize(
    ("name", "appears"),
    [("torch.distributed.run", False), ("accelerate.commands.launch", False), ("train.main", True)],
)
def test_modules_of_launchers_do_not_appear(
    name: str,
    appears: bool,
    session: KnownLogger,
    started: list[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    is_rank(monkeypatch)
    main: Any = ModuleType("__main__")
    main.__spec__ = SimpleNamespace(name=name)
    monkeypatch.setitem(sys.modules, "__main__", main)
    appear_soon(session)
    assert bool(started) == appears


@pytest.mark.parametrize(
    ("more", "appears"),
    [({}, False), ({"SLURM_STEP_ID": "0"}, True), ({"PMI_RANK": "0", "PMI_SIZE": "2"}, True)],
)
def test_a_batch_script_of_slurm_does_not_appear(
    more: dict[str, str],
    appears: bool,
    session: KnownLogger,
    started: list[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in {"SLURM_PROCID": "0", "SLURM_NTASKS": "2", **more}.items():
        monkeypatch.setenv(name, value)
    appear_soon(session)
    assert bool(started) == appears


def test_a_rank_of_torchrun_in_a_batch_script_appears(
    session: KnownLogger, started: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_PROCID", "0")
    is_rank(monkeypatch)
    appear_soon(session)
    assert len(started) == 1


# -- the appearance ------------------------------------------------------------------------------------


class Clock:
    """A stand-in for an event that never comes: it remembers how long it was waited for."""

    def __init__(self) -> None:
        self.waits: list[float] = []

    def wait(self, seconds: float) -> bool:
        self.waits.append(seconds)
        assert len(self.waits) < 9, "it waits for ever"
        return False


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(set_up.threading, "Event", lambda: clock)
    return clock


def test_a_rank_that_has_done_nothing_appears_after_five_seconds(session: KnownLogger, clock: Clock) -> None:
    set_up._appear(session)
    assert (clock.waits, session.asked) == ([5.0], [None])


def test_while_it_waits_for_a_child_it_does_not_appear(
    session: KnownLogger, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = iter([True, True, False])
    monkeypatch.setattr(set_up, "_waits_for_a_child", lambda: next(waits))
    set_up._appear(session)
    assert (clock.waits, session.asked) == ([5.0] * 3, [None])


def test_a_rank_that_has_its_logger_need_not_appear(session: KnownLogger, clock: Clock) -> None:
    session._logger = session._given
    set_up._appear(session)
    assert (clock.waits, session.asked) == ([], [])


@pytest.mark.parametrize(
    ("file", "waits"),
    [
        ("/lib/subprocess.py", True),
        ("/lib/multiprocessing/popen_fork.py", True),
        ("/lib/multiprocessing/process.py", True),
        ("/lib/torch/multiprocessing/spawn.py", True),
        ("/home/me/process.py", False),
        ("/home/me/train.py", False),
    ],
)
def test_a_main_thread_in_a_file_that_starts_children_waits_for_one(
    file: str, waits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    outer = SimpleNamespace(f_code=SimpleNamespace(co_filename=file), f_back=None)
    inner = SimpleNamespace(f_code=SimpleNamespace(co_filename="/lib/selectors.py"), f_back=outer)
    monkeypatch.setattr(set_up, "frame_of_main_thread", lambda: inner)
    assert set_up._waits_for_a_child() is waits
