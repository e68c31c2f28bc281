"""Two ranks under torchrun: a Lightning training by DDP over gloo, timed into the folder given."""

from __future__ import annotations

import json
import sys

import lightning
import torch
import torch.distributed

from timing_logger.integrations.lightning import TimingLoggerCallback


class Model(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)

    def training_step(self, batch: torch.Tensor, batch_idx: int) -> torch.Tensor:
        return self.layer(batch).sum()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


trainer = lightning.Trainer(
    callbacks=[TimingLoggerCallback(sys.argv[1])], accelerator="cpu", strategy="ddp", devices=2, max_epochs=1,
    logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
)  # fmt: skip
trainer.fit(Model(), torch.utils.data.DataLoader(torch.ones(4, 2)))
if trainer.global_rank == 0:
    print("RESULTS " + json.dumps([None] * trainer.world_size))

# Lightning leaves a gloo group standing, and its C++ threads do not survive the interpreter's end.
torch.distributed.destroy_process_group()
