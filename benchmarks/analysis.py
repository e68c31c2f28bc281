"""What reading and analysing costs: seconds and peak memory, by number of rows.

Timing files of 8 ranks are made in a temporary folder, and converted to Parquet. Each line of the table is
measured in a process of its own, from its start to its end, imports included: the wall time, the processor
time of it and its workers, and the most memory that they held together.

With ``--ranks 512 4096``, runs of so many ranks are measured instead, with 1000 rows each.

Run: python benchmarks/analysis.py [--millions 1 4 ...] [--engines pyarrow] [--folder LOGDIR] [--not-by-hand]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from _tree_memory import PeakOfTree
from many_ranks import write_many_ranks

from timing_logger.record import HEADER, Record, format_records
from timing_logger.run_info import TimingFile

RANKS = 8
STEP = ["FORWARD", "BACKWARD", *["ALLREDUCE"] * 8, *["WAIT"] * 4, "OPTIMIZER", "H2D"]
UNIX_NS = 1_770_388_245 * 10**9

BY_HAND = """
import glob, pandas
paths = sorted(glob.glob(sys.argv[1] + "/*.SUFFIX"))
tables = [pandas.read_SUFFIX(path).assign(rank=rank) for rank, path in enumerate(paths)]
rows = pandas.concat(tables)[["operation", "rank", "elapsed_ms", "message_size_bytes"]]
by = rows.groupby(["operation", "rank"])
print(by["elapsed_ms"].describe(percentiles=[0.5, 0.95, 0.99]), by["message_size_bytes"].sum())
"""

COMMAND = """
from timing_logger.cli import main
main([*sys.argv[2:], sys.argv[1]])
"""


COMMANDS = (
    "summary", "waits", "bandwidth", "overlap", "stragglers", "hang", "compression", "report", "trace",
)  # fmt: skip
OF_MANY_RANKS = ("summary", "stragglers", "waits", "hang")
ROWS_OF_MANY = 1000


class Case(NamedTuple):
    """One line of the table: a program, and its arguments after the folder."""

    name: str
    program: str
    arguments: tuple[str, ...] = ()


class Cost(NamedTuple):
    """What a process cost from start to end: wall time, processor time, and peak memory."""

    wall_s: float
    processor_s: float
    peak_bytes: int


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--millions", type=float, nargs="+", default=[0.5, 2.0], help="rows, of all ranks together"
    )
    parser.add_argument("--ranks", type=int, nargs="+", help="runs of so many ranks, instead of 8")
    parser.add_argument("--engines", nargs="+", default=["pandas", "pyarrow"])
    parser.add_argument("--folder", help="timing files that are there, instead of new ones")
    parser.add_argument(
        "--not-by-hand", action="store_true", help="leave out pandas by hand, which holds all rows in memory"
    )
    arguments = parser.parse_args()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} before: wall time and peak memory")
    if arguments.folder:
        measure_all(Path(arguments.folder), arguments.engines, not arguments.not_by_hand)
        return
    for n_ranks in arguments.ranks or ():
        measure_many(n_ranks)
    for millions in () if arguments.ranks else arguments.millions:
        with tempfile.TemporaryDirectory() as folder:
            write_run(Path(folder), round(millions * 1e6))
            measure_all(Path(folder), arguments.engines, not arguments.not_by_hand)


def measure_all(folder: Path, engines: Sequence[str], by_hand_too: bool) -> None:
    """Measure all cases on the CSV files of ``folder``, and on the same rows as Parquet."""
    with tempfile.TemporaryDirectory() as place:
        parquet = Path(place, "parquet")
        report = ("-o", str(Path(place, "report.html")))
        ours = [case for engine in engines for case in cases(engine, report)]
        show(folder, "csv", [*by_hand("csv", by_hand_too), *ours])
        show(
            folder,
            "csv",
            [Case("timing-logger convert", COMMAND, ("convert", "--to", "parquet", "-o", str(parquet)))],
        )
        show(parquet, "parquet", [*by_hand("parquet", by_hand_too), *cases("auto", report)])


def measure_many(n_ranks: int) -> None:
    """Measure what is asked of many ranks, on as many files, with whatever reads them without being told."""
    with tempfile.TemporaryDirectory() as folder:
        write_many_ranks(Path(folder), n_ranks, ROWS_OF_MANY)
        asked = [Case(f"{n_ranks} ranks: {name}", COMMAND, (name, "--json")) for name in OF_MANY_RANKS]
        show(Path(folder), "csv", asked)


def show(folder: Path, suffix: str, measured_ones: Iterable[Case]) -> None:
    n_bytes = sum(path.stat().st_size for path in folder.glob(f"*.{suffix}"))
    print(f"\n{n_bytes / 1e9:.2f} GB of {suffix:<37}{'s':>8}{'CPU s':>8}{'MB':>8}", flush=True)
    for case in measured_ones:
        cost = measured(case, folder)
        print(
            f"{case.name:48}{cost.wall_s:8.1f}{cost.processor_s:8.1f}{cost.peak_bytes / 1e6:8.0f}", flush=True
        )


def by_hand(suffix: str, wanted: bool) -> list[Case]:
    case = Case(f"pandas by hand: read_{suffix}, groupby", BY_HAND.replace("SUFFIX", suffix))
    return [case] if wanted else []


def cases(engine: str, report: tuple[str, ...]) -> Iterator[Case]:
    for command in COMMANDS:
        options = report if command in ("report", "trace") else ()
        yield Case(
            f"timing-logger {command} --engine {engine}", COMMAND, (command, "--engine", engine, *options)
        )


def measured(case: Case, folder: Path) -> Cost:
    """Run ``case`` once on the files in ``folder``, and return what it cost."""
    report = """
import resource
used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
print(sum(u.ru_utime + u.ru_stime for u in used), file=sys.stderr)
"""
    body = "".join(f"    {line}\n" for line in (case.program + report).splitlines())
    with tempfile.TemporaryDirectory() as place:
        script = Path(place, "case.py")
        script.write_text(f'import sys\nif __name__ == "__main__":\n{body}')  # guarded, as workers import it
        begin = time.perf_counter()
        with subprocess.Popen(
            [sys.executable, script, folder, *case.arguments],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        ) as run, PeakOfTree(run.pid) as memory:  # fmt: skip
            _, said = run.communicate()
        wall_s = time.perf_counter() - begin
    if run.returncode:
        raise RuntimeError(f"{case.name} failed: {said}")
    return Cost(wall_s, float(said.split()[-1]), memory.peak_bytes)


# -- a run -------------------------------------------------------------------------------------------


def write_run(folder: Path, n_rows: int) -> None:
    """Write timing files with ``n_rows`` rows of all ranks together; rank 3 computes 1.8 times as long."""
    steps = max(1, n_rows // RANKS // len(STEP))
    for rank in range(RANKS):
        rng = np.random.default_rng(rank)
        with (folder / TimingFile(rank).name).open("w") as file:
            file.write(HEADER)
            now_ns = 10**9
            for first in range(0, steps, 1000):
                lengths_ns = (rng.lognormal(0, 0.3, (min(1000, steps - first), len(STEP))) * 1e6).astype(int)
                lengths_ns[:, :2] = lengths_ns[:, :2] * (1.8 if rank == 3 else 1)
                batch, now_ns = records(first, lengths_ns.tolist(), now_ns)
                file.write(format_records(batch, UNIX_NS))


def records(first: int, lengths_ns: list[list[int]], now_ns: int) -> tuple[list[Record], int]:
    """Return the records of successive steps from ``first`` on, and when they ended, in ns."""
    batch = []
    for step, lengths in enumerate(lengths_ns, first):
        for place, (operation, length_ns) in enumerate(zip(STEP, lengths, strict=True)):
            is_collective = operation == "ALLREDUCE"
            batch.append(Record(
                iteration=step, epoch=None, layer_name=f"layer{place}", operation=operation, phase="",
                message_size_bytes=4096 << place % 8 if is_collective else None, start_ns=now_ns,
                end_ns=now_ns + length_ns, clock="host", group="world" if is_collective else "",
                group_size=RANKS if is_collective else None, seq=8 * step + place if is_collective else None,
                peer=None, thread="MainThread", status="ok",
            ))  # fmt: skip
            now_ns += length_ns + 1000
    return batch, now_ns


if __name__ == "__main__":
    main()
