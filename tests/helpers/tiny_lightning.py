"""A tiny model and its trainings by Lightning, whose import takes seconds: tests import this as they run."""

from __future__ import annotations

from time import perf_counter_ns
from typing import Any

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.plugins import MixedPrecision
from torch.utils.data import DataLoader, Dataset

from timing_logger import TimingLogger
from timing_logger.integrations.lightning import TimingLoggerCallback, TimingLoggerProfiler
from timing_logger.schema.record import Record
from timing_logger.sinks.memory import MemorySink

__all__ = [
    "Batches",
    "DataLoader",
    "MixedPrecision",
    "ModelCheckpoint",
    "Moments",
    "TimingLoggerCallback",
    "TimingLoggerProfiler",
    "TinyModel",
    "TwoOptimizers",
    "fit",
    "fit_with",
    "trainer",
]


class Moments(dict[str, list[int]]):
    """When something happened, by name, on the axis of the rows."""

    def note(self, name: str) -> None:
        self.setdefault(name, []).append(perf_counter_ns())


class Batches(Dataset[torch.Tensor]):
    def __init__(self, n_batches: int, moments: Moments) -> None:
        self.n_batches, self.moments = n_batches, moments

    def __len__(self) -> int:
        return self.n_batches

    def __getitem__(self, index: int) -> torch.Tensor:
        self.moments.note("fetch")
        return torch.ones(2)


class NotedSgd(torch.optim.SGD):
    """Notes its update, after the closure that Lightning runs in ``step``."""

    moments: Moments

    def step(self, closure: Any = None) -> Any:
        loss = closure() if closure is not None else None
        self.moments.note("update")
        super().step()
        return loss


class TinyModel(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)
        self.moments = Moments()

    def loss(self, batch: torch.Tensor) -> torch.Tensor:
        self.moments.note("forward")
        loss = self.layer(batch).sum()
        if loss.requires_grad:
            loss.register_hook(lambda gradient: self.moments.note("backward"))
        return loss

    def training_step(self, batch: torch.Tensor, batch_idx: int) -> torch.Tensor | None:
        return self.loss(batch)

    def validation_step(self, batch: torch.Tensor, batch_idx: int) -> None:
        self.moments.note("validate")

    test_step = predict_step = validation_step

    def configure_optimizers(self) -> Any:
        optimizer = NotedSgd(self.parameters(), lr=0.1)
        optimizer.moments = self.moments
        return optimizer


def trainer(*callbacks: Any, **options: Any) -> lightning.Trainer:
    plain = {
        "accelerator": "cpu", "devices": 1, "max_epochs": 1, "logger": False, "enable_checkpointing": False,
        "enable_progress_bar": False, "enable_model_summary": False,
    }  # fmt: skip
    return lightning.Trainer(callbacks=list(callbacks), **{**plain, **options})


def fit(model: TinyModel, n_batches: int = 2, n_validation: int = 0, **options: Any) -> list[Record]:
    """What the callback records of a training; also of one that raises, in ``model.records``."""
    sink = MemorySink()
    with TimingLogger(0, None, sinks=[sink]) as logger:
        callback = TimingLoggerCallback(timing_logger=logger)
        model.records = sink.records  # type: ignore[assignment]
        loaders = [DataLoader(Batches(n_batches, model.moments))]
        if n_validation:
            loaders.append(DataLoader(Batches(n_validation, Moments())))
        trainer(callback, **options).fit(model, *loaders)
    return sink.records


def fit_with(
    saver: ModelCheckpoint, model: TinyModel, checkpoint: str | None = None, max_epochs: int = 1
) -> list[Record]:
    sink = MemorySink()
    with TimingLogger(0, None, sinks=[sink]) as logger:
        callback = TimingLoggerCallback(timing_logger=logger)
        runner = trainer(callback, saver, enable_checkpointing=True, max_epochs=max_epochs)
        runner.fit(model, DataLoader(Batches(2, model.moments)), ckpt_path=checkpoint)
    return sink.records


class TwoOptimizers(TinyModel):
    """Steps by hand, with a second forward pass between the two steps."""

    automatic_optimization = False

    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch: torch.Tensor, batch_idx: int) -> None:
        for optimizer in self.optimizers():  # type: ignore[union-attr]
            loss = self.loss(batch)
            optimizer.zero_grad()
            self.manual_backward(loss)
            optimizer.step()

    def configure_optimizers(self) -> Any:
        return [super().configure_optimizers(), super().configure_optimizers()]  # type: ignore[func-returns-value]
