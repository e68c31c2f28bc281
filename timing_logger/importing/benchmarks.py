"""Read what a benchmark of communication printed: nccl-tests, OSU micro-benchmarks, Intel MPI Benchmarks.

Which of them a text is of is told by its lines. Lines that are no results are passed over.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from timing_logger.analysis.collectives.bandwidth import Benchmark, Point
from timing_logger.errors import NotImportableError
from timing_logger.importing.imported import LeftOut
from timing_logger.importing.source_files import AnyPath, lines_of

MOST_POINTS = 10**5
_MOST_BYTES = 2**62

_NCCL_TESTS = {
    "all_reduce": "ALLREDUCE", "all_gather": "ALLGATHER", "reduce_scatter": "REDUCE_SCATTER",
    "alltoall": "ALLTOALL", "broadcast": "BCAST", "reduce": "REDUCE", "gather": "GATHER",
    "scatter": "SCATTER", "sendrecv": "SENDRECV",
}  # fmt: skip
_OF_MPI = {
    "allreduce": "ALLREDUCE", "allgather": "ALLGATHER", "allgatherv": "ALLGATHERV", "alltoall": "ALLTOALL",
    "alltoallv": "ALLTOALLV", "reducescatter": "REDUCE_SCATTER", "reducescatterblock": "REDUCE_SCATTER",
    "broadcast": "BCAST", "bcast": "BCAST", "reduce": "REDUCE", "gather": "GATHER", "scatter": "SCATTER",
    "alltoallpersonalizedexchange": "ALLTOALL", "pingpong": "SEND", "": "SEND",
}  # fmt: skip
"""Operations by their names in OSU (without "MPI" and "Latency Test") and IMB, letters only."""

_NCCL_NAME = re.compile(rf"\b({'|'.join(_NCCL_TESTS)})_perf")
_NCCL_RANK = re.compile(r"#\s+Rank\s+(\d+)\s")
_NCCL_HEAD = re.compile(r"#\s+size\s+count\s+type")
_OSU_HEAD = re.compile(r"#\s*OSU MPI(?:-\w+)?\s+(.*?)\s*(Latency|Bandwidth) Test")
_IMB_HEAD = re.compile(r"#\s*Benchmarking\s+(\S+)")
_IMB_RANKS = re.compile(r"#\s*#processes\s*=\s*(\d{1,9})")


def read_benchmark(path: AnyPath) -> Benchmark:
    """Read what nccl-tests, OSU micro-benchmarks or Intel MPI Benchmarks printed.

    Args:
        path: the file with the text; gzip and Zstandard are read, too.

    Returns:
        The results; of nccl-tests those out of place.

    Raises:
        NotImportableError: the file is missing, of no such benchmark, has no result, or is one of nccl-tests
            that does not name its operation.
    """
    file = Path(path)
    if not file.is_file():
        raise NotImportableError(f"expected: {str(file)!r} is no file. Name the output of a benchmark.")
    lines = []
    for line in lines_of(file, LeftOut()):
        lines.append(line)
        if len(lines) > MOST_POINTS:
            raise NotImportableError(
                f"expected: {str(file)!r} has more than {MOST_POINTS} lines. Keep those of the benchmark."
            )
    for is_of, read in _KINDS:
        if any(map(is_of, lines)):
            benchmark = read(lines, file)
            if not benchmark.points:
                raise NotImportableError(
                    f"expected: {str(file)!r} has no result of {benchmark.name} that can be used. Keep the "
                    "whole output."
                )
            return benchmark
    raise NotImportableError(
        f"expected: {str(file)!r} is of no benchmark that is known here: nccl-tests, OSU micro-benchmarks "
        "and Intel MPI Benchmarks. Keep the lines that begin with #."
    )


def _numbers(line: str) -> list[float]:
    """Return the cells of a line as numbers; NaN for what is none."""
    return [_number(word) for word in line.split()]


def _number(word: str) -> float:
    try:
        return float(word)
    except ValueError:
        return math.nan


def _is_size(number: float) -> bool:
    return 0 < number < _MOST_BYTES and number == int(number)


# -- nccl-tests --------------------------------------------------------------------------------------


def _nccl_tests(lines: Sequence[str], file: Path) -> Benchmark:
    named = next((found for line in [*lines, file.name] if (found := _NCCL_NAME.search(line))), None)
    if named is None:
        raise NotImportableError(
            f"expected: {str(file)!r} does not say which operation nccl-tests measured. Call the file like "
            "the program, such as all_reduce_perf.txt."
        )
    ranks = {found[1] for line in lines if (found := _NCCL_RANK.match(line))}
    points = []
    for line in lines:
        cells = _numbers(line)
        if len(cells) >= 8 and _is_size(cells[0]) and 0 < cells[5] < math.inf:
            time_us, busbw = cells[5], cells[7]
            points.append(Point(_NCCL_TESTS[named[1]], cells[0], time_us, len(ranks) or None, busbw))
    return Benchmark("nccl-tests", points)


# -- OSU ---------------------------------------------------------------------------------------------


def _osu(lines: Iterable[str], _: Path) -> Benchmark:
    points: list[Point] = []
    operation, is_bandwidth = None, False
    for line in lines:
        if head := _OSU_HEAD.match(line):
            operation, is_bandwidth = _operation(head[1]), head[2] == "Bandwidth"
            continue
        cells = _numbers(line)
        if operation and len(cells) >= 2 and _is_size(cells[0]) and 0 < cells[1] < math.inf:
            time_us = cells[0] / cells[1] if is_bandwidth else cells[1]  # MB/s are bytes per us
            points.append(Point(operation, cells[0], time_us, None, None))
    return Benchmark("the OSU benchmarks", points)


def _operation(name: str) -> str | None:
    return _OF_MPI.get(re.sub(r"[^a-z]", "", name.lower()))


# -- IMB ---------------------------------------------------------------------------------------------


def _imb(lines: Iterable[str], _: Path) -> Benchmark:
    points: list[Point] = []
    operation, n_ranks, time_at = None, None, 4
    for line in lines:
        if head := _IMB_HEAD.match(line):
            operation, n_ranks = _operation(head[1]), None
        elif ranks := _IMB_RANKS.match(line):
            n_ranks = int(ranks[1])
        elif "#repetitions" in line:
            names = line.split()
            time_at = next((names.index(name) for name in ("t_avg[usec]", "t[usec]") if name in names), 4)
        else:
            cells = _numbers(line)
            if operation and len(cells) > time_at and _is_size(cells[0]) and 0 < cells[time_at] < math.inf:
                points.append(Point(operation, cells[0], cells[time_at], n_ranks, None))
    return Benchmark("IMB", points)


_KINDS: tuple[tuple[Callable[[str], object], Callable[[Sequence[str], Path], Benchmark]], ...] = (
    (_NCCL_HEAD.match, _nccl_tests),
    (_OSU_HEAD.match, _osu),
    (_IMB_HEAD.match, _imb),
)
