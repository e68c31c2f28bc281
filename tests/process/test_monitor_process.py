"""In which environment the process of a monitor starts."""

from __future__ import annotations

import os
import sys

import pytest

from timing_logger.process import monitor


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """That of the monitor of a rank which is timed, and computes on eight cores."""
    for name, value in {
        "LD_PRELOAD": "/lib/timing.so", "TIMING_LOGGER_AUTOLOG": "1", "OMP_NUM_THREADS": "8", "KEPT": "yes",
        "PYTHONPATH": "/other",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "path", ["", "/program", monitor._SITE, "/packages"])
    return monitor._environment()


def test_it_is_not_timed_itself(environment: dict[str, str]) -> None:
    assert not {"LD_PRELOAD", "TIMING_LOGGER_AUTOLOG"} & set(environment)
    assert environment["KEPT"] == "yes"


def test_it_finds_what_this_process_does_but_for_what_times_a_rank(environment: dict[str, str]) -> None:
    assert environment["PYTHONPATH"].split(os.pathsep) == ["/program", "/packages"]


@pytest.mark.parametrize("name", ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"])
def test_it_computes_in_one_thread(environment: dict[str, str], name: str) -> None:
    assert environment[name] == "1"
