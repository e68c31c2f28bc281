"""Code that both torchrun examples share: options, the device, validation, and progress lines."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import sys

import torch
import torch.distributed as dist
from _straggler import Straggler
from _text_model import Batch, loss_of
from torch import nn

VALIDATION_BATCH = 64
"""How many pieces of text a rank validates with."""

_BAR_WIDTH = 24


@torch.no_grad()
def mean_loss(model: nn.Module, batch: Batch) -> float:
    """Return the mean loss over the batches of all ranks, which are equally large. Collective."""
    loss = loss_of(model, batch)
    dist.all_reduce(loss)
    return loss.item() / dist.get_world_size()


def backend_and_device() -> tuple[str, torch.device]:
    """Return NCCL and a GPU for each rank of this machine, or gloo and the CPU.

    The CPU is used if there are fewer GPUs than ranks, as NCCL refuses to share one.
    """
    local_rank, local_ranks = int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"])
    if not dist.is_nccl_available() or torch.cuda.device_count() < local_ranks:
        return "gloo", torch.device("cpu")
    torch.cuda.set_device(local_rank)
    return "nccl", torch.device("cuda", local_rank)


def show_progress(done: int, epochs: int, seconds: float, loss: float, validation_loss: float) -> None:
    """Print a line for an epoch; it is not redrawn, as torchrun is between a rank and the terminal."""
    bar = ("#" * round(_BAR_WIDTH * done / epochs)).ljust(_BAR_WIDTH, ".")
    losses = f"loss {loss:.3f}  validation {validation_loss:.3f}"
    print(f"epoch {done:{len(str(epochs))}}/{epochs} [{bar}] {seconds:5.1f} s  {losses}", flush=True)


def add_training_options(parser: argparse.ArgumentParser, log_dir: str) -> None:
    """Add the options of both examples to ``parser``; ``log_dir`` is the default folder of timing files."""
    parser.add_argument("--epochs", type=positive, default=4)
    parser.add_argument("--steps", type=positive, default=20, help="optimizer steps per epoch")
    parser.add_argument("--batch-size", type=positive, default=8, help="pieces of text per rank and batch")
    parser.add_argument("--log-dir", default=log_dir, help="folder of the timing files")
    parser.add_argument(
        "--straggler",
        type=Straggler.parse,
        default=Straggler(rank=-1, delay_ms=0),  # no rank
        metavar="RANK:MS[:FIRST-LAST]",
        help="delay the data loading of one rank by so many ms, in all iterations or in these",
    )


def checked(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """Return the command line's options, with ``rank`` and ``world_size``; exit if they are not valid."""
    options = parser.parse_args()
    if "RANK" not in os.environ:
        parser.error(f"start it with torchrun --nproc-per-node 4 {shlex.quote(sys.argv[0])}")
    options.rank, options.world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if options.straggler.rank >= options.world_size:
        parser.error(
            f"argument --straggler: there is no rank {options.straggler.rank} "
            f"among {options.world_size} ranks"
        )
    return options


def positive(text: str) -> int:
    """Parse a whole number above 0; a type for argparse."""
    if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)
