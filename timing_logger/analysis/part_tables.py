"""Keep the tables of many parts in little memory, and join them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from timing_logger.reading.sources import joined

if TYPE_CHECKING:
    import pandas as pd

Columns: TypeAlias = "dict[str, pd.Series[Any]]"
"""A table as a dict of its columns."""

_TEXTS = ("operation", "group", "layer_name", "phase", "state", "why")


def compact_columns(table: pd.DataFrame) -> Columns:
    """Return the columns of a table, with text as categoricals.

    The columns are separate copies, so that each can be freed when it has been joined.
    """
    small = table.astype({name: "category" for name in _TEXTS if name in table})
    return {str(name): small[name].copy() for name in small}


def joined_columns(parts: Sequence[Columns]) -> pd.DataFrame:
    """Join tables column by column.

    This empties ``parts``, so that the rows of many blocks are not held twice.
    """
    return joined(parts, list(parts[0]))


def in_one_table(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Join the rows of tables, and their ``attrs["files"]``."""
    columns = [str(name) for name in tables[0]]
    rows = joined([{name: table[name] for name in columns} for table in tables], columns)
    rows.attrs["files"] = [file for table in tables for file in table.attrs.get("files", [])]
    return rows
