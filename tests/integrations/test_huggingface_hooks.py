"""What each hook of the Hugging Face callback records, called as the Trainer does, but without its import.

Real trainings are in ``test_huggingface.py``.
"""

from __future__ import annotations

import copy
import sys
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from timing_logger import TimingLogger
from timing_logger.sinks.memory import MemorySink

LOADER = object()


@pytest.fixture
def callback(logger: TimingLogger, monkeypatch: pytest.MonkeyPatch) -> Any:
    """One that records into ``logger``, whose base class is not the framework's."""
    stand_in = ModuleType("transformers")
    vars(stand_in)["TrainerCallback"] = object
    monkeypatch.setitem(sys.modules, "transformers", stand_in)
    return imported_anew().TimingLoggerCallback(timing_logger=logger)


def imported_anew() -> Any:
    """Import the module a second time, as one that no other test imports."""
    spec = find_spec("timing_logger.integrations.huggingface")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Trainer:
    """Calls the hooks of a callback; what is given goes into the state."""

    def __init__(self, callback: Any) -> None:
        self._callback = callback
        self._args = SimpleNamespace(process_index=0, world_size=1)
        self._state = SimpleNamespace(global_step=0, epoch=0)

    def calls(self, *hooks: str, **state: Any) -> None:
        vars(self._state).update(state)
        for hook in hooks:
            getattr(self._callback, f"on_{hook}")(self._args, self._state, SimpleNamespace())

    def steps(self) -> None:
        """Make a step of one batch, from its beginning to its end."""
        done = self._state.global_step
        self.calls("step_begin", "pre_optimizer_step", "optimizer_step")
        self.calls("step_end", global_step=done + 1)

    def evaluates(self, *, asked_for: bool, loader: object = LOADER) -> None:
        """Make the steps of an evaluation, which the training asked for or other code."""
        control = SimpleNamespace(should_evaluate=asked_for)
        for _ in range(2):
            self._callback.on_prediction_step(self._args, self._state, control, eval_dataloader=loader)


@pytest.fixture
def trainer(callback: Any) -> Trainer:
    """One whose training has begun, and its first epoch."""
    trainer = Trainer(callback)
    trainer.calls("train_begin", "epoch_begin")
    return trainer


def written(logger: TimingLogger, sink: MemorySink) -> list[tuple[int | None, int | None, str, str]]:
    """Close the logger; return iteration, epoch, operation and phase of each row."""
    logger.close()
    return [(r.iteration, r.epoch, r.operation, r.phase) for r in sink.records]


def operations(logger: TimingLogger, sink: MemorySink) -> list[str]:
    return [operation for _, _, operation, _ in written(logger, sink)]


STEP = ["DATA", "FORWARD_BACKWARD", "OPTIMIZER", "TRAIN_STEP"]


def test_a_step_has_the_iteration_at_which_it_began(
    trainer: Trainer, logger: TimingLogger, sink: MemorySink
) -> None:
    trainer.steps()
    trainer.calls("log")
    trainer.steps()
    trainer.calls("save", "epoch_end", "train_end")
    assert written(logger, sink) == [
        *((0, 0, operation, "train") for operation in STEP), (1, 0, "LOG", "train"),
        *((1, 0, operation, "train") for operation in STEP), (2, 0, "SAVE", "train"),
    ]  # fmt: skip


def test_each_batch_of_a_step_has_its_own_passes(
    trainer: Trainer, logger: TimingLogger, sink: MemorySink
) -> None:
    trainer.calls("step_begin", "substep_end", "pre_optimizer_step", "optimizer_step", "step_end")
    assert operations(logger, sink) == ["DATA", "FORWARD_BACKWARD", *STEP[1:]]


def test_what_a_step_left_open_is_in_no_row(trainer: Trainer, logger: TimingLogger, sink: MemorySink) -> None:
    trainer.calls("step_begin", "step_end", "optimizer_step", "pre_optimizer_step")
    assert operations(logger, sink) == ["DATA", "TRAIN_STEP"]


def test_epochs_are_counted_from_that_in_which_a_training_goes_on(
    callback: Any, logger: TimingLogger, sink: MemorySink
) -> None:
    trainer = Trainer(callback)
    trainer.calls("train_begin", global_step=7, epoch=3.5)
    for _ in range(2):
        trainer.calls("epoch_begin", "step_begin")
    assert written(logger, sink) == [(7, 3, "DATA", "train"), (7, 4, "DATA", "train")]


def test_a_second_training_counts_its_epochs_anew(
    trainer: Trainer, logger: TimingLogger, sink: MemorySink
) -> None:
    trainer.calls("epoch_begin", "train_end", "train_begin", "epoch_begin", "step_begin")
    assert written(logger, sink) == [(0, 0, "DATA", "train")]


def test_a_training_that_has_ended_records_nothing(
    trainer: Trainer, logger: TimingLogger, sink: MemorySink
) -> None:
    trainer.calls("train_end", "log", "step_begin", "step_end", "save")
    assert operations(logger, sink) == []


def test_an_evaluation_that_the_training_asked_for_is_a_row_of_validation(
    trainer: Trainer, logger: TimingLogger, sink: MemorySink
) -> None:
    trainer.evaluates(asked_for=True)
    trainer.calls("log", "evaluate", "log")
    assert written(logger, sink) == [(0, 0, "EVALUATE", "val"), (0, 0, "LOG", "train")]


def test_an_evaluation_before_the_first_epoch_is_one_that_the_training_asked_for(
    callback: Any, logger: TimingLogger, sink: MemorySink
) -> None:
    trainer = Trainer(callback)
    trainer.calls("train_begin")
    trainer.evaluates(asked_for=False)
    trainer.calls("evaluate")
    assert operations(logger, sink) == ["EVALUATE"]


def test_an_evaluation_that_other_code_makes_leaves_no_row(
    trainer: Trainer, logger: TimingLogger, sink: MemorySink
) -> None:
    trainer.evaluates(asked_for=False)
    trainer.calls("evaluate")
    assert operations(logger, sink) == []


def test_an_evaluation_in_place_of_one_that_was_interrupted_leaves_no_row(
    trainer: Trainer, logger: TimingLogger, sink: MemorySink
) -> None:
    trainer.evaluates(asked_for=True)
    trainer.evaluates(asked_for=True, loader=object())
    trainer.calls("evaluate")
    assert operations(logger, sink) == []


@pytest.mark.parametrize("end", ["evaluate", "predict", "step_begin"])
def test_after_an_evaluation_what_is_logged_has_rows_again(
    trainer: Trainer, logger: TimingLogger, sink: MemorySink, end: str
) -> None:
    trainer.evaluates(asked_for=False)
    trainer.calls(end)
    if end == "step_begin":
        trainer.calls("step_end")
    trainer.calls("log")
    assert operations(logger, sink)[-1:] == ["LOG"]


@pytest.mark.parametrize("before", ["epoch_end", "log", "evaluate", "predict", "save"])
def test_data_are_waited_for_since_the_last_event(
    trainer: Trainer, logger: TimingLogger, sink: MemorySink, before: str
) -> None:
    trainer.calls(before)
    logger.record_timing("SINCE", 0.0)
    trainer.calls("step_begin")
    logger.close()
    starts_ns = {record.operation: record.start_ns for record in sink.records}
    (since,) = (record.end_ns for record in sink.records if record.operation == "SINCE")
    assert "DATA" in starts_ns
    assert since is not None
    assert starts_ns["DATA"] <= since


def test_without_the_framework_the_import_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ImportError, match=r"pip install timing_logger\[transformers\]"):
        imported_anew()


def test_what_the_framework_itself_lacks_is_said_as_it_says_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "transformers.py").write_text("import a_module_that_transformers_lacks\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "transformers", raising=False)
    with pytest.raises(ModuleNotFoundError, match="No module named 'a_module_that_transformers_lacks'"):
        imported_anew()


def test_a_copy_of_a_callback_has_nothing_open(callback: Any) -> None:
    Trainer(callback).calls("train_begin")
    twin = copy.copy(callback)
    assert twin._operations is not callback._operations
    assert twin._run_logger is callback._run_logger
