"""Read the end of a file that another process writes: the whole lines that were added."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from timing_logger.process.shared_files import opened
from timing_logger.process.sidecar_files import check_is_file

_LOOK_BYTES = 2**26
_BEGIN_BYTES = 4096  # the header, and the time stamps of the first rows


@dataclass
class FollowedFile:
    """A file of lines, from the position up to which it was read.

    Attributes:
        path: of the file.
        first_look_bytes: how much of its end is read at first.
        header: its first line, once that is there.
        offset: the position up to which it was read.
        begin: how it begins, which tells it from another file of this name.
    """

    path: Path
    first_look_bytes: int
    header: bytes = b""
    offset: int = 0
    begin: bytes = b""

    def is_replaced(self) -> bool:
        """Tell whether another file now has this name: a folder may be emptied for another run."""
        begin = self._begin_now()
        replaced = not begin.startswith(self.begin)
        self.begin = begin
        return replaced

    def _begin_now(self) -> bytes:
        check_is_file("folder", self.path)
        with opened(self.path) as file:
            return file.read(_BEGIN_BYTES)

    def added(self) -> bytes:
        """Read the whole lines that were added since the last call; b"" if there are none."""
        self.begin = self.begin or self._begin_now()
        with opened(self.path) as file:
            if not self.header:
                self.header = file.readline()
                if not self.header.endswith(b"\n"):
                    self.header = b""
                    return b""
                size = self.path.stat().st_size
                self.offset = max(len(self.header), size - self.first_look_bytes)
                if self.offset > len(self.header):
                    file.seek(self.offset)
                    self.offset += len(file.readline())
            file.seek(self.offset)
            data = file.read(_LOOK_BYTES)
        whole = data[: data.rfind(b"\n") + 1]
        self.offset += len(whole)
        return whole
