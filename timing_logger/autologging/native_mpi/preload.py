"""Gives the library a path that the loader takes: ``LD_PRELOAD`` ends a path at a space and at a colon."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from timing_logger.autologging.native_mpi.build import library
from timing_logger.errors import ConfigurationError

_NOT_IN_A_PATH = frozenset(" :$")  # the loader replaces $ORIGIN and the like


def preloadable_library() -> Path:
    """Return the path of the library, or of a copy of it that stays until this process ends.

    The copy is in a folder that only this user may enter, with a name that nobody could know before.

    Raises:
        ConfigurationError: the library cannot be built, or no folder has such a path.
    """
    path = library()
    if _is_taken_by_the_loader(path):
        return path
    for folder in _folders():
        with suppress(OSError):
            private = Path(tempfile.mkdtemp(prefix="timing-logger-", dir=folder))
            atexit.register(shutil.rmtree, private, ignore_errors=True)
            return Path(shutil.copyfile(path, private / path.name))
    raise ConfigurationError(
        f"--native-mpi: the loader takes no path with a space, a colon or a $, as {str(path)!r} is, and no "
        "temporary folder is usable in its place. Set XDG_CACHE_HOME to a folder without them."
    )


def _is_taken_by_the_loader(path: Path) -> bool:
    return not _NOT_IN_A_PATH & set(str(path))


def _folders() -> Iterator[Path]:
    """Yield folders of this machine that the loader can load from."""
    for folder in map(Path, (tempfile.gettempdir(), "/dev/shm", "/var/tmp")):
        with suppress(OSError):
            if _is_taken_by_the_loader(folder) and not os.statvfs(folder).f_flag & os.ST_NOEXEC:
                yield folder
