"""A summary taken file by file is that of all rows; an analysis needs no more columns than it says."""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rank_tables import aligned, table
from simulated_runs import data_parallel, factors
from slow import examples, slow
from timing_files import record, write_timing_file

from timing_logger import analysis, read_timings
from timing_logger.analysis import COLUMNS_OF
from timing_logger.analysis.rows.overlap import EFFICIENCIES, OVERLAP
from timing_logger.analysis.verdict.overview import OVERVIEW
from timing_logger.cli import main
from timing_logger.engine.rows import TIMES_THE_TABLE, Query, RowsOf
from timing_logger.engine.run import answers_in_batches, run
from timing_logger.engine.workers import Processes, cluster
from timing_logger.errors import ConfigurationError
from timing_logger.reading.named_ranks import select
from timing_logger.reading.timings import TimingFiles, timing_files
from timing_logger.report import write_trace
from timing_logger.schema.record import Record

pytest.importorskip("pyarrow", reason="pyarrow is not installed (pip install 'timing_logger[large]')")

TABLES = ("operations", "ranks", "spread", "statuses")


def assert_same_summary(found: analysis.Summary, expected: analysis.Summary) -> None:
    for name in TABLES:
        pd.testing.assert_frame_equal(getattr(found, name), getattr(expected, name), check_exact=True)
    assert found.counters == expected.counters
    assert found.files == expected.files
    assert found.left_out == expected.left_out


def file_by_file(found: TimingFiles) -> analysis.Summary:
    (summary,) = answers_in_batches([OVERVIEW], Query(found), Processes(1))
    return summary  # type: ignore[no-any-return]


def slow_choice(ranks: set[int] | None, iterations: slice | None) -> Any:
    return pytest.param(ranks, iterations, marks=pytest.mark.slow("each choice is tried with another"))


def write_run(folder: Path, *, ranks: int = 3, steps: int = 24) -> Path:
    rng = np.random.default_rng(0)
    for rank in range(ranks):
        rows = [
            record(name, start_s=1 + step + place / 4, elapsed_ms=float(rng.integers(1, 300)), iteration=step,
                   seq=2 * step + place, group_size=ranks, thread=f"thread{place % 2}",
                   status="ok" if step else "error:X")
            for step in range(steps)
            for place, name in enumerate(["FORWARD", "ALLREDUCE", "IALLREDUCE", "WAIT"])
        ]  # fmt: skip
        write_timing_file(folder, rank, rows)
    return folder


@pytest.mark.slow("the summary of odd files is the harder case")
@pytest.mark.filterwarnings("ignore:.*left out")
@pytest.mark.parametrize("incarnations", ["latest", "all"])
@pytest.mark.parametrize("engine", ["pandas", "pyarrow"])
def test_the_summary_of_the_files_is_that_of_their_rows(
    tmp_path: Path, engine: Any, incarnations: Any
) -> None:
    write_run(tmp_path)
    write_timing_file(tmp_path, 1, [record()], incarnation=2)
    found = timing_files(tmp_path, engine=engine, incarnations=incarnations)
    expected = analysis.overview(read_timings(tmp_path, engine="pandas", incarnations=incarnations))
    assert_same_summary(file_by_file(found), expected)


steps = st.lists(
    st.builds(
        record,
        operation=st.sampled_from(["ALLREDUCE", "BARRIER", "WAIT", "FORWARD"]),
        start_s=st.integers(1, 9),
        elapsed_ms=st.none() | st.integers(1, 3000),
        iteration=st.none() | st.integers(0, 2),
        seq=st.none() | st.integers(0, 2),
        group=st.sampled_from(["", "world"]),
        group_size=st.none() | st.integers(1, 3),
        message_size_bytes=st.none() | st.integers(0, 2),
    ),
    max_size=5,
)


@given(st.lists(steps, min_size=1, max_size=3))
@settings(deadline=None, max_examples=examples(20, few=2))
def test_the_parts_of_processes_make_the_summary_of_all(ranks: list[list[Record]]) -> None:
    timings = table(*ranks)
    parts = [OVERVIEW.map(rows.reset_index(drop=True)) for _, rows in timings.groupby("rank")]
    if parts:
        assert_same_summary(OVERVIEW.reduce(parts), analysis.overview(timings))


@pytest.mark.slow("asks for two summaries; that the engines say the same is compared below, and of odd files")
def test_the_command_says_the_same_with_either_engine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_run(tmp_path)
    said = []
    for engine in ("pandas", "pyarrow"):
        options = ["--engine", engine, "--ranks", "0,2", "--iterations", "3:20"]
        assert main(["summary", str(tmp_path), *options]) == 0
        said.append(capsys.readouterr().out)
    assert said[1] == said[0] + "\nRead with --engine pyarrow, batch by batch.\n"
    assert "ALLREDUCE" in said[0]


@pytest.mark.parametrize(
    ("ranks", "iterations"),
    [
        ({0, 2}, slice(3, 20)),
        ({0, 2}, slice(500, 600)),
        slow_choice({0, 2}, None),
        slow_choice(None, slice(3, 20)),
        slow_choice(None, None),
        slow_choice(None, slice(500, 600)),
    ],
)
def test_rows_chosen_file_by_file_are_those_of_the_table(
    tmp_path: Path, ranks: set[int] | None, iterations: slice | None
) -> None:
    write_run(tmp_path)
    found = Query(timing_files(tmp_path), ranks, iterations).in_one_table()
    expected = select(read_timings(tmp_path), ranks=ranks, iterations=iterations)
    pd.testing.assert_frame_equal(found, expected)
    assert found.attrs == expected.attrs


def test_a_choice_without_a_first_iteration_begins_with_the_one_of_number_0(tmp_path: Path) -> None:
    """Rows of the first iteration are enough for it; those of others do not count."""
    write_timing_file(tmp_path, 0, [record(iteration=number) for number in (0, 5)])
    files = timing_files(tmp_path)
    Query(files, iterations=slice(None, 1)).require_iterations()
    with pytest.raises(ConfigurationError, match="there are 0 to 5"):
        Query(files, iterations=slice(1, 5)).require_iterations()


def test_several_analyses_share_one_reading_of_each_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_run(tmp_path)
    rows, read, rows_of = read_timings(tmp_path), [], RowsOf.__call__
    monkeypatch.setattr(RowsOf, "__call__", lambda self, files: read.extend(files) or rows_of(self, files))
    steps, whole = answers_in_batches([OVERLAP, EFFICIENCIES], Query(timing_files(tmp_path)), Processes(1))
    pd.testing.assert_frame_equal(steps, analysis.overlap(rows), check_exact=True)
    pd.testing.assert_frame_equal(whole, analysis.efficiencies(rows), check_exact=True)
    assert len(read) == 3


@pytest.fixture
def small_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run whose rows do not fit into memory together."""
    folder = write_run(tmp_path / "run", steps=8)
    needed = TIMES_THE_TABLE * int(read_timings(folder, columns=COLUMNS_OF["overlap"]).memory_usage().sum())
    monkeypatch.setattr("timing_logger.engine.rows.free_memory_bytes", lambda: 4 * needed // 5)
    return folder


QUESTIONS = ["bandwidth", "stragglers", "waits", "compression", "overlap", "overlap --by iteration"]
QUICK = [("bandwidth", "pyarrow", "text")]
AS_IN_BATCHES = pytest.mark.slow("what is found in batches is compared with what is found in the table")


@pytest.mark.parametrize(
    ("question", "engine", "form"),
    [
        pytest.param(*asked, marks=[] if asked in QUICK else [AS_IN_BATCHES])
        for asked in itertools.product(QUESTIONS, ["pandas", "pyarrow"], ["text", "json"])
    ],
)
def test_rows_that_do_not_fit_into_memory_are_asked_in_parts(
    small_memory: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    question: str, engine: str, form: str,
) -> None:  # fmt: skip
    command = [*question.split(), str(small_memory), "--engine", engine, "--iterations", "1:"]
    command += ["--json"] if form == "json" else []
    assert main(command) == 0
    said = capsys.readouterr().out
    for module in ("rows", "run"):
        monkeypatch.setattr(f"timing_logger.engine.{module}.free_memory_bytes", lambda: math.inf)
    command[command.index(engine)] = "pandas"
    assert main(command) == 0
    how = f"\nRead with --engine {engine}, batch by batch.\n" if form == "text" else ""
    assert said == capsys.readouterr().out + how


@pytest.mark.slow("asks twice all that commands ask, of which some are asked in parts above")
def test_a_report_of_rows_that_do_not_fit_into_memory_is_that_of_all_rows(
    small_memory: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["report", str(small_memory), "--iterations", "1:", "-o"]
    in_parts, whole = small_memory.parent / "parts.html", small_memory.parent / "whole.html"
    assert main([*command, str(in_parts)]) == 0
    assert capsys.readouterr().out.endswith("\nRead with --engine pandas, batch by batch.\n")
    for module in ("rows", "run"):
        monkeypatch.setattr(f"timing_logger.engine.{module}.free_memory_bytes", lambda: math.inf)
    assert main([*command, str(whole)]) == 0
    assert "Read with" not in capsys.readouterr().out
    assert in_parts.read_text() == whole.read_text()


@pytest.mark.slow(
    "test_run_communication_rows.py has its arrows in batches, and bandwidth is asked in parts above"
)
def test_a_trace_of_rows_that_do_not_fit_into_memory_is_that_of_all_rows(
    small_memory: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    in_parts, whole = small_memory.parent / "parts.json", small_memory.parent / "whole.json"
    assert main(["trace", str(small_memory), "-o", str(in_parts)]) == 0
    said = capsys.readouterr().out
    for module in ("rows", "run"):
        monkeypatch.setattr(f"timing_logger.engine.{module}.free_memory_bytes", lambda: math.inf)
    write_trace(read_timings(small_memory), whole)
    assert "bind_id" in whole.read_text()
    assert with_flows_numbered(in_parts) == with_flows_numbered(whole)
    assert main(["trace", str(small_memory), "-o", str(whole)]) == 0
    assert said.replace("parts.json", "whole.json") == capsys.readouterr().out


def with_flows_numbered(trace: Path) -> str:
    """The text of a trace, with its flows numbered in the order in which they occur."""
    numbers: dict[str, int] = {}
    return re.sub(
        r'"bind_id":"(\w+)"',
        lambda m: f'"bind_id":{numbers.setdefault(m[1], len(numbers))}',
        trace.read_text(),
    )


@pytest.mark.parametrize(
    "processes", [False, slow(True, "workers in processes of their own, which take seconds to start")]
)
@pytest.mark.slow("starts a cluster for one answer; test_workers_cluster.py asks one for others")
def test_workers_of_a_cluster_make_the_same_summary(tmp_path: Path, *, processes: bool) -> None:
    reason = "Dask is not installed (pip install 'timing_logger[cluster]')"
    distributed = pytest.importorskip("distributed", reason=reason)
    write_run(tmp_path)
    expected = analysis.overview(read_timings(tmp_path))
    alone = {"processes": processes, "protocol": "tcp://", "dashboard_address": "127.0.0.1:0"}
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, **alone) as local,
        cluster(local.scheduler_address) as workers,
    ):
        found = run(Query(timing_files(tmp_path)), OVERVIEW, cluster=workers)
    assert_same_summary(found.answer, expected)
    assert found.engine == "cluster"


# -- columns and categoricals ------------------------------------------------------------------------

ANALYSES: dict[str, Callable[[Any], Any]] = {
    name: getattr(analysis, name)
    for name in (
        "summarize",
        "match_collectives",
        "waits",
        "bandwidth",
        "compression",
        "overlap",
        "efficiencies",
    )
}


@functools.cache
def a_run() -> pd.DataFrame:
    return aligned(
        data_parallel(factors(25, 3, noise=0.2), operations_ms={"COMPRESS": 2.0, "DECOMPRESS": 1.0})
    )


def as_text(found: pd.DataFrame) -> pd.DataFrame:
    coded = [name for name in found if isinstance(found[name].dtype, pd.CategoricalDtype)]
    return found.astype(dict.fromkeys(coded, "str"))


@pytest.mark.parametrize("name", ANALYSES)
def test_an_analysis_needs_only_the_columns_that_it_names(name: str) -> None:
    run = a_run()
    needed = run[[column for column in run if column in (*analysis.COLUMNS_OF[name], "rank", "incarnation")]]
    pd.testing.assert_frame_equal(ANALYSES[name](needed), ANALYSES[name](run))


@pytest.mark.slow("commands read no other columns, and say what is known of runs in tests/cli")
def test_stragglers_and_the_overview_need_only_the_columns_that_they_name() -> None:
    run = a_run()
    names = [*analysis.COLUMNS_OF["stragglers"], "rank", "incarnation"]
    assert analysis.stragglers(run[names]) == analysis.stragglers(run)
    names = [*analysis.COLUMNS_OF["overview"], "rank", "incarnation"]
    assert_same_summary(analysis.overview(run[names]), analysis.overview(run))


@pytest.mark.slow("windows need what stragglers need, which finds them")
def test_windows_need_only_the_columns_of_stragglers() -> None:
    run = a_run()
    names = [*analysis.COLUMNS_OF["stragglers"], "rank", "incarnation"]
    pd.testing.assert_frame_equal(analysis.windows(run[names]), analysis.windows(run))


@pytest.mark.parametrize(
    "name",
    [
        one if one in ("bandwidth", "overlap") else slow(one, "of the same columns as others")
        for one in ANALYSES
    ],
)
def test_an_analysis_of_categoricals_says_the_same(name: str) -> None:
    run = a_run()
    texts = ["operation", "layer_name", "phase", "group", "thread", "clock", "status"]
    coded = run.astype(dict.fromkeys(texts, "category"))
    coded["operation"] = coded["operation"].cat.add_categories(["AN_UNUSED_ONE"])
    coded["operation"] = coded["operation"].cat.reorder_categories(
        [*reversed(coded["operation"].cat.categories)]
    )
    pd.testing.assert_frame_equal(as_text(ANALYSES[name](coded)), as_text(ANALYSES[name](run)))


@pytest.mark.slow("the tables that stragglers are found in are those of the analyses above")
def test_stragglers_of_categoricals_are_the_same() -> None:
    slow = factors(40, 4, noise=0.05)
    slow[:, 2] *= 2
    run = data_parallel(slow)
    coded = run.astype(
        dict.fromkeys(["operation", "layer_name", "group", "thread", "clock", "status"], "category")
    )
    assert analysis.stragglers(coded) == analysis.stragglers(run)
    assert analysis.stragglers(run).ranks == (2,)


def test_where_the_system_does_not_tell_its_memory_nothing_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("timing_logger.reading.machine.MEMORY_INFO", tmp_path / "there is none")
    monkeypatch.delattr("os.sched_getaffinity")
    folder = tmp_path / "run"
    write_run(folder, ranks=2, steps=2)
    assert main(["bandwidth", str(folder)]) == 0
    run(Query(timing_files(folder, engine="pyarrow")), OVERVIEW)


@pytest.mark.parametrize("most_threads", [1, slow(4, "threads of the same work; processes send it, too")])
def test_threads_and_processes_make_the_same_summary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most_threads: int
) -> None:
    write_run(tmp_path, ranks=2, steps=6)
    monkeypatch.setattr("timing_logger.engine.run.usable_cores", lambda: 2)
    monkeypatch.setattr("timing_logger.engine.run.MAX_THREADS", most_threads)
    expected = analysis.overview(read_timings(tmp_path))
    found = run(Query(timing_files(tmp_path, engine="pyarrow")), OVERVIEW)
    assert_same_summary(found.answer, expected)
    assert found.by_file


def odd_rows(rank: int) -> list[Record]:
    """Names to escape and to quote, blank cells, concurrent operations, and ones that failed."""
    names = ["ALLREDUCE", "IALLREDUCE_a,b", 'BARRIER_"q"', "WAIT", "FORWARD\n", "=CMD", "0X1F ä…😀"]
    return [
        record(
            names[i % 7], start_s=1 + i / 8, elapsed_ms=None if i % 11 == 10 else 40.0 + 97 * (i % 5) + rank,
            iteration=None if i % 13 == 12 else i // 7, seq=i if i % 2 else None, layer_name=names[i % 5],
            message_size_bytes=None if i % 3 == 0 else 10**15 + i, group="" if i % 4 == 3 else 'a, "b"',
            group_size=None if i % 6 == 5 else 2, thread=["Main, Thread", "\\u000a"][i % 2],
            status="error:X, Y" if i % 17 == 16 else "ok",
        )
        for i in range(60)
    ]  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*(left out|skipped|cut)")
@pytest.mark.parametrize(
    "damages",
    [
        (b"", b"bad\n", b"half a li", b'"\n'),
        *(slow((b"", damage), "all are in one folder") for damage in (b"", b"bad\n", b"half a li", b'"\n')),
    ],
    ids=str,
)
@pytest.mark.parametrize("incarnations", ["latest", slow("all", "as of the latest, with no file left out")])
def test_the_summary_of_odd_and_of_damaged_files_is_that_of_their_rows(
    tmp_path: Path, damages: tuple[bytes, ...], incarnations: Any
) -> None:
    for rank, damage in enumerate(damages):
        path = write_timing_file(tmp_path, rank, odd_rows(rank))
        path.write_bytes(path.read_bytes() + damage)
    write_timing_file(tmp_path, 0, odd_rows(0)[:40], incarnation=2)
    found = timing_files(tmp_path, engine="pyarrow", incarnations=incarnations)
    expected = analysis.overview(read_timings(tmp_path, engine="pandas", incarnations=incarnations))
    assert_same_summary(file_by_file(found), expected)
