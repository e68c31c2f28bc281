"""Which core this process records with: the native one, or the Python one that has the same classes.

The environment variable ``TIMING_LOGGER_CORE`` decides: ``python``, or ``native``, with which an import fails
where the native core was not built. Without it the native one is used if it is there.

The choice is not among the cores, in ``timing_logger.recording.cores``: the command line names the core, too,
and nothing that reads imports what records.
"""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, NamedTuple
from zlib import crc32

from timing_logger.errors import ConfigurationError

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
    return f"#define BUILT_FROM {checksum_of_sources()}u /* timing_logger/process/which_core.py */\n"


VARIABLE = "TIMING_LOGGER_CORE"
NATIVE = "timing_logger.recording.cores.native.core"

_AGAIN = "install the package again with pip's options --force-reinstall --no-deps --no-cache-dir"


class Choice(NamedTuple):
    """The core that records, and why it is not the native one."""

    name: Literal["native", "python"]
    reason: str = ""


def _chosen() -> Choice:
    wanted = os.environ.get(VARIABLE, "")
    if wanted not in ("", "python", "native"):
        raise ConfigurationError(f"{VARIABLE} must be 'python' or 'native', and is {wanted!r}.")
    if wanted == "python":
        return Choice("python", f"{VARIABLE} asks for it; unset it for the native core")
    try:
        _import_native()
    except ImportError as error:
        if wanted == "native":
            raise ConfigurationError(
                f"{VARIABLE} is 'native', and the native core cannot be imported: {error}. "
                f"{_way_out(error)}, or unset the variable."
            ) from error
        return Choice("python", f"the native core cannot be imported ({error}). {_way_out(error)}")
    return Choice("native")


def _import_native() -> None:
    """Import the native core.

    Raises:
        ImportError: it cannot be imported, or was built from other sources than those that lie beside it.
    """
    core: Any = import_module(NATIVE)
    sources = checksum_of_sources()
    if sources is not None and getattr(core, "BUILT_FROM", None) != sources:
        raise ImportError("its sources have changed since it was built")


def _way_out(error: ImportError) -> str:
    """Return what to do about a native core that was not built, or that is there and is not loaded."""
    if isinstance(error, ModuleNotFoundError):
        needed = "Install a C compiler and the headers of Python (on Debian: gcc and python3-dev), then "
        return needed + _AGAIN
    return _AGAIN.capitalize()


_CHOICE = _chosen()

NAME = _CHOICE.name
"""``"native"`` or ``"python"``."""

NOTE = (
    "a record takes several times as long as with the native core, and a kill loses those of the last "
    f"second: {_CHOICE.reason}"
    if NAME == "python"
    else ""
)
"""What the Python core costs, why it is the one in use, and the way out; "" for the native core."""
