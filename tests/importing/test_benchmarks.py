"""The outputs of benchmarks are told apart, and read."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmark_outputs import IMB, NCCL_TESTS, OSU

from timing_logger.analysis.collectives.expected import Benchmark
from timing_logger.errors import NotImportableError
from timing_logger.importing.benchmarks import read_benchmark

MIB = 2**20


def read(folder: Path, text: str, name: str = "output.txt") -> Benchmark:
    (folder / name).write_text(text)
    return read_benchmark(folder / name)


def test_nccl_tests_are_read_out_of_place_with_their_ranks(tmp_path: Path) -> None:
    found = read(tmp_path, NCCL_TESTS, "all_reduce_perf.txt")
    assert found.name == "nccl-tests"
    assert [tuple(point) for point in found.points] == [
        ("ALLREDUCE", 1024, 10.24, 2, 0.1), ("ALLREDUCE", MIB, 104.86, 2, 10.0),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("said", "operation"),
    [("# Collective test starting: all_gather_perf", "ALLGATHER"),
     ("$ ./reduce_scatter_perf -g 8", "REDUCE_SCATTER")],
)  # fmt: skip
def test_nccl_tests_may_say_their_operation_in_the_text(tmp_path: Path, said: str, operation: str) -> None:
    assert {point.operation for point in read(tmp_path, f"{said}\n{NCCL_TESTS}").points} == {operation}


def test_nccl_tests_that_do_not_say_their_operation_are_refused(tmp_path: Path) -> None:
    with pytest.raises(NotImportableError, match="Call the file like the program"):
        read(tmp_path, NCCL_TESTS)


def test_osu_has_several_operations_in_one_file(tmp_path: Path) -> None:
    found = read(tmp_path, OSU)
    assert found.name == "the OSU benchmarks"
    assert [(point.operation, point.size_bytes) for point in found.points] == [
        ("ALLREDUCE", 4), ("ALLREDUCE", 1024), ("ALLREDUCE", MIB), ("ALLTOALL", 1024), ("SEND", MIB),
    ]  # fmt: skip
    assert found.points[-1].time_us == pytest.approx(104.86, rel=1e-4)  # of a bandwidth


def test_imb_tells_its_ranks(tmp_path: Path) -> None:
    found = read(tmp_path, IMB)
    assert [tuple(point) for point in found.points] == [
        ("ALLREDUCE", 1024, 10.24, 2, None), ("ALLREDUCE", MIB, 104.86, 2, None),
        ("SEND", MIB, 104.86, 2, None),
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["", "hello", "1 2 3 4 5 6 7 8 9", "# size count"])
def test_a_text_of_no_benchmark_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(NotImportableError, match="is of no benchmark that is known here"):
        read(tmp_path, text)


def test_a_benchmark_without_results_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotImportableError, match="has no result of IMB"):
        read(tmp_path, IMB.split("#bytes", maxsplit=1)[0])


def test_a_file_that_is_missing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotImportableError, match="is no file"):
        read_benchmark(tmp_path / "nothing.txt")


def test_a_file_that_is_too_long_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotImportableError, match="has more than 100000 lines"):
        read(tmp_path, "# Benchmarking Allreduce\n" + "1 1 1 1 1\n" * 100_001)


@pytest.mark.parametrize("odd", ["nan nan nan", "1e400 1 1", "-5 1 1", "6.5 1 1", "64 1 -3", "64 1 inf"])
def test_odd_numbers_are_no_results(tmp_path: Path, odd: str) -> None:
    assert len(read(tmp_path, f"{IMB}{odd}\n").points) == 3
