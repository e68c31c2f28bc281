"""Decompress what is read of a compressed file, which may grow, as far as that is there.

A gzip file may have several members, and a Zstandard file several frames, one after the other: whoever
appends to a log that is compressed writes a further one. What can be read of one that is not finished stays
as it is, whatever comes behind it.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

from timing_logger.errors import ConfigurationError

_GZIP, _ZSTANDARD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_GZIP_PIECE_BYTES, _ZSTANDARD_PIECE_BYTES = 2**14, 2**10  # of which at most 16 and 32 MiB are made
_BLOCK_BYTES = 2**18

CUT_OR_DAMAGED = "the end of a compressed file that is cut or damaged"
"""Why lines are left out that cannot be decompressed."""


class DamagedError(Exception):
    """A compressed file cannot be read on from here."""


def is_compressed(head: bytes) -> bool:
    """Tell whether the first four bytes of a file say that it is compressed."""
    return head.startswith((_GZIP, _ZSTANDARD))


def is_gzip(head: bytes) -> bool:
    """Tell whether the first bytes of a file say that it is compressed with gzip."""
    return head.startswith(_GZIP)


def needs_a_package(path: Path) -> ConfigurationError:
    """Return the error of a file that nothing installed can read."""
    return ConfigurationError(
        f"paths: {str(path)!r} is compressed with Zstandard, which needs a package: "
        "pip install 'timing_logger[import]'. Or decompress it: unzstd."
    )


class _Decompressor(Protocol):
    """Takes what is stored of a member of a file; ``unused_data`` is what came behind its end."""

    eof: bool
    unused_data: bytes

    def decompress(self, data: bytes, /) -> bytes:
        """Return the content of the next bytes."""
        ...


class Unpacker:
    """Makes content of what is stored, which comes in blocks.

    Args:
        head: the first bytes of the file, which tell how it is compressed.
        path: its name, for messages.

    Raises:
        ConfigurationError: it is compressed with Zstandard, and nothing installed reads that.
    """

    def __init__(self, head: bytes, path: Path) -> None:
        self._is_gzip = is_gzip(head)
        self._make = _gzip_member if self._is_gzip else _zstandard_frames(path)
        self._piece_bytes = _GZIP_PIECE_BYTES if self._is_gzip else _ZSTANDARD_PIECE_BYTES
        self._member: _Decompressor | None = None
        self._is_damaged = False

    @property
    def is_cut(self) -> bool:
        """Whether what was taken ends within a member."""
        return self._member is not None

    def blocks_of(self, stored: bytes) -> Iterator[bytes]:
        """Yield the content of the next stored bytes in blocks, of which one may be empty.

        Of a file that is damaged nothing more is made.

        Raises:
            DamagedError: it cannot be read on from here; this is said once.
        """
        pieces: list[bytes] = []
        n_bytes = 0
        trouble: Exception | None = None
        unpacked = self._unpacked(b"" if self._is_damaged else stored)
        while trouble is None:
            piece, trouble = _next_of(unpacked)
            if piece is not None:
                pieces.append(piece)
                n_bytes += len(piece)
            if piece is None or n_bytes >= _BLOCK_BYTES:
                yield b"".join(pieces)
                pieces, n_bytes = [], 0
            if piece is None and trouble is None:
                return
        self._is_damaged, self._member = True, None
        raise DamagedError(str(trouble)) from trouble

    def _unpacked(self, stored: bytes) -> Iterator[bytes]:
        for at in range(0, len(stored), self._piece_bytes):
            left = stored[at : at + self._piece_bytes]
            while left:
                if self._member is None:
                    left = left.lstrip(b"\0") if self._is_gzip else left  # members may be padded
                    if not left:
                        break
                    self._member = self._make()
                yield self._member.decompress(left)
                left = self._member.unused_data if self._member.eof else b""
                self._member = None if self._member.eof else self._member


def unpacker_of(head: bytes, path: Path) -> Unpacker | None:
    """Return what decompresses a file that begins so; None if it is not compressed.

    Raises:
        ConfigurationError: as of :class:`Unpacker`.
    """
    return Unpacker(head, path) if is_compressed(head) else None


def _next_of(unpacked: Iterator[bytes]) -> tuple[bytes | None, Exception | None]:
    """Return the next piece, or None at the end; with the error where there is one."""
    try:
        return next(unpacked, None), None
    except MemoryError:
        raise
    except Exception as error:  # each decompressor has an error of its own
        return None, error


def _gzip_member() -> Any:
    return zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)


def _zstandard_frames(path: Path) -> Callable[[], Any]:
    try:
        from compression import zstd  # type: ignore[import-not-found,unused-ignore]  # since Python 3.14

        return zstd.ZstdDecompressor  # type: ignore[no-any-return,unused-ignore]
    except ImportError:
        pass
    try:
        import zstandard
    except ImportError:
        raise needs_a_package(path) from None
    return lambda: zstandard.ZstdDecompressor().decompressobj()
