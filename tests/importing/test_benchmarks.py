"""The outputs of benchmarks are told apart, and read."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmark_outputs import IMB, NCCL_TESTS, OSU

from timing_logger.analysis.collectives.bandwidth import Benchmark
from timing_logger.errors import NotImportableError
from timing_logger.importing import benchmarks
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


@pytest.mark.parametrize(
    "odd",
    [
        "nan nan nan",
        "1e400 1 1",
        "-5 1 1",
        "6.5 1 1",
        "64 1 -3",
        "64 1 inf",
        "64 1 0",
        f"{2**62} 1 1",
        f"{2**70} 1 1",
    ],
)
def test_odd_numbers_are_no_results(tmp_path: Path, odd: str) -> None:
    assert len(read(tmp_path, f"{IMB}{odd}\n").points) == 3


NCCL_HEAD = "# all_reduce_perf\n#       size         count      type\n"


@pytest.mark.parametrize(
    ("line", "is_result"),
    [
        ("64 16 float sum -1 5.0 1.0 2.0", True), ("64 16 float sum -1 5.0 1.0", False),
        ("64 16 float sum -1 0 1.0 2.0", False), ("64 16 float sum -1 inf 1.0 2.0", False),
        ("0 0 float sum -1 5.0 1.0 2.0", False),
    ],
)  # fmt: skip
def test_a_line_of_nccl_tests_has_eight_cells_and_a_time(tmp_path: Path, line: str, is_result: bool) -> None:
    found = read(tmp_path, f"{NCCL_HEAD}64 16 float sum -1 7.0 1.0 2.0\n{line}\n")
    assert [point.time_us for point in found.points] == [7.0, 5.0][: 1 + is_result]


def test_nccl_tests_count_each_rank_once_and_say_nothing_of_ranks_that_they_do_not_list(
    tmp_path: Path,
) -> None:
    text = f"{NCCL_HEAD}64 16 float sum -1 7.0 1.0 2.0\n"
    ranks = "".join(f"#  Rank  {rank} Group  0 Pid  10 on node0\n" for rank in (0, 1, 2, 1))
    assert [read(tmp_path, one).points[0].n_ranks for one in (text, ranks + text)] == [None, 3]


def test_the_text_of_nccl_tests_tells_the_operation_before_the_name_of_the_file(tmp_path: Path) -> None:
    text = f"{NCCL_HEAD}64 16 float sum -1 7.0 1.0 2.0\n"
    assert read(tmp_path, text, "broadcast_perf.txt").points[0].operation == "ALLREDUCE"


@pytest.mark.parametrize("odd", ["64", "64 0", "64 inf", "64 -1", "0 5", "x 5"])
def test_odd_numbers_are_no_results_of_osu(tmp_path: Path, odd: str) -> None:
    found = read(tmp_path, f"# OSU MPI Allreduce Latency Test v7.5\n4 10.05\n{odd}\n")
    assert [(point.size_bytes, point.time_us) for point in found.points] == [(4, 10.05)]


def test_a_result_may_be_shorter_than_a_microsecond(tmp_path: Path) -> None:
    nccl = f"{NCCL_HEAD}64 16 float sum -1 0.5 1.0 2.0\n"
    osu = "# OSU MPI Latency Test v7.5\n1 0.25\n"
    imb = "# Benchmarking Allreduce\n64 10 0.1 0.2 0.125\n"
    times_us = [[point.time_us for point in read(tmp_path, text).points] for text in (nccl, osu, imb)]
    assert times_us == [[0.5], [0.25], [0.125]]


def test_what_follows_an_operation_of_osu_that_is_not_known_is_no_result(tmp_path: Path) -> None:
    known, unknown = (f"# OSU MPI {name} Latency Test v7.5\n4 10.05\n" for name in ("Allreduce", "Juggle"))
    assert len(read(tmp_path, known + unknown).points) == 1


def test_a_part_of_imb_has_its_own_ranks_and_its_own_column_of_times(tmp_path: Path) -> None:
    wide = "#bytes #repetitions t_min[usec] {} t_max[usec]\n64 10 1 2 3 4\n"
    text = (
        f"# Benchmarking Allreduce\n# #processes = 2\n{wide.format('t_avg[usec]')}"
        f"# Benchmarking PingPong\n#bytes #repetitions t[usec] Mbytes/sec\n64 10 1 2 3 4\n"
        f"# Benchmarking Bcast\n{wide.format('Mbytes/sec')}"
    )
    assert [(point.operation, point.n_ranks, point.time_us) for point in read(tmp_path, text).points] == [
        ("ALLREDUCE", 2, 2.0), ("SEND", None, 1.0), ("BCAST", None, 3.0),
    ]  # fmt: skip


@pytest.mark.parametrize("n_lines", [3, 4])
def test_a_file_may_have_as_many_lines_as_are_read(
    tmp_path: Path, n_lines: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(benchmarks, "MOST_POINTS", 3)
    text = "# OSU MPI Allreduce Latency Test v7.5\n" + "4 10.05\n" * (n_lines - 1)
    if n_lines == 3:
        assert len(read(tmp_path, text).points) == 2
    else:
        with pytest.raises(NotImportableError, match="has more than 3 lines"):
            read(tmp_path, text)
