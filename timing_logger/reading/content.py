"""What was read of a timing file, without its rows: these may be in a table with those of other files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple


class Content(NamedTuple):
    """What was read of a timing file, without its rows.

    Attributes:
        n_rows: the number of rows.
        n_bytes: size of all that was parsed, in bytes.
        cut: the unterminated last line, which is not among the rows; "" if there is none.
        bad_lines: number of damaged lines, which are not among the rows.
        bad_examples: the first few of these lines, shortened.
        replaced: number of rows of open calls whose end a later row tells; they are not among the rows.
        parts: a dict with ``path``, ``bytes`` and ``rows`` for each file that this was read from.
        headers: the number of rows before each further line that is a header; these count as damaged.
    """

    n_rows: int
    n_bytes: int
    cut: str
    bad_lines: int = 0
    bad_examples: Sequence[str] = ()
    replaced: int = 0
    parts: Sequence[dict[str, Any]] = ()
    headers: Sequence[int] = ()
