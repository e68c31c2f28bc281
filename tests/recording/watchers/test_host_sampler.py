"""The thread that writes the host's counters: what is in a line, and what becomes of errors."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from limits import LIMIT_S

from timing_logger import TimingLogger, read_host_counters
from timing_logger.recording.file_beside import FileBeside
from timing_logger.recording.mailbox import Mailbox
from timing_logger.recording.watchers import host_sampler as sampler_module
from timing_logger.recording.watchers.apart import Apart
from timing_logger.recording.watchers.host_sampler import HostSampler, line
from timing_logger.recording.watchers.kernel_files import ParsedSource
from timing_logger.schema.host_counters import HEADER, NAMES
from timing_logger.schema.sidecar import Unseen
from timing_logger.schema.timing_files import HOST
from timing_logger.sinks.csv import CsvSink

S = 10**9


def cells(text: bytes) -> dict[str, str]:
    return dict(zip(HEADER.strip().split(","), text.decode().rstrip("\n").split(","), strict=True))


def test_a_line_has_by_how_much_a_counter_grew_and_where_a_level_stood() -> None:
    found = cells(line(S, 2 * S, {"major_faults": 5, "cpu_mhz": 1000}, {"major_faults": 12, "cpu_mhz": 900}))
    assert (found["major_faults"], found["cpu_mhz"]) == ("7", "900")
    assert (found["start_counter"], found["end_counter"]) == ("1.000", "2.000")


@pytest.mark.parametrize(
    ("before", "now"),
    [({}, {"major_faults": 5}), ({"major_faults": 5}, {}), ({"major_faults": 5}, {"major_faults": 4})],
    ids=["at its start", "at its end", "it began anew"],
)
def test_what_is_not_known_of_an_interval_is_blank(
    before: Mapping[str, float], now: Mapping[str, float]
) -> None:
    assert set(cells(line(S, 2 * S, before, now)).values()) == {"1.000", "2.000", ""}


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        (0, "0"),
        (1.5, "1.5"),
        (999_999, "999999"),
        (1_234_567, "123e4"),
        (99_960_000, "1000e5"),
        (10**15, "100e13"),
    ],
)
def test_a_large_number_has_three_digits(value: float, cell: str) -> None:
    written = cells(line(S, 2 * S, {}, {"cpu_mhz": value}))["cpu_mhz"]
    assert written == cell
    assert float(written) == pytest.approx(value, rel=0.005)


BUSY = {
    "main_run_queue_wait_us": 512, "run_queue_wait_us": 20_345, "process_cpu_us": 1_812_345,
    "involuntary_switches": 12, "resident_mb": 18_231, "process_read_kb": 5120, "cpu_pressure_some_us": 2345,
    "io_pressure_some_us": 120, "io_pressure_full_us": 100, "cgroup_cpu_pressure_some_us": 120,
    "cgroup_io_pressure_some_us": 80, "usable_cores": 192, "runnable_tasks": 12, "cpu_mhz": 3412,
    "memory_available_mb": 1_812_345, "dirty_mb": 31, "disk_read_kb": 12_345, "disk_written_kb": 2345,
    "network_received_kb": 1234, "network_sent_kb": 2345, "gpu_sm_mhz": 1980, "gpu_temperature_c": 67,
    "gpu_power_w": 698, "gpu_pcie_width": 16, "gpu_pcie_generation": 5, "ib_received_kb": 12_345_678,
    "ib_sent_kb": 12_345_678,
}  # fmt: skip
"""One second of a rank that trains on a host that has everything, and has been up for two weeks."""


def test_a_line_with_all_counters_takes_at_most_200_bytes() -> None:
    nothing = dict.fromkeys(NAMES, 0)
    text = line(1_234_567 * S, 1_234_568 * S, nothing, {**nothing, **BUSY})
    assert "" not in cells(text).values()
    assert len(text) <= 200


# -- the thread -------------------------------------------------------------------------------------------


class Counting:
    """A source whose counter grows by one with each reading, and which tells of each."""

    counters = ("major_faults",)
    why = ""

    def __init__(self) -> None:
        self.readings = 0
        self.told: Mailbox[int] = Mailbox()

    def paths(self) -> Sequence[str]:
        return ()

    def values(self, texts: Sequence[bytes]) -> Mapping[str, float]:
        self.readings += 1
        self.told.put(self.readings)
        return {"major_faults": self.readings}

    def wait_for(self, readings: int) -> None:
        while self.told.take(LIMIT_S) < readings:
            pass


@pytest.fixture
def timing_file(tmp_path: Path) -> CsvSink:
    return CsvSink(tmp_path / "logs", 0)


@pytest.fixture
def host_file(timing_file: CsvSink) -> FileBeside:
    return FileBeside(timing_file, HOST, HEADER, started_unix_ns=1, mode=0o644)


def faults(folder: Path) -> list[str]:
    text = (folder / "host-rank0.csv").read_bytes()
    return [cells(one)["major_faults"] for one in text.splitlines(keepends=True)[1:]]


def test_each_line_continues_where_the_last_one_ended(host_file: FileBeside, timing_file: CsvSink) -> None:
    source = Counting()
    sampler = HostSampler(lambda: [source], host_file, interval_s=0.02)
    source.wait_for(5)
    sampler.close(LIMIT_S)
    lines = timing_file.path.with_name("host-rank0.csv").read_bytes().splitlines(keepends=True)[1:]
    spans = [(cells(one)["start_counter"], cells(one)["end_counter"]) for one in lines]
    assert [start for start, _ in spans[1:]] == [end for _, end in spans[:-1]]
    assert sum(map(int, faults(timing_file.path.parent))) == source.readings - 1


def test_closing_it_writes_the_rest_of_the_last_interval(host_file: FileBeside, timing_file: CsvSink) -> None:
    source = Counting()
    sampler = HostSampler(lambda: [source], host_file, interval_s=1000)
    source.wait_for(1)
    sampler._since_ns -= S  # a second ago
    sampler.close(LIMIT_S)
    assert faults(timing_file.path.parent) == ["1"]
    assert sampler.info().lines == 1
    sampler.close(LIMIT_S)


def test_what_cannot_be_written_is_part_of_the_next_line_and_is_said_once(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    host_file: FileBeside,
    timing_file: CsvSink,
) -> None:
    write, source = FileBeside.append, Counting()

    def full_at_first(self: FileBeside, text: bytes) -> list[str]:
        if source.readings < 4:
            raise OSError(28, "No space left on device")
        return write(self, text)

    monkeypatch.setattr(FileBeside, "append", full_at_first)
    with caplog.at_level(logging.WARNING, "timing_logger"):
        sampler = HostSampler(lambda: [source], host_file, interval_s=0.02)
        source.wait_for(5)
        sampler.close(LIMIT_S)
    assert faults(timing_file.path.parent)[0] == "3"
    assert sampler.info().failed == 2
    assert "No space left" in sampler.info().last_error
    assert len(caplog.records) == 1


def test_a_source_that_fails_costs_no_other_its_values(host_file: FileBeside, timing_file: CsvSink) -> None:
    def fails(texts: Sequence[bytes]) -> Mapping[str, float]:
        return {"cpu_mhz": int(b"what no kernel has written so far")}

    source = Counting()
    sampler = HostSampler(lambda: [ParsedSource(["cpu_mhz"], [], fails), source], host_file, interval_s=0.02)
    source.wait_for(3)
    sampler.close(LIMIT_S)
    assert faults(timing_file.path.parent)[0] == "1"
    assert sampler.info().last_error.startswith("cpu_mhz cannot be told")


def test_what_cannot_be_seen_is_stated_with_its_reason(host_file: FileBeside, tmp_path: Path) -> None:
    gone, silent = str(tmp_path / "gone"), tmp_path / "silent"
    silent.touch()

    def nothing(texts: Sequence[bytes]) -> Mapping[str, float]:
        return {}

    source = Counting()
    found = [
        ParsedSource(["cpu_mhz"], [gone], nothing),
        ParsedSource(["steal_us"], [str(silent)], nothing),
        ParsedSource(["gpu_xid"], [], nothing, "there is no device"),
        source,
    ]
    sampler = HostSampler(lambda: found, host_file, interval_s=0.02)
    source.wait_for(2)
    sampler.close(LIMIT_S)
    assert sampler.info().unseen == [
        Unseen(["cpu_mhz"], f"{gone}: No such file or directory"),
        Unseen(["steal_us"], f"not stated in {silent}"),
        Unseen(["gpu_xid"], "there is no device"),
    ]


def begun(sampler: HostSampler) -> None:
    """End the thread, and read once as it does at its start: from now on the test is the thread."""
    sampler.close(LIMIT_S)
    sampler._begin()


class Told:
    """A source with a file, which states what the test says."""

    counters = ("cpu_mhz",)
    why = ""

    def __init__(self, path: Path) -> None:
        self.path, self.stated = path, {"cpu_mhz": 5}

    def paths(self) -> Sequence[str]:
        return [str(self.path)]

    def values(self, texts: Sequence[bytes]) -> Mapping[str, float]:
        return self.stated


@pytest.mark.parametrize("at_first", [{}, {"cpu_mhz": 5}])
def test_a_source_whose_files_state_nothing_at_first_is_not_read_again(
    host_file: FileBeside, tmp_path: Path, at_first: dict[str, int]
) -> None:
    source = Told(tmp_path / "file")
    source.stated = at_first
    sampler = HostSampler(lambda: [source], host_file, interval_s=LIMIT_S)
    begun(sampler)
    source.stated = {"cpu_mhz": 6}
    assert sampler._values() == ({"cpu_mhz": 6} if at_first else {})


def test_what_begins_to_be_stated_later_is_unseen_no_more(host_file: FileBeside) -> None:
    stated: dict[str, float] = {}
    source = ParsedSource(["gpu_power_w", "gpu_xid"], [], lambda texts: dict(stated), "not in use")
    sampler = HostSampler(lambda: [source], host_file, interval_s=LIMIT_S)
    begun(sampler)
    assert sampler.info().unseen == [Unseen(["gpu_power_w", "gpu_xid"], "not in use")]
    stated["gpu_power_w"] = 300
    lines: Any = Lines()
    sampler._file = lines
    sampler._sample()
    assert sampler.info().unseen == [Unseen(["gpu_xid"], "not in use")]


class Lines:
    """A file in memory, which says that it was changed."""

    name, lines = "host-rank0.csv", 0

    def append(self, text: bytes) -> list[str]:
        return ["it was cut"]


def test_a_file_that_was_changed_is_reported(host_file: FileBeside) -> None:
    sampler = HostSampler(list, host_file, interval_s=LIMIT_S)
    begun(sampler)
    lines: Any = Lines()
    sampler._file = lines
    sampler._sample()
    assert sampler.info().last_error == "the file of host counters was changed: it was cut"


@pytest.mark.parametrize(("rest_ns", "n_lines"), [(9_999_999, 0), (10_000_000, 1)])
def test_a_rest_of_less_than_a_hundredth_of_a_second_has_no_line(
    host_file: FileBeside, monkeypatch: pytest.MonkeyPatch, rest_ns: int, n_lines: int
) -> None:
    now_ns = [5 * S]
    monkeypatch.setattr(sampler_module, "perf_counter_ns", lambda: now_ns[0])
    written: list[bytes] = []
    monkeypatch.setattr(FileBeside, "append", lambda self, text: (written.append(text), [])[1])
    sampler = HostSampler(list, host_file, interval_s=LIMIT_S)
    begun(sampler)
    written.clear()
    now_ns[0] += rest_ns
    sampler._finish()
    assert len(written) == n_lines


def test_the_time_of_what_is_read_apart_is_part_of_what_it_costs(host_file: FileBeside) -> None:
    beside = Apart(["gpu_power_w"], lambda: lambda: {})
    sampler = HostSampler(lambda: [beside], host_file, interval_s=LIMIT_S)
    sampler.close(LIMIT_S)
    assert beside._thread is not None
    beside._thread.join(LIMIT_S)  # as the end of the sampler closed it
    assert not beside._thread.is_alive()
    beside.cpu_ns = 700
    assert sampler.info().cpu_ns == sampler._thread.cpu_ns + 700


# -- of a logger ------------------------------------------------------------------------------------------


def test_a_logger_writes_what_this_host_counts_beside_its_timings(tmp_path: Path) -> None:
    with TimingLogger(0, tmp_path, host_counters=True) as logger:
        logger.flush()
        assert logger._samplers
        while not logger._samplers[0]._before:  # until the first reading
            os.sched_yield()
        logger._samplers[0]._since_ns -= S
    (row,) = read_host_counters(tmp_path).to_dict("records")
    assert row["process_cpu_us"] > 0
    stated = json.loads((tmp_path / "timing-rank0.meta.json").read_text())["host_counters"]
    assert (stated["file"], stated["lines"], stated["failed"]) == ("host-rank0.csv", 1, 0)
    missing = {name for one in stated["unseen"] for name in one["counters"]}
    assert missing < set(NAMES)


@pytest.mark.parametrize(
    "options", [{}, {"enabled": False, "host_counters": True}, {"ranks": [1], "host_counters": True}]
)
def test_a_logger_that_is_off_or_not_asked_to_writes_none(tmp_path: Path, options: dict[str, object]) -> None:
    with TimingLogger(0, tmp_path / "logs", **options) as logger:  # type: ignore[arg-type]
        assert not logger._samplers
    assert not list(tmp_path.rglob("host-*"))


def test_a_logger_without_a_file_writes_none(sink: object) -> None:
    with TimingLogger(0, None, sinks=[sink], host_counters=True) as logger:  # type: ignore[list-item]
        assert not logger._samplers
