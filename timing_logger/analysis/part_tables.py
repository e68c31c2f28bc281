"""Join the tables of many parts."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from timing_logger.reading.sources import joined


def in_one_table(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Join the rows of tables, and their ``attrs["files"]``."""
    columns = [str(name) for name in tables[0]]
    rows = joined([{name: table[name] for name in columns} for table in tables], columns)
    rows.attrs["files"] = [file for table in tables for file in table.attrs.get("files", [])]
    return rows
