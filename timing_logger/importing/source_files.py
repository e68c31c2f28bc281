"""Find and open the files that are imported: plain, gzip or Zstandard, of any size, in bounded memory."""

from __future__ import annotations

import glob
import gzip
import io
import os
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TypeAlias, cast

from timing_logger.errors import NotImportableError
from timing_logger.importing.imported import LeftOut
from timing_logger.importing.lines import Lines
from timing_logger.importing.unpacking import (
    CUT_OR_DAMAGED,
    DamagedError,
    is_compressed,
    is_gzip,
    needs_a_package,
    unpacker_of,
)

AnyPath: TypeAlias = "str | os.PathLike[str]"

_BLOCK_BYTES = 2**18
_COMPRESSED = (".gz", ".zst")

DAMAGED = (EOFError, zlib.error, gzip.BadGzipFile)
"""What reading a compressed file may raise that is cut or damaged, beside :class:`DamagedError`."""


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
    found = _found_at(path, endings)
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


def files_now(paths: Sequence[AnyPath], endings: Sequence[str]) -> list[Path]:
    """Return the files that are named, as :func:`files_at` does; none where a path leads to none yet."""
    return sorted({file for path in paths for file in _found_at(path, endings)})


def _found_at(path: AnyPath, endings: Sequence[str]) -> list[Path]:
    named = Path(path)
    if named.is_dir():
        return sorted(one for one in named.iterdir() if one.is_file() and _ends_in(one.name, endings))
    if os.path.lexists(named):
        return [named] if named.is_file() else []
    return [Path(one) for one in sorted(glob.glob(str(path), recursive=True)) if Path(one).is_file()]


def _ends_in(name: str, endings: Sequence[str]) -> bool:
    return plain_name(name).endswith(tuple(endings))


def plain_name(name: str) -> str:
    """Return the name of a file in lower case, without the ending of its compression."""
    name = name.lower()
    return name.removesuffix(next((end for end in _COMPRESSED if name.endswith(end)), ""))


def without_compression(path: Path) -> Path | None:
    """Return the name of a file before it was compressed, by its ending; None without such an ending."""
    return path.with_suffix("") if path.suffix.lower() in _COMPRESSED and path.stem else None


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """Yield the content of a file for reading, decompressed if its first bytes say that it is compressed.

    Raises:
        ConfigurationError: it is compressed with Zstandard, and nothing installed reads that.
        OSError: it cannot be opened.
    """
    with open(path, "rb") as raw:
        head = raw.peek(4)[:4]
        if is_gzip(head):
            with gzip.open(raw, "rb") as file:
                yield cast("IO[bytes]", file)
        elif is_compressed(head):
            with _zstandard(raw, path) as file:
                yield file
        else:
            yield raw


def _zstandard(raw: IO[bytes], path: Path) -> IO[bytes]:
    try:
        from compression import zstd  # type: ignore[import-not-found,unused-ignore]  # since Python 3.14

        return zstd.open(raw, "rb")  # type: ignore[no-any-return,unused-ignore]
    except ImportError:
        pass
    try:
        import zstandard
    except ImportError:
        raise needs_a_package(path) from None
    reader: Any = zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True)
    return io.BufferedReader(reader)


def blocks_of(file: IO[bytes], block_bytes: int) -> Iterator[bytes]:
    """Yield what is in a file, block by block; of a file that is cut, all that can be read of it.

    Raises:
        DamagedError: it is compressed, and cut or damaged.
    """
    pieces: list[bytes] = []
    n_bytes = 0
    while True:
        piece, trouble = _next_piece(file, block_bytes - n_bytes)
        pieces.append(piece)
        n_bytes += len(piece)
        if n_bytes and (n_bytes >= block_bytes or not piece):
            yield b"".join(pieces)
            pieces, n_bytes = [], 0
        if trouble is not None:
            raise DamagedError(str(trouble)) from trouble
        if not piece:
            return


def _next_piece(file: Any, most_bytes: int) -> tuple[bytes, Exception | None]:
    """Return what can be read at once; nothing at the end, and with the error where there is one."""
    try:
        return file.read1(most_bytes), None
    except DAMAGED as error:
        return b"", error
    except OSError:
        raise
    except Exception as error:  # each decompressor has an error of its own
        return b"", error


def lines_of(path: Path, left_out: LeftOut) -> Iterator[str]:
    """Yield the lines of a text file that are not blank, without their ends.

    Lines that are too long or no UTF-8 are counted in ``left_out``, as is the end of a file that cannot be
    decompressed.

    Raises:
        NotImportableError: the file is UTF-16.
        ConfigurationError: it is compressed with Zstandard, and nothing installed reads that.
    """
    lines = Lines(str(path), left_out)
    with open(path, "rb") as file:
        unpacker = unpacker_of(file.peek(4)[:4], path)
        try:
            while stored := file.read(_BLOCK_BYTES):
                for block in (stored,) if unpacker is None else unpacker.blocks_of(stored):
                    yield from lines.of(block)
        except DamagedError:
            left_out.add(CUT_OR_DAMAGED)
            return
    if unpacker is not None and unpacker.is_cut:
        left_out.add(CUT_OR_DAMAGED)
        return
    yield from lines.rest()
