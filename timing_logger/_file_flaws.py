"""What stands in a file or its sidecar, and no figure can be trusted or made of: in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from timing_logger._clock_course import clock_trouble
from timing_logger.record import FIELDS, LARGEST
from timing_logger.run_info import UNUSABLE

if TYPE_CHECKING:
    import pandas as pd

_MOST_NAMED = 5


def flaws_of(file: Mapping[str, Any]) -> Iterator[str]:
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
