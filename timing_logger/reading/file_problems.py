"""State in words the problems of files and sidecars: missing rows, and values that cannot be trusted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from timing_logger.reading.alignment import clock_trouble
from timing_logger.schema.record import LARGEST
from timing_logger.schema.sidecar import SCHEMA_VERSION, UNUSABLE
from timing_logger.schema.timing_files import TimingFile

_MOST_NAMED = 5


def problems_of(file: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for each problem with a file's clock or the values of its sidecar.

    Args:
        file: an entry of ``attrs["files"]`` of ``read_timings``.
    """
    if trouble := clock_trouble(file):
        yield trouble
    if unusable := (file.get("sidecar") or {}).get(UNUSABLE):
        more = f" and {len(unusable) - _MOST_NAMED} more" if len(unusable) > _MOST_NAMED else ""
        yield f"its sidecar states no value that can be one for {', '.join(unusable[:_MOST_NAMED])}{more}"


def schema_trouble(file: Mapping[str, Any]) -> str:
    """State that a file's sidecar is of a version that is not known here; "" if it is not.

    Args:
        file: an entry of ``attrs["files"]`` of ``read_timings``, or a part of it.
    """
    version = (file.get("sidecar") or {}).get("schema_version", SCHEMA_VERSION)
    if version == SCHEMA_VERSION:
        return ""
    return (
        f"its sidecar has schema version {version!r}, and this timing_logger knows {SCHEMA_VERSION}: what it "
        "states may mean something else. Use the version that wrote it, or a newer one"
    )


def uncounted(file: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence on the numbers of a file that analyses leave out, if there are any.

    Args:
        file: an entry of ``attrs["files"]`` of ``read_timings``.
    """
    if inexact := file.get("inexact"):
        numbers = ", ".join(f"{count} of {name}" for name, count in inexact.items())
        yield f"numbers beyond {LARGEST} either way count as blank: {numbers}"


def parts_trouble(file: Mapping[str, Any]) -> list[str]:
    """Return a sentence, without a full stop, for each part of a file of which rows are gone.

    Args:
        file: an entry of ``attrs["files"]`` of ``read_timings``.
    """
    stated = _stated(file)
    gone = [
        f"{one['file']} {one.get('why')} while the run went on, and {one['lost']} rows of it are gone"
        for one in stated
        if one.get("lost", 0) > 0
    ]
    return gone + [f"its part {name}{_with_rows(name, stated)} is not there" for name in missing_parts(file)]


def missing_parts(file: Mapping[str, Any]) -> list[str]:
    """Return the names of missing parts: the sidecar states rows of them, or later parts exist.

    Args:
        file: an entry of ``attrs["files"]`` of ``read_timings``.
    """
    there = {Path(part["path"]).name for part in file.get("parts") or ()}
    stated = _stated(file)
    expected = [one["file"] for one in stated if one.get("rows")]
    known = max((_number(one["file"]) for one in stated), default=0)
    last = max(map(_number, there), default=0)
    between = [
        TimingFile(file["rank"], file["incarnation"], number).name for number in range(known + 1, last)
    ]
    return [name for name in [*expected, *between] if name not in there]


def _stated(file: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return what the sidecar states of parts, of those with the name of a timing file."""
    return [one for one in (file.get("sidecar") or {}).get("parts", []) if _number(one.get("file", ""))]


def _number(name: str) -> int:
    """Return the number of the part that a file name states; 0 if it is no name of a timing file."""
    found = TimingFile.parse(name)
    return found.part if found else 0


def _with_rows(name: str, stated: list[Mapping[str, Any]]) -> str:
    return next((f", with {one['rows']} rows," for one in stated if one["file"] == name), "")
