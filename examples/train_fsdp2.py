"""Trains a small transformer with FSDP2 (fully_shard), and records its communication. On four ranks:

torchrun --nproc-per-node 4 examples/train_fsdp2.py --straggler 2:30

Over NCCL where there is a GPU for each rank, else over gloo on the CPU. Each rank writes
timing-rank<i>.csv; `timing-logger summary` says where the time went. What concerns timing is marked
in the text; the rest is what any training script has.
"""

from __future__ import annotations

import argparse
import time

import torch
import torch.distributed as dist
from _text_model import TextTransformer, loss_of, random_batches, train_and_held_out_text
from _torch_training import (
    VALIDATION_BATCH,
    add_training_options,
    backend_and_device,
    checked,
    mean_loss,
    show_progress,
)
from torch import nn
from torch.distributed.fsdp import fully_shard

from allreduce_instrumentation import init_process_group
from timing_logger import TimingLogger, init_timing_logger, shutdown_timing_logger


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a small transformer on text with FSDP2.")
    add_training_options(parser, "logs/train_fsdp2")
    options = checked(parser)
    torch.set_num_threads(1)  # the ranks share the cores: more threads would compete for them
    torch.manual_seed(0)  # each rank keeps a shard of the model that it makes here: all must make the same
    backend, device = backend_and_device()

    logger = init_timing_logger(options.rank, options.log_dir, world_size=options.world_size)  # timing
    init_process_group(backend, timing_logger=logger)  # timing: as torch's own, with a logger
    model = sharded(TextTransformer().to(device), device)
    train(model, device, logger, options)
    dist.destroy_process_group()
    shutdown_timing_logger()  # timing: writes what is left
    if options.rank == 0:
        print(f"where did the time go?  timing-logger summary {options.log_dir}")


def sharded(model: TextTransformer, device: torch.device) -> TextTransformer:
    """Shard ``model`` so that each block's parameters are gathered when needed and freed afterwards."""
    mesh = dist.init_device_mesh(device.type, (dist.get_world_size(),))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def train(model: nn.Module, device: torch.device, logger: TimingLogger, options: argparse.Namespace) -> None:
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
                batch = next(batches)
            optimizer.zero_grad()
            with logger.operation("FORWARD", device):  # timing: the gathering in it has rows, too
                loss = loss_of(model, batch)
            with logger.operation("BACKWARD", device):  # timing
                loss.backward()
            with logger.operation("OPTIMIZER", device):  # timing
                optimizer.step()
        with logger.label("validation"):  # timing
            validation_loss = mean_loss(model, validation_batch)
        if options.rank == 0:
            seconds = time.perf_counter() - began
            show_progress(epoch + 1, options.epochs, seconds, loss.item(), validation_loss)


if __name__ == "__main__":
    main()
