"""Compares what each all-reduce costs in the same training. On four ranks:

mpiexec -n 4 python -m mpi4py examples/compare_compression.py --density 0.05

Each training writes its timing files into a folder of its own. The table is made from those files, which
could be done in a notebook as well.
"""

from __future__ import annotations

import argparse
import copy
from pathlib import Path

import pandas as pd
from mpi4py import MPI
from train_digits_mpi import ALL_REDUCES, add_training_options, checked, run

from timing_logger import read_timings
from timing_logger.analysis import bus_bytes, summarize, summarize_ranks

SET_UP = ["settings", "initial parameters", "initial optimizer state"]
"""Layer names of the rows from before training, which occur only once."""


def main() -> None:
    comm = MPI.COMM_WORLD
    parser = argparse.ArgumentParser(description="Compare dense and sparse all-reduces in one training.")
    add_training_options(parser)
    options = checked(parser, comm.size)
    log_dirs, accuracies = {}, {}
    for name in ALL_REDUCES:
        training = copy.copy(options)
        training.allreduce, training.log_dir = name, str(Path(options.log_dir) / name)
        if comm.rank == 0:
            print(f"== {name}", flush=True)
        _, accuracies[name] = run(comm, training)
        log_dirs[name] = training.log_dir
    comm.Barrier()  # all files are written
    if comm.rank == 0:
        print(f"\n{comm.size} ranks, {options.epochs} epochs, density {options.density:g} where not dense")
        print("per rank, the mean over the ranks:\n")
        print(table({name: costs(read_timings(log_dirs[name]), accuracies[name]) for name in ALL_REDUCES}))


def costs(timings: pd.DataFrame, accuracy: float) -> dict[str, str]:
    """Return the lines of one training's column: its costs per rank, in the mean over the ranks."""
    timings = timings[~timings["layer_name"].isin(SET_UP)]
    per_rank = summarize_ranks(timings)
    operations_ms = summarize(timings).groupby("operation")["total_ms"].sum() / len(per_rank)
    return {
        "test accuracy, %": f"{100 * accuracy:.1f}",
        "wall time, s": f"{per_rank['wall_s'].mean():.2f}",
        "bytes moved, MB": f"{bytes_moved(timings) / len(per_rank) / 1e6:.2f}",
        **{f"{operation}, ms": f"{ms:.0f}" for operation, ms in sorted(operations_ms.items())},
    }


def bytes_moved(timings: pd.DataFrame) -> float:
    """Return the bytes that all ranks together moved over the wire."""
    known = timings.dropna(subset=["message_size_bytes", "group_size"])
    columns = (known[name] for name in ("operation", "message_size_bytes", "group_size"))
    return float(pd.Series(map(bus_bytes, *columns), dtype=float).sum())


def table(columns: dict[str, dict[str, str]]) -> str:
    """Return a table with one column per training; operations come last, in alphabetical order."""
    lines = dict.fromkeys(line for column in columns.values() for line in list(column)[:3])
    operations = sorted({line for column in columns.values() for line in column} - lines.keys())
    return pd.DataFrame(columns, index=[*lines, *operations]).to_string(na_rep="-")


if __name__ == "__main__":
    main()
