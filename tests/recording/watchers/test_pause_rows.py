"""A logger has rows of the pauses that it was asked for, and only while it is open."""

from __future__ import annotations

import os

import pytest

from timing_logger import TimingLogger
from timing_logger.recording.watchers.pause_rows import IMPORTS, KINDS, Recorders
from timing_logger.sinks.memory import MemorySink


def wanted() -> list[bool]:
    return [bool(kind) for kind in KINDS]


def test_without_the_option_no_kind_is_told(sink: MemorySink) -> None:
    with TimingLogger(0, log_dir=None, sinks=[sink]):
        assert wanted() == [False] * 4


def test_all_kinds_are_told_until_the_logger_is_closed(sink: MemorySink) -> None:
    with TimingLogger(0, log_dir=None, sinks=[sink], pause_rows=True):
        assert wanted() == [True] * 4
    assert wanted() == [False] * 4


def test_a_forked_child_has_none(sink: MemorySink) -> None:
    with TimingLogger(0, log_dir=None, sinks=[sink], pause_rows=True):
        child = os.fork()
        if not child:
            os._exit(any(wanted()))
        assert os.waitpid(child, 0)[1] == 0
        assert wanted() == [True] * 4


@pytest.mark.usefixtures("each_core")
def test_a_pause_in_an_iteration_that_sampling_leaves_out_has_no_row(sink: MemorySink) -> None:
    logger = TimingLogger(0, log_dir=None, sinks=[sink], pause_rows=True, record_every_n_steps=2)
    for iteration in range(4):
        logger.set_current_iteration(iteration)
        IMPORTS.tell(0, 1, layer_name=f"module_{iteration}", in_iterations=True)
    logger.close()
    names = [row.layer_name for row in sink.records if row.operation == "IMPORT"]
    assert names == ["module_0", "module_2"]


def test_a_recorder_that_is_gone_is_not_told() -> None:
    recorders = Recorders("COMPILE")
    logger = TimingLogger(0, log_dir=None, enabled=False)
    recorders.add(logger._pause_rows._recorder)
    del logger
    recorders.tell(0, 1)
    assert recorders
