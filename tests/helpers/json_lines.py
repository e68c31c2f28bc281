"""Reads files of JSON lines strictly: NaN, infinities and unfinished lines are errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def json_rows(file: Path | None) -> list[dict[str, Any]]:
    """Return the rows of ``file``, one per line; the last line must be complete."""
    assert file is not None
    *lines, tail = file.read_bytes().split(b"\n")
    assert tail == b"", f"the last line of {file} is torn: {tail!r}"
    return [json.loads(line, parse_constant=_refuse) for line in lines]


def _refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is not JSON")
