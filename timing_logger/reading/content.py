"""What was read of a timing file, without its rows: these may be in a table with those of other files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple


class Content(NamedTuple):
    """What was read of a timing file, without its rows; the other attributes are as of ``csv_lines.Parsed``.

    Attributes:
        n_rows: the number of rows.
    """

    n_rows: int
    n_bytes: int
    cut: str
    bad_lines: int = 0
    bad_examples: Sequence[str] = ()
    replaced: int = 0
    parts: Sequence[dict[str, Any]] = ()
    headers: Sequence[int] = ()
