"""A torch that nobody tried: one warning, and no more."""

from __future__ import annotations

import logging

import pytest
import torch
from packaging.version import Version

from allreduce_instrumentation.torch_distributed import _torch_versions
from allreduce_instrumentation.torch_distributed._torch_versions import is_tried, warn_of_an_untried_torch


@pytest.mark.parametrize("version", ["2.8.0", "2.13.0+cpu", "2.15.1+cu132", "2.15.0a0+git1234"])
def test_versions_within_the_range_count_as_tried(version: str) -> None:
    assert is_tried(version)


@pytest.mark.parametrize("version", ["2.7.1", "1.13.1", "2.16.0", "3.0.0", "main.of.today"])
def test_older_and_newer_versions_do_not_count_as_tried(version: str) -> None:
    assert not is_tried(version)


def test_an_untried_torch_is_named_once_with_the_range(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(torch, "__version__", "9.1.0")
    warn_of_an_untried_torch.cache_clear()
    with caplog.at_level(logging.WARNING, logger="timing_logger"):
        warn_of_an_untried_torch()
        warn_of_an_untried_torch()
    warn_of_an_untried_torch.cache_clear()
    (said,) = caplog.messages
    assert said.startswith("torch 9.1.0 was not tried with this package: 2.8 to 2.15 were.")


def test_the_torch_of_this_environment_is_one_that_was_tried() -> None:
    oldest, newest = (".".join(map(str, each)) for each in (_torch_versions.OLDEST, _torch_versions.NEWEST))
    assert Version(oldest) <= Version(Version(torch.__version__).base_version)
    assert Version(torch.__version__).release[:2] <= Version(newest).release
