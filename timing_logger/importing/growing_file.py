"""A file that another process writes, from the position up to which it was read.

What is compressed is read as what it holds: by its content it is known again, too.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Literal, NamedTuple

from timing_logger.errors import ConfigurationError
from timing_logger.importing.unpacking import DamagedError, Unpacker, is_compressed, unpacker_of

_BLOCK_BYTES = 2**18
_MAGIC_BYTES = 4  # tell what is compressed
_HEAD_BYTES, _BEFORE_BYTES = 1024, 256  # tell one content from another: more than a header, and some lines


class _Content(NamedTuple):
    """What a file held up to a position: how it began, and what came last before the position."""

    head: bytes = b""
    offset: int = 0
    before: bytes = b""

    def followed_by(self, block: bytes) -> _Content:
        return _Content(
            self.head if len(self.head) >= _HEAD_BYTES else (self.head + block)[:_HEAD_BYTES],
            self.offset + len(block),
            (self.before + block)[-_BEFORE_BYTES:],
        )


Standing = Literal["goes on", "repeats", "unclear", "is another"]
"""How what a file holds stands to what was read under its name: more was added; it holds the same and maybe
more, written anew, as a table is that is saved again and again; so far it may; or it does not."""


class GrowingFile:
    """A file from the position up to which it was read.

    Args:
        path: its latest name.
        descriptor: it, opened.

    Attributes:
        replaces: the file that had the name before, or was compressed to this one.
        n_looks_without_name: for how many looks it had no name, and did not grow.
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self.replaces: GrowingFile | None = None
        self.n_looks_without_name = 0
        self._descriptor = descriptor
        self.begin_anew()

    def begin_anew(self) -> None:
        """Have it read from its beginning."""
        self._read = _Content()
        self._earlier: _Content | None = None
        self._state = (0, 0)
        self._from_beginning()

    def _from_beginning(self) -> None:
        self._stored = _Content()  # what was read, as it is stored
        self._unpacker: Unpacker | None = None
        self._passed: _Content | None = None
        self._behind: Iterator[bytes] = iter(())

    def blocks(self) -> Iterator[bytes]:
        """Yield what was added since the last call, in blocks; an empty one if that makes nothing yet.

        Raises:
            DamagedError: it is compressed, and cannot be read on from here; this is said once.
            ConfigurationError: it is compressed with Zstandard, and nothing installed reads that.
        """
        about = os.fstat(self._descriptor)
        self._state = about.st_size, about.st_mtime_ns
        behind, self._behind = self._behind, iter(())
        for block in chain(behind, self._content()):
            self._read = self._read.followed_by(block)
            yield block

    def _content(self) -> Iterator[bytes]:
        """Yield the content of what was stored since it was last read."""
        while stored := self._next_stored():
            if not self._stored.offset:
                self._unpacker = unpacker_of(stored, self.path)
            self._stored = self._stored.followed_by(stored)
            yield from (stored,) if self._unpacker is None else self._unpacker.blocks_of(stored)

    def _next_stored(self) -> bytes:
        block = os.pread(self._descriptor, _BLOCK_BYTES, self._stored.offset)
        return b"" if not self._stored.offset and len(block) < _MAGIC_BYTES else block

    def has_changed(self) -> bool:
        """Tell whether it was written to since it was read."""
        about = os.fstat(self._descriptor)
        return (about.st_size, about.st_mtime_ns) != self._state

    @property
    def is_cut(self) -> bool:
        """Whether it is compressed, and what was read of it ends within what has no end yet."""
        return self._unpacker is not None and self._unpacker.is_cut

    def standing(self) -> Standing:
        """Tell how what it holds stands to what was read under its name; it is read on accordingly.

        Raises:
            ConfigurationError: as of :meth:`blocks`.
        """
        earlier = self.replaces._read if self.replaces is not None else self._earlier
        if earlier is None and self._holds_before(self._stored):
            return "goes on"
        earlier = earlier or self._read
        if self.is_compressed():
            return self._passing(earlier)
        if not earlier.head.startswith(os.pread(self._descriptor, len(earlier.head), 0)):
            return self._is_another()
        if os.fstat(self._descriptor).st_size < earlier.offset:
            self._earlier = earlier
            return "unclear"
        if not self._holds_before(earlier):
            return self._is_another()
        self._from_beginning()
        self._stored = earlier
        return self._repeats(earlier)

    def _passing(self, earlier: _Content) -> Standing:
        """Decompress as much as was read earlier, and tell whether it is the same."""
        if self._passed is None or not self._holds_before(self._stored):
            self._from_beginning()
            self._passed = _Content()
        self._earlier, content = earlier, self._content()
        with suppress(DamagedError):  # what is known of it already stays as it is
            for block in content:
                n_lacking = earlier.offset - self._passed.offset
                self._passed = self._passed.followed_by(block[:n_lacking])
                if not earlier.head.startswith(self._passed.head[: len(earlier.head)]):
                    return self._is_another()
                if len(block) >= n_lacking:
                    self._behind = chain((block[n_lacking:],), content)
                    return self._repeats(earlier) if self._passed == earlier else self._is_another()
        return "unclear"

    def _repeats(self, earlier: _Content) -> Standing:
        self._read, self._earlier, self._passed, self.replaces = earlier, None, None, None
        return "repeats"

    def _is_another(self) -> Standing:
        self.replaces = None
        self.begin_anew()
        return "is another"

    @property
    def last_read(self) -> GrowingFile:
        """The file of this name of which something was read: this one, or the one that it replaces."""
        return self.replaces if self.replaces is not None and not self._read.offset else self

    def _holds_before(self, content: _Content) -> bool:
        n_bytes = len(content.before)
        return os.pread(self._descriptor, n_bytes, content.offset - n_bytes) == content.before

    def tells_its_kind(self) -> bool:
        """Tell whether it is long enough to tell whether it is compressed."""
        return os.fstat(self._descriptor).st_size >= _MAGIC_BYTES

    def is_compressed(self) -> bool:
        """Tell whether its first bytes say so."""
        return is_compressed(os.pread(self._descriptor, _MAGIC_BYTES, 0))

    def head(self) -> bytes:
        """Return how its content begins, as far as that can be read now."""
        stored = os.pread(self._descriptor, _BLOCK_BYTES, 0)
        found = b""
        with suppress(DamagedError, ConfigurationError):  # which are raised when it is read
            unpacker = unpacker_of(stored[:_MAGIC_BYTES], self.path)
            for block in (stored,) if unpacker is None else unpacker.blocks_of(stored):
                found += block
                if len(found) >= _HEAD_BYTES:
                    break
        return found[:_HEAD_BYTES]

    def close(self) -> None:
        """Close it."""
        os.close(self._descriptor)
