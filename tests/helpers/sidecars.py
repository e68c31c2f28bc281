"""Helpers for sidecars: of open loggers, whose thread writes them at times of its own, and replaced ones."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from conditions import wait_for

from timing_logger.recording.sidecar_writer import replace_sidecar
from timing_logger.schema.timing_files import sidecar_path


def sidecar_when(folder: Path, is_so: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Wait until ``is_so`` is true of rank 0's sidecar, and return it."""
    path = folder / "timing-rank0.meta.json"

    def content() -> dict[str, Any]:
        found: dict[str, Any] = json.loads(path.read_text())
        return found if is_so(found) else {}

    return wait_for(content, lambda: f"a sidecar other than {path.read_text()}")


def remove_folder(folder: Path) -> None:
    """Remove ``folder``, again and again until it is gone, as a sidecar may be written meanwhile."""

    def is_gone() -> bool:
        shutil.rmtree(folder, ignore_errors=True)
        return not folder.exists()

    wait_for(is_gone, f"the removal of {folder}")


def states(timing_file: Path, **content: Any) -> Path:
    """Replace the sidecar of a timing file, as its logger does, by one with this content; return the file."""
    replace_sidecar(sidecar_path(timing_file), json.dumps(content))
    return timing_file
