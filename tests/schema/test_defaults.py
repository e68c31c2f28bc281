"""What a logger and a monitor do that are told nothing else, and what is just long enough to be told."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import pytest

from timing_logger import Monitor, TimingLogger
from timing_logger.native_mpi.run_info_in_c import run_info_header
from timing_logger.recording.watchers.host_sampler import HostSampler
from timing_logger.recording.watchers.stack_sampler import StackSampler


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("flush_interval", 1.0),
        ("maxsize", 100_000),
        ("device_timeout", 1.0),
        ("hang_after", 60.0),
        ("file_mode", 0o644),
    ],
)
def test_a_logger_that_is_told_nothing_has_the_options_that_its_page_states(
    tmp_path: Path, name: str, value: float
) -> None:
    TimingLogger(0, tmp_path).close()
    sidecar = json.loads((tmp_path / "timing-rank0.meta.json").read_text())
    assert sidecar["options"][name] == value


def test_flush_waits_for_5_s_at_most_unless_it_is_told_otherwise() -> None:
    assert inspect.signature(TimingLogger.flush).parameters["timeout"].default == 5.0


def test_the_host_is_looked_at_once_a_second_and_the_stack_five_times() -> None:
    samplers = (HostSampler, StackSampler)
    each_s = [inspect.signature(one).parameters["interval_s"].default for one in samplers]
    assert each_s == [1.0, 0.2]


def test_a_monitor_looks_every_5_s_at_the_last_30() -> None:
    assert (Monitor().every_s, Monitor().window_s) == (5.0, 30.0)


@pytest.mark.parametrize("line", ["#define HANG_AFTER_S 60.0", "#define SIDECAR_REFRESH_S 10.0"])
def test_the_library_in_c_does_the_same(line: str) -> None:
    assert f"\n{line}\n" in run_info_header()
