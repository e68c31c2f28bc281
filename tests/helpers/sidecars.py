"""Helpers for sidecars: of open loggers, whose thread writes them at times of its own, and replaced ones."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from timing_logger.recording.sidecar_writer import replace_sidecar
from timing_logger.run_info import sidecar_path


def sidecar_when(folder: Path, is_so: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Wait until ``is_so`` is true of rank 0's sidecar, and return it; the test fails after 30 s."""
    deadline_s = time.monotonic() + 30
    while time.monotonic() < deadline_s:
        content: dict[str, Any] = json.loads((folder / "timing-rank0.meta.json").read_text())
        if is_so(content):
            return content
        time.sleep(0.002)
    pytest.fail(f"the sidecar still says {content}")


def remove_folder(folder: Path) -> None:
    """Remove ``folder``, again and again until it is gone, as a sidecar may be written meanwhile."""
    deadline_s = time.monotonic() + 30
    while folder.exists():
        shutil.rmtree(folder, ignore_errors=True)
        assert time.monotonic() < deadline_s, f"{folder} cannot be removed"


def states(timing_file: Path, **content: Any) -> Path:
    """Replace the sidecar of a timing file, as its logger does, by one with this content; return the file."""
    replace_sidecar(sidecar_path(timing_file), json.dumps(content))
    return timing_file
