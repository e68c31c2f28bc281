"""What is told of compilations by torch's module ``callback``: a stand-in, as of this and other versions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, ModuleType, SimpleNamespace
from typing import Any

import pytest
from processes import run_python

from timing_logger import TimingLogger
from timing_logger.recording.watchers import pause_rows
from timing_logger.sinks.memory import MemorySink


class Handler:
    @contextmanager
    def install_callbacks(self, *_: object) -> Iterator[None]:
        yield


def stand_in(**attributes: object) -> Any:
    callback = ModuleType("callback")
    vars(callback).update(attributes)
    return callback


def doubled() -> None:
    """Stands for what a program has compiled."""


class Compiler:
    """Compiles nothing, and calls what torch's compiler calls while it does, with the same arguments."""

    def __init__(self) -> None:
        self._callback = stand_in(callback_handler=Handler())
        pause_rows.time_compilations(self._callback)

    def _within(self, *stated: object, fails: bool = False) -> None:
        with self._callback.callback_handler.install_callbacks(*stated):
            if fails:
                raise ValueError("no")

    def compile(self, *stated: object, fails: bool = False) -> None:
        def _compile(code: CodeType) -> None:
            self._within(*stated, fails=fails)

        _compile(doubled.__code__)

    def compile_backward(self, *stated: object) -> None:
        self._within(*stated)


DYNAMO, LAZY_BACKWARD, GRAPH = (
    SimpleNamespace(name=name) for name in ("DYNAMO", "LAZY_BACKWARD", "CUDAGRAPH_RECORDING")
)


@pytest.fixture
def recording(sink: MemorySink) -> TimingLogger:
    return TimingLogger(0, log_dir=None, sinks=[sink], pause_rows=True)


@pytest.fixture
def compiler() -> Compiler:
    return Compiler()


def rows(logger: TimingLogger, sink: MemorySink) -> list[tuple[object, object, str]]:
    logger.close()
    rows = [row for row in sink.records if row.operation == "COMPILE"]
    return [(row.phase, row.layer_name, row.status) for row in rows]


def test_each_compilation_is_a_row_that_says_whether_the_function_was_compiled_before(
    recording: TimingLogger, sink: MemorySink, compiler: Compiler
) -> None:
    for number in ("0/0", "0/1", "1/0", "0/2_1"):
        compiler.compile(DYNAMO, number)
    assert rows(recording, sink) == [
        ("compile", "doubled", "ok"), ("recompile", "doubled", "ok"),
        ("compile", "doubled", "ok"), ("recompile", "doubled", "ok"),
    ]  # fmt: skip


def test_its_row_lies_within_the_operation_that_it_stopped(
    recording: TimingLogger, sink: MemorySink, compiler: Compiler
) -> None:
    with recording.operation("FORWARD"):
        compiler.compile(DYNAMO, "0/0")
    recording.close()
    compilation, forward = (row for row in sink.records if row.operation in ("COMPILE", "FORWARD"))
    assert forward.start_ns < compilation.start_ns < (compilation.end_ns or 0) < (forward.end_ns or 0)
    assert compilation.thread == forward.thread


def test_a_backward_that_is_compiled_when_it_first_runs_has_the_name_of_its_function(
    recording: TimingLogger, sink: MemorySink, compiler: Compiler
) -> None:
    compiler.compile(DYNAMO, "3/0")
    compiler.compile_backward(LAZY_BACKWARD, "3/0")
    assert rows(recording, sink) == [("compile", "doubled", "ok"), ("backward", "doubled", "ok")]


def test_a_compilation_that_fails_has_a_row_too(
    recording: TimingLogger, sink: MemorySink, compiler: Compiler
) -> None:
    with pytest.raises(ValueError, match="no"):
        compiler.compile(DYNAMO, "0/0", fails=True)
    assert rows(recording, sink) == [("compile", "doubled", "error:ValueError")]


def test_a_graph_that_is_captured_has_no_row_here(
    recording: TimingLogger, sink: MemorySink, compiler: Compiler
) -> None:
    compiler.compile(GRAPH, "0/0")
    assert rows(recording, sink) == []


def test_a_logger_that_is_closed_is_told_nothing(
    recording: TimingLogger, sink: MemorySink, compiler: Compiler
) -> None:
    assert rows(recording, sink) == []
    compiler.compile(DYNAMO, "0/0")
    assert recording.stats.dropped == 0


def test_each_of_two_loggers_has_the_row(
    recording: TimingLogger, sink: MemorySink, compiler: Compiler
) -> None:
    other = MemorySink()
    with TimingLogger(0, log_dir=None, sinks=[other], pause_rows=True):
        compiler.compile(DYNAMO, "0/0")
    assert len(rows(recording, sink)) == 1
    assert [row.operation for row in other.records if row.operation != "GC"] == ["COMPILE"]


@pytest.mark.slow("a process; that a hook waits for the import by others is quick in test_import_hooks.py")
@pytest.mark.parametrize("torch_is", ["empty", "itself"])
def test_the_compiler_is_not_imported_to_be_timed(torch_is: str, tmp_path: Path) -> None:
    if torch_is == "empty":
        for package in ("torch", "torch/_dynamo"):
            (tmp_path / package).mkdir()
            (tmp_path / package / "__init__.py").touch()
    job = run_python(
        "import sys\n"
        "sys.path.insert(0, sys.argv[1])\n"
        "from timing_logger import TimingLogger\n"
        "from timing_logger.sinks.memory import MemorySink\n"
        "with TimingLogger(0, log_dir=None, sinks=[MemorySink()], pause_rows=True):\n"
        "    print('torch' in sys.modules)\n"
        "    import torch\n"
        "    print('torch._dynamo' in sys.modules)\n",
        tmp_path,
    )
    assert job.stdout.split() == ["False", "False"]


# -- other versions of torch -----------------------------------------------------------------------------


def test_where_torch_does_not_number_compilations_each_is_just_one(
    recording: TimingLogger, sink: MemorySink, compiler: Compiler
) -> None:
    compiler.compile()
    assert rows(recording, sink) == [("compile", "doubled", "ok")]


@pytest.mark.parametrize("attributes", [{}, {"callback_handler": object()}])
def test_a_torch_that_compiles_in_other_ways_is_left_alone(attributes: dict[str, object]) -> None:
    callback = stand_in(**attributes)
    pause_rows.time_compilations(callback)
    assert {name: vars(callback)[name] for name in attributes} == attributes
