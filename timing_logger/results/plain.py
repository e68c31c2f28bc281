"""Results as plain values that JSON can hold."""

from __future__ import annotations

import math
from dataclasses import fields, is_dataclass
from typing import Any


def plain_fields(result: Any) -> dict[str, object]:
    """Return the fields of a dataclass that count where two are compared, by name, as plain values for JSON.

    Dataclasses and named tuples within become dicts, other tuples lists, keys text; a float that is not
    finite is None.
    """
    return {one.name: _plain(getattr(result, one.name)) for one in fields(result) if one.compare}


def _plain(value: Any) -> object:
    if is_dataclass(value):
        return plain_fields(value)
    if hasattr(value, "_asdict"):
        return _plain(value._asdict())
    if isinstance(value, dict):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return value
