"""Read the sidecars of timing files, and list the parts of one."""

from __future__ import annotations

import json
import os
from pathlib import Path

from timing_logger.errors import NotATimingFileError
from timing_logger.process.shared_files import content_of_small, names_in
from timing_logger.schema.sidecar import SidecarDict, usable_sidecar
from timing_logger.schema.timing_files import TimingFile, sidecar_path

_MOST_BYTES = 64 * 2**20  # a real sidecar has some ten thousand bytes at most


def parts_of(timing_file: Path) -> list[Path]:
    """Return the parts of a timing file that are there as text, in order; the first may be gone.

    Args:
        timing_file: the path of its first part.

    Raises:
        FileNotFoundError: none is.
    """
    first = TimingFile.parse(timing_file.name)
    begin = timing_file.name.removesuffix(".csv")  # of thousands of names, few are looked at closely
    numbered = [
        (name.part, timing_file.with_name(found))
        for found in names_in(timing_file.parent)
        if found.startswith(begin) and (name := TimingFile.parse(found)) is not None and name.first == first
    ]
    if not numbered:
        raise FileNotFoundError(f"{str(timing_file)!r} is gone")
    return [path for _, path in sorted(numbered)]


def check_is_file(argument: str, path: Path) -> None:
    """Refuse a path that is named like a timing file but is no regular file: a FIFO would block the reader.

    Args:
        argument: the name of the argument that named the path, for the message.

    Raises:
        NotATimingFileError: the path is not a regular file.
    """
    if not path.is_file():
        raise NotATimingFileError(f"{argument}: {str(path)!r} is not a regular file. Move it away.")


def read_sidecar(timing_file: Path) -> SidecarDict | None:
    """Read the sidecar of a timing file, as :func:`usable_sidecar` returns it.

    The call neither waits for a FIFO nor reads an endless file.

    Returns:
        The content; None if there is no sidecar, it cannot be read, is larger than 64 MiB, or is no JSON
        object.
    """
    try:
        return usable_sidecar(json.loads(content_of_small(sidecar_path(timing_file), _MOST_BYTES)))
    except (OSError, ValueError, RecursionError):
        return None


def is_anothers(timing_file: Path, started_unix_ns: int | None) -> bool | None:
    """Tell whether the sidecar of a timing file is that of another logger; None if there is no sidecar.

    Args:
        timing_file: the path of the timing file.
        started_unix_ns: when this process's logger was started; None if it has no sidecar.
    """
    sidecar = read_sidecar(timing_file)
    if sidecar is None:
        return None
    return (sidecar.get("pid"), sidecar.get("started_unix_ns")) != (os.getpid(), started_unix_ns)
