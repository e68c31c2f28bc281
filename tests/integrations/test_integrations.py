"""What the framework callbacks share: imports, the logger that they use, and parts of a step."""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from processes import rows, run_python, run_warm

from timing_logger import TimingLogger, get_timing_logger, init_timing_logger, shutdown_timing_logger
from timing_logger.errors import ConfigurationError
from timing_logger.integrations._callback import RunLogger
from timing_logger.integrations._operations import OpenOperations
from timing_logger.schema.timing_files import sidecar_path
from timing_logger.sinks.memory import MemorySink


class Training:
    """Stands for one training, as a trainer does, or its state."""


RUN = Training()

# -- imports ---------------------------------------------------------------------------------------


def test_importing_the_package_imports_no_framework() -> None:
    run = run_python(
        """
        import sys
        import timing_logger.integrations
        print(sorted({"torch", "lightning", "pytorch_lightning", "transformers"} & set(sys.modules)))
        """
    )
    assert run.stdout == "[]\n", run.stderr


@pytest.mark.parametrize(
    ("module", "missing", "advice"),
    [
        ("lightning", ["lightning", "pytorch_lightning"], "pip install timing_logger[lightning]"),
        pytest.param(
            "pytorch_lightning",
            ["pytorch_lightning"],
            "pip install pytorch_lightning",
            marks=pytest.mark.slow("the older name of Lightning"),
        ),
        ("huggingface", ["transformers"], "pip install timing_logger[transformers]"),
    ],
)
def test_without_the_framework_the_error_says_what_to_install(
    module: str, missing: list[str], advice: str
) -> None:
    run = run_warm(
        f"""
        import sys
        sys.modules.update(dict.fromkeys({missing!r}))
        try:
            import timing_logger.integrations.{module}
        except ImportError as error:
            print(error)
        """
    )
    assert advice in run.stdout, run.stderr


# -- which logger ----------------------------------------------------------------------------------


def run_logger(
    log_dir: Path | None = None, timing_logger: TimingLogger | None = None, **options: Any
) -> RunLogger:
    return RunLogger(log_dir, timing_logger, options)


def sidecar(logger: TimingLogger) -> dict[str, Any]:
    assert logger.path is not None
    content: dict[str, Any] = json.loads(sidecar_path(logger.path).read_text())
    return content


def test_it_opens_the_processes_logger_and_shuts_it_down(tmp_path: Path) -> None:
    run = run_logger(tmp_path)
    logger = run.open(1, 2, RUN)
    assert get_timing_logger() is logger
    assert logger.path == tmp_path / "timing-rank1.csv"
    run.close()
    assert get_timing_logger() is not logger
    assert sidecar(logger)["world_size"] == 2


def test_without_a_log_dir_the_processes_logger_is_used_and_left_open(tmp_path: Path) -> None:
    logger = init_timing_logger(0, tmp_path)
    run = run_logger()
    assert run.open(0, 1, RUN) is logger
    logger.record_timing("MINE", 1.0)
    run.close()
    assert get_timing_logger() is logger
    assert [row[4] for row in rows(tmp_path / "timing-rank0.csv")] == ["MINE"], "not written at the end"


def test_with_a_log_dir_the_processes_logger_is_left_alone(tmp_path: Path) -> None:
    logger = init_timing_logger(0, tmp_path / "theirs")
    run = run_logger(tmp_path / "mine")
    opened = run.open(0, 1, RUN)
    assert opened.path == tmp_path / "mine" / "timing-rank0.csv"
    run.close()
    assert get_timing_logger() is logger
    assert logger.recording
    assert sidecar(opened)["closed"]


def test_a_logger_that_somebody_opened_meanwhile_is_left_alone(tmp_path: Path) -> None:
    run = run_logger(tmp_path)
    run.open(0, 1, RUN)
    shutdown_timing_logger()
    theirs = init_timing_logger(0, tmp_path)
    run.close()
    assert get_timing_logger() is theirs


def test_a_training_that_never_said_that_it_ended_is_closed_by_the_next(tmp_path: Path) -> None:
    run = run_logger(tmp_path)
    first = run.open(0, 1, RUN)
    second = run.open(0, 1, RUN)
    assert second.path == tmp_path / "timing-rank0.run2.csv"
    assert sidecar(first)["closed"]
    run.close()


def test_what_an_interrupted_training_left_open_is_closed_by_the_next(tmp_path: Path) -> None:
    """As when a cell of a notebook is interrupted and run again: by another callback, of another trainer."""
    abandoned = run_logger(tmp_path, record_every_n_steps=1).open(0, 1, Training())
    again = run_logger(tmp_path, record_every_n_steps=1).open(0, 1, RUN)
    assert again.path == tmp_path / "timing-rank0.run2.csv"
    assert again is get_timing_logger()
    assert json.loads(sidecar_path(abandoned.path).read_text())["closed"]


def test_a_second_callback_of_the_same_training_shares_its_logger(tmp_path: Path) -> None:
    first = run_logger(tmp_path).open(0, 1, RUN)
    assert run_logger().open(0, 1, RUN) is first


def test_a_logger_that_the_user_opened_is_closed_by_no_training(tmp_path: Path) -> None:
    first = run_logger(tmp_path)
    first.open(0, 1, Training())
    first.close()
    mine = init_timing_logger(0, tmp_path)
    run_logger().open(0, 1, RUN)
    assert get_timing_logger() is mine


def test_a_given_logger_is_used_and_left_open() -> None:
    sink = MemorySink()
    with TimingLogger(0, None, sinks=[sink]) as given:
        run = run_logger(timing_logger=given)
        assert run.open(3, 4, RUN) is given
        run.close()
        given.record_timing("AFTER", 1.0)
    assert [record.operation for record in sink.records] == ["AFTER"]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"flush_intervall": 1}, "flush_intervall"),
        ({"flush_interval": 0}, "flush_interval"),
        ({"rank": 3}, "rank"),
        ({"timing_logger": get_timing_logger(), "fsync": True}, r"timing_logger .*fsync"),
        ({"timing_logger": get_timing_logger(), "log_dir": Path()}, r"timing_logger .*log_dir"),
    ],
)
def test_bad_options_are_refused_at_once_by_name(options: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        run_logger(**options)


def test_options_for_a_logger_that_exists_already_are_refused(tmp_path: Path) -> None:
    init_timing_logger(0, tmp_path)
    with pytest.raises(ConfigurationError, match="record_every_n_steps"):
        run_logger(record_every_n_steps=10).open(0, 1, RUN)


def test_what_was_opened_stays_behind_when_the_choice_is_pickled(tmp_path: Path) -> None:
    run = run_logger(tmp_path, record_every_n_steps=2)
    run.open(0, 1, RUN)
    other = pickle.loads(pickle.dumps(run))
    other.close()
    assert get_timing_logger().recording, "the copy closed what it had not opened"
    run.close()
    assert other.open(0, 1, RUN).path == tmp_path / "timing-rank0.run2.csv"
    other.close()


def test_a_given_logger_is_shared_by_copies_and_replaced_in_another_process(tmp_path: Path) -> None:
    with TimingLogger(0, tmp_path) as given:
        run = run_logger(timing_logger=given)
        assert copy.deepcopy(run).open(0, 1, RUN) is given
        elsewhere = pickle.loads(pickle.dumps(run))
        assert not elsewhere.open(0, 1, RUN).recording
        own = init_timing_logger(0, tmp_path / "own")
        assert elsewhere.open(0, 1, RUN) is own


# -- parts of a step -------------------------------------------------------------------------------


def recorded(use: Any, **options: Any) -> list[tuple[str, str, str]]:
    """Operation, clock and status of what ``use(operations)`` records."""
    sink = MemorySink()
    with TimingLogger(0, None, sinks=[sink], **options) as logger:
        operations = OpenOperations()
        operations.start(logger)
        use(operations)
    return [(record.operation, record.clock, record.status) for record in sink.records]


def test_ends_without_beginnings_leave_no_row() -> None:
    def use(operations: OpenOperations) -> None:
        operations.end("FORWARD")
        operations.end_wait("DATA")
        operations.begin("BACKWARD")
        operations.drop("BACKWARD")
        operations.end("BACKWARD")
        operations.wait()
        operations.drop_wait()
        operations.end_wait("DATA")

    assert recorded(use) == []


def test_what_an_interruption_leaves_open_says_so_in_its_row() -> None:
    def use(operations: OpenOperations) -> None:
        operations.begin("TRAIN_STEP")
        operations.begin("FORWARD")
        operations.wait()
        operations.end_all("error:ValueError")
        operations.end_wait("DATA")

    assert recorded(use) == [
        ("TRAIN_STEP", "host", "error:ValueError"),
        ("FORWARD", "host", "error:ValueError"),
    ]


def test_a_wait_that_began_in_an_iteration_left_out_belongs_to_the_one_it_was_for() -> None:
    def use(operations: OpenOperations) -> None:
        for iteration in (1, 2, 3):
            operations.logger.set_current_iteration(iteration)
            operations.end_wait(f"DATA_{iteration}")
            operations.wait()

    assert recorded(use, record_every_n_steps=2) == [("DATA_2", "host", "ok")]
