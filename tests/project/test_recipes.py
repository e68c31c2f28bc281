"""The recipes of CONTRIBUTING.md, each performed in small: what is added as they say works."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import pytest
from conditions import wait_for
from places import ROOT, TESTS
from snapshots import snapshot_of
from timing_files import record, write_timing_file

from allreduce_instrumentation._operation_counts import OperationCounts
from timing_logger import TimingLogger, read_host_counters, read_timings
from timing_logger.analysis.rows.analysis import ByProcess, OfCommunication
from timing_logger.analysis.rows.operations import is_collective
from timing_logger.cli import main, parser
from timing_logger.cli.queries import Answer, run_query
from timing_logger.cli.questions import Command
from timing_logger.engine.changes import Change
from timing_logger.engine.rows import Query
from timing_logger.engine.run import answers_in_batches, run
from timing_logger.engine.workers import Processes
from timing_logger.errors import ConfigurationError
from timing_logger.live import destinations, figures
from timing_logger.live.destinations import KINDS, Destination, from_json, started
from timing_logger.live.prometheus import PrometheusFile
from timing_logger.live.series import SERIES, Series
from timing_logger.live.watcher import Snapshot
from timing_logger.reading import host_rows
from timing_logger.reading.timings import timing_files
from timing_logger.recording import logger as logger_module
from timing_logger.recording.cores.protocols import NeverWaitedFor
from timing_logger.recording.device.intervals import open_interval
from timing_logger.recording.options import Options
from timing_logger.recording.watchers import host_sampler
from timing_logger.recording.watchers.kernel_files import ParsedSource
from timing_logger.report import rows_json
from timing_logger.results.policy import Policy, positive
from timing_logger.schema.host_counters import COUNTERS, HEADER, Counter
from timing_logger.schema.record import RawRecord, Record
from timing_logger.schema.timing_files import sidecar_path
from timing_logger.sinks.memory import MemorySink
from timing_logger.words import not_told

PERFORMED = {
    "a sink": "project/test_recipes.py",
    "a timed operation": "project/test_recipes.py",
    "a communicator": "project/test_recipes.py",
    "a launcher": "process/test_launchers.py",
    "an option of the logger": "project/test_recipes.py",
    "an analysis": "project/test_recipes.py",
    "a threshold": "project/test_recipes.py",
    "a column": "schema/test_record_columns.py",
    "a figure or an exporter of a run in progress": "project/test_recipes.py",
    "a counter of the host": "project/test_recipes.py",
}
"""The file of ``tests`` that performs each recipe."""


def test_each_recipe_is_performed_by_a_test() -> None:
    recipes = re.findall(r"^### Add (.*)$", (ROOT / "CONTRIBUTING.md").read_text("utf-8"), re.MULTILINE)
    assert list(PERFORMED) == recipes
    assert [file for file in PERFORMED.values() if not (TESTS / file).is_file()] == []


def sidecar_of(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(sidecar_path(folder / "timing-rank0.csv").read_text())
    return content


# -- what records ----------------------------------------------------------------------------------------


class Printed:
    """A sink as the recipe says."""

    def __init__(self) -> None:
        self.taken: list[str] = []

    def write(self, batch: Sequence[RawRecord], wall_offset_ns: int) -> None:
        self.taken += [Record(*one).operation for one in batch]

    def sync(self) -> None:
        self.taken.append("synced")

    def close(self) -> None:
        self.taken.append("closed")


def test_a_sink_is_a_class_of_three_methods() -> None:
    sink = Printed()
    with TimingLogger(0, None, sinks=[sink], fsync=True) as logger:
        logger.record_timing("A", 1.0)
        assert logger.flush()
    assert sink.taken[:2] == ["A", "synced"]
    assert sink.taken[-1] == "closed"


def test_an_operation_that_ends_elsewhere_than_it_begins_is_an_interval(
    logger: TimingLogger, sink: MemorySink
) -> None:
    interval = open_interval()
    assert interval is not None
    interval.end()
    start, end, clock = interval.columns
    logger.record_interval("SAVE", start, end, clock=clock)
    logger.flush()
    (row,) = sink.records
    assert (row.operation, row.start_ns, row.end_ns, row.clock) == ("SAVE", start, end, "host")
    assert row.message_size_bytes is None


class TimedCommunicator:
    """A wrapper as the recipe says, of a communicator that sums nothing."""

    def __init__(self, name: str, size: int, logger: TimingLogger) -> None:
        self._logger, self._identity = logger, OperationCounts(name, size, 0)
        logger.add_group(self._identity, name)

    def all_reduce(self, numbers: bytes) -> bytes:
        given = ("ALLREDUCE", len(numbers), None, None, self._identity, NeverWaitedFor, bytes, (numbers,))
        return self._logger.time_call(*given)

    def send(self, numbers: bytes, peer: int) -> None:
        identity, seq = self._identity, self._identity.next_sent(peer)
        with self._logger.record_mpi_operation(
            "SEND", len(numbers), group=identity.name, group_size=identity.size, seq=seq, peer=peer
        ):
            pass


def test_a_communicator_is_a_wrapper_that_counts_its_operations(tmp_path: Path) -> None:
    sink = MemorySink()
    with TimingLogger(0, tmp_path, sinks=[sink]) as logger:
        communicator = TimedCommunicator("pipeline", 4, logger)
        assert [communicator.all_reduce(b"12345678") for _ in range(2)] == [b"12345678"] * 2
        communicator.send(b"1234", 3)
    rows = [
        (one.operation, one.message_size_bytes, one.group_size, one.seq, one.peer) for one in sink.records
    ]
    assert rows == [("ALLREDUCE", 8, 4, 0, None), ("ALLREDUCE", 8, 4, 1, None), ("SEND", 4, 4, 0, 3)]
    (group,) = sidecar_of(tmp_path)["groups"]
    assert (group["group"], group["size"], group["issued"]) == ("pipeline", 4, 2)


@dataclass(slots=True, kw_only=True)
class WithColour(Options):
    """The options and one more field."""

    colour: str = "red"


def test_an_option_is_a_field_which_the_sidecar_states(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logger_module, "Options", WithColour)
    TimingLogger(0, tmp_path, colour="blue").close()  # type: ignore[call-arg]
    assert sidecar_of(tmp_path)["options"]["colour"] == "blue"


# -- what is counted beside ------------------------------------------------------------------------------


def test_a_counter_is_a_row_and_a_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    invented = Counter("invented_kb", "level", "made up", "a file of this test")
    file = tmp_path / "invented"
    file.write_text("7")
    source = ParsedSource((invented.name,), [str(file)], lambda texts: {invented.name: int(texts[0])})
    monkeypatch.setattr(host_sampler, "COUNTERS", (*COUNTERS, invented))
    monkeypatch.setattr(host_sampler, "SHORTEST_HOST_INTERVAL_S", 0)  # the only line is that of the end
    monkeypatch.setattr(host_sampler, "HEADER", HEADER.replace("\n", f",{invented.name}\n"))
    monkeypatch.setattr(host_sampler, "sources", lambda: [source])
    monkeypatch.setattr(host_rows, "COUNTED", (*host_rows.COUNTED, invented.name))
    TimingLogger(0, tmp_path / "logs", host_counters=True).close()
    with (tmp_path / "logs" / "host-rank0.csv").open() as lines:
        assert [row[invented.name] for row in csv.DictReader(lines)] == ["7"]
    assert read_host_counters(tmp_path / "logs")[invented.name].tolist() == [7.0]


# -- what answers ----------------------------------------------------------------------------------------


def longest_of_rows(timings: pd.DataFrame) -> pd.DataFrame:
    return timings.groupby("operation", as_index=False)["elapsed_ms"].max()


def longest_of_parts(parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    return longest_of_rows(pd.concat(parts))


def calls_of_rows(timings: pd.DataFrame) -> pd.DataFrame:
    calls = timings[timings["operation"].map(is_collective)]  # of small files, all rows are given
    return calls.groupby("operation", as_index=False, observed=True).agg(calls=("rank", "size"))


LONGEST = ByProcess(columns=("operation", "elapsed_ms"), map=longest_of_rows, reduce=longest_of_parts)
CALLS = OfCommunication(("operation",), calls_of_rows)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("logs")
    for rank in range(2):
        lasting = [("ALLREDUCE", 1.0 + rank), ("DATA", 3.0), ("ALLREDUCE", 2.0 - rank)]
        write_timing_file(
            folder, rank, [record(operation, at, ms) for at, (operation, ms) in enumerate(lasting, 1)]
        )
    return folder


def same(found: Any) -> list[Any]:
    return [[tuple(map(str, row)) for row in table.to_numpy()] for table in found]


def test_an_analysis_says_of_files_in_batches_what_it_says_of_a_table(folder: Path) -> None:
    timings = read_timings(folder)
    expected = [LONGEST.of(timings), CALLS.of(timings)]
    assert same(expected) == [[("ALLREDUCE", "2.0"), ("DATA", "3.0")], [("ALLREDUCE", "4")]]
    query = Query(timing_files(folder))
    assert same(run(query, LONGEST, CALLS).answers) == same(expected)
    assert same(answers_in_batches((LONGEST, CALLS), query, Processes(1))) == same(expected)


def test_a_question_is_a_command_that_asks_analyses(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def answer(arguments: Any) -> Answer:
        result = run_query(arguments, LONGEST)
        lacking = result.not_told_text("longest")
        if arguments.json:
            return Answer(rows_json(not_told=result.not_told("longest"), longest=result.answer))
        return Answer(result.answer.to_string() + lacking + result.how)

    question = parser._asking(Command("longest", "the longest calls", "By operation.", answer))
    monkeypatch.setattr(parser, "_COMMANDS", (*parser._COMMANDS, question))
    monkeypatch.setattr(not_told, "NEEDED_BY", {**not_told.NEEDED_BY, "longest": ("communication",)})
    assert main(["longest", str(folder), "--ranks", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == {
        "not_told": [],
        "longest": [
            {"operation": "ALLREDUCE", "elapsed_ms": 2.0},
            {"operation": "DATA", "elapsed_ms": 3.0},
        ],
    }
    assert main(["longest", str(folder)]) == 0
    assert "DATA" in capsys.readouterr().out


@dataclass(frozen=True, kw_only=True)
class Stricter(Policy):
    """The policy and one more number."""

    max_colour: float = positive(2.0, "Red is slow.", about="Colours")


def test_a_threshold_is_a_field_with_its_range_default_and_reason() -> None:
    (number,) = Stricter(max_colour=3).numbers()["Colours"]
    assert (number.name, number.value, number.standard, number.reason) == (
        "max_colour",
        3,
        2.0,
        "Red is slow.",
    )
    assert Stricter(max_colour=3).differences() == {"max_colour": 3}
    with pytest.raises(ConfigurationError, match="max_colour"):
        Stricter(max_colour=-1)


# -- what shows a run in progress ------------------------------------------------------------------------


def test_a_figure_is_a_row_which_exporters_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("prometheus_client")
    invented = Series("invented", "s", "Made up.", lambda seen: iter([({}, 2.0 * len(seen.snapshot.ranks))]))
    monkeypatch.setattr(figures, "SERIES", (*SERIES, invented))
    file = PrometheusFile(tmp_path / "job.prom", {"job": "7"})
    file.show(snapshot_of(4), None)
    assert 'timing_logger_invented_seconds{job="7"} 8.0\n' in (tmp_path / "job.prom").read_text()


class Screen:
    """An exporter as the recipe says."""

    shown: ClassVar[list[str]] = []

    def __init__(self, name: str) -> None:
        self.name = name

    def show(self, snapshot: Snapshot, change: Change | None) -> None:
        self.shown.append(f"{self.name}: {len(snapshot.ranks)} ranks")

    def close(self) -> None:
        self.shown.append("closed")


@dataclass(frozen=True)
class OnScreen(destinations._Options):
    """The options of that exporter."""

    kind: ClassVar[str] = "screen"
    name: str

    def open(self) -> Screen:
        return Screen(self.name)


def test_an_exporter_is_a_class_of_two_methods_and_its_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(destinations, "KINDS", {**KINDS, OnScreen.kind: OnScreen})
    options: Destination = from_json(OnScreen("wall").to_json())
    exporting = started(options, pytest.fail)
    exporting.show(snapshot_of(3))
    wait_for(lambda: exporting.shown == 1)
    assert exporting.close()
    assert Screen.shown == ["wall: 3 ranks", "closed"]
