"""Tells whether the native core was built from the sources that lie beside it, as in a checkout they change.

Its build keeps their checksum. An installed package has no sources, and nothing to compare.
"""

from __future__ import annotations

from pathlib import Path
from zlib import crc32

HEADER_FILE = "built_from.h"

_PACKAGE = Path(__file__).parents[1]
_NATIVE = _PACKAGE / "recording/cores/native"
_MADE = HEADER_FILE, "columns.h", "columns.pxi", "core.c"
"""What the build makes itself: the columns of ``record.py`` have a check of their own."""


def checksum_of_sources() -> int | None:
    """Return the CRC-32 of the native core's sources; None where there are none."""
    if not (_NATIVE / "core.pyx").exists():
        return None
    found = [_NATIVE / "core.pyx", *_NATIVE.glob("*.pxi")]
    for folder in (_NATIVE / "csrc", _PACKAGE / "csrc"):
        found += folder.glob("*.[ch]")
    checksum = 0
    for path in sorted(found):
        if path.name not in _MADE:
            checksum = crc32(path.read_bytes(), crc32(path.name.encode(), checksum))
    return checksum


def header() -> str:
    """Return ``built_from.h``, with the checksum of the sources as they are now."""
    return f"#define BUILT_FROM {checksum_of_sources()}u /* timing_logger/process/built_from.py */\n"
