"""The block that is not recorded: whatever is done with it has no effect."""

from __future__ import annotations

import math
from typing import Any

import pytest

from timing_logger.recording.cores.protocols import NO_SPAN, ignore, no_span


def test_it_may_be_entered_again_and_again_within_itself() -> None:
    with no_span("ALLREDUCE", 8, group="world") as outer, NO_SPAN as inner:
        assert outer is inner is NO_SPAN
    assert math.isnan(NO_SPAN.elapsed_ms)


def test_it_hides_no_error() -> None:
    with pytest.raises(KeyError), NO_SPAN:
        raise KeyError


def test_its_columns_stay_blank_and_it_has_no_others() -> None:
    span: Any = NO_SPAN
    span.work = 8.5
    assert span.work is None
    with pytest.raises(AttributeError, match="works"):
        span.works = 8.5
    with pytest.raises(AttributeError, match="works"):
        _ = span.works


def test_what_makes_no_block_returns_nothing() -> None:
    assert ignore("ALLREDUCE", 1.0, layer_name="layer1") is None  # type: ignore[func-returns-value]
