"""Parts of a step that hooks begin and end in any order, and the wait before the next of them."""

from __future__ import annotations

import pytest

from timing_logger import TimingLogger
from timing_logger.integrations._operations import OFF, OpenOperations
from timing_logger.sinks.memory import MemorySink


class Steps:
    """Open parts of steps, and the rows that they have left."""

    def __init__(self, logger: TimingLogger, sink: MemorySink) -> None:
        self.open = OpenOperations()
        self.open.start(logger)
        self._logger, self._sink = logger, sink

    def rows(self) -> list[tuple[str, str, str]]:
        """Return operation, phase and status of each row."""
        self._logger.flush()
        return [(row.operation, row.phase, row.status) for row in self._sink.records]


@pytest.fixture
def steps(logger: TimingLogger, sink: MemorySink) -> Steps:
    return Steps(logger, sink)


def test_what_begins_and_ends_is_a_row_of_training_that_is_well_unless_it_says_otherwise(
    steps: Steps,
) -> None:
    steps.open.begin("FORWARD")
    steps.open.end("FORWARD")
    steps.open.begin("BACKWARD")
    steps.open.end("BACKWARD", "val", "error:OSError")
    assert steps.rows() == [("FORWARD", "train", "ok"), ("BACKWARD", "val", "error:OSError")]


def test_what_ends_without_having_begun_is_no_row(steps: Steps) -> None:
    steps.open.end("FORWARD")
    steps.open.begin("FORWARD")
    steps.open.end("FORWARD")
    steps.open.end("FORWARD")
    assert len(steps.rows()) == 1


def test_what_begins_again_without_having_ended_is_one_row(steps: Steps) -> None:
    steps.open.begin("FORWARD")
    steps.open.begin("FORWARD")
    steps.open.end("FORWARD")
    assert len(steps.rows()) == 1


def test_what_is_dropped_is_no_row_and_the_others_still_are(steps: Steps) -> None:
    steps.open.begin("FORWARD")
    steps.open.begin("OPTIMIZER")
    steps.open.drop("FORWARD")
    steps.open.drop("FORWARD")
    steps.open.end("FORWARD")
    steps.open.end("OPTIMIZER")
    assert steps.rows() == [("OPTIMIZER", "train", "ok")]


def test_when_all_is_dropped_neither_parts_nor_the_wait_are_rows(steps: Steps) -> None:
    steps.open.begin("FORWARD")
    steps.open.wait()
    steps.open.drop_all()
    steps.open.end("FORWARD")
    steps.open.end_wait("DATA")
    assert steps.rows() == []


def test_an_interrupted_training_ends_what_is_open_and_only_its_validation_is_of_that_phase(
    steps: Steps,
) -> None:
    for operation in ("TRAIN_STEP", "VALIDATION_STEP"):
        steps.open.begin(operation)
    steps.open.wait()
    steps.open.end_all("error:KeyboardInterrupt")
    steps.open.end_wait("DATA")
    assert steps.rows() == [
        ("TRAIN_STEP", "train", "error:KeyboardInterrupt"),
        ("VALIDATION_STEP", "val", "error:KeyboardInterrupt"),
    ]


def test_a_wait_is_a_row_of_what_ends_it_and_only_once(steps: Steps) -> None:
    steps.open.end_wait("DATA")
    steps.open.wait()
    steps.open.end_wait("DATA", "val")
    steps.open.end_wait("DATA")
    assert steps.rows() == [("DATA", "val", "ok")]


def test_a_wait_that_is_dropped_is_no_row(steps: Steps) -> None:
    steps.open.wait()
    steps.open.drop_wait()
    steps.open.end_wait("DATA")
    assert steps.rows() == []


def test_a_row_has_the_iteration_that_is_current_when_it_ends(
    steps: Steps, logger: TimingLogger, sink: MemorySink
) -> None:
    logger.set_current_iteration(3)
    steps.open.begin("FORWARD")
    logger.set_current_iteration(4)
    steps.open.end("FORWARD")
    steps.rows()
    assert [row.iteration for row in sink.records] == [4]


def test_outside_of_a_training_nothing_is_a_row(steps: Steps) -> None:
    steps.open.begin("FORWARD")
    steps.open.stop()
    assert steps.open.logger is OFF
    steps.open.end("FORWARD")
    steps.open.begin("FORWARD")
    steps.open.end("FORWARD")
    assert steps.rows() == []


def test_what_was_open_before_a_training_is_no_part_of_it(steps: Steps, logger: TimingLogger) -> None:
    steps.open.begin("FORWARD")
    steps.open.start(logger)
    steps.open.end("FORWARD")
    assert steps.rows() == []


def test_before_a_training_the_logger_is_off() -> None:
    assert OpenOperations().logger is OFF
    assert not OFF.recording
