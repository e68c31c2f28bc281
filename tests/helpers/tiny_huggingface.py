"""A tiny model and its trainings by the Hugging Face Trainer, whose import takes seconds.

Tests import this as they run.
"""

from __future__ import annotations

from pathlib import Path
from time import perf_counter_ns
from typing import Any

import torch
import transformers
from torch.utils.data import Dataset
from transformers import TrainerCallback

from timing_logger import TimingLogger
from timing_logger.integrations.huggingface import TimingLoggerCallback
from timing_logger.schema.record import Record
from timing_logger.sinks.memory import MemorySink

__all__ = [
    "Batches",
    "TimingLoggerCallback",
    "TinyModel",
    "TrainerCallback",
    "train",
    "trainer",
    "transformers",
]

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
