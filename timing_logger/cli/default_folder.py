"""The folder that a command is about if none was named."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from timing_logger.cli.stderr import say
from timing_logger.errors import NoTimingFilesError
from timing_logger.run_info import TimingFile

FOLDERS = ("logs/timing", "logs/run")
"""Where ``init_timing_logger``, ``autolog`` and ``timing-logger run`` write if no other folder is named."""


def name_folder(arguments: Namespace) -> None:
    """Fill in the folder of the newest run, if the command has an argument ``logdir`` that was left out.

    Raises:
        NoTimingFilesError: there is no run in the default folders.
    """
    if getattr(arguments, "logdir", "named") not in (None, []):
        return
    folder = _newest()
    if folder is None:
        raise NoTimingFilesError(
            f"LOGDIR: none was named, and there are no timing files in {' or '.join(FOLDERS)}, or in a "
            "folder of these. Name the folder of a run."
        )
    say(f"no LOGDIR was named; this is about {folder}, the default folder that was written to last")
    arguments.logdir = [str(folder)] if arguments.logdir == [] else str(folder)


def _newest() -> Path | None:
    """Return the folder with the latest written timing file, of the default ones and those right below."""
    files = [
        file
        for folder in map(Path, FOLDERS)
        for pattern in ("timing-rank*", "*/timing-rank*")
        for file in folder.glob(pattern)
        if TimingFile.parse(file.name)
    ]
    return max(files, key=lambda file: file.stat().st_mtime_ns).parent if files else None
