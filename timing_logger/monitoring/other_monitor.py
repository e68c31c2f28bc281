"""What another monitor of the same run tells, as it stands in the file of verdicts."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from timing_logger.monitoring.events import KEYS, Event
from timing_logger.monitoring.receivers import FILE_NAME
from timing_logger.owned_files import open_owned, owner_of

_MOST_BYTES = 2**20  # of events, which are few, at one time
_ALWAYS = frozenset(key.name for key in KEYS if key.always)
_TEXTS = ("event", "change", "at", "run_id", "verdict", "operation", "owner", "text")


class OtherMonitor:
    """Follows the file of verdicts, from its end on.

    Args:
        folder: the folder of the timing files.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE_NAME
        self._inode, self._offset = 0, 0
        self._read_from_end()

    def told(self, run_id: str) -> list[Event]:
        """Return the events that were added since the last call.

        Args:
            run_id: the run that they are to be of; "" if it is not known.
        """
        events = [event for line in self._added().splitlines() if (event := _event(line)) is not None]
        return [event for event in events if not run_id or event["run_id"] in ("", run_id)]

    def _read_from_end(self) -> None:
        try:
            about = os.lstat(self._path)
        except OSError:
            return
        self._inode, self._offset = about.st_ino, about.st_size

    def _added(self) -> bytes:
        """Read the whole lines that were added: what is torn may still become whole."""
        try:
            with open(open_owned(self._path, owner_of(self._path)), "rb") as file:
                about = os.fstat(file.fileno())
                if about.st_ino != self._inode or about.st_size < self._offset:  # somebody moved it away
                    self._inode, self._offset = about.st_ino, 0
                file.seek(self._offset)
                data = file.read(_MOST_BYTES)
        except OSError:
            return b""
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        return whole


def _event(line: bytes) -> Event | None:
    try:
        content = json.loads(line)
    except ValueError:
        return None
    return content if isinstance(content, dict) and _is_whole(content) else None


def _is_whole(content: dict[str, Any]) -> bool:
    """Tell whether an object has what an event always has, as far as that is used here."""
    is_text = all(isinstance(content.get(name), str) for name in _TEXTS)
    return content.keys() >= _ALWAYS and is_text and isinstance(content["ranks"], list)
