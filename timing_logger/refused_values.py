"""Says that a program gave a value that its column cannot hold, once for each column.

The recording calls themselves never raise: a wrong value must not end a training run.
"""

from __future__ import annotations

import logging

log = logging.getLogger("timing_logger")

TAKES = {
    "integer": "an integer of 64 bits at most",
    "text": "a text",
    "amount": "a finite number of at least 0",
}
"""What the columns of each kind take."""

_MOST_CHARACTERS = 40
_told: set[str] = set()


def tell(column: str, kind: str, value: object) -> None:
    """Log what was given for a column and what it takes, unless that was logged before."""
    if column in _told:
        return
    _told.add(column)
    log.warning(
        "timing logger: %s is %s, and must be %s. The cell is left blank, and the row's status is "
        "error:InvalidValue. Pass such a value, or none. (Said once for each column.)",
        column,
        _shown(value),
        TAKES[kind],
    )


def _shown(value: object) -> str:
    """Return the value, or its type: the text of any other object might wait, raise or have no end."""
    if type(value) in (bool, float, str) or (type(value) is int and value.bit_length() < 128):
        return repr(value[:_MOST_CHARACTERS] if isinstance(value, str) else value)
    return f"of type {type(value).__name__}"
