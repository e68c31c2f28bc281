"""What a monitor may be told, and what its process is told then."""

from __future__ import annotations

import math
from typing import Any

import pytest

from timing_logger.errors import ConfigurationError
from timing_logger.process.monitor import Monitor, MonitorSettings


class Options:
    """Options that are handed to another process."""

    def __init__(self, name: str) -> None:
        self._name = name

    def to_json(self) -> dict[str, Any]:
        return {"name": self._name}


@pytest.mark.parametrize("name", ["every_s", "window_s"])
@pytest.mark.parametrize("value", [0, 0.9, 3600.1, -5.0, math.nan, math.inf, True, "5", None])
def test_a_time_that_is_no_number_of_seconds_from_1_to_3600_is_refused(name: str, value: Any) -> None:
    with pytest.raises(ConfigurationError) as said:
        Monitor(**{name: value})
    assert str(said.value) == f"{name} must be seconds from 1 to 3600, and is {value!r}."


def test_the_shortest_and_the_longest_time_are_taken() -> None:
    assert Monitor(every_s=1, window_s=3600.0).settings("logs").every_s == 1


def test_a_window_has_to_hold_two_looks() -> None:
    assert Monitor(every_s=15.0, window_s=30.0).window_s == 30.0
    with pytest.raises(
        ConfigurationError, match=r"^window_s=29\.9 is less than two looks, every_s=15\.0 apart"
    ):
        Monitor(every_s=15.0, window_s=29.9)


def test_what_is_called_has_to_be_a_function() -> None:
    Monitor(on_verdict=print)
    with pytest.raises(ConfigurationError, match="on_verdict must be a function of an event, and is 'print'"):
        Monitor(on_verdict="print")  # type: ignore[arg-type]


def test_its_process_is_told_all_of_it_as_plain_values() -> None:
    monitor = Monitor(every_s=2.0, window_s=9.0, webhooks=[Options("hook")], show_in=[Options("page")])
    assert monitor.settings("logs", 7.0) == MonitorSettings(
        log_dir="logs", since_unix_s=7.0, every_s=2.0, window_s=9.0, webhooks=[{"name": "hook"}],
        show_in=[{"name": "page"}],
    )  # fmt: skip


def test_without_being_told_it_looks_every_5_s_at_the_last_30() -> None:
    for told in (Monitor().settings("logs"), MonitorSettings(log_dir="logs")):
        assert (told.every_s, told.window_s, told.since_unix_s) == (5.0, 30.0, 0.0)
        assert (list(told.webhooks), list(told.show_in)) == ([], [])
