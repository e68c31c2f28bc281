"""What reading and analysing costs, by the number of ranks and of rows: seconds, processor seconds, memory.

Folders of timing files are made by ``many_ranks.py``: five rows a step, rank 77 slower, where there is one.
Each question is measured in a process of its own, from its start to its end, imports included: the wall time,
the processor time of it and its workers, and the most memory that they held together. Beside them stands a
group-by of operation and rank over all files by hand, in polars and in DuckDB, which answers no question.

Run: python benchmarks/analysis.py [--sizes 8x1000000 512x1000 ...] [--only summary stragglers ...]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from _tree_memory import PeakOfTree
from many_ranks import write_many_ranks

COMMAND = """
from timing_logger.cli import main
main([*sys.argv[2:], sys.argv[1]])
"""

POLARS = """
import polars
rows = polars.scan_csv(sys.argv[1] + "/*.csv", include_file_paths="file")
by = rows.group_by("operation", "file").agg(
    polars.len(), polars.col("elapsed_ms").mean(), polars.col("elapsed_ms").quantile(0.95).alias("p95")
)
print(by.collect())
"""

DUCKDB = """
import duckdb
print(duckdb.sql(f'''
    select operation, filename, count(*), avg(elapsed_ms), quantile_cont(elapsed_ms, 0.95)
    from read_csv('{sys.argv[1]}/*.csv', filename = true) group by all
'''))
"""

QUESTIONS = ("summary", "stragglers", "waits", "report", "hang", "bandwidth", "compression", "overlap")


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

    def __str__(self) -> str:
        return f"{self.wall_s:.1f} / {self.processor_s:.1f} / {self.peak_bytes / 1e6:.0f}"


class Size(NamedTuple):
    """The size of a run: its ranks, and the rows of each."""

    ranks: int
    rows: int

    @classmethod
    def parse(cls, text: str) -> Size:
        """Read ``4096x1000``."""
        ranks, _, rows = text.partition("x")
        return cls(int(ranks), int(rows))

    def __str__(self) -> str:
        return f"{self.ranks:,} x {self.rows:,}"


STANDARD = (Size(8, 1_000_000), Size(512, 1000), Size(4096, 1000))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=Size.parse, nargs="+", default=STANDARD, metavar="RANKSxROWS")
    parser.add_argument("--only", nargs="+", choices=QUESTIONS, default=QUESTIONS, metavar="QUESTION")
    arguments = parser.parse_args()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} before")
    print("\n| ranks x rows | question | s / processor s / MB |\n|---|---|---|")
    for size in arguments.sizes:
        with tempfile.TemporaryDirectory() as folder:
            write_many_ranks(Path(folder), *size)
            measure(Path(folder), size, arguments.only)


def measure(folder: Path, size: Size, questions: tuple[str, ...]) -> None:
    n_bytes = sum(path.stat().st_size for path in folder.glob("*.csv"))
    print(f"| **{size}** | {n_bytes / 1e9:.2f} GB of CSV | |")
    with tempfile.TemporaryDirectory() as place:
        for case in cases(questions, Path(place)):
            try:
                print(f"| | {case.name} | {measured(case, folder)} |", flush=True)
            except RuntimeError as error:
                print(f"| | {case.name} | {str(error).splitlines()[-1]} |", flush=True)


def cases(questions: tuple[str, ...], place: Path) -> Iterator[Case]:
    for question in questions:
        options = ("-o", str(place / "report.html")) if question == "report" else ()
        yield Case(f"`{question}`", COMMAND, (question, *options))
    yield Case("group-by in polars, by hand", POLARS)
    yield Case("group-by in DuckDB, by hand", DUCKDB)


def measured(case: Case, folder: Path) -> Cost:
    """Run ``case`` once on the files in ``folder``, and return what it cost.

    Raises:
        RuntimeError: it failed; the message ends with its own.
    """
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
        raise RuntimeError(f"{case.name} failed: {said.strip()}")
    return Cost(wall_s, float(said.split()[-1]), memory.peak_bytes)


if __name__ == "__main__":
    main()
