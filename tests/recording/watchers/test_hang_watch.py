"""A call that does not end leaves a row and a line in the sidecar while it hangs."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from both_cores import CORES
from limits import LIMIT_S
from processes import run_python
from sidecars import sidecar_when

from allreduce_instrumentation._operation_counts import OperationCounts
from allreduce_instrumentation.torch_distributed._operations import HostOperation
from timing_logger import TimingLogger
from timing_logger.errors import ConfigurationError
from timing_logger.recording import termination
from timing_logger.recording.cores.channel import Channel
from timing_logger.recording.open_calls import OpenCalls
from timing_logger.recording.watchers import hang_watch
from timing_logger.recording.watchers.hang_watch import HangWatch, Standing
from timing_logger.schema.record import RawRecord, Record
from timing_logger.schema.sidecar import GroupProgress, Stall
from timing_logger.sinks.memory import MemorySink

SOON_S = 1e-9


@pytest.fixture
def impatient(tmp_path: Path, sink: MemorySink) -> Iterator[TimingLogger]:
    """A logger to which every call that is open at a drain has been so for too long."""
    with TimingLogger(0, tmp_path, sinks=[sink], hang_after=SOON_S, flush_interval=0.01) as logger:
        yield logger


def rows(sink: MemorySink) -> list[tuple[str, str]]:
    return [(row.operation, row.status) for row in sink.records]


def open_calls(logger: TimingLogger) -> list[dict[str, Any]]:
    """Those that the sidecar tells, once it tells any."""
    assert logger.path is not None
    told: list[dict[str, Any]] = sidecar_when(logger.path.parent, lambda about: about["open_calls"])[
        "open_calls"
    ]
    return told


def await_no_open_calls(logger: TimingLogger) -> None:
    assert logger.path is not None
    sidecar_when(logger.path.parent, lambda about: not about["open_calls"])


def test_a_block_that_is_open_for_too_long_is_a_row_once_and_its_own_row_follows(
    impatient: TimingLogger, sink: MemorySink
) -> None:
    with impatient.record_mpi_operation("ALLREDUCE", 8, "layer1", group="world", seq=7, peer=1):
        assert impatient.flush()
        assert impatient.flush()
        (open_row,) = sink.records
    impatient.flush()
    _, row = sink.records
    assert open_row == row._replace(end_ns=None, status="inflight")


def test_a_block_that_ends_in_time_leaves_no_such_row(tmp_path: Path, sink: MemorySink) -> None:
    with TimingLogger(0, tmp_path, sinks=[sink]) as logger, logger.record_mpi_operation("ALLREDUCE"):
        logger.flush()
        assert not sink.records


def test_the_sidecar_says_what_is_open_since_when_and_forgets_it_when_it_ends(
    impatient: TimingLogger, sink: MemorySink
) -> None:
    impatient.set_current_iteration(3)
    with impatient.record_mpi_operation("ALLREDUCE", 8, "layer1", group="world", group_size=2, seq=7):
        (call,) = open_calls(impatient)
    assert call == {
        "thread": "MainThread", "operation": "ALLREDUCE", "layer_name": "layer1", "iteration": 3,
        "epoch": None, "group": "world", "group_size": 2, "seq": 7, "peer": None, "message_size_bytes": 8,
        "start_counter_ns": sink.records[0].start_ns,
    }  # fmt: skip
    await_no_open_calls(impatient)


def test_values_that_no_column_holds_do_not_keep_the_sidecar_from_telling(impatient: TimingLogger) -> None:
    with impatient.record_mpi_operation(object(), 2**70, group=object()):  # type: ignore[arg-type]
        (call,) = open_calls(impatient)
    assert (call["operation"], call["message_size_bytes"], call["group"]) == ("<object>", None, "<object>")


def test_calls_within_calls_and_on_other_threads_are_rows_each(
    impatient: TimingLogger, sink: MemorySink
) -> None:
    def block(inside: threading.Event, leave: threading.Event) -> None:
        with impatient.record_mpi_operation("RECV"):
            inside.set()
            assert leave.wait(LIMIT_S)

    outer, inner = impatient.record_mpi_operation("OUTER"), impatient.record_mpi_operation("INNER")
    with another_thread(block), outer, inner:
        impatient.flush()
    open_rows = [row for row in sink.records if row.status == "inflight"]  # some may be ended and written
    assert sorted((row.operation, row.thread) for row in open_rows) == [
        ("INNER", "MainThread"), ("OUTER", "MainThread"), ("RECV", "other"),
    ]  # fmt: skip


@contextmanager
def another_thread(target: Callable[[threading.Event, threading.Event], None]) -> Iterator[None]:
    """Runs ``target`` up to where it sets the first event, and lets it go on by the second at the end."""
    inside, leave = threading.Event(), threading.Event()
    thread = threading.Thread(target=target, args=(inside, leave), name="other")
    thread.start()
    assert inside.wait(LIMIT_S)
    yield
    leave.set()
    thread.join()


def test_blocks_that_end_in_another_order_than_they_began_are_no_longer_open(
    impatient: TimingLogger, sink: MemorySink
) -> None:
    first, second, third = (impatient.record_mpi_operation(name) for name in ("FIRST", "SECOND", "THIRD"))
    for block in (first, second, third):
        block.__enter__()
    for block in (second, first):
        block.__exit__(None, None, None)
    impatient.flush()
    assert ("THIRD", "inflight") in rows(sink)
    third.__exit__(None, None, None)
    impatient.flush()
    assert sorted(rows(sink)) == [
        ("FIRST", "ok"), ("SECOND", "ok"), ("THIRD", "inflight"), ("THIRD", "ok"),
    ]  # fmt: skip
    assert impatient._callers.current.innermost is None


def test_blocks_that_are_never_left_do_not_pile_up(impatient: TimingLogger) -> None:
    for _ in range(2000):
        impatient.record_mpi_operation("LOST").__enter__()
    impatient.flush()
    kept, call = 0, impatient._callers.current.innermost
    while call is not None:
        kept, call = kept + 1, call.outer
    assert kept == 1001


def test_a_call_that_hangs_in_an_iteration_that_sampling_leaves_out_is_a_row_all_the_same(
    tmp_path: Path, sink: MemorySink
) -> None:
    with TimingLogger(0, tmp_path, sinks=[sink], hang_after=SOON_S, record_every_n_steps=10) as logger:
        logger.set_current_iteration(3)
        logger.time_call("ALLREDUCE", 8, None, None, OperationCounts("world", 2, 0), _Work, logger.flush, ())
    assert rows(sink) == [("ALLREDUCE", "inflight")]


class _Work:
    def wait(self) -> None: ...

    def is_completed(self) -> bool:
        return True


def test_an_operation_in_the_background_and_who_waits_for_it_are_rows(
    impatient: TimingLogger, sink: MemorySink
) -> None:
    operation = impatient.begin_operation(HostOperation, "IALLREDUCE", 8, None, "world", 2, None)
    operation.begin(True, impatient)
    wait = impatient.begin_wait((operation,))
    impatient.flush()
    wait.leave()
    operation.end(None)
    impatient.flush()
    assert sorted(rows(sink)) == [("IALLREDUCE", "inflight"), ("IALLREDUCE", "ok"), ("WAIT", "inflight")]


def test_the_sidecar_says_how_many_collectives_were_begun_and_how_many_are_over(
    impatient: TimingLogger, tmp_path: Path
) -> None:
    group = OperationCounts("world", 2, 0)
    impatient.add_group(group, "mine")

    def look() -> None:
        seen.append(sidecar_when(tmp_path, lambda about: about["groups"] and about["open_calls"])["groups"])

    seen: list[Any] = []
    group.name = "mine"
    for _ in range(3):
        impatient.time_call("ALLREDUCE", 8, None, None, group, _Work, int, ())
    impatient.time_call("ALLREDUCE", 8, None, None, group, _Work, look, ())
    assert seen == [[{"group": "mine", "size": 2, "issued": 4, "completed": 3}]]


def test_without_progress_it_is_known_where_the_main_thread_is_in_the_users_code(
    impatient: TimingLogger,
) -> None:
    told, stack = threading.Event(), [""]

    def load_batch() -> None:
        assert told.wait(LIMIT_S)

    def look() -> None:
        while not any("load_batch" in frame for frame in stack):
            stack[:] = impatient._hang_watch.standing().idle_stack
        told.set()

    thread = threading.Thread(target=look)
    thread.start()
    load_batch()
    thread.join()
    lines = [frame.rpartition(" in ")[::2] for frame in stack]
    assert lines[0][0].startswith("threading.py:") or "/threading.py:" in lines[0][0]
    assert [name for _, name in lines[1:3]] == [
        "load_batch", "test_without_progress_it_is_known_where_the_main_thread_is_in_the_users_code",
    ]  # fmt: skip
    assert all(where.startswith("watchers/test_hang_watch.py:") for where, _ in lines[1:3])


@pytest.mark.slow("that it is known is quick, and in test_sidecar_writer.py that a sidecar says so")
def test_a_process_without_progress_says_where_its_main_thread_is_in_the_users_code(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(_TRAIN)
    run = run_python(f"import runpy; runpy.run_path({str(tmp_path / 'train.py')!r})", tmp_path / "logs")
    assert json.loads(run.stdout)[1:] == [
        f"{tmp_path.name}/train.py:8 in load_batch", f"{tmp_path.name}/train.py:20 in <module>",
        "<string>:1 in <module>",
    ]  # fmt: skip
    assert "threading.py" in json.loads(run.stdout)[0]


_TRAIN = """import json, sys, threading
from pathlib import Path
from timing_logger import TimingLogger

logger = TimingLogger(0, sys.argv[1], hang_after=1e-9, flush_interval=0.01)

def load_batch():
    told.wait()

told = threading.Event()
sidecar = Path(sys.argv[1]) / "timing-rank0.meta.json"
def look():
    stack = []
    while not any("load_batch" in frame for frame in stack):
        stack = json.loads(sidecar.read_text())["idle_stack"]
    print(json.dumps(stack))
    told.set()

threading.Thread(target=look).start()
load_batch()
"""


def test_a_block_is_no_open_call_before_its_clock_was_read(impatient: TimingLogger) -> None:
    caller, span = impatient._callers.current, impatient.record_mpi_operation("ALLREDUCE")
    caller.innermost, span.outer = span, None  # type: ignore[assignment, attr-defined]
    impatient.flush()
    assert impatient.stats.accepted == 0
    assert impatient._flusher is not None
    assert impatient._flusher._last_error == ""
    caller.innermost = None


def test_groups_that_are_gone_are_no_longer_told(impatient: TimingLogger) -> None:
    group = OperationCounts("world", 2, 0)
    impatient.add_group(group, "first")
    impatient.add_group(group, "second")
    assert [name for _, name in impatient._open_calls.groups()] == ["second"]
    del group
    assert impatient._open_calls.groups() == []


def test_what_was_open_at_close_is_not_open_in_the_last_sidecar(impatient: TimingLogger) -> None:
    with impatient.record_mpi_operation("ALLREDUCE"):
        impatient.flush()
        impatient.close()
    await_no_open_calls(impatient)
    assert impatient.stats.dropped == 0


@pytest.mark.parametrize("value", [0, -1, float("nan"), "1", True])
def test_a_hang_after_that_is_no_time_is_refused(tmp_path: Path, value: Any) -> None:
    with pytest.raises(ConfigurationError, match="hang_after"):
        TimingLogger(0, tmp_path, hang_after=value)


# -- SIGTERM ----------------------------------------------------------------------------------------------


@pytest.fixture
def own_sigterm(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """SIGTERM ends this process as if no logger had handled it yet; afterwards all is as it was."""
    handler, descriptor = signal.getsignal(signal.SIGTERM), signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    monkeypatch.setattr(termination, "_watch", None)
    yield
    signal.set_wakeup_fd(descriptor)
    signal.signal(signal.SIGTERM, handler)


def left_in(folder: Path) -> tuple[list[list[str]], dict[str, Any]]:
    """The rows' operations and statuses, and the sidecar."""
    cells = [line.split(",") for line in (folder / "timing-rank0.csv").read_text().splitlines()[1:]]
    return [[row[4], row[16]] for row in cells], json.loads((folder / "timing-rank0.meta.json").read_text())


def test_at_sigterm_a_process_that_hangs_in_c_leaves_what_is_open_and_ends_by_the_signal(
    tmp_path: Path,
) -> None:
    run = run_python(_HANGS_IN_C, tmp_path)
    rows, about = left_in(tmp_path)
    assert (run.returncode, run.stderr) == (-signal.SIGTERM, "")
    assert rows == [["BEFORE", "ok"], ["ALLREDUCE", "inflight"]]
    assert about["closed"]
    assert about["signal"] == "SIGTERM"


_HANGS_IN_C = """
import ctypes, os, signal, sys, threading
from timing_logger import TimingLogger

logger = TimingLogger(0, sys.argv[1], handle_sigterm=True, flush_interval=1000)
logger.record_timing("BEFORE", 1.0)
mutex = ctypes.create_string_buffer(64)
lock = ctypes.CDLL(None).pthread_mutex_lock
with logger.record_mpi_operation("ALLREDUCE"):
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM)).start()
    lock(mutex)
    lock(mutex)
"""


@pytest.mark.usefixtures("own_sigterm")
def test_a_handler_that_was_there_before_is_called_and_the_rows_are_written(tmp_path: Path) -> None:
    def save_and_leave(*_: object) -> None:
        logger.record_timing("SAVE", 1.0)
        sys.exit(7)

    signal.signal(signal.SIGTERM, save_and_leave)
    logger = TimingLogger(0, tmp_path, handle_sigterm=True, flush_interval=1000)
    with pytest.raises(SystemExit, match="7"), logger.record_mpi_operation("STEP"):
        signal.raise_signal(signal.SIGTERM)
    logger.close()
    rows, about = left_in(tmp_path)
    assert sorted(row for row in rows if row[1] != "inflight") == [
        ["SAVE", "ok"],
        ["STEP", "error:SystemExit"],
    ]
    assert about["signal"] == "SIGTERM"


@pytest.mark.usefixtures("own_sigterm")
def test_a_handler_that_leaves_before_the_thread_has_told_is_no_reason_not_to_state_the_signal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(termination.TerminationWatch, "_tell", lambda _: None)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
    logger = TimingLogger(0, tmp_path, handle_sigterm=True)
    with pytest.raises(SystemExit, match="7"):
        signal.raise_signal(signal.SIGTERM)
    logger.close()
    assert left_in(tmp_path)[1]["signal"] == "SIGTERM"


@pytest.mark.usefixtures("own_sigterm")
def test_a_signal_that_is_ignored_is_ignored(tmp_path: Path) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with TimingLogger(0, tmp_path, handle_sigterm=True, flush_interval=1000) as logger:
        signal.raise_signal(signal.SIGTERM)
        logger.record_timing("AFTER", 1.0)
    assert left_in(tmp_path)[0] == [["AFTER", "ok"]]


@pytest.mark.usefixtures("own_sigterm")
def test_a_forked_child_that_gets_sigterm_tells_its_parent_nothing(tmp_path: Path) -> None:
    with TimingLogger(0, tmp_path, handle_sigterm=True, flush_interval=1000) as logger:
        child = os.fork()
        if child == 0:
            time.sleep(LIMIT_S)
            os._exit(1)
        os.kill(child, signal.SIGTERM)
        assert os.waitpid(child, 0)[1] == signal.SIGTERM
        logger.record_timing("AFTER", 1.0)
    rows, about = left_in(tmp_path)
    assert (rows, about["signal"]) == ([["AFTER", "ok"]], "")


def test_on_another_thread_the_option_is_refused(tmp_path: Path) -> None:
    refused: list[str] = []

    def make() -> None:
        with pytest.raises(ConfigurationError) as error:
            TimingLogger(0, tmp_path, handle_sigterm=True)
        refused.append(str(error.value))

    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    assert refused == ["handle_sigterm=True: make the logger on the main thread."]
    assert not list(tmp_path.iterdir())


# -- looks of a watch alone, at moments that are set --------------------------------------------------------

S = 10**9


class HeldCall:
    """A call that began at this moment and is a row of this operation."""

    is_in_ring = False

    def __init__(self, start_ns: int, operation: str = "ALLREDUCE", seq: int | None = None) -> None:
        self.start_ns = start_ns
        self._row = Record(
            0, 0, "", operation, "", None, start_ns, None, "host", "mine", 2, seq, None, "main", ""
        )

    def open_records(self, status: str) -> list[RawRecord]:
        return [tuple(self._row._replace(status=status))]


class Looks:
    """A watch to which a call hangs after 1 s, made at 0 s; each look is at a moment that is stated."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_ns = 0
        monkeypatch.setattr(hang_watch, "perf_counter_ns", lambda: self.now_ns)
        monkeypatch.setattr(hang_watch, "_idle_stack", lambda: ["train.py:8 in load"])
        self.channel = Channel(1000)
        self.calls = OpenCalls(self.channel, CORES["python"].classes)
        self.watch = HangWatch(self.calls, 1.0)

    def at(self, now_s: float, accepted: int = 0) -> Standing:
        self.now_ns = int(now_s * S)
        self.watch.look(lambda _: [], accepted)
        return self.watch.standing()

    def hold(self, *calls: Any) -> None:
        self.calls.running.update(calls)

    @property
    def written(self) -> list[str]:
        return [record[3] for record in self.channel.take(1000)]


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Looks:
    return Looks(monkeypatch)


def test_until_anything_was_recorded_the_last_progress_is_the_begin_of_the_watch(looks: Looks) -> None:
    assert looks.at(0.5).last_progress_counter_ns == 0
    assert looks.at(0.6, accepted=1).last_progress_counter_ns == 0.6 * S
    assert looks.at(0.7, accepted=1).last_progress_counter_ns == 0.6 * S


def test_a_collective_that_was_begun_is_progress(looks: Looks) -> None:
    group = OperationCounts("world", 2, 0)
    looks.calls.add_group(group, "mine")
    looks.at(0.5)
    group.collectives += 1
    assert looks.at(0.7).last_progress_counter_ns == 0.7 * S


def test_more_than_the_time_without_progress_is_a_stall(looks: Looks) -> None:
    standing = looks.at(1.0)
    assert (standing.last_stall, standing.longest_stall, standing.idle_stack) == (None, None, [])
    standing = looks.at(1.5)
    stall = Stall(0, 1_500_000_000, [], [], ["train.py:8 in load"])
    assert (standing.last_stall, standing.longest_stall) == (stall, stall)
    assert standing.idle_stack == ["train.py:8 in load"]
    assert looks.at(1.6, accepted=1).idle_stack == []


def test_the_longest_stall_and_the_last_one_are_kept(looks: Looks) -> None:
    looks.at(3.0)
    looks.at(4.0, accepted=1)
    standing = looks.at(5.5, accepted=1)
    lengths = [
        stall and (stall.since_counter_ns / S, stall.until_counter_ns / S)
        for stall in (standing.longest_stall, standing.last_stall)
    ]
    assert lengths == [(0, 3.0), (4.0, 5.5)]


def test_of_two_stalls_of_one_length_the_later_counts_as_the_longest(looks: Looks) -> None:
    looks.at(2.0)
    looks.at(3.0, accepted=1)
    longest = looks.at(5.0, accepted=1).longest_stall
    assert longest is not None
    assert longest.since_counter_ns == 3 * S


def test_a_row_that_a_look_wrote_itself_is_no_progress(looks: Looks) -> None:
    looks.hold(HeldCall(0))
    looks.at(0.5)
    assert looks.written == []
    looks.at(1.5)
    assert looks.written == ["ALLREDUCE"]
    assert looks.at(2.0, accepted=1).last_progress_counter_ns == 0
    assert looks.written == []


def test_a_call_is_too_old_when_it_began_before_that_time(looks: Looks) -> None:
    looks.hold(HeldCall(S))
    looks.at(2.0)
    assert looks.written == []
    looks.at(2.1)
    assert looks.written == ["ALLREDUCE"]


def test_all_open_calls_are_written_at_once_if_that_is_asked_for_and_only_then(looks: Looks) -> None:
    looks.hold(HeldCall(0))
    looks.watch.at_once = True
    looks.at(0.5)
    assert looks.written == ["ALLREDUCE"]
    looks.hold(HeldCall(int(0.5 * S)))
    looks.at(0.6)
    assert looks.written == []


def test_what_waits_for_a_device_is_written_too(looks: Looks) -> None:
    asked: list[int] = []

    def held_back(before_ns: int) -> list[tuple[object, RawRecord]]:
        asked.append(before_ns)
        return [("interval", HeldCall(0, "ALLGATHER").open_records("inflight")[0])]

    looks.now_ns = 3 * S
    looks.watch.look(held_back, 0)
    assert (asked, looks.written) == ([2 * S], ["ALLGATHER"])


def test_at_most_100_open_calls_are_told(looks: Looks) -> None:
    looks.hold(*(HeldCall(0) for _ in range(101)))
    assert len(looks.at(2.0).open_calls) == 100


def test_collectives_are_over_up_to_the_first_that_is_open_and_messages_are_none(looks: Looks) -> None:
    group = OperationCounts("world", 2, 0)
    group.collectives = 9
    looks.calls.add_group(group, "mine")
    assert looks.at(0.1).groups == [GroupProgress("mine", 2, 9, 9)]
    looks.hold(HeldCall(0, seq=5), HeldCall(0, seq=4), HeldCall(0, "SEND", seq=1), HeldCall(0))
    assert looks.at(0.2).groups == [GroupProgress("mine", 2, 9, 4)]


def test_records_and_collectives_add_up_to_the_progress(looks: Looks) -> None:
    group = OperationCounts("world", 2, 0)
    looks.calls.add_group(group, "mine")
    group.collectives = 3
    assert looks.at(0.5, accepted=3).last_progress_counter_ns == 0.5 * S


def test_the_ring_is_told_where_the_process_stands_but_for_calls_that_it_lists_itself(
    looks: Looks, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Any] = []
    monkeypatch.setattr(
        looks.channel,
        "note_standing",
        lambda rows, groups, *moments: told.append(([row[3] for row in rows], list(groups), *moments)),
    )
    group = OperationCounts("world", 2, 0)
    looks.calls.add_group(group, "mine")
    listed = HeldCall(0, "LISTED")
    listed.is_in_ring = True
    looks.hold(HeldCall(0), listed)
    looks.at(0.25)
    looks.at(0.5, accepted=1)
    standing = [GroupProgress("mine", 2, 0, 0)]
    assert told == [
        (["ALLREDUCE"], standing, S // 4, 0),
        (["ALLREDUCE"], standing, S // 2, S // 2),
    ]
