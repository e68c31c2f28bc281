"""What stands in a file or its sidecar, and no figure can be trusted or made of: in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from timing_logger.reading.clock_course import clock_trouble
from timing_logger.record import FIELDS, LARGEST
from timing_logger.run_info import UNUSABLE, TimingFile

if TYPE_CHECKING:
    import pandas as pd

_MOST_NAMED = 5


def problems_of(file: Mapping[str, Any]) -> Iterator[str]:
    """What an entry of ``attrs["files"]`` says against the file."""
    if trouble := clock_trouble(file):
        yield trouble
    if unusable := (file.get("sidecar") or {}).get(UNUSABLE):
        more = f" and {len(unusable) - _MOST_NAMED} more" if len(unusable) > _MOST_NAMED else ""
        yield f"its sidecar states no value that can be one for {', '.join(unusable[:_MOST_NAMED])}{more}"


def uncounted(file: Mapping[str, Any]) -> Iterator[str]:
    """What analyses leave out that an entry of ``attrs["files"]`` says is there."""
    if inexact := file.get("inexact"):
        numbers = ", ".join(f"{count} of {name}" for name, count in inexact.items())
        yield f"numbers beyond {LARGEST} either way count as blank: {numbers}"


def inexact_numbers(frame: pd.DataFrame) -> dict[str, int]:
    """How many integers of each column analyses cannot tell from their neighbours, where there are some."""
    names = [field.name for field in FIELDS if field.kind == "integer" and field.name in frame]
    numbers = {name: frame[name].to_numpy(np.int64, na_value=0) for name in names}
    counts = {
        name: np.count_nonzero((those > LARGEST) | (those < -LARGEST)) for name, those in numbers.items()
    }
    return {name: int(count) for name, count in counts.items() if count}


def parts_trouble(file: Mapping[str, Any]) -> list[str]:
    """One sentence without its end for each part of which rows are gone.

    Args:
        file: one of ``attrs["files"]`` of ``read_timings``.
    """
    stated = _stated(file)
    gone = [
        f"{one['file']} {one.get('why')} while the run went on, and {one['lost']} rows of it are gone"
        for one in stated
        if isinstance(one.get("lost"), int) and one["lost"] > 0
    ]
    return gone + [f"its part {name}{_with_rows(name, stated)} is not there" for name in missing_parts(file)]


def missing_parts(file: Mapping[str, Any]) -> list[str]:
    """Names of parts that are not there, and had rows by the sidecar, or must be between others."""
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
    """What the sidecar says of parts, as far as it is sound."""
    parts = (file.get("sidecar") or {}).get("parts")
    found = parts if isinstance(parts, list) else []
    return [one for one in found if isinstance(one, dict) and _number(one.get("file"))]


def _number(name: Any) -> int:
    """0 for what is no timing file."""
    found = TimingFile.parse(name) if isinstance(name, str) else None
    return found.part if found else 0


def _with_rows(name: str, stated: list[Mapping[str, Any]]) -> str:
    return next((f", with {one['rows']} rows," for one in stated if one["file"] == name), "")
