"""What each hook for Lightning records, called as a Trainer does, but without the framework.

Real trainings are in ``test_lightning.py``.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from timing_logger import TimingLogger, init_timing_logger
from timing_logger.errors import ConfigurationError
from timing_logger.integrations._lightning_hooks import CallbackHooks, ProfilerActions
from timing_logger.sinks.memory import MemorySink

BATCH = ["DATA", "FORWARD", "BACKWARD", "OPTIMIZER", "TRAIN_STEP"]


class Handle:
    """Of a hook of :class:`Optimizer`."""

    def __init__(self, optimizer: Optimizer) -> None:
        self._optimizer = optimizer

    def remove(self) -> None:
        self._optimizer.hooks.pop()


class Optimizer:
    """Calls its hooks at the end of a step, as torch's do."""

    def __init__(self) -> None:
        self.hooks: list[Any] = []

    def register_step_post_hook(self, hook: Any) -> Handle:
        self.hooks.append(hook)
        return Handle(self)

    def step(self) -> None:
        for hook in self.hooks:
            hook(self, (), {})


class Fit:
    """A training in its first epoch: calls the hooks of a callback with what they are given."""

    def __init__(self, logger: TimingLogger, *, automatic: bool = True) -> None:
        self.callback: Any = CallbackHooks(timing_logger=logger)
        self.trainer = SimpleNamespace(
            global_rank=0, world_size=1, current_epoch=0, global_step=0, sanity_checking=False
        )
        self._module = SimpleNamespace(automatic_optimization=automatic)
        self.calls("fit_start", "train_epoch_start")

    def calls(self, *hooks: str, **state: Any) -> None:
        vars(self.trainer).update(state)
        for hook in hooks:
            getattr(self.callback, f"on_{hook}")(self.trainer, self._module)

    def gets(self, hook: str, given: Any) -> None:
        getattr(self.callback, f"on_{hook}")(self.trainer, self._module, given)

    def passes(self) -> None:
        """Begin a batch, and make both of its passes."""
        self.calls("train_batch_start")
        self.gets("before_backward", None)
        self.calls("after_backward")


@pytest.fixture
def fit(logger: TimingLogger) -> Fit:
    return Fit(logger)


def written(logger: TimingLogger, sink: MemorySink) -> list[str]:
    """Close the logger; return the operation of each row."""
    logger.close()
    return [record.operation for record in sink.records]


def test_a_batch_has_the_iteration_and_the_epoch_of_its_beginning(
    fit: Fit, logger: TimingLogger, sink: MemorySink
) -> None:
    optimizer = Optimizer()
    for step, epoch in ((0, 0), (1, 1)):
        fit.calls("train_epoch_start", current_epoch=epoch, global_step=step)
        fit.passes()
        fit.gets("before_optimizer_step", optimizer)
        optimizer.step()
        fit.calls("train_batch_end")
    logger.close()
    assert [(r.iteration, r.epoch, r.operation, r.phase) for r in sink.records] == [
        (step, step, operation, "train") for step in range(2) for operation in BATCH
    ]


def test_an_optimizer_has_one_hook_which_is_removed_at_the_end(fit: Fit) -> None:
    optimizer = Optimizer()
    for _ in range(2):
        fit.gets("before_optimizer_step", optimizer)
        assert len(optimizer.hooks) == 1
    fit.callback.teardown(fit.trainer, None, "fit")
    assert optimizer.hooks == []
    fit.callback.teardown(fit.trainer, None, "fit")  # once more, with nothing to remove


def test_an_optimizer_without_hooks_ends_with_the_batch(
    fit: Fit, logger: TimingLogger, sink: MemorySink
) -> None:
    fit.passes()
    fit.gets("before_optimizer_step", object())
    fit.calls("train_batch_end")
    assert written(logger, sink) == BATCH


def test_under_manual_optimization_it_has_no_row_then(logger: TimingLogger, sink: MemorySink) -> None:
    fit = Fit(logger, automatic=False)
    fit.passes()
    fit.gets("before_optimizer_step", object())
    fit.calls("train_batch_end")
    assert written(logger, sink) == ["DATA", "FORWARD", "BACKWARD", "TRAIN_STEP"]


def test_under_manual_optimization_a_step_has_a_row_where_its_end_was_seen(
    logger: TimingLogger, sink: MemorySink
) -> None:
    fit, optimizer = Fit(logger, automatic=False), Optimizer()
    fit.gets("before_optimizer_step", optimizer)
    optimizer.step()
    fit.gets("before_backward", None)
    assert written(logger, sink) == ["OPTIMIZER"]


def test_a_step_that_another_backward_pass_follows_has_no_row_unless_it_was_seen_to_end(
    fit: Fit, logger: TimingLogger, sink: MemorySink
) -> None:
    fit.gets("before_optimizer_step", object())
    fit.gets("before_backward", None)
    fit.calls("train_batch_end")
    assert written(logger, sink) == []


def test_a_forward_pass_ends_where_gradients_are_zeroed(
    fit: Fit, logger: TimingLogger, sink: MemorySink
) -> None:
    fit.calls("train_batch_start")
    fit.gets("before_zero_grad", None)
    fit.gets("before_optimizer_step", object())
    assert written(logger, sink) == ["DATA", "FORWARD"]


def test_a_forward_pass_that_holds_the_backward_pass_has_no_row(
    fit: Fit, logger: TimingLogger, sink: MemorySink
) -> None:
    fit.calls("train_batch_start")
    fit.gets("before_optimizer_step", object())
    fit.gets("before_zero_grad", None)
    assert written(logger, sink) == ["DATA"]


@pytest.mark.parametrize("end", ["train_batch_end", "train_epoch_end"])
def test_what_a_batch_left_open_is_in_no_row_of_a_later_one(
    fit: Fit, logger: TimingLogger, sink: MemorySink, end: str
) -> None:
    fit.calls("train_batch_start", end)
    fit.gets("before_zero_grad", None)
    assert "FORWARD" not in written(logger, sink)


def test_between_an_epoch_and_the_next_no_data_are_waited_for(
    fit: Fit, logger: TimingLogger, sink: MemorySink
) -> None:
    fit.calls("train_epoch_end", "train_batch_start")
    assert written(logger, sink) == []


def test_data_have_no_row_where_a_checkpoint_was_saved_before_them(
    fit: Fit, logger: TimingLogger, sink: MemorySink
) -> None:
    fit.calls("train_batch_end", "save_checkpoint", "train_batch_start", "train_batch_end")
    fit.calls("train_batch_start")
    assert written(logger, sink) == ["TRAIN_STEP", "DATA"]


def test_data_are_waited_for_since_the_end_of_a_validation(
    fit: Fit, logger: TimingLogger, sink: MemorySink
) -> None:
    logger.record_timing("BEFORE", 0.0)
    fit.calls("validation_end", "train_batch_start")
    logger.close()
    (before,) = (record.end_ns for record in sink.records if record.operation == "BEFORE")
    (data,) = (record.start_ns for record in sink.records if record.operation == "DATA")
    assert before is not None
    assert data >= before


def test_a_batch_of_validation_has_the_steps_done_so_far(
    fit: Fit, logger: TimingLogger, sink: MemorySink
) -> None:
    fit.calls("validation_start", "validation_batch_start", "validation_batch_end", global_step=7)
    logger.close()
    assert [(r.iteration, r.operation, r.phase) for r in sink.records] == [(7, "VALIDATION_STEP", "val")]


def test_the_sanity_check_has_no_rows(fit: Fit, logger: TimingLogger, sink: MemorySink) -> None:
    fit.calls("validation_batch_start", "validation_batch_end", sanity_checking=True)
    assert written(logger, sink) == []


def test_what_an_exception_interrupts_says_so_and_nothing_follows(
    fit: Fit, logger: TimingLogger, sink: MemorySink
) -> None:
    optimizer = Optimizer()
    fit.gets("before_optimizer_step", optimizer)
    fit.calls("validation_batch_start")
    fit.gets("exception", ValueError("mine"))
    fit.calls("train_batch_start", "train_batch_end")
    assert optimizer.hooks == []
    logger.close()
    assert [(r.operation, r.phase, r.status) for r in sink.records] == [
        ("OPTIMIZER", "train", "error:ValueError"), ("VALIDATION_STEP", "val", "error:ValueError")
    ]  # fmt: skip


# -- the profiler ----------------------------------------------------------------------------------------


def profiled(profiler: ProfilerActions, *names: str) -> list[tuple[str, str]]:
    """Operation and layer of what it records of actions with these names."""
    sink = MemorySink()
    logger = init_timing_logger(0, None, sinks=[sink])
    for name in names:
        profiler.start(name)
        profiler.stop(name)
        profiler.stop(name)
    logger.close()
    return [(record.operation, record.layer_name) for record in sink.records]


def test_an_action_has_the_last_part_of_its_name_and_the_rest_as_the_layer() -> None:
    found = profiled(ProfilerActions(), "[Strategy]DDPStrategy.training_step", "run_epoch")
    assert found == [("training_step", "[Strategy]DDPStrategy"), ("run_epoch", "")]


def test_an_action_lasts_from_its_start_to_its_stop(sink: MemorySink) -> None:
    profiler = ProfilerActions()
    logger = init_timing_logger(0, None, sinks=[sink])
    profiler.start("run_epoch")
    logger.record_timing("WITHIN", 0.0)
    profiler.stop("run_epoch")
    logger.record_timing("AFTER", 0.0)
    logger.close()
    within, action, after = sink.records
    assert action.end_ns is not None
    assert action.start_ns <= within.start_ns <= action.end_ns <= after.start_ns


def test_only_the_actions_that_are_asked_for_are_recorded() -> None:
    found = profiled(ProfilerActions(["training_step"]), "a.training_step", "a.training_step_end")
    assert found == [("training_step", "a")]


def test_without_a_logger_no_interval_is_kept() -> None:
    profiler = ProfilerActions()
    profiler.start("training_step")
    assert profiler._open == {}


def test_a_single_name_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"actions must be .*\['training_step'\]"):
        ProfilerActions("training_step")
