"""Two ranks under torchrun: a training by the Hugging Face Trainer over gloo, timed into the folder given."""

from __future__ import annotations

import json
import sys

import torch
import torch.distributed
import transformers

from timing_logger.integrations.huggingface import TimingLoggerCallback


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"loss": (self.layer(x).squeeze() - labels).square().mean()}


folder = sys.argv[1]
arguments = transformers.TrainingArguments(
    output_dir=f"{folder}/output", report_to="none", use_cpu=True, disable_tqdm=True, num_train_epochs=1,
    per_device_train_batch_size=1, logging_strategy="no", save_strategy="no",
)  # fmt: skip
transformers.Trainer(
    Model(),
    arguments,
    train_dataset=[{"x": torch.ones(2), "labels": torch.tensor(1.0)}] * 4,
    callbacks=[TimingLoggerCallback(folder)],
).train()
if arguments.process_index == 0:
    print("RESULTS " + json.dumps([None] * arguments.world_size))

if torch.distributed.is_initialized():  # a gloo group's C++ threads do not survive the interpreter's end
    torch.distributed.destroy_process_group()
