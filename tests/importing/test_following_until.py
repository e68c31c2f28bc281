"""An import that follows files looks at them again after an interval, and ends when it is told to."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from timing_logger.errors import ConfigurationError
from timing_logger.importing import following
from timing_logger.importing.following import Until


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long was slept each time, by a clock that only sleep moves."""
    sleeps: list[float] = []
    clock = SimpleNamespace(monotonic=lambda: 100.0 + sum(sleeps), sleep=sleeps.append)
    monkeypatch.setattr(following, "time", clock)
    return sleeps


def test_the_next_look_is_an_interval_later(slept: list[float]) -> None:
    Until(idle_s=9.0, interval_s=0.25).wait()
    assert slept == pytest.approx([0.1, 0.1, 0.05])


def test_it_is_asked_ten_times_a_second_whether_to_end(slept: list[float]) -> None:
    ends = Until(is_stopped=lambda: len(slept) == 3)
    assert not ends.is_now
    ends.wait()
    assert slept == pytest.approx([0.1] * 3)
    assert ends.is_now
    ends.wait()
    assert len(slept) == 3
    assert not Until(idle_s=1.0).is_now


def test_by_default_there_is_a_second_between_looks(slept: list[float]) -> None:
    Until(idle_s=9.0).wait()
    assert sum(slept) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"idle_s": 0}, "idle_s=0 must be more than 0"),
        ({"idle_s": 1, "interval_s": -1}, "interval_s=-1 must be more than 0"),
        ({"idle_s": float("nan")}, "idle_s=nan must be more than 0"),
        ({}, "nothing ends this import"),
    ],
)
def test_values_that_are_not_possible_are_refused(values: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        Until(**values).checked()


@pytest.mark.parametrize("values", [{"idle_s": 1e-9}, {"is_stopped": bool}, {"idle_s": 1, "interval_s": 2}])
def test_values_that_are_possible_are_returned(values: dict[str, Any]) -> None:
    assert Until(**values).checked() == Until(**values)
