"""Trains a small transformer with DistributedDataParallel, and records its communication. On four ranks:

torchrun --nproc-per-node 4 examples/train_ddp.py --straggler 2:30
torchrun --nproc-per-node 4 examples/train_ddp.py --accumulate 4

Over NCCL where there is a GPU for each rank, else over gloo on the CPU. Each rank writes
timing-rank<i>.csv; `timing-logger summary` says where the time went. What concerns timing is marked
in the text; the rest is what any training script has.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from contextlib import nullcontext
from itertools import islice

import torch
import torch.distributed as dist
from _text_model import Batch, TextTransformer, loss_of, random_batches, train_and_held_out_text
from _torch_training import (
    VALIDATION_BATCH,
    add_training_options,
    backend_and_device,
    checked,
    mean_loss,
    positive,
    show_progress,
)
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from allreduce_instrumentation import init_process_group
from timing_logger import TimingLogger, init_timing_logger, shutdown_timing_logger

BUCKET_MB = 0.2  # so that even this small model's gradients travel in several parts, as a large one's do


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a small transformer on text with DDP.")
    parser.add_argument("--accumulate", type=positive, default=1, help="batches per optimizer step")
    add_training_options(parser, "logs/train_ddp")
    options = checked(parser)
    torch.set_num_threads(1)  # the ranks share the cores: more threads would compete for them
    torch.manual_seed(0)
    backend, device = backend_and_device()

    logger = init_timing_logger(options.rank, options.log_dir, world_size=options.world_size)  # timing
    init_process_group(backend, timing_logger=logger)  # timing: as torch's own, with a logger
    model = DistributedDataParallel(TextTransformer().to(device), bucket_cap_mb=BUCKET_MB)
    train(model, device, logger, options)
    dist.destroy_process_group()
    shutdown_timing_logger()  # timing: writes what is left
    if options.rank == 0:
        print(f"where did the time go?  timing-logger summary {options.log_dir}")


def train(
    model: DistributedDataParallel, device: torch.device, logger: TimingLogger, options: argparse.Namespace
) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, fused=True)
    text, held_out = train_and_held_out_text()
    batches = random_batches(text, options.batch_size, options.rank, device)
    validation_batch = next(random_batches(held_out, VALIDATION_BATCH, options.rank, device))
    began = time.perf_counter()
    for epoch in range(options.epochs):
        logger.set_current_epoch(epoch)  # timing
        for iteration in range(epoch * options.steps, (epoch + 1) * options.steps):
            logger.set_current_iteration(iteration)  # timing
            with logger.operation("DATA"):  # timing
                options.straggler.hold_up(options.rank, iteration)
                chosen = list(islice(batches, options.accumulate))
            optimizer.zero_grad()
            loss = add_gradients(model, chosen, device, logger)
            with logger.operation("OPTIMIZER", device):  # timing
                optimizer.step()
        with logger.label("validation"):  # timing
            validation_loss = mean_loss(model, validation_batch)
        if options.rank == 0:
            seconds = time.perf_counter() - began
            show_progress(epoch + 1, options.epochs, seconds, loss.item(), validation_loss)


def add_gradients(
    model: DistributedDataParallel,
    batches: Sequence[Batch],
    device: torch.device,
    logger: TimingLogger,
) -> Tensor:
    """Run all batches forward and backward; the last one's backward pass averages over the ranks."""
    for number, batch in enumerate(batches, 1):
        with nullcontext() if number == len(batches) else model.no_sync():
            with logger.operation("FORWARD", device):  # timing
                loss = loss_of(model, batch)
            with logger.operation("BACKWARD", device):  # timing: DDP's all-reduces run meanwhile
                (loss / len(batches)).backward()
    return loss.detach()


if __name__ == "__main__":
    main()
