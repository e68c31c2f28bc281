"""Arguments that have two spellings, since callers of the guide's logger use either: what they mean together.

``mpi_op_name`` is another spelling of ``operation``, and ``message_size_bytes`` of ``message_size``. Both
cores ask here, and only where the other spelling is used: all other calls pay for a comparison with None.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Contradiction(NamedTuple):
    """Two values for one argument. No column can hold it, so the row's status is ``error:InvalidValue``."""

    value: object
    other: object


def one_value(value: Any, other: Any) -> Any:
    """Return what was given for an argument, by its name or by its other spelling. Never raises.

    Args:
        value: what was given by the argument's name, or None.
        other: what was given by its other spelling; not None.

    Returns:
        The value, if one was given, or the same twice; else a :class:`Contradiction`.
    """
    if value is None or value is other:
        return other
    try:
        return value if value == other else Contradiction(value, other)
    except Exception:  # the caller's object cannot be compared
        return Contradiction(value, other)
