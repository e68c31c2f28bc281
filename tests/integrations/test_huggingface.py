"""The callback for the Hugging Face Trainer, in real trainings of a tiny model."""

from __future__ import annotations

import copy
import json
import pickle
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from processes import rows
from scripted_device import ScriptedAccelerator
from torch_runner import run_with_torchrun

from timing_logger import TimingLogger, get_timing_logger
from timing_logger.schema.record import Record
from timing_logger.sinks.memory import MemorySink

pytestmark = [
    pytest.mark.slow("importing the framework takes 5 s"),
    pytest.mark.skipif(find_spec("transformers") is None, reason="pip install timing_logger[transformers]"),
]

STEP = ["DATA", "FORWARD_BACKWARD", "OPTIMIZER", "TRAIN_STEP"]


@pytest.fixture(scope="module")
def tiny() -> Any:
    """The module of the tiny model: only a test that runs imports the framework."""
    import tiny_huggingface

    return tiny_huggingface


def covers(record: Record, moment_ns: int) -> bool:
    assert record.end_ns is not None
    return record.start_ns <= moment_ns <= record.end_ns


def test_a_step_leaves_a_row_for_each_of_its_parts(tiny: Any, tmp_path: Path) -> None:
    seen = tiny.train(tmp_path, num_train_epochs=2)
    assert [(r.iteration, r.epoch, r.operation, r.phase, r.status) for r in seen] == [
        (iteration, epoch, operation, "train", "ok")
        for iteration, epoch in ((0, 0), (1, 0), (2, 1), (3, 1))
        for operation in STEP
    ]


def test_each_row_covers_what_it_is_named_after_and_nothing_else(tiny: Any, tmp_path: Path) -> None:
    model = tiny.TinyModel()
    seen = tiny.train(tmp_path, 1, model=model)
    happened = {name: moments[0] for name, moments in model.moments.items()}
    covered = {r.operation: sorted(name for name in happened if covers(r, happened[name])) for r in seen}
    assert covered == {
        "DATA": ["fetch"],
        "FORWARD_BACKWARD": ["backward", "forward"],
        "OPTIMIZER": ["update"],
        "TRAIN_STEP": ["backward", "forward", "update"],
    }


def test_batches_that_accumulate_are_one_step_with_a_row_for_the_passes_of_each(
    tiny: Any, tmp_path: Path
) -> None:
    seen = tiny.train(tmp_path, 3, gradient_accumulation_steps=2)
    assert [(r.iteration, r.operation) for r in seen] == [
        (0, "DATA"), (0, "FORWARD_BACKWARD"), (0, "FORWARD_BACKWARD"), (0, "OPTIMIZER"), (0, "TRAIN_STEP"),
        (1, "DATA"), (1, "FORWARD_BACKWARD"), (1, "OPTIMIZER"), (1, "TRAIN_STEP"),
    ]  # fmt: skip


def test_a_real_model_of_the_library_leaves_the_same_rows(tiny: Any, tmp_path: Path) -> None:
    config = tiny.transformers.GPT2Config(n_layer=1, n_head=1, n_embd=8, vocab_size=16, n_positions=8)
    tokens = {"input_ids": torch.arange(4), "labels": torch.arange(4)}
    arguments = tiny.transformers.TrainingArguments(
        output_dir=str(tmp_path), report_to="none", use_cpu=True, disable_tqdm=True, max_steps=1,
        save_strategy="no",
    )  # fmt: skip
    tiny.transformers.Trainer(
        tiny.transformers.GPT2LMHeadModel(config),
        arguments,
        train_dataset=[tokens] * 8,
        callbacks=[tiny.TimingLoggerCallback(tmp_path)],
    ).train()
    assert [row[4] for row in rows(tmp_path / "timing-rank0.csv")] == [*STEP, "LOG"]


# -- between steps ---------------------------------------------------------------------------------------


def test_logs_evaluations_and_saves_have_rows_with_the_number_of_steps_done(
    tiny: Any, tmp_path: Path
) -> None:
    seen = tiny.train(
        tmp_path, logging_strategy="steps", logging_steps=1, eval_strategy="steps", eval_steps=1,
        save_strategy="steps", save_steps=2,
    )  # fmt: skip
    assert [(r.iteration, r.operation, r.phase) for r in seen if r.operation not in STEP] == [
        (1, "LOG", "train"), (1, "EVALUATE", "val"),
        (2, "LOG", "train"), (2, "EVALUATE", "val"), (2, "SAVE", "train"),
    ]  # fmt: skip
    assert [r.operation for r in seen if r.operation in STEP] == STEP * 2


def test_an_evaluation_is_in_its_own_row_and_in_no_other(tiny: Any, tmp_path: Path) -> None:
    model = tiny.TinyModel()
    seen = tiny.train(
        tmp_path, model=model, eval_strategy="steps", eval_steps=1, logging_steps=1, eval_on_start=True
    )  # fmt: skip
    evaluated = [[r.operation for r in seen if covers(r, moment)] for moment in model.moments["evaluate"]]
    assert evaluated == [["EVALUATE"]] * 6


def test_an_evaluation_that_the_loop_did_not_ask_for_leaves_no_row(tiny: Any, tmp_path: Path) -> None:
    class EvaluatesItself(tiny.TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            runner.evaluate()
            runner.predict(tiny.Batches(1, {}))

    sink, model = MemorySink(), tiny.TinyModel()
    with TimingLogger(0, None, sinks=[sink]) as logger:
        runner = tiny.trainer(tmp_path, tiny.TimingLoggerCallback(timing_logger=logger), model=model)
        runner.evaluate()
        runner.add_callback(EvaluatesItself())
        runner.train()
        runner.evaluate()
    assert [r.operation for r in sink.records] == [*STEP * 2, "LOG"]
    assert not [r for r in sink.records for moment in model.moments["evaluate"] if covers(r, moment)]


# -- what goes wrong -------------------------------------------------------------------------------------


def test_after_an_exception_the_same_callback_trains_into_a_file_of_its_own(
    tiny: Any, tmp_path: Path
) -> None:
    callback = tiny.TimingLoggerCallback(tmp_path)
    with pytest.raises(ValueError, match="mine"):
        tiny.trainer(tmp_path, callback, model=tiny.TinyModel(fails_at=1)).train()
    tiny.trainer(tmp_path, callback).train()
    assert [row[4] for row in rows(tmp_path / "timing-rank0.csv")] == [*STEP, "DATA"]
    assert [row[4] for row in rows(tmp_path / "timing-rank0.run2.csv")] == [*STEP * 2, "LOG"]


@pytest.mark.parametrize("interrupted", ["waiting for data", "evaluating"])
def test_an_evaluation_after_an_interrupted_training_leaves_no_row(
    tiny: Any, tmp_path: Path, interrupted: str
) -> None:
    class FailingBatches(tiny.Batches):
        """The second batch cannot be had."""

        def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
            if self.moments:
                raise ValueError("mine")
            return super().__getitem__(index)

    class FailsToEvaluate(tiny.TrainerCallback):
        """Raises in an evaluation, after the callback under test has seen it begin."""

        def on_prediction_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            raise ValueError("mine")

    sink, fails = MemorySink(), FailsToEvaluate()
    with TimingLogger(0, None, sinks=[sink]) as logger:
        callback = tiny.TimingLoggerCallback(timing_logger=logger)
        runner = tiny.trainer(tmp_path, callback, eval_strategy="steps", eval_steps=1)
        if interrupted == "evaluating":
            runner.add_callback(fails)
        else:
            runner.train_dataset = FailingBatches(2, {})
        with pytest.raises(ValueError, match="mine"):
            runner.train()
        logger.flush()
        n_evaluated = [r.operation for r in sink.records].count("EVALUATE")
        runner.remove_callback(FailsToEvaluate)
        runner.evaluate()
        logger.flush()
        assert [r.operation for r in sink.records].count("EVALUATE") == n_evaluated


def test_epochs_are_counted_also_when_one_stops_early(tiny: Any, tmp_path: Path) -> None:
    class StopsTheFirstEpoch(tiny.TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            control.should_epoch_stop = state.global_step == 1

    seen = tiny.train(tmp_path, 4, StopsTheFirstEpoch(), num_train_epochs=2)
    assert [r.epoch for r in seen if r.operation == "TRAIN_STEP"] == [0, 1, 1, 1, 1]


def test_a_training_that_stops_early_is_closed_like_any_other(tiny: Any, tmp_path: Path) -> None:
    class Stops(tiny.TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            control.should_training_stop = True

    runner = tiny.trainer(tmp_path, tiny.TimingLoggerCallback(tmp_path), 4)
    runner.add_callback(Stops())
    runner.train()
    assert [row[4] for row in rows(tmp_path / "timing-rank0.csv")] == [*STEP, "LOG"]
    assert not get_timing_logger().recording


# -- the run -----------------------------------------------------------------------------------------------


def test_a_resumed_training_goes_on_counting_and_its_checkpoint_holds_nothing_of_ours(
    tiny: Any, tmp_path: Path
) -> None:
    tiny.train(tmp_path, 3, save_strategy="steps", save_steps=1)
    checkpoint = tmp_path / "output" / "checkpoint-1"
    state = json.loads((checkpoint / "trainer_state.json").read_text())
    assert list(state["stateful_callbacks"]) == ["TrainerControl"]
    runner = tiny.trainer(tmp_path, tiny.TimingLoggerCallback(tmp_path), 3)
    runner.train(resume_from_checkpoint=str(checkpoint))
    steps = [row for row in rows(tmp_path / "timing-rank0.csv") if row[4] == "TRAIN_STEP"]
    assert [(row[1], row[2]) for row in steps] == [("1", "0"), ("2", "0")]


def test_other_instrumentation_of_the_process_writes_into_the_same_file(tiny: Any, tmp_path: Path) -> None:
    class Instrumented(tiny.TinyModel):
        def forward(self, x: torch.Tensor, labels: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
            get_timing_logger().record_timing("MINE", 1.0)
            return super().forward(x, labels)

    tiny.trainer(tmp_path, tiny.TimingLoggerCallback(tmp_path), model=Instrumented()).train()
    mine = [row for row in rows(tmp_path / "timing-rank0.csv") if row[4] == "MINE"]
    assert [row[1] for row in mine] == ["0", "1"]
    assert not get_timing_logger().recording


def test_iterations_left_out_leave_no_row_of_any_part(tiny: Any, tmp_path: Path) -> None:
    tiny.trainer(tmp_path, tiny.TimingLoggerCallback(tmp_path, record_every_n_steps=2), 3).train()
    assert [(row[1], row[4]) for row in rows(tmp_path / "timing-rank0.csv")] == [
        (iteration, operation) for iteration in ("0", "2") for operation in STEP
    ]


def test_copies_made_while_training_begin_with_nothing_open(tiny: Any, tmp_path: Path) -> None:
    copies = []

    class Copies(tiny.TrainerCallback):
        def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            copies.extend([copy.deepcopy(callback), pickle.loads(pickle.dumps(callback))])

    callback = tiny.TimingLoggerCallback(tmp_path)
    runner = tiny.trainer(tmp_path, callback, 1)
    runner.add_callback(Copies())
    runner.train()
    for number, other in enumerate(copies, start=2):
        tiny.trainer(tmp_path, other, 1).train()
        assert [row[4] for row in rows(tmp_path / f"timing-rank0.run{number}.csv")] == [*STEP, "LOG"]


def test_parts_are_timed_by_the_device_and_waits_by_the_host(
    tiny: Any,
    tmp_path: Path,
    scripted_device: ScriptedAccelerator,
) -> None:
    seen = tiny.train(tmp_path, eval_strategy="epoch", logging_steps=1)
    clocks = {r.operation: r.clock for r in seen}
    assert clocks == dict.fromkeys(["DATA", "EVALUATE"], "host") | dict.fromkeys(STEP[1:], "device")


def test_each_rank_of_a_distributed_training_writes_its_own_file(tmp_path: Path) -> None:
    run_with_torchrun(2, "huggingface_training.py", str(tmp_path))
    for rank in (0, 1):
        assert [row[4] for row in rows(tmp_path / f"timing-rank{rank}.csv")] == [*STEP * 2, "LOG"]
