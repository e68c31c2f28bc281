"""The callback for the Hugging Face Trainer, in real trainings of a tiny model."""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import pytest
import torch
import transformers
from processes import rows
from scripted_device import ScriptedAccelerator
from torch.utils.data import Dataset
from torch_runner import run_with_torchrun

from timing_logger import TimingLogger, get_timing_logger
from timing_logger.integrations.huggingface import TimingLoggerCallback
from timing_logger.record import Record
from timing_logger.sinks.memory import MemorySink

pytestmark = pytest.mark.slow("importing the framework takes 5 s")

STEP = ["DATA", "FORWARD_BACKWARD", "OPTIMIZER", "TRAIN_STEP"]

Moments = dict[str, list[int]]


def note(moments: Moments, name: str) -> None:
    moments.setdefault(name, []).append(perf_counter_ns())


class Batches(Dataset[dict[str, torch.Tensor]]):
    """Batches of one; notes when each is fetched."""

    def __init__(self, n_batches: int, moments: Moments) -> None:
        self.n_batches, self.moments = n_batches, moments

    def __len__(self) -> int:
        return self.n_batches

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        note(self.moments, "fetch")
        return {"x": torch.ones(2), "labels": torch.tensor(1.0)}


class TinyModel(torch.nn.Module):
    """Notes its passes; raises in the batch of number ``fails_at``."""

    def __init__(self, fails_at: int | None = None) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)
        self.moments: Moments = {}
        self.fails_at = fails_at

    def forward(self, x: torch.Tensor, labels: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
        if len(self.moments.get("forward", [])) == self.fails_at:
            raise ValueError("mine")
        note(self.moments, "forward" if self.training else "evaluate")
        outputs = self.layer(x)
        if outputs.requires_grad:
            outputs.register_hook(lambda gradient: note(self.moments, "backward"))
        return {"loss": outputs.sum(), "logits": outputs}


class NotedSgd(torch.optim.SGD):
    """Notes its update."""

    moments: Moments

    def step(self, closure: Any = None) -> Any:
        note(self.moments, "update")
        return super().step(closure)


def trainer(
    folder: Path, callback: Any, n_batches: int = 2, model: TinyModel | None = None, **options: Any
) -> transformers.Trainer:
    plain: dict[str, Any] = {
        "output_dir": str(folder / "output"), "report_to": "none", "use_cpu": True, "disable_tqdm": True,
        "num_train_epochs": 1, "per_device_train_batch_size": 1, "per_device_eval_batch_size": 1,
        "logging_strategy": "no", "save_strategy": "no",
    }  # fmt: skip
    model = model or TinyModel()
    optimizer = NotedSgd(model.parameters(), lr=0.1)
    optimizer.moments = model.moments
    return transformers.Trainer(
        model,
        transformers.TrainingArguments(**{**plain, **options}),
        train_dataset=Batches(n_batches, model.moments),
        eval_dataset=Batches(2, {}),
        callbacks=[callback],
        optimizers=(optimizer, None),
    )


def train(folder: Path, n_batches: int = 2, *others: Any, **options: Any) -> list[Record]:
    """What the callback records of a training, the log of its results left out."""
    sink = MemorySink()
    with TimingLogger(0, None, sinks=[sink]) as logger:
        runner = trainer(folder, TimingLoggerCallback(timing_logger=logger), n_batches, **options)
        for other in others:
            runner.add_callback(other)
        runner.train()
    final = max((r for r in sink.records if r.operation == "LOG"), key=lambda r: r.start_ns)
    return [record for record in sink.records if record is not final]


def covers(record: Record, moment_ns: int) -> bool:
    assert record.end_ns is not None
    return record.start_ns <= moment_ns <= record.end_ns


def test_a_step_leaves_a_row_for_each_of_its_parts(tmp_path: Path) -> None:
    seen = train(tmp_path, num_train_epochs=2)
    assert [(r.iteration, r.epoch, r.operation, r.phase, r.status) for r in seen] == [
        (iteration, epoch, operation, "train", "ok")
        for iteration, epoch in ((0, 0), (1, 0), (2, 1), (3, 1))
        for operation in STEP
    ]


def test_each_row_covers_what_it_is_named_after_and_nothing_else(tmp_path: Path) -> None:
    model = TinyModel()
    seen = train(tmp_path, 1, model=model)
    happened = {name: moments[0] for name, moments in model.moments.items()}
    covered = {r.operation: sorted(name for name in happened if covers(r, happened[name])) for r in seen}
    assert covered == {
        "DATA": ["fetch"],
        "FORWARD_BACKWARD": ["backward", "forward"],
        "OPTIMIZER": ["update"],
        "TRAIN_STEP": ["backward", "forward", "update"],
    }


def test_batches_that_accumulate_are_one_step_with_a_row_for_the_passes_of_each(tmp_path: Path) -> None:
    seen = train(tmp_path, 3, gradient_accumulation_steps=2)
    assert [(r.iteration, r.operation) for r in seen] == [
        (0, "DATA"), (0, "FORWARD_BACKWARD"), (0, "FORWARD_BACKWARD"), (0, "OPTIMIZER"), (0, "TRAIN_STEP"),
        (1, "DATA"), (1, "FORWARD_BACKWARD"), (1, "OPTIMIZER"), (1, "TRAIN_STEP"),
    ]  # fmt: skip


def test_a_real_model_of_the_library_leaves_the_same_rows(tmp_path: Path) -> None:
    config = transformers.GPT2Config(n_layer=1, n_head=1, n_embd=8, vocab_size=16, n_positions=8)
    tokens = {"input_ids": torch.arange(4), "labels": torch.arange(4)}
    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path), report_to="none", use_cpu=True, disable_tqdm=True, max_steps=1,
        save_strategy="no",
    )  # fmt: skip
    transformers.Trainer(
        transformers.GPT2LMHeadModel(config),
        arguments,
        train_dataset=[tokens] * 8,
        callbacks=[TimingLoggerCallback(tmp_path)],
    ).train()
    assert [row[4] for row in rows(tmp_path / "timing-rank0.csv")] == [*STEP, "LOG"]


# -- between steps ---------------------------------------------------------------------------------------


def test_logs_evaluations_and_saves_have_rows_with_the_number_of_steps_done(tmp_path: Path) -> None:
    seen = train(
        tmp_path, logging_strategy="steps", logging_steps=1, eval_strategy="steps", eval_steps=1,
        save_strategy="steps", save_steps=2,
    )  # fmt: skip
    assert [(r.iteration, r.operation, r.phase) for r in seen if r.operation not in STEP] == [
        (1, "LOG", "train"), (1, "EVALUATE", "val"),
        (2, "LOG", "train"), (2, "EVALUATE", "val"), (2, "SAVE", "train"),
    ]  # fmt: skip
    assert [r.operation for r in seen if r.operation in STEP] == STEP * 2


def test_an_evaluation_is_in_its_own_row_and_in_no_other(tmp_path: Path) -> None:
    model = TinyModel()
    seen = train(
        tmp_path, model=model, eval_strategy="steps", eval_steps=1, logging_steps=1, eval_on_start=True
    )  # fmt: skip
    evaluated = [[r.operation for r in seen if covers(r, moment)] for moment in model.moments["evaluate"]]
    assert evaluated == [["EVALUATE"]] * 6


def test_an_evaluation_that_the_loop_did_not_ask_for_leaves_no_row(tmp_path: Path) -> None:
    class EvaluatesItself(transformers.TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            runner.evaluate()
            runner.predict(Batches(1, {}))

    sink, model = MemorySink(), TinyModel()
    with TimingLogger(0, None, sinks=[sink]) as logger:
        runner = trainer(tmp_path, TimingLoggerCallback(timing_logger=logger), model=model)
        runner.evaluate()
        runner.add_callback(EvaluatesItself())
        runner.train()
        runner.evaluate()
    assert [r.operation for r in sink.records] == [*STEP * 2, "LOG"]
    assert not [r for r in sink.records for moment in model.moments["evaluate"] if covers(r, moment)]


# -- what goes wrong -------------------------------------------------------------------------------------


def test_after_an_exception_the_same_callback_trains_into_a_file_of_its_own(tmp_path: Path) -> None:
    callback = TimingLoggerCallback(tmp_path)
    with pytest.raises(ValueError, match="mine"):
        trainer(tmp_path, callback, model=TinyModel(fails_at=1)).train()
    trainer(tmp_path, callback).train()
    assert [row[4] for row in rows(tmp_path / "timing-rank0.csv")] == [*STEP, "DATA"]
    assert [row[4] for row in rows(tmp_path / "timing-rank0.run2.csv")] == [*STEP * 2, "LOG"]


class FailingBatches(Batches):
    """The second batch cannot be had."""

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        if self.moments:
            raise ValueError("mine")
        return super().__getitem__(index)


class FailsToEvaluate(transformers.TrainerCallback):
    """Raises in an evaluation, after the callback under test has seen it begin."""

    def on_prediction_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        raise ValueError("mine")


@pytest.mark.parametrize("interrupted", ["waiting for data", "evaluating"])
def test_an_evaluation_after_an_interrupted_training_leaves_no_row(tmp_path: Path, interrupted: str) -> None:
    sink, fails = MemorySink(), FailsToEvaluate()
    with TimingLogger(0, None, sinks=[sink]) as logger:
        callback = TimingLoggerCallback(timing_logger=logger)
        runner = trainer(tmp_path, callback, eval_strategy="steps", eval_steps=1)
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


def test_epochs_are_counted_also_when_one_stops_early(tmp_path: Path) -> None:
    class StopsTheFirstEpoch(transformers.TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            control.should_epoch_stop = state.global_step == 1

    seen = train(tmp_path, 4, StopsTheFirstEpoch(), num_train_epochs=2)
    assert [r.epoch for r in seen if r.operation == "TRAIN_STEP"] == [0, 1, 1, 1, 1]


def test_a_training_that_stops_early_is_closed_like_any_other(tmp_path: Path) -> None:
    class Stops(transformers.TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            control.should_training_stop = True

    runner = trainer(tmp_path, TimingLoggerCallback(tmp_path), 4)
    runner.add_callback(Stops())
    runner.train()
    assert [row[4] for row in rows(tmp_path / "timing-rank0.csv")] == [*STEP, "LOG"]
    assert not get_timing_logger().recording


# -- the run -----------------------------------------------------------------------------------------------


def test_a_resumed_training_goes_on_counting_and_its_checkpoint_holds_nothing_of_ours(tmp_path: Path) -> None:
    train(tmp_path, 3, save_strategy="steps", save_steps=1)
    checkpoint = tmp_path / "output" / "checkpoint-1"
    state = json.loads((checkpoint / "trainer_state.json").read_text())
    assert list(state["stateful_callbacks"]) == ["TrainerControl"]
    runner = trainer(tmp_path, TimingLoggerCallback(tmp_path), 3)
    runner.train(resume_from_checkpoint=str(checkpoint))
    steps = [row for row in rows(tmp_path / "timing-rank0.csv") if row[4] == "TRAIN_STEP"]
    assert [(row[1], row[2]) for row in steps] == [("1", "0"), ("2", "0")]


def test_other_instrumentation_of_the_process_writes_into_the_same_file(tmp_path: Path) -> None:
    class Instrumented(TinyModel):
        def forward(self, x: torch.Tensor, labels: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
            get_timing_logger().record_timing("MINE", 1.0)
            return super().forward(x, labels)

    trainer(tmp_path, TimingLoggerCallback(tmp_path), model=Instrumented()).train()
    mine = [row for row in rows(tmp_path / "timing-rank0.csv") if row[4] == "MINE"]
    assert [row[1] for row in mine] == ["0", "1"]
    assert not get_timing_logger().recording


def test_iterations_left_out_leave_no_row_of_any_part(tmp_path: Path) -> None:
    trainer(tmp_path, TimingLoggerCallback(tmp_path, record_every_n_steps=2), 3).train()
    assert [(row[1], row[4]) for row in rows(tmp_path / "timing-rank0.csv")] == [
        (iteration, operation) for iteration in ("0", "2") for operation in STEP
    ]


def test_copies_made_while_training_begin_with_nothing_open(tmp_path: Path) -> None:
    copies = []

    class Copies(transformers.TrainerCallback):
        def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            copies.extend([copy.deepcopy(callback), pickle.loads(pickle.dumps(callback))])

    callback = TimingLoggerCallback(tmp_path)
    runner = trainer(tmp_path, callback, 1)
    runner.add_callback(Copies())
    runner.train()
    for number, other in enumerate(copies, start=2):
        trainer(tmp_path, other, 1).train()
        assert [row[4] for row in rows(tmp_path / f"timing-rank0.run{number}.csv")] == [*STEP, "LOG"]


def test_parts_are_timed_by_the_device_and_waits_by_the_host(
    tmp_path: Path,
    scripted_device: ScriptedAccelerator,
) -> None:
    seen = train(tmp_path, eval_strategy="epoch", logging_steps=1)
    clocks = {r.operation: r.clock for r in seen}
    assert clocks == dict.fromkeys(["DATA", "EVALUATE"], "host") | dict.fromkeys(STEP[1:], "device")


def test_each_rank_of_a_distributed_training_writes_its_own_file(tmp_path: Path) -> None:
    run_with_torchrun(2, "huggingface_training.py", str(tmp_path))
    for rank in (0, 1):
        assert [row[4] for row in rows(tmp_path / f"timing-rank{rank}.csv")] == [*STEP * 2, "LOG"]
