"""Each compilation by torch.compile is a row: of which function, and whether it had been compiled before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import pytest
import torch
from processes import run_python
from slow import slow

from timing_logger import TimingLogger
from timing_logger.recording.pauses import compilations
from timing_logger.sinks.memory import MemorySink

Told = list[tuple[object, object, object, str]]


@pytest.fixture(autouse=True)
def nothing_is_compiled_yet() -> None:
    import torch._dynamo  # which takes two seconds: not where tests are only collected

    torch._dynamo.reset()


@pytest.fixture
def recording(sink: MemorySink) -> TimingLogger:
    return TimingLogger(0, log_dir=None, sinks=[sink], pause_rows=True)


def rows(logger: TimingLogger, sink: MemorySink) -> Told:
    logger.close()
    rows = (row for row in sink.records if row.operation == "COMPILE")
    return [(row.operation, row.phase, str(row.layer_name).rpartition(".")[2], row.status) for row in rows]


def compiled(backend: Any = "eager") -> Callable[[torch.Tensor], torch.Tensor]:
    def doubled(values: torch.Tensor) -> torch.Tensor:
        return (2 * values).sum()

    function: Any = torch.compile(doubled, backend=backend, dynamic=False)
    return function  # type: ignore[no-any-return]


def test_each_compilation_is_a_row_and_what_was_compiled_before_is_not(
    recording: TimingLogger, sink: MemorySink
) -> None:
    function = compiled()
    for length in (1, 2, 2, 3):
        function(torch.ones(length))
    assert rows(recording, sink) == [
        ("COMPILE", "compile", "doubled", "ok"),
        ("COMPILE", "recompile", "doubled", "ok"),
        ("COMPILE", "recompile", "doubled", "ok"),
    ]


def test_its_row_lies_within_the_operation_that_it_stopped(recording: TimingLogger, sink: MemorySink) -> None:
    with recording.operation("FORWARD"):
        compiled()(torch.ones(2))
    recording.close()
    compilation, forward = (row for row in sink.records if row.operation in ("COMPILE", "FORWARD"))
    assert forward.start_ns < compilation.start_ns < (compilation.end_ns or 0) < (forward.end_ns or 0)
    assert compilation.thread == forward.thread


@pytest.mark.slow("compiles another model")
def test_a_module_has_the_name_of_its_class_whether_torch_wraps_it_or_not(
    recording: TimingLogger, sink: MemorySink
) -> None:
    class Doubling(torch.nn.Module):
        def forward(self, values: torch.Tensor) -> torch.Tensor:
            return 2 * values

    for module in (Doubling(), torch.nn.Linear(2, 2)):
        torch.compile(module, backend="eager")(torch.ones(2))
    recording.close()
    names = [str(row.layer_name) for row in sink.records if row.operation == "COMPILE"]
    assert [name.rpartition("<locals>.")[2] for name in names] == ["Doubling.forward", "Linear"]


@pytest.mark.slow("a second compilation; that each is a row is quick")
def test_a_backward_that_is_compiled_when_it_first_runs_has_the_name_of_its_function(
    recording: TimingLogger, sink: MemorySink
) -> None:
    compiled("aot_eager")(torch.ones(2, requires_grad=True)).backward()  # type: ignore[no-untyped-call]
    assert rows(recording, sink) == [
        ("COMPILE", "compile", "doubled", "ok"),
        ("COMPILE", "backward", "doubled", "ok"),
    ]


def test_a_compilation_that_fails_has_a_row_too(recording: TimingLogger, sink: MemorySink) -> None:
    def refuse(*_: object) -> NoReturn:
        raise ValueError("no")

    with pytest.raises(Exception, match="no"):
        compiled(refuse)(torch.ones(2))
    assert rows(recording, sink) == [("COMPILE", "compile", "doubled", "error:BackendCompilerFailed")]


def test_what_is_compiled_after_torch_forgot_all_is_told_as_well(
    recording: TimingLogger, sink: MemorySink
) -> None:
    torch._dynamo.reset()
    compiled()(torch.ones(2))
    assert rows(recording, sink) == [("COMPILE", "compile", "doubled", "ok")]


def test_a_logger_that_is_closed_is_told_nothing(recording: TimingLogger, sink: MemorySink) -> None:
    assert rows(recording, sink) == []
    compiled()(torch.ones(2))
    assert recording.stats.dropped == 0


def test_each_of_two_loggers_has_the_row(recording: TimingLogger, sink: MemorySink) -> None:
    other = MemorySink()
    with TimingLogger(0, log_dir=None, sinks=[other], pause_rows=True):
        compiled()(torch.ones(2))
    assert len(rows(recording, sink)) == 1
    assert [row.operation for row in other.records if row.operation != "GC"] == ["COMPILE"]


@pytest.mark.parametrize("torch_is", ["empty", slow("itself", "importing torch takes 2 s")])
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


# -- other versions of torch, by a stand-in ----------------------------------------------------------------


class Handler:
    @contextmanager
    def install_callbacks(self, *_: object) -> Iterator[None]:
        yield


def stand_in(**attributes: object) -> Any:
    callback = ModuleType("callback")
    vars(callback).update(attributes)
    return callback


def test_where_torch_does_not_number_compilations_each_is_just_one(
    recording: TimingLogger, sink: MemorySink
) -> None:
    callback = stand_in(callback_handler=Handler())
    compilations.time_compilations(callback)

    def _compile(code: object) -> None:
        with callback.callback_handler.install_callbacks():
            pass

    _compile(stand_in.__code__)
    assert rows(recording, sink) == [("COMPILE", "compile", "stand_in", "ok")]


@pytest.mark.parametrize("attributes", [{}, {"callback_handler": object()}])
def test_a_torch_that_compiles_in_other_ways_is_left_alone(attributes: dict[str, object]) -> None:
    callback = stand_in(**attributes)
    compilations.time_compilations(callback)
    assert {name: vars(callback)[name] for name in attributes} == attributes
