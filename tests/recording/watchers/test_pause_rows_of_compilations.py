"""Each compilation by torch.compile is a row: of which function, and whether it had been compiled before.

``test_pause_rows_of_compilations_of_a_stand_in.py`` has the same of a module that stands in for torch's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import pytest
import torch

from timing_logger import TimingLogger
from timing_logger.sinks.memory import MemorySink

pytestmark = pytest.mark.slow(
    "importing torch's compiler takes seconds; with a module that stands in for it the same is quick"
)

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
