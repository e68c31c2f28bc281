"""The Lightning callback and profiler, in real trainings of a tiny model."""

from __future__ import annotations

import copy
import pickle
import signal
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from processes import rows, run_python
from scripted_device import ScriptedAccelerator
from torch.utils.data import DataLoader
from torch_runner import run_with_torchrun

from timing_logger import TimingLogger, get_timing_logger
from timing_logger.errors import ConfigurationError
from timing_logger.schema.record import Record
from timing_logger.sinks.memory import MemorySink

pytestmark = [
    pytest.mark.slow("importing the framework takes 10 s"),
    pytest.mark.skipif(find_spec("lightning") is None, reason="pip install timing_logger[lightning]"),
    pytest.mark.filterwarnings("ignore"),  # the framework advises on workers and checkpoints
]

STEP = ["DATA", "FORWARD", "BACKWARD", "OPTIMIZER", "TRAIN_STEP"]


@pytest.fixture(scope="module")
def tiny() -> Any:
    """The module of the tiny model: only a test that runs imports the framework."""
    import tiny_lightning

    return tiny_lightning


def operations(records: list[Record]) -> list[str]:
    return [record.operation for record in records]


def covers(record: Record, moment_ns: int) -> bool:
    assert record.end_ns is not None
    return record.start_ns <= moment_ns <= record.end_ns


def test_a_batch_leaves_a_row_for_each_of_its_parts(tiny: Any) -> None:
    seen = tiny.fit(tiny.TinyModel(), max_epochs=2)
    assert [(r.iteration, r.epoch, r.operation, r.phase, r.status) for r in seen] == [
        (iteration, epoch, operation, "train", "ok")
        for iteration, epoch in ((0, 0), (1, 0), (2, 1), (3, 1))
        for operation in STEP
    ]


def test_each_row_covers_what_it_is_named_after_and_nothing_else(tiny: Any) -> None:
    model = tiny.TinyModel()
    seen = tiny.fit(model, n_batches=1)
    happened = {name: moments[0] for name, moments in model.moments.items()}
    covered = {r.operation: sorted(name for name in happened if covers(r, happened[name])) for r in seen}
    assert covered == {
        "DATA": ["fetch"],
        "FORWARD": ["forward"],
        "BACKWARD": ["backward"],
        "OPTIMIZER": ["update"],
        "TRAIN_STEP": ["backward", "forward", "update"],
    }


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_batches_that_accumulate_share_an_iteration_and_its_optimizer_row(tiny: Any, precision: str) -> None:
    seen = tiny.fit(
        tiny.TinyModel(), n_batches=4, accumulate_grad_batches=2, precision=precision, gradient_clip_val=1.0
    )
    first = ["DATA", "FORWARD", "BACKWARD", "TRAIN_STEP"]
    assert [(r.iteration, r.operation) for r in seen] == [
        (iteration, operation) for iteration in (0, 1) for operation in (*first, *STEP)
    ]


def test_each_step_by_hand_has_its_row_and_a_forward_pass_between_them_is_in_none(tiny: Any) -> None:
    model = tiny.TwoOptimizers()
    seen = tiny.fit(model)
    step = ["DATA", "FORWARD", "BACKWARD", "OPTIMIZER", "BACKWARD", "OPTIMIZER", "TRAIN_STEP"]
    assert [(r.iteration, r.operation) for r in seen] == [(i, name) for i in (0, 2) for name in step]
    second_forward = model.moments["forward"][1]
    assert [r.operation for r in seen if covers(r, second_forward)] == ["TRAIN_STEP"]


def test_a_step_that_the_gradient_scaler_skips_ends_with_the_batch(tiny: Any) -> None:
    class Overflows(tiny.TinyModel):
        def training_step(self, batch: torch.Tensor, batch_idx: int) -> torch.Tensor:
            return self.loss(batch) * float("inf")

    model = Overflows()
    precision = tiny.MixedPrecision("16-mixed", "cpu", scaler=torch.amp.GradScaler("cpu"))  # type: ignore[attr-defined]
    assert operations(tiny.fit(model, plugins=[precision])) == STEP * 2
    assert "update" not in model.moments


def test_a_training_step_without_a_loss_has_no_backward_row(tiny: Any) -> None:
    class Skips(tiny.TinyModel):
        def training_step(self, batch: torch.Tensor, batch_idx: int) -> torch.Tensor | None:
            return None if batch_idx == 0 else self.loss(batch)

    seen = tiny.fit(Skips())
    assert [r.operation for r in seen if r.iteration == 0 and r.operation == "BACKWARD"] == []
    assert operations([r for r in seen if r.iteration == 1]) == STEP


def test_a_backward_pass_that_lightning_is_not_told_of_is_not_taken_for_a_forward_pass(tiny: Any) -> None:
    class Bypasses(tiny.TwoOptimizers):
        def training_step(self, batch: torch.Tensor, batch_idx: int) -> None:
            optimizer = self.optimizers()[0]
            self.loss(batch).backward()
            optimizer.step()

    assert operations(tiny.fit(Bypasses(), n_batches=1)) == ["DATA", "OPTIMIZER", "TRAIN_STEP"]


# -- validation --------------------------------------------------------------------------------------


def test_validation_has_rows_of_its_own_with_the_number_of_steps_done(tiny: Any) -> None:
    seen = tiny.fit(tiny.TinyModel(), n_batches=4, n_validation=2, val_check_interval=2)
    validation = [(r.iteration, r.operation) for r in seen if r.phase == "val"]
    assert validation == [(2, "VALIDATION_STEP")] * 2 + [(4, "VALIDATION_STEP")] * 2
    assert operations([r for r in seen if r.phase == "train"]) == STEP * 4


def test_the_wait_for_data_does_not_span_a_validation(tiny: Any) -> None:
    model = tiny.TinyModel()
    seen = tiny.fit(model, n_batches=4, n_validation=2, val_check_interval=2)
    validated = model.moments["validate"][-4:]  # before them is the sanity check
    assert [r.operation for r in seen for moment in validated if covers(r, moment)] == ["VALIDATION_STEP"] * 4


def test_the_sanity_check_leaves_no_row(tiny: Any) -> None:
    model = tiny.TinyModel()
    seen = tiny.fit(model, n_validation=2, limit_val_batches=2, check_val_every_n_epoch=2)
    assert len(model.moments["validate"]) == 2
    assert operations(seen) == STEP * 2


# -- what goes wrong -----------------------------------------------------------------------------------


@pytest.fixture
def interrupts_as_before() -> Iterator[None]:
    """Lightning ignores further interrupts for good once it got one."""
    handler = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, handler)


@pytest.mark.usefixtures("interrupts_as_before")
@pytest.mark.parametrize(("raised", "passed_on"), [(ValueError, ValueError), (KeyboardInterrupt, SystemExit)])
def test_an_exception_passes_and_what_was_going_on_says_so(
    tiny: Any, raised: type[BaseException], passed_on: type[BaseException], tmp_path: Path
) -> None:
    class Fails(tiny.TinyModel):
        def training_step(self, batch: torch.Tensor, batch_idx: int) -> torch.Tensor:
            if batch_idx == 1:
                raise raised
            return self.loss(batch)

    model = Fails()
    with pytest.raises(passed_on):
        tiny.trainer(tiny.TimingLoggerCallback(tmp_path)).fit(
            model, DataLoader(tiny.Batches(3, model.moments))
        )
    assert not get_timing_logger().recording
    status = f"error:{raised.__name__}"
    assert [(row[4], row[16]) for row in rows(tmp_path / "timing-rank0.csv")[len(STEP) :]] == [
        ("DATA", "ok"), ("TRAIN_STEP", status), ("FORWARD", status),
    ]  # fmt: skip


def test_a_data_loader_that_fails_leaves_no_row_of_the_wait(tiny: Any) -> None:
    class Fails(tiny.Batches):
        def __getitem__(self, index: int) -> torch.Tensor:
            if index == 1:
                raise OSError("gone")
            return torch.ones(2)

    sink = MemorySink()
    with TimingLogger(0, None, sinks=[sink]) as logger, pytest.raises(OSError, match="gone"):
        tiny.trainer(tiny.TimingLoggerCallback(timing_logger=logger)).fit(
            tiny.TinyModel(), DataLoader(Fails(2, tiny.Moments()))
        )
    assert operations(sink.records) == STEP


def test_a_batch_that_ends_the_epoch_before_it_began_leaves_no_row(tiny: Any) -> None:
    class EndsEarly(tiny.TinyModel):
        def on_train_batch_start(self, batch: Any, batch_idx: int) -> int | None:
            return -1 if batch_idx == 1 else None

        def on_train_end(self) -> None:
            raise ValueError("with something open, this would end it")

    model = EndsEarly()
    with pytest.raises(ValueError, match="with something open"):
        tiny.fit(model, n_batches=3)
    records: Any = model.records
    assert operations(records) == [*STEP, "DATA"]


def test_validating_testing_and_predicting_alone_leave_no_file(tiny: Any, tmp_path: Path) -> None:
    model = tiny.TinyModel()
    runner = tiny.trainer(tiny.TimingLoggerCallback(tmp_path))
    for run in (runner.validate, runner.test, runner.predict):
        run(
            model,
            DataLoader(tiny.Batches(1, tiny.Moments())),
            **({} if run == runner.predict else {"verbose": False}),
        )
    assert list(tmp_path.iterdir()) == []


# -- the run ---------------------------------------------------------------------------------------------


def test_fitting_twice_with_one_callback_writes_two_whole_files(tiny: Any, tmp_path: Path) -> None:
    callback = tiny.TimingLoggerCallback(tmp_path)
    model = tiny.TinyModel()
    for _ in range(2):
        tiny.trainer(callback).fit(model, DataLoader(tiny.Batches(2, model.moments)))
    for name in ("timing-rank0.csv", "timing-rank0.run2.csv"):
        assert [row[4] for row in rows(tmp_path / name)] == STEP * 2


def test_other_instrumentation_of_the_process_writes_into_the_same_file(tiny: Any, tmp_path: Path) -> None:
    class Instrumented(tiny.TinyModel):
        def training_step(self, batch: torch.Tensor, batch_idx: int) -> torch.Tensor:
            get_timing_logger().record_timing("MINE", 1.0)
            return self.loss(batch)

    model = Instrumented()
    tiny.trainer(tiny.TimingLoggerCallback(tmp_path)).fit(model, DataLoader(tiny.Batches(2, model.moments)))
    mine = [row for row in rows(tmp_path / "timing-rank0.csv") if row[4] == "MINE"]
    assert [row[1] for row in mine] == ["0", "1"]
    assert not get_timing_logger().recording


def test_iterations_left_out_leave_no_row_of_any_part(tiny: Any, tmp_path: Path) -> None:
    model = tiny.TinyModel()
    callback = tiny.TimingLoggerCallback(tmp_path, record_every_n_steps=2)
    tiny.trainer(callback).fit(model, DataLoader(tiny.Batches(4, model.moments)))
    assert [(row[1], row[4]) for row in rows(tmp_path / "timing-rank0.csv")] == [
        (iteration, operation) for iteration in ("0", "2") for operation in STEP
    ]


def test_a_resumed_training_goes_on_counting_and_the_checkpoint_holds_nothing_of_ours(
    tiny: Any, tmp_path: Path
) -> None:
    model = tiny.TinyModel()
    saver = tiny.ModelCheckpoint(tmp_path, every_n_train_steps=1, save_top_k=-1)
    seen = tiny.fit_with(saver, model)
    assert operations([r for r in seen if r.iteration == 1]) == STEP[1:], "the wait spans the saving"
    checkpoint = str(next(tmp_path.glob("*step=2.ckpt")))
    assert not [key for key in torch.load(checkpoint, weights_only=False)["callbacks"] if "Timing" in key]
    resumed = tiny.fit_with(saver, model, max_epochs=2, checkpoint=checkpoint)
    assert [r.iteration for r in resumed if r.operation == "TRAIN_STEP"] == [2, 3]


def test_copies_made_while_training_begin_with_nothing_open(tiny: Any, tmp_path: Path) -> None:
    copies = []

    class Copies(tiny.TinyModel):
        def training_step(self, batch: torch.Tensor, batch_idx: int) -> torch.Tensor:
            copies.extend([copy.deepcopy(callback), pickle.loads(pickle.dumps(callback))])
            return self.loss(batch)

    callback = tiny.TimingLoggerCallback(tmp_path)
    model = Copies()
    tiny.trainer(callback).fit(model, DataLoader(tiny.Batches(1, model.moments)))
    for number, other in enumerate(copies, start=2):
        plain = tiny.TinyModel()
        tiny.trainer(other).fit(plain, DataLoader(tiny.Batches(1, plain.moments)))
        assert [row[4] for row in rows(tmp_path / f"timing-rank0.run{number}.csv")] == STEP


def test_the_users_optimizers_keep_no_hook_of_ours(tiny: Any, tmp_path: Path) -> None:
    model = tiny.TinyModel()
    runner = tiny.trainer(tiny.TimingLoggerCallback(tmp_path))
    runner.fit(model, DataLoader(tiny.Batches(1, model.moments)))
    (optimizer,) = runner.optimizers
    assert not optimizer._optimizer_step_post_hooks  # type: ignore[attr-defined]


def test_parts_are_timed_by_the_device_and_the_wait_for_data_by_the_host(
    tiny: Any,
    scripted_device: ScriptedAccelerator,
) -> None:
    clocks = {r.operation: r.clock for r in tiny.fit(tiny.TinyModel(), n_validation=1)}
    assert clocks.pop("DATA") == "host"
    assert clocks == dict.fromkeys([*STEP[1:], "VALIDATION_STEP"], "device")


# -- the profiler ------------------------------------------------------------------------------------------


def test_the_profiler_records_lightnings_actions_beside_the_callbacks_rows(tiny: Any, tmp_path: Path) -> None:
    model = tiny.TinyModel()
    profiler = tiny.TimingLoggerProfiler(["training_step", "train_dataloader_next"])
    runner = tiny.trainer(tiny.TimingLoggerCallback(tmp_path), profiler=profiler)
    runner.fit(model, DataLoader(tiny.Batches(2, model.moments)))
    actions = [(row[1], row[3], row[4]) for row in rows(tmp_path / "timing-rank0.csv") if row[4] not in STEP]
    assert actions == [
        ("", "[_TrainingEpochLoop]", "TRAIN_DATALOADER_NEXT"),
        ("0", "[Strategy]SingleDeviceStrategy", "TRAINING_STEP"),
        ("0", "[_TrainingEpochLoop]", "TRAIN_DATALOADER_NEXT"),
        ("1", "[Strategy]SingleDeviceStrategy", "TRAINING_STEP"),
    ]


def test_the_profiler_refuses_a_single_name(tiny: Any) -> None:
    with pytest.raises(ConfigurationError, match="actions"):
        tiny.TimingLoggerProfiler("training_step")


# -- several processes, and the other package --------------------------------------------------------------


def test_each_rank_of_a_distributed_training_writes_its_own_file(tmp_path: Path) -> None:
    run_with_torchrun(2, "lightning_training.py", str(tmp_path))
    for rank in (0, 1):
        assert [row[4] for row in rows(tmp_path / f"timing-rank{rank}.csv")] == STEP * 2


def test_without_lightning_the_callback_is_for_trainers_of_pytorch_lightning(tmp_path: Path) -> None:
    run = run_python(
        """
        import sys
        sys.modules["lightning"] = None
        import pytorch_lightning, torch
        from timing_logger.integrations.lightning import TimingLoggerCallback, TimingLoggerProfiler

        class Model(pytorch_lightning.LightningModule):
            def __init__(self):
                super().__init__()
                self.layer = torch.nn.Linear(2, 1)
            def training_step(self, batch, batch_idx):
                return self.layer(batch).sum()
            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), lr=0.1)

        pytorch_lightning.Trainer(
            callbacks=TimingLoggerCallback(sys.argv[1]), profiler=TimingLoggerProfiler([]), accelerator="cpu",
            max_epochs=1, logger=False, enable_checkpointing=False, enable_progress_bar=False,
        ).fit(Model(), torch.utils.data.DataLoader(torch.ones(2, 2)))
        """,
        tmp_path,
        environment={"OMP_NUM_THREADS": "1"},
    )
    assert run.returncode == 0, run.stderr
    assert [row[4] for row in rows(tmp_path / "timing-rank0.csv")] == STEP * 2
