"""Split what is read of a text file into lines, also where the file ends in the middle of one for now."""

from __future__ import annotations

from collections.abc import Iterator

from timing_logger.errors import NotImportableError
from timing_logger.importing.imported import LeftOut

MOST_LINE_BYTES = 2**20
"""The longest line that is read; a line of a log has some hundred bytes."""

_TOO_LONG = "a line of more than 1 MiB"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_BOM = b"\xef\xbb\xbf"


class Lines:
    """The lines of a text file that is read block by block, without their ends.

    Blank lines are passed over; lines that are too long or no UTF-8 are counted.

    Args:
        name: the file, for messages.
        left_out: where lines are counted that cannot be used.
    """

    def __init__(self, name: str, left_out: LeftOut) -> None:
        self._name, self._left_out = name, left_out
        self._rest, self._is_first, self._is_too_long = b"", True, False

    @property
    def has_rest(self) -> bool:
        """Whether a line has begun whose end was not read."""
        return bool(self._rest) or self._is_too_long

    def of(self, block: bytes) -> Iterator[str]:
        """Yield the lines that end in a block; what is behind them waits for the next.

        Raises:
            NotImportableError: the file is UTF-16.
        """
        *lines, self._rest = (self._rest + block).split(b"\n")
        for line in lines:
            yield from self._text_of(line)
        if len(self._rest) > MOST_LINE_BYTES:
            self._rest, self._is_too_long = b"", True

    def rest(self) -> Iterator[str]:
        """Yield the last line, if it has no end.

        Raises:
            NotImportableError: the file is UTF-16.
        """
        if self.has_rest:
            line, self._rest = self._rest, b""
            yield from self._text_of(line)

    def _text_of(self, line: bytes) -> Iterator[str]:
        if self._is_too_long or len(line) > MOST_LINE_BYTES:
            self._is_too_long = False
            self._left_out.add(_TOO_LONG)
            return
        line = self._without_mark(line) if self._is_first else line
        self._is_first = False
        try:
            text = line.rstrip(b"\r").decode()
        except UnicodeDecodeError:
            self._left_out.add("a line that is no UTF-8")
            return
        if text and not text.isspace():
            yield text

    def _without_mark(self, line: bytes) -> bytes:
        if line.startswith(_UTF16):
            raise NotImportableError(f"paths: {self._name!r} is UTF-16. Save it as UTF-8.")
        return line.removeprefix(_BOM)
