"""Trains a small CNN on MPI ranks, data-parallel, and records its communication. On four ranks:

mpiexec -n 4 python -m mpi4py examples/train_digits_mpi.py --straggler 2:30
mpiexec -n 4 python -m mpi4py examples/train_digits_mpi.py --allreduce topk --density 0.05

Each rank writes timing-rank<i>.csv; `timing-logger summary` says where the time went. What
concerns timing is marked in the text; the rest is what any training script has.
"""

from __future__ import annotations

import argparse
import re
import time

import torch
from _digits import (
    batches_per_rank,
    digits_model,
    loss_and_accuracy,
    rank_batches,
    train_and_test_digits,
)
from _straggler import Straggler
from mpi4py import MPI
from torch import Tensor, nn

from allreduce_instrumentation import DistributedOptimizer, NoCompression, TopK
from timing_logger import TimingLogger, init_timing_logger, shutdown_timing_logger

BUCKET_BYTES = 64 * 1024  # so that even this small model travels in several parts, as a large one does
BAR_WIDTH = 24
ALL_REDUCES = ("dense", "topk", "gtopk", "oktopk")


def main() -> None:
    comm = MPI.COMM_WORLD
    options = parse_options(comm.size)
    loss, accuracy = run(comm, options)
    if comm.rank == 0:
        print(f"test accuracy {accuracy:.1%}, loss {loss:.3f}; {comm.size} timing files in {options.log_dir}")


def run(comm: MPI.Intracomm, options: argparse.Namespace) -> tuple[float, float]:
    """Train from scratch and write timing files; return loss and accuracy on the test images. Collective."""
    torch.set_num_threads(1)  # the ranks share the cores: more threads would compete for them
    torch.manual_seed(0)

    logger = init_timing_logger(comm.rank, options.log_dir, world_size=comm.size)  # timing
    model = digits_model()
    optimizer = DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
        named_parameters=model.named_parameters(),
        comm=comm,
        timing_logger=logger,  # timing
        compression=NoCompression() if options.allreduce == "dense" else TopK(options.density),
        allreduce=options.allreduce,
        bucket_bytes=BUCKET_BYTES,
    )
    train_set, test_set = train_and_test_digits()
    train(model, optimizer, train_set, comm, logger, options)
    optimizer.stop()
    shutdown_timing_logger()  # timing: writes what is left
    return loss_and_accuracy(model, *test_set)


def train(
    model: nn.Module,
    optimizer: DistributedOptimizer,
    train_set: tuple[Tensor, Tensor],
    comm: MPI.Intracomm,
    logger: TimingLogger,
    options: argparse.Namespace,
) -> None:
    images, labels = train_set
    iteration = 0
    began = time.perf_counter()
    for epoch in range(options.epochs):
        optimizer.set_current_epoch(epoch)  # timing
        for batch in rank_batches(options.batch_size, comm.rank, comm.size, epoch):
            optimizer.set_current_iteration(iteration)  # timing
            with logger.operation("DATA"):  # timing
                options.straggler.hold_up(comm.rank, iteration)
                inputs, targets = images[batch], labels[batch]
            optimizer.zero_grad()
            with logger.operation("FORWARD"):  # timing
                loss = nn.functional.cross_entropy(model(inputs), targets)
            with logger.operation("BACKWARD"):  # timing
                loss.backward()
            optimizer.step()
            iteration += 1
        if comm.rank == 0:
            show_progress(epoch + 1, options.epochs, loss.item(), time.perf_counter() - began)


def show_progress(done: int, epochs: int, loss: float, seconds: float) -> None:
    """Print a line for an epoch; it is not redrawn, as mpiexec is between a rank and the terminal."""
    bar = ("#" * round(BAR_WIDTH * done / epochs)).ljust(BAR_WIDTH, ".")
    print(f"epoch {done:{len(str(epochs))}}/{epochs} [{bar}] {seconds:5.1f} s  loss {loss:.3f}", flush=True)


def parse_options(size: int) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train a small CNN on handwritten digits over MPI ranks.")
    parser.add_argument(
        "--allreduce", choices=ALL_REDUCES, default="dense", help="how gradients are averaged"
    )
    add_training_options(parser)
    return checked(parser, size)


def add_training_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a training, but for the choice of the all-reduce, to ``parser``."""
    parser.add_argument(
        "--density", type=density, default=0.05, help="the part of a gradient that travels, if not dense"
    )
    parser.add_argument("--epochs", type=positive, default=15)
    parser.add_argument("--batch-size", type=positive, default=32, help="images per rank and iteration")
    parser.add_argument("--log-dir", default="logs/timing", help="folder of the timing files")
    parser.add_argument(
        "--straggler",
        type=Straggler.parse,
        default=Straggler(rank=-1, delay_ms=0),  # no rank
        metavar="RANK:MS[:FIRST-LAST]",
        help="delay the data loading of one rank by so many ms, in all iterations or in these",
    )


def checked(parser: argparse.ArgumentParser, size: int) -> argparse.Namespace:
    """Return the options on the command line; exit if they are not valid for ``size`` ranks."""
    options = parser.parse_args()
    if batches_per_rank(options.batch_size, size) == 0:
        parser.error(f"argument --batch-size: no rank of {size} has {options.batch_size} images")
    if options.straggler.rank >= size:
        parser.error(f"argument --straggler: there is no rank {options.straggler.rank} among {size} ranks")
    return options


def density(text: str) -> float:
    """Parse a number above 0 and up to 1; a type for argparse."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0 and up to 1")
    return value


def positive(text: str) -> int:
    """Parse a whole number above 0; a type for argparse."""
    if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


if __name__ == "__main__":
    main()
