"""Find and read the files that are imported: plain, gzip or Zstandard, of any size, in bounded memory."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, TypeAlias

from timing_logger.errors import ConfigurationError, NotImportableError
from timing_logger.importing.imported import LeftOut
from timing_logger.process import shared_files

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


AnyPath: TypeAlias = "str | os.PathLike[str]"

_COMPRESSED = (".gz", ".zst")


def files_at(paths: AnyPath | Sequence[AnyPath], endings: Sequence[str]) -> list[Path]:
    """Return the files that are named, each once, in the order of their names.

    Args:
        paths: files; folders, of which the files with such names count; or patterns, such as ``logs/*.json``.
        endings: how the names end of those that count in a folder, without ``.gz`` and ``.zst``.

    Raises:
        NotImportableError: a path leads to no such file.
    """
    given = [paths] if isinstance(paths, (str, os.PathLike)) else paths
    if not given:
        raise NotImportableError("paths: there is none. Name a file, a folder or a pattern.")
    return sorted({file for path in given for file in _files_of(path, endings)})


def _files_of(path: AnyPath, endings: Sequence[str]) -> list[Path]:
    named = Path(path)
    found = found_at(path, endings)
    if named.is_dir():
        if not found:
            wanted = ", ".join(f"*{ending}" for ending in endings)
            raise NotImportableError(
                f"paths: the folder {str(named)!r} has none of {wanted}, also with .gz or .zst. "
                "Name the files."
            )
        return found
    if os.path.lexists(named):
        if not named.is_file():
            raise NotImportableError(f"paths: {str(named)!r} is no regular file. Name files or folders.")
        return [named]
    if not found:
        raise NotImportableError(f"paths: nothing is at {str(path)!r}. Name a file, a folder or a pattern.")
    return found


def found_at(path: AnyPath, endings: Sequence[str]) -> list[Path]:
    """Return the files that a path leads to, as :func:`files_at` does; none where there is none yet."""
    named = Path(path)
    if named.is_dir():
        return sorted(
            one
            for one in [named / name for name in shared_files.names_in(named)]
            if one.is_file() and plain_name(one.name).endswith(tuple(endings))
        )
    if os.path.lexists(named):
        return [named] if named.is_file() else []
    return [one for one in sorted(shared_files.matching_anywhere(str(path))) if one.is_file()]


def plain_name(name: str) -> str:
    """Return the name of a file in lower case, without the ending of its compression."""
    name = name.lower()
    return name.removesuffix(next((end for end in _COMPRESSED if name.endswith(end)), ""))


# -- what is in a file -----------------------------------------------------------------------------------


MAGIC_BYTES = 4
"""So many of the first bytes of a file tell whether it is compressed."""

_GZIP, _ZSTANDARD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_GZIP_PIECE_BYTES, _ZSTANDARD_PIECE_BYTES = 2**14, 2**10  # of which at most 16 and 32 MiB are made
_BLOCK_BYTES = 2**18

CUT_OR_DAMAGED = "the end of a compressed file that is cut or damaged"
"""Why lines are left out that cannot be decompressed."""


class DamagedError(Exception):
    """A compressed file cannot be read on from here."""


def is_compressed(head: bytes) -> bool:
    """Tell whether the first bytes of a file say that it is compressed."""
    return head.startswith((_GZIP, _ZSTANDARD))


def blocks_of(path: Path, block_bytes: int = _BLOCK_BYTES) -> Iterator[bytes]:
    """Yield the content of a file, decompressed if its first bytes say that it is compressed.

    Args:
        path: the file.
        block_bytes: how large blocks are at least, but for the last.

    Raises:
        DamagedError: it is compressed, and cut or damaged behind the last block.
        ConfigurationError: it is compressed with Zstandard, and nothing installed reads that.
        OSError: it cannot be read.
    """
    block, trouble = bytearray(), None
    with shared_files.opened(path) as file:
        try:
            for piece in _pieces_of(file, path, block_bytes):
                block += piece
                if len(block) >= block_bytes:
                    yield bytes(block)
                    block.clear()
        except DamagedError as error:
            trouble = error
    if block:
        yield bytes(block)
    if trouble is not None:
        raise trouble


def _pieces_of(file: IO[bytes], path: Path, piece_bytes: int) -> Iterator[bytes]:
    head = file.peek(MAGIC_BYTES)[:MAGIC_BYTES]  # type: ignore[attr-defined]
    if head.startswith(_GZIP):
        return _unpacked(file, lambda: zlib.decompressobj(wbits=16 + zlib.MAX_WBITS), _GZIP_PIECE_BYTES)
    if head.startswith(_ZSTANDARD):
        return _unpacked(file, _zstandard_frames(path), _ZSTANDARD_PIECE_BYTES)
    return iter(lambda: file.read(piece_bytes), b"")


def _unpacked(file: IO[bytes], make: Callable[[], Any], piece_bytes: int) -> Iterator[bytes]:
    """Yield the content of members, one after the other; those of gzip may be padded."""
    member = None
    while left := file.read(piece_bytes):
        while left := left if member else left.lstrip(b"\0"):
            member = member or make()
            try:
                yield member.decompress(left)
            except MemoryError:
                raise
            except Exception as error:  # each decompressor has an error of its own
                raise DamagedError(str(error)) from error
            left = member.unused_data if member.eof else b""
            member = None if member.eof else member
    if member:
        raise DamagedError("it ends within what has no end yet")


def _zstandard_frames(path: Path) -> Callable[[], Any]:
    try:
        from compression import zstd  # type: ignore[import-not-found,unused-ignore]  # since Python 3.14

        return zstd.ZstdDecompressor  # type: ignore[no-any-return,unused-ignore]
    except ImportError:
        pass
    try:
        import zstandard
    except ImportError:
        raise ConfigurationError(
            f"paths: {str(path)!r} is compressed with Zstandard, which needs a package: "
            "pip install 'timing_logger[import]'. Or decompress it: unzstd."
        ) from None
    return lambda: zstandard.ZstdDecompressor().decompressobj()


def lines_of(path: Path, left_out: LeftOut) -> Iterator[str]:
    """Yield the lines of a text file that are not blank, without their ends.

    Lines that are too long or no UTF-8 are counted in ``left_out``, as is the end of a file that cannot be
    decompressed.

    Raises:
        NotImportableError: the file is UTF-16.
        ConfigurationError: it is compressed with Zstandard, and nothing installed reads that.
    """
    lines = Lines(str(path), left_out)
    try:
        for block in blocks_of(path):
            yield from lines.of(block)
    except DamagedError:
        left_out.add(CUT_OR_DAMAGED)
    else:
        yield from lines.rest()
