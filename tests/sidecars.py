"""Sidecars of loggers that are still open: a thread of their own writes them, in its own time."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def sidecar_when(folder: Path, is_so: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The first sidecar that is as wanted. A wait of half a minute fails the test."""
    deadline_s = time.monotonic() + 30
    while time.monotonic() < deadline_s:
        content: dict[str, Any] = json.loads((folder / "timing-rank0.meta.json").read_text())
        if is_so(content):
            return content
        time.sleep(0.002)
    pytest.fail(f"the sidecar still says {content}")


def remove_folder(folder: Path) -> None:
    """As ``rm -r`` does it until it is gone: a sidecar may be written meanwhile."""
    deadline_s = time.monotonic() + 30
    while folder.exists():
        shutil.rmtree(folder, ignore_errors=True)
        assert time.monotonic() < deadline_s, f"{folder} cannot be removed"
