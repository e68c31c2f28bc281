"""Fixtures of all tests, and the settings of random tests.

Loggers that a test leaves open are closed after it, loggers for tests write into memory, and random tests use
the same examples in every run.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest
from both_cores import each_core
from browser import browser, report
from memory_logger import logger, sink
from native_jobs import environment
from scripted_device import scripted_device

from timing_logger import shutdown_timing_logger
from timing_logger.recording.lifecycle import _detachables
from timing_logger.recording.logger import Logger

UNTIL = "TIMING_LOGGER_TESTS_UNTIL"  # of suite.py

__all__ = [
    "browser",
    "each_core",
    "environment",
    "logger",
    "no_logger_is_left_open",
    "report",
    "scripted_device",
    "sink",
]


# Every run tries the same examples: a few, or with ``make test-all`` five times as many. ``make test-random``
# tries new ones. Hypothesis would also try constants
# of all modules that are imported by then, which depend on the tests that ran before. No setting turns this
# off.
with suppress(ImportError):  # a machine with a GPU need not have Hypothesis
    from hypothesis import settings
    from hypothesis.internal.conjecture import providers

    providers._get_local_constants = lambda: providers._local_constants  # empty, until that function fills it
    settings.register_profile("few-examples", derandomize=True, deadline=None, max_examples=20)
    settings.register_profile("same-examples", derandomize=True, deadline=None)
    settings.register_profile("new-examples", deadline=None, print_blob=True)
    settings.load_profile("few-examples")


def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    """Name a test that fails as soon as it does: whoever ends the run before its end knows of it, too."""
    if not report.failed:
        return None
    category = "failed" if report.when == "call" else "error"
    return category, f"\n{category}: {report.nodeid}\n", category.upper()


@pytest.fixture(autouse=True)
def no_logger_is_left_open() -> Iterator[None]:
    """Close after each test the loggers that it left open, and the global one.

    Their threads would go on asking the device, or its stand-in, while other tests count what is asked of it.
    """
    before = open_loggers()
    yield
    shutdown_timing_logger()
    for left in open_loggers() - before:
        left.close()


def open_loggers() -> set[Logger]:
    return {one for one in list(_detachables) if isinstance(one, Logger) and one._own_flusher() is not None}


def pytest_collection() -> None:
    gc.disable()  # nearly all that importing and collecting make stays


def pytest_collection_finish() -> None:
    """Leave all that there is now, over a million objects, out of each further search for garbage."""
    gc.enable()
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Begin no further test once the time for all of them is over, as ``suite.py deep`` has it."""
    if time.time() > float(os.environ.get(UNTIL, "inf")):
        pytest.skip("the time for these tests was over: make test-all runs them")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse a slow mark that does not say why ``make test`` can do without the test."""
    for item in items:
        if any(not mark.args for mark in item.iter_markers("slow")):
            raise pytest.UsageError(f'{item.nodeid}: say why: pytest.mark.slow("reason")')
