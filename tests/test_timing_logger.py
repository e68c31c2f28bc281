"""The names of the package itself, which are imported when they are first used."""

from __future__ import annotations

import pytest

import timing_logger


def test_a_name_that_the_package_does_not_have_is_an_attribute_error_that_names_it() -> None:
    with pytest.raises(AttributeError, match="module 'timing_logger' has no attribute 'TimingLoger'"):
        _ = timing_logger.TimingLoger  # type: ignore[attr-defined]


def test_hasattr_tells_which_names_the_package_has() -> None:
    assert [hasattr(timing_logger, name) for name in ("TimingLogger", "TimingLoger")] == [True, False]


def test_each_public_name_is_there_and_listed() -> None:
    assert [name for name in timing_logger.__all__ if not hasattr(timing_logger, name)] == []
    assert set(timing_logger.__all__) <= set(dir(timing_logger))
