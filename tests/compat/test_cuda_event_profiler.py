"""The sampled CUDA event profiler: what it records, and what it keeps off the training thread.

What only a device does is asked of a scripted stand-in.
"""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from json_lines import json_rows
from mpi_runner import run_on_ranks
from places import ROOT
from processes import run_python
from scripted_device import ScriptedAccelerator

from timing_logger import TimingLogger
from timing_logger.compat.cuda_event_profiler import CudaEventProfiler, CudaEventProfilerConfig
from timing_logger.errors import ConfigurationError, LogPathError
from timing_logger.recording.flusher import Flusher
from timing_logger.sinks.memory import MemorySink

OPERATIONS = ("host_to_device", "training_step", "training_metrics")
EVERY_STEP = {"record_every_n_steps": 1}


def train(profiler: CudaEventProfiler, steps: range) -> None:
    """The loop of a training that does nothing."""
    for step in steps:
        for operation in OPERATIONS:
            with profiler.record(operation, step):
                pass
        profiler.maybe_flush(step)


def recorded(
    directory: Path, use: Callable[[CudaEventProfiler], None], **config: Any
) -> list[dict[str, Any]]:
    """The rows that ``use(profiler)`` leaves on rank 0."""
    with CudaEventProfiler(True, directory, 0, config) as profiler:
        use(profiler)
    return json_rows(profiler.path)


def steps_recorded(directory: Path, steps: range, **config: Any) -> list[int]:
    """Of ``steps``, those in which the training step was recorded."""
    found = recorded(directory, lambda profiler: train(profiler, steps), **config)
    return [row["step"] for row in found if row["name"] == "training_step"]


# -- what is recorded ---------------------------------------------------------------------------


def test_it_is_off_by_default() -> None:
    profiler = CudaEventProfiler()
    train(profiler, range(20))
    assert profiler.path is None
    assert not profiler.should_record(0)
    assert profiler.stats.accepted == 0


def test_a_disabled_profiler_makes_no_file_and_no_folder(tmp_path: Path) -> None:
    with CudaEventProfiler(False, tmp_path / "output" / "cuda_event_profiler", 0, EVERY_STEP) as profiler:
        train(profiler, range(20))
        assert profiler.flush(blocking=True)
    assert list(tmp_path.iterdir()) == []


def test_a_rank_that_is_not_selected_makes_no_file_and_no_folder(tmp_path: Path) -> None:
    with CudaEventProfiler(True, tmp_path / "profile", 2, {"ranks": [0, 1, 7]}) as profiler:
        train(profiler, range(20))
        assert not profiler.should_record(0)
    assert list(tmp_path.iterdir()) == []


def test_what_is_not_recorded_is_one_shared_block(tmp_path: Path) -> None:
    off = CudaEventProfiler().record("training_step", 0)
    with CudaEventProfiler(True, tmp_path, 0) as profiler:
        assert profiler.record("training_step", 1) is off
        assert profiler.record("training_step", 10) is not off


def test_rows_have_the_keys_name_step_rank_and_duration_and_no_others(tmp_path: Path) -> None:
    found = recorded(tmp_path, lambda profiler: train(profiler, range(10)))
    assert [list(row) for row in found] == [["name", "step", "rank", "duration_ms"]] * 3
    assert [(row["name"], row["step"], row["rank"]) for row in found] == [
        (operation, 0, 0) for operation in OPERATIONS
    ]
    assert all(0 < row["duration_ms"] < 10_000 for row in found)


def test_the_file_is_named_after_the_rank_and_is_there_before_training(tmp_path: Path) -> None:
    with CudaEventProfiler(True, tmp_path / "output" / "cuda_event_profiler", 7) as profiler:
        assert profiler.path == tmp_path / "output" / "cuda_event_profiler" / "cuda_events_rank_7.jsonl"
        assert profiler.path.read_bytes() == b""


def test_every_tenth_step_is_recorded_by_default(tmp_path: Path) -> None:
    assert steps_recorded(tmp_path, range(35)) == [0, 10, 20, 30]


def test_steps_are_recorded_from_the_start_up_to_the_end_and_not_beyond(tmp_path: Path) -> None:
    found = steps_recorded(tmp_path, range(40), start_step=5, end_step=25, record_every_n_steps=4)
    assert found == [5, 9, 13, 17, 21]


def test_the_distance_of_recorded_steps_can_be_set(tmp_path: Path) -> None:
    assert steps_recorded(tmp_path, range(7), record_every_n_steps=3) == [0, 3, 6]


@pytest.mark.parametrize(
    ("steps", "start", "end"),
    [
        (range(900), 0, None),
        pytest.param(range(1100), 100, 1000, marks=pytest.mark.slow("start and end are quick on one rank")),
    ],
)
def test_eight_ranks_over_900_steps_write_2160_rows(
    tmp_path: Path, steps: range, start: int, end: int | None
) -> None:
    for rank in range(8):
        with CudaEventProfiler(True, tmp_path, rank, {"start_step": start, "end_step": end}) as profiler:
            train(profiler, steps)
    found = [row for file in tmp_path.iterdir() for row in json_rows(file)]
    assert len(found) == 8 * 90 * 3 == 2160
    assert {(row["rank"], row["step"], row["name"]) for row in found} == {
        (rank, step, operation)
        for rank in range(8)
        for step in range(start, start + 900, 10)
        for operation in OPERATIONS
    }


TRAINER_ARGS = """
trainer_args:
  enable_cuda_event_profiler: true
  cuda_event_profiler_config:
    start_step: 100
    end_step: 1000
    record_every_n_steps: 10
    flush_every_n_steps: 50
    ranks: [0, 1, 7]
"""


def test_a_trainers_yaml_file_configures_it(tmp_path: Path) -> None:
    yaml = pytest.importorskip("yaml")
    arguments = yaml.safe_load(TRAINER_ARGS)["trainer_args"]
    for rank in range(8):
        with CudaEventProfiler(
            enable=arguments["enable_cuda_event_profiler"],
            directory=tmp_path / "cuda_event_profiler",
            rank=rank,
            profiler_config=arguments["cuda_event_profiler_config"],
        ) as profiler:
            train(profiler, range(1100))
    counts = {file.name: len(json_rows(file)) for file in (tmp_path / "cuda_event_profiler").iterdir()}
    assert counts == {f"cuda_events_rank_{rank}.jsonl": 270 for rank in (0, 1, 7)}


def test_a_mapping_and_the_config_class_say_the_same() -> None:
    options = {
        "start_step": 3,
        "end_step": 9,
        "record_every_n_steps": 2,
        "flush_every_n_steps": 4,
        "ranks": [1],
    }
    config = CudaEventProfilerConfig(**options)
    assert CudaEventProfilerConfig.of(options) == CudaEventProfilerConfig.of(config) == config
    assert CudaEventProfilerConfig.of(None) == CudaEventProfilerConfig()


# -- what a row holds ---------------------------------------------------------------------------


def test_keywords_are_metadata(tmp_path: Path) -> None:
    def use(profiler: CudaEventProfiler) -> None:
        with profiler.record(name="training_step", step=0, tokens=4096, rank="x"):
            pass

    (row,) = recorded(tmp_path, use)
    assert list(row.items())[4:] == [("tokens", 4096), ("metadata_rank", "x")]


def test_a_block_that_raises_is_a_row_that_says_so(tmp_path: Path) -> None:
    def use(profiler: CudaEventProfiler) -> None:
        with pytest.raises(ZeroDivisionError), profiler.record("training_step", 0, tokens=1):
            1 / 0  # noqa: B018

    (row,) = recorded(tmp_path, use)
    assert list(row) == ["name", "step", "rank", "duration_ms", "status", "tokens"]
    assert row["status"] == "error:ZeroDivisionError"
    assert row["duration_ms"] > 0


def test_a_logger_given_gets_each_operation_too(tmp_path: Path) -> None:
    sink = MemorySink()
    with TimingLogger(3, None, sinks=[sink]) as logger:
        with CudaEventProfiler(True, tmp_path, 3, timing_logger=logger) as profiler:
            train(profiler, range(20))
        assert logger.flush()
    found = [(record.operation, record.iteration) for record in sink.records]
    assert found == [(operation, step) for step in (0, 10) for operation in OPERATIONS]
    in_file = [row["duration_ms"] for row in json_rows(profiler.path)]
    assert in_file == [(record.end_ns - record.start_ns) / 1e6 for record in sink.records if record.end_ns]


# -- files --------------------------------------------------------------------------------------


def test_a_file_of_an_earlier_run_is_left_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    recorded(tmp_path, lambda profiler: train(profiler, range(1)))
    old = (tmp_path / "cuda_events_rank_0.jsonl").read_bytes()
    with caplog.at_level(logging.WARNING), CudaEventProfiler(True, tmp_path, 0) as profiler:
        train(profiler, range(20))
    assert (tmp_path / "cuda_events_rank_0.jsonl").read_bytes() == old
    assert profiler.path == tmp_path / "cuda_events_rank_0.run2.jsonl"
    assert len(json_rows(profiler.path)) == 6
    assert str(profiler.path) in caplog.text


def test_a_directory_that_cannot_be_used_is_an_error_before_training(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("precious")
    with pytest.raises(LogPathError, match=r"directory: .*precious' is a file, not a directory"):
        CudaEventProfiler(True, tmp_path / "precious", 0)


# -- a life and its ends ------------------------------------------------------------------------


@pytest.mark.slow("one more program; an exception is quick in a with block, and an exit of RuntimeProfiler")
def test_an_exception_in_the_middle_of_training_loses_no_row(tmp_path: Path) -> None:
    run = run_python(
        """
        import sys
        from timing_logger.compat.cuda_event_profiler import CudaEventProfiler
        profiler = CudaEventProfiler(True, sys.argv[1], 0, {"record_every_n_steps": 1})
        for step in range(100):
            with profiler.record("training_step", step):
                if step == 57:
                    raise RuntimeError("training broke")
        """,
        tmp_path,
    )
    assert run.returncode == 1
    assert "training broke" in run.stderr
    found = json_rows(tmp_path / "cuda_events_rank_0.jsonl")
    assert [row["step"] for row in found] == list(range(58))
    assert [row.get("status") for row in found] == [None] * 57 + ["error:RuntimeError"]


def raise_after_training(profiler: CudaEventProfiler) -> None:
    train(profiler, range(10))
    raise KeyError


def test_a_with_block_closes_it_when_it_is_left_by_an_exception(tmp_path: Path) -> None:
    profiler = CudaEventProfiler(True, tmp_path, 0)
    with pytest.raises(KeyError), profiler:
        raise_after_training(profiler)
    assert profiler.stats == (3, 3, 0, 0)
    assert len(json_rows(profiler.path)) == 3


def test_closing_again_is_harmless_and_what_comes_later_is_counted_and_told(tmp_path: Path) -> None:
    run = run_python(
        """
        import sys
        from timing_logger.compat.cuda_event_profiler import CudaEventProfiler
        profiler = CudaEventProfiler(True, sys.argv[1], 0)
        for _ in range(2):
            with profiler.record("training_step", 0):
                pass
            profiler.close()
            profiler.close()
            profiler.maybe_flush(0)
        assert profiler.stats == (2, 1, 1, 0), profiler.stats
        """,
        tmp_path,
    )
    assert run.returncode == 0, run.stderr
    assert "1 records came after close and were dropped" in run.stderr
    assert len(json_rows(tmp_path / "cuda_events_rank_0.jsonl")) == 1


def test_maybe_flush_acts_every_so_many_steps_and_at_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at: list[int] = []
    monkeypatch.setattr(Flusher, "hurry", lambda self: at.append(step))
    with CudaEventProfiler(True, tmp_path, 0, {"flush_every_n_steps": 50}) as profiler:
        for step in range(160):
            profiler.maybe_flush(step)
    assert at == [0, 50, 100, 150]


def test_in_a_forked_child_it_writes_nothing(tmp_path: Path) -> None:
    with CudaEventProfiler(True, tmp_path, 0) as profiler:
        train(profiler, range(10))
        child = os.fork()
        if child == 0:
            train(profiler, range(10))
            profiler.flush(blocking=True)
            profiler.close()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    assert len(json_rows(profiler.path)) == 3


# -- on a device (scripted) ---------------------------------------------------------------------


@pytest.fixture
def of_this_thread(scripted_device: ScriptedAccelerator, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the thread of the test wants of the device, and nobody else."""
    wanted: list[str] = []
    test_thread, happens = threading.current_thread(), scripted_device.happens

    def noting(what: str) -> None:
        if threading.current_thread() is test_thread:
            wanted.append(what)
        happens(what)

    monkeypatch.setattr(scripted_device, "happens", noting)
    return wanted


def test_the_training_thread_marks_events_and_never_asks_or_waits(
    tmp_path: Path,
    scripted_device: ScriptedAccelerator,
    of_this_thread: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with CudaEventProfiler(True, tmp_path, 0, {**EVERY_STEP, "flush_every_n_steps": 1}) as profiler:
        with monkeypatch.context() as watched:
            watched.setattr(Flusher, "flush", lambda *_: pytest.fail("waits for the flush thread"))
            train(profiler, range(20))
            profiler.flush()
        assert profiler.flush(blocking=True)
    assert of_this_thread == ["record"] * 2 * 3 * 20
    assert "query beside captures" in scripted_device.asks
    assert [row["duration_ms"] for row in json_rows(profiler.path)] == [1.0] * 3 * 20


def test_a_step_that_is_not_recorded_makes_no_event(
    tmp_path: Path, scripted_device: ScriptedAccelerator
) -> None:
    with CudaEventProfiler(True, tmp_path, 0) as profiler:
        train(profiler, range(1, 10))
    assert scripted_device.made == 0


def test_what_a_device_never_says_is_null_and_unresolved(
    tmp_path: Path, scripted_device: ScriptedAccelerator
) -> None:
    def use(profiler: CudaEventProfiler) -> None:
        scripted_device.busy = True
        with profiler.record("training_step", 0, tokens=5):
            pass
        scripted_device.fail_with = RuntimeError("device lost")

    assert recorded(tmp_path, use) == [
        {
            "name": "training_step",
            "step": 0,
            "rank": 0,
            "duration_ms": None,
            "status": "unresolved",
            "tokens": 5,
        }
    ]


# -- settings -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            {"record_every": 5},
            r"no option 'record_every'. It knows: start_step, end_step, record_every_n_steps",
        ),
        ({"record_every_n_steps": 0}, "record_every_n_steps must be an integer >= 1, and is 0"),
        ({"flush_every_n_steps": 0}, "flush_every_n_steps must be an integer >= 1, and is 0"),
        ({"flush_every_n_steps": None}, "flush_every_n_steps must be an integer >= 1, and is None"),
        ({"start_step": "100"}, "start_step must be an integer >= 0, and is '100'"),
        ({"start_step": 100, "end_step": 100}, "end_step=100 is not above start_step=100"),
        ({"ranks": "0,1"}, "ranks must be a collection of rank numbers, and is '0,1'"),
        ({"ranks": [0, -1]}, "ranks must be an integer >= 0, and is -1"),
        ([("start_step", 1)], "profiler_config must be a mapping, .* and is a list"),
    ],
)
@pytest.mark.parametrize("enable", [True, False])
def test_a_bad_config_is_refused_also_by_a_disabled_profiler(
    tmp_path: Path, enable: bool, config: Any, message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        CudaEventProfiler(enable, tmp_path / "profile", 0, config)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"enable": "false"}, "enable must be True or False, and is 'false'"),
        (
            {"enable": True, "rank": 0},
            "directory is None and the profiler is enabled: give it, or pass enable=",
        ),
        ({"enable": True, "directory": "x"}, "rank is None and the profiler is enabled"),
        ({"rank": "0"}, "rank must be an integer >= 0, and is '0'"),
        ({"timing_logger": "logs"}, "timing_logger must be a TimingLogger or None, and is 'logs'"),
    ],
)
def test_a_bad_argument_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        CudaEventProfiler(**arguments)


# -- the experiment -----------------------------------------------------------------------------

EXPERIMENT = ROOT / "examples" / "straggler_experiment.py"
SMALL = ("--steps", "40", "--record-every", "2", "--blocks", "2", "--block-steps", "20")


@pytest.mark.slow("four ranks of an example; who waits for whom is tested on rows")
@pytest.mark.serial
def test_the_experiment_finds_the_slow_rank_by_who_waits_for_it(tmp_path: Path) -> None:
    run = run_on_ranks(
        4,
        EXPERIMENT,
        *SMALL,
        "--slow-rank",
        "2",
        "--slow-ms",
        "25",
        "--directory",
        str(tmp_path),
    )
    assert run.returncode == 0, run.stderr
    table = re.findall(r"^ *(\d|all) +(\d+) +(\d+)", run.stdout, re.MULTILINE)
    assert table == [
        ("0", "80", "80"), ("1", "80", "80"), ("2", "100", "100"), ("3", "80", "80"), ("all", "340", "340"),
    ]  # fmt: skip
    assert (
        "synthetic_straggler is an operation of rank 2; the shortest all_reduce is that of rank 2"
        in run.stdout
    )
    for rank, count in enumerate([80, 80, 100, 80]):
        found = json_rows(tmp_path / "straggler" / f"cuda_events_rank_{rank}.jsonl")
        assert len(found) == count
        assert {row["rank"] for row in found} == {rank}


@pytest.mark.slow("two ranks of an example, at full length")
@pytest.mark.serial
def test_the_experiment_compares_the_profiler_off_and_on(tmp_path: Path) -> None:
    run = run_on_ranks(2, EXPERIMENT, *SMALL, "--directory", str(tmp_path))
    assert run.returncode == 0, run.stderr
    _, _, report = run.stdout.partition("the profiler's cost: ms/step on rank 0")
    assert len(re.findall(r" \d+\.\d{3}(?: .+%.+%.+%\))?$", report, re.MULTILINE)) == 4
    counts = {
        folder.name: [len(json_rows(file)) for file in folder.iterdir()]
        for folder in (tmp_path / "overhead").iterdir()
    }
    assert counts == {"every_step": [160, 160], "every_10th_step": [16, 16]}


@pytest.mark.slow("starts ranks of an example, to be refused")
@pytest.mark.parametrize(
    ("ranks", "arguments", "message"),
    [
        (1, [], "one rank waits for nobody"),
        (2, ["--slow-rank", "2"], "argument --slow-rank: there is no rank 2 among 2 ranks"),
    ],
)
def test_the_experiment_refuses_what_it_cannot_do(
    tmp_path: Path, ranks: int, arguments: list[str], message: str
) -> None:
    run = run_on_ranks(ranks, EXPERIMENT, *arguments, "--directory", str(tmp_path / "logs"))
    assert run.returncode != 0
    assert message in run.stderr
    assert not (tmp_path / "logs").exists()
