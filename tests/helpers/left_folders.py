"""What a killed process leaves in a folder, for several tests.

Each has it at the same place, since paths are in it.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Hashable
from pathlib import Path


class LeftFolders:
    """Keeps copies of what programs left in folders."""

    def __init__(self) -> None:
        self._kept = tempfile.TemporaryDirectory(prefix="left-")
        self._copies: dict[tuple[Path, Hashable], Path] = {}

    def leave(self, folder: Path, program: Hashable, run: Callable[[], object]) -> None:
        """Have ``run`` fill the empty ``folder``; with the same ``program`` again, put a copy there."""
        copy = self._copies.get((folder, program))
        if copy is not None:
            shutil.copytree(copy, folder, symlinks=True, dirs_exist_ok=True)
            return
        run()
        copy = self._copies[folder, program] = Path(self._kept.name, str(len(self._copies)))
        shutil.copytree(folder, copy, symlinks=True)


def emptied(folder: Path) -> Path:
    """Return the folder, with nothing in it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder
