"""Join the tables of many parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from timing_logger.reading.sources import joined

if TYPE_CHECKING:
    import pandas as pd


def in_one_table(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Join the rows of tables, and their ``attrs["files"]``."""
    columns = [str(name) for name in tables[0]]
    rows = joined([{name: table[name] for name in columns} for table in tables], columns)
    rows.attrs["files"] = [file for table in tables for file in table.attrs.get("files", [])]
    return rows
