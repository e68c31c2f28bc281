"""The logger as its users see it."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import math
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from both_cores import BuiltCore
from processes import rows

from timing_logger import TimingLogger, get_timing_logger, init_timing_logger, shutdown_timing_logger
from timing_logger.errors import AlreadyInitializedError, ConfigurationError
from timing_logger.recording.cores.chosen import CollectiveCount
from timing_logger.recording.options import LoggerOptions
from timing_logger.schema.record import COLUMNS, Record
from timing_logger.schema.timing_files import sidecar_path
from timing_logger.sinks.memory import MemorySink

pytestmark = pytest.mark.usefixtures("each_core")


def recorded(call: Any, **options: Any) -> list[Record]:
    """What ``call(logger)`` records."""
    sink = MemorySink()
    with TimingLogger(0, log_dir=None, sinks=[sink], **options) as logger:
        call(logger)
    return sink.records


def test_each_test_here_is_of_the_core_that_it_asks_for(each_core: BuiltCore, logger: TimingLogger) -> None:
    with TimingLogger(0, log_dir=None, enabled=False) as another:
        assert another._core is logger._core is each_core.classes


def test_the_context_manager_times_its_block() -> None:
    def use(logger: TimingLogger) -> None:
        with logger.record_mpi_operation("ALLREDUCE", 1024, "layer1", "dense", 7, 2) as timer:
            assert math.isnan(timer.elapsed_ms)
        durations.append(timer.elapsed_ms)

    durations: list[float] = []
    (record,) = recorded(use)
    assert record[:6] == (7, 2, "layer1", "ALLREDUCE", "dense", 1024)
    assert record.end_ns is not None
    assert durations == [(record.end_ns - record.start_ns) / 1e6]


def test_every_recording_call_takes_the_work_of_its_row() -> None:
    def use(logger: TimingLogger) -> None:
        with logger.operation("DATA", work=1):
            pass
        with logger.record_mpi_operation("A", work=2):
            pass
        with logger.record_device_operation("B", work=3):
            pass
        logger.record_timing("C", 1.0, work=4)
        logger.record_interval("D", 1, 2, work=0.5)
        with logger.record_mpi_operation("E"):
            pass

    assert [record.work for record in recorded(use)] == [1, 2, 3, 4, 0.5, None]


def test_work_that_is_known_only_in_the_block_is_set_there() -> None:
    def use(logger: TimingLogger) -> None:
        for begin in (logger.operation, logger.record_mpi_operation, logger.record_device_operation):
            with begin("DATA", work=1) as block:
                block.work = (block.work or 0) + 4096
            block.work = 7  # too late

    assert [record.work for record in recorded(use)] == [4097] * 3


class World(CollectiveCount):
    """A group of one rank."""

    name, size = "world", 1


def test_the_work_of_a_block_is_not_that_of_the_next_one() -> None:
    def use(logger: TimingLogger) -> None:
        with logger.record_mpi_operation("A", work=1):
            pass
        logger.time_call("B", None, None, None, World(), int, lambda: None, ())

    assert [record.work for record in recorded(use)] == [1, None]


def test_the_work_of_a_block_that_is_not_recorded_goes_nowhere() -> None:
    def use(logger: TimingLogger) -> None:
        with logger.record_mpi_operation("A", iteration=1) as block:
            assert block.work is None
            block.work = 5
            assert block.work is None
            with pytest.raises(AttributeError):
                block.works = 5

    assert recorded(use, start_step=2) == recorded(use, enabled=False) == []


def test_a_timer_that_is_kept_keeps_its_own_time() -> None:
    def use(logger: TimingLogger) -> None:
        for name in ("A", "B", "C"):
            with logger.record_mpi_operation(name) as timer:
                with logger.record_mpi_operation("INNER"):
                    pass
                kept.append(timer)

    kept: list[Any] = []
    found = [record for record in recorded(use) if record.operation != "INNER"]
    assert [record.operation for record in found] == ["A", "B", "C"]
    assert [timer.elapsed_ms for timer in kept] == [
        (record.end_ns - record.start_ns) / 1e6 for record in found
    ]
    assert len(set(map(id, kept))) == 3


def test_a_timer_is_entered_and_left_by_whatever_takes_a_context_manager() -> None:
    def use(logger: TimingLogger) -> None:
        with contextlib.ExitStack() as stack:
            assert math.isnan(stack.enter_context(logger.record_mpi_operation("BY A STACK")).elapsed_ms)
        by_hand = logger.record_mpi_operation("BY HAND")
        assert by_hand.__enter__() is by_hand
        by_hand.__exit__(None, None, None)
        of_its_class = logger.record_mpi_operation("OF ITS CLASS")
        type(of_its_class).__enter__(of_its_class)
        type(of_its_class).__exit__(of_its_class, ValueError, ValueError(), None)

    assert [(record.operation, record.status) for record in recorded(use)] == [
        ("BY A STACK", "ok"),
        ("BY HAND", "ok"),
        ("OF ITS CLASS", "error:ValueError"),
    ]


def test_an_operation_is_a_row_of_own_work_on_the_hosts_clock() -> None:
    def use(logger: TimingLogger) -> None:
        logger.set_current_iteration(3)
        with logger.operation("DATA") as timer, logger.label("layer1"):
            pass
        with logger.label("layer2"), logger.operation("CHECKPOINT"):
            pass
        durations.append(timer.elapsed_ms)

    durations: list[float] = []
    data, checkpoint = recorded(use)
    assert (data.operation, data.iteration, data.layer_name, data.clock) == ("DATA", 3, "", "host")
    assert durations == [(data.end_ns - data.start_ns) / 1e6]
    assert (checkpoint.operation, checkpoint.layer_name) == ("CHECKPOINT", "layer2")


def test_shutdown_is_another_name_for_close(tmp_path: Path) -> None:
    logger = TimingLogger(0, tmp_path)
    logger.record_timing("A", 1.0)
    logger.shutdown()
    assert len(rows(tmp_path / "timing-rank0.csv")) == 1


def test_a_logger_that_is_off_times_no_operation() -> None:
    assert recorded(lambda logger: logger.operation("DATA").__enter__(), enabled=False) == []


def test_the_keywords_of_the_guides_callers_are_accepted() -> None:
    def use(logger: TimingLogger) -> None:
        logger.record_timing(
            mpi_op_name="BCAST", elapsed_ms=1.0, message_size_bytes=5, layer_name="a", phase="dense"
        )
        with logger.record_mpi_operation(mpi_op_name="SEND", message_size_bytes=6):
            pass

    assert [(r.operation, r.message_size_bytes) for r in recorded(use)] == [("BCAST", 5), ("SEND", 6)]


@pytest.mark.parametrize(
    ("spelled", "row"),
    [
        ({"operation": "SEND", "mpi_op_name": "SEND"}, ["SEND", "6", "ok"]),
        ({"operation": "SEND", "mpi_op_name": "RECV"}, ["<CONTRADICTION>", "6", "error:InvalidValue"]),
        ({"operation": "SEND", "message_size_bytes": 7}, ["SEND", "", "error:InvalidValue"]),
    ],
)
def test_two_spellings_of_an_argument_with_different_values_are_an_invalid_value_in_every_call(
    spelled: dict[str, Any], row: list[str], tmp_path: Path
) -> None:
    with TimingLogger(0, tmp_path) as logger:
        logger.record_timing(**spelled, elapsed_ms=1.0, message_size=6)
        with logger.record_mpi_operation(**spelled, message_size=6):
            pass
    cells = [COLUMNS.index(name) for name in ("operation", "message_size_bytes", "status")]
    written = rows(tmp_path / "timing-rank0.csv")
    assert [[line[cell] for cell in cells] for line in written] == [row, row]


def test_a_record_without_an_iteration_takes_the_current_one() -> None:
    def use(logger: TimingLogger) -> None:
        logger.record_timing("A", 1.0)
        logger.set_current_iteration(5)
        logger.set_current_epoch(1)
        logger.record_timing("B", 1.0)
        logger.record_timing("C", 1.0, iteration=9, epoch=3)

    assert [r[:2] for r in recorded(use)] == [(None, None), (5, 1), (9, 3)]


def test_a_label_names_what_the_thread_records_in_the_block() -> None:
    def use(logger: TimingLogger) -> None:
        with logger.label("outer", "dense"):
            with logger.label("inner"):
                logger.record_timing("A", 1.0)
            logger.record_timing("B", 1.0)
            logger.record_timing("C", 1.0, "own", phase="sparse")
            other = threading.Thread(target=logger.record_timing, args=("D", 1.0))
            other.start()
            other.join()
        logger.record_timing("E", 1.0)

    names = {r.operation: (r.layer_name, r.phase) for r in recorded(use)}
    assert names == {
        "A": ("inner", ""),
        "B": ("outer", "dense"),
        "C": ("own", "sparse"),
        "D": ("", ""),
        "E": ("", ""),
    }


def test_a_record_names_its_thread() -> None:
    def use(logger: TimingLogger) -> None:
        worker = threading.Thread(target=logger.record_timing, args=("A", 1.0), name="AllReducer")
        worker.start()
        worker.join()

    assert recorded(use)[0].thread == "AllReducer"


def test_an_exception_in_the_block_passes_and_is_named_in_the_row() -> None:
    error = RuntimeError("mine")

    def use(logger: TimingLogger) -> None:
        with pytest.raises(RuntimeError) as caught, logger.record_mpi_operation("ALLREDUCE"):
            raise error
        assert caught.value is error

    assert recorded(use)[0].status == "error:RuntimeError"


def test_iterations_left_out_by_the_policy_leave_no_record() -> None:
    def use(logger: TimingLogger) -> None:
        for i in range(30):
            logger.set_current_iteration(i)
            with logger.record_mpi_operation("A"):
                pass
            logger.record_timing("B", 1.0)
            logger.record_timing("C", 1.0, iteration=i + 1)
            with logger.record_mpi_operation("D", iteration=i + 2):
                pass

    seen = recorded(use, start_step=5, record_every_n_steps=10)
    assert [(r.operation, r.iteration) for r in seen] == [
        ("D", 5), ("C", 5), ("A", 5), ("B", 5),
        ("D", 15), ("C", 15), ("A", 15), ("B", 15),
        ("D", 25), ("C", 25), ("A", 25), ("B", 25),
    ]  # fmt: skip


def test_a_logger_that_is_off_touches_no_file_and_lets_exceptions_pass(tmp_path: Path) -> None:
    for logger in (TimingLogger(1, tmp_path, ranks=[0]), TimingLogger(0, tmp_path, enabled=False)):
        assert not logger.recording
        with pytest.raises(KeyError), logger.record_mpi_operation("A", group="g") as timer:
            raise KeyError
        assert math.isnan(timer.elapsed_ms)
        logger.record_timing("A", 1.0)
        logger.set_current_iteration(3)
        with logger.label("x"):
            logger.record_interval("A", 0, 1)
        assert logger.flush()
        logger.close()
        assert logger.stats == (0, 0, 0, 0)
    assert list(tmp_path.iterdir()) == []


def test_the_file_holds_the_rows_that_the_counters_state(tmp_path: Path) -> None:
    with TimingLogger(2, tmp_path / "deep" / "er", world_size=4, labels={"pipeline_stage": 2}) as logger:
        for i in range(2500):
            logger.record_timing("A", 1.0, iteration=i)
    assert logger.path == tmp_path / "deep" / "er" / "timing-rank2.csv"
    assert [int(row[1]) for row in rows(logger.path)] == list(range(2500))
    sidecar = json.loads(sidecar_path(logger.path).read_text())
    assert sidecar["counters"] == {"accepted": 2500, "written": 2500, "dropped": 0, "pending": 0}
    assert logger.stats == (2500, 2500, 0, 0)
    assert sidecar["closed"] is True
    assert sidecar["written_bytes"] == logger.path.stat().st_size
    assert (sidecar["rank"], sidecar["world_size"], sidecar["labels"]) == (2, 4, {"pipeline_stage": 2})


def test_rows_reach_the_file_without_being_asked_for(tmp_path: Path) -> None:
    logger = TimingLogger(0, tmp_path, flush_interval=0.01)
    logger.record_timing("A", 1.0)
    assert logger.path is not None
    reached = threading.Event()
    while not reached.wait(0.01):  # the time limit of the test run is the limit
        if len(rows(logger.path)) == 1:
            reached.set()
    logger.close()


def test_records_after_close_are_counted_as_dropped(tmp_path: Path) -> None:
    logger = TimingLogger(0, tmp_path)
    logger.record_timing("A", 1.0)
    logger.close()
    logger.close()
    logger.record_timing("B", 1.0)
    assert logger.stats == (2, 1, 1, 0)


def test_the_header_is_there_before_the_first_row(tmp_path: Path) -> None:
    with TimingLogger(0, tmp_path) as logger:
        assert logger.path is not None
        assert logger.path.read_text() == ",".join(COLUMNS) + "\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rank": -1}, "rank must be an integer >= 0, and is -1"),
        ({"rank": "../../x"}, "rank must be an integer >= 0, and is '../../x'"),
        ({"rank": "0\n"}, "rank must be an integer >= 0"),
        ({"rank": 2**31}, "rank must be an integer <= 2147483647, and is 2147483648"),
        ({"rank": 1.0}, "rank must be an integer >= 0, and is 1.0"),
        ({"rank": True}, "rank must be an integer >= 0, and is True"),
        ({"rank": 4, "world_size": 4}, "rank=4 is not below world_size=4"),
        ({"ranks": [0, 7], "world_size": 4}, "ranks=7 is not below world_size=4"),
        ({"world_size": 0}, "world_size must be an integer >= 1"),
        ({"flush_interval": 0}, "flush_interval must be seconds > 0, at most 1000000000, and is 0"),
        ({"flush_interval": 1e300}, "flush_interval must be seconds"),
        ({"device_timeout": float("nan")}, "device_timeout must be seconds"),
        ({"flush_interval": float("inf")}, "flush_interval must be seconds"),
        ({"flush_interval": "1"}, "flush_interval must be seconds"),
        ({"maxsize": 0}, "maxsize must be an integer >= 1, and is 0"),
        ({"labels": {"a": object()}}, "labels must be a mapping of JSON values"),
        ({"labels": [1]}, "labels must be a mapping of JSON values"),
        ({"log_dir": None}, "log_dir is None and there are no sinks"),
        ({"start_step": 5, "end_step": 2}, "end_step=2 is not above start_step=5"),
    ],
)
def test_a_bad_option_is_an_error_that_names_it(
    options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        TimingLogger(**{"rank": 0, "log_dir": tmp_path / "logs", **options})
    assert list(tmp_path.iterdir()) == []


def test_numpy_integers_are_options_like_any_other(tmp_path: Path) -> None:
    one = pytest.importorskip("numpy").int64(1)
    with TimingLogger(one, tmp_path, world_size=one + 1, ranks=[one], record_every_n_steps=one) as logger:
        logger.record_timing("A", 1.0)
    assert logger.path == tmp_path / "timing-rank1.csv"
    assert json.loads(sidecar_path(logger.path).read_text())["options"]["ranks"] == [1]


@pytest.mark.parametrize("make", [init_timing_logger, TimingLogger])
def test_an_unknown_option_is_an_error(make: Callable[..., TimingLogger], tmp_path: Path) -> None:
    unknown = r"^TimingLogger.__init__\(\) got an unexpected keyword argument 'flush_intervall'$"
    with pytest.raises(TypeError, match=unknown):
        make(0, tmp_path, flush_intervall=2.0)
    assert list(tmp_path.iterdir()) == []


def test_what_each_option_means_stands_in_the_docstring_of_the_logger() -> None:
    arguments = inspect.getdoc(TimingLogger).split("Args:")[1].split("Raises:")[0]
    explained = re.findall(r"^    (\w+(?:, \w+)*): ", arguments, re.MULTILINE)
    assert ", ".join(explained).split(", ") == list(inspect.signature(TimingLogger).parameters)


def test_a_subclass_with_an_init_of_its_own_has_its_own_signature() -> None:
    class Named(TimingLogger):
        def __init__(self, name: str) -> None:
            super().__init__(0, enabled=False)

    assert list(inspect.signature(Named).parameters) == ["name"]


def test_the_sidecar_states_all_options_of_a_run_and_no_others(tmp_path: Path) -> None:
    with TimingLogger(0, tmp_path, sinks=[MemorySink()]) as logger:
        assert logger.path is not None
    stated = json.loads(sidecar_path(logger.path).read_text())["options"]
    elsewhere = {"rank", "log_dir", "world_size", "labels", "enabled", "monitor", "sinks"}
    assert set(stated) == set(inspect.signature(TimingLogger).parameters) - elsewhere


def test_the_type_of_options_that_are_passed_on_names_those_of_the_logger() -> None:
    parameters = inspect.signature(TimingLogger).parameters.values()
    own = {each.name: each.annotation for each in parameters if each.kind is each.KEYWORD_ONLY}
    typed = {name: kind.__forward_arg__ for name, kind in LoggerOptions.__annotations__.items()}
    assert typed == own


def test_the_global_logger_is_off_until_made_and_after_shutdown(tmp_path: Path) -> None:
    off = get_timing_logger()
    assert not off.recording
    logger = init_timing_logger(0, tmp_path)
    assert get_timing_logger() is logger
    logger.record_timing("A", 1.0)
    shutdown_timing_logger()
    shutdown_timing_logger()
    assert logger.stats == (1, 1, 0, 0)
    assert get_timing_logger() is off


def test_a_second_global_logger_is_refused(tmp_path: Path) -> None:
    init_timing_logger(0, tmp_path)
    with pytest.raises(AlreadyInitializedError, match="shutdown_timing_logger"):
        init_timing_logger(0, tmp_path)


def test_a_sink_that_raises_does_not_touch_the_file(tmp_path: Path) -> None:
    class Broken(MemorySink):
        def write(self, batch: Any, wall_offset_ns: int) -> None:
            raise ValueError("broken")

    with TimingLogger(0, tmp_path, sinks=[Broken()]) as logger:
        logger.record_timing("A", 1.0)
    assert logger.stats == (1, 1, 0, 0)


def test_a_label_holds_for_its_own_task_and_those_it_creates(logger: TimingLogger, sink: MemorySink) -> None:
    async def inner() -> None:
        await asyncio.sleep(0)
        logger.record_timing("INNER", 1.0)

    async def task(name: str) -> None:
        with logger.label(name):
            await asyncio.sleep(0)
            logger.record_timing(name, 1.0)
            await asyncio.create_task(inner())
        await asyncio.sleep(0)
        logger.record_timing("AFTER", 1.0)

    async def all_tasks() -> None:
        await asyncio.gather(*(task(str(number)) for number in range(100)))

    asyncio.run(all_tasks())
    logger.record_timing("OUTSIDE", 1.0)
    logger.flush()
    named = [(row.operation, row.layer_name) for row in sink.records]
    own = [(operation, layer) for operation, layer in named if operation.isdigit()]
    assert own == [(str(number), str(number)) for number in range(100)]
    assert sorted(int(layer) for operation, layer in named if operation == "INNER") == list(range(100))
    assert {layer for operation, layer in named if operation in ("AFTER", "OUTSIDE")} == {""}


def test_the_work_of_a_step_is_that_of_rows_which_state_none() -> None:
    def use(logger: TimingLogger) -> None:
        logger.set_current_work(4096)
        with logger.operation("A"):
            pass
        with logger.record_mpi_operation("B", work=7):
            pass
        with logger.record_device_operation("C"):
            pass
        logger.record_timing("D", 1.0)
        logger.record_interval("E", 1, 2, work=0.5)
        logger.set_current_work(None)
        logger.record_timing("F", 1.0)

    stated = {record.operation: record.work for record in recorded(use)}
    assert stated == {"A": 4096, "B": 7, "C": 4096, "D": 4096, "E": 0.5, "F": None}


def test_completion_offers_what_programs_use_and_not_what_instrumentation_calls(logger: TimingLogger) -> None:
    shown = {name for name in dir(logger) if not name.startswith("_")}
    assert shown == {
        "close", "enabled", "flush", "flush_soon", "label", "operation", "path", "rank",
        "record_device_operation", "record_interval", "record_mpi_operation", "record_timing",
        "set_current_epoch", "set_current_iteration", "set_current_work", "shutdown", "stats",
    }  # fmt: skip
