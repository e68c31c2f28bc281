"""Digests of simulated runs, as the monitors of hosts make them."""

from __future__ import annotations

import tempfile
from collections.abc import Collection
from pathlib import Path

import pandas as pd
from timing_files import write_table

from timing_logger.live.collector import Collector
from timing_logger.live.digest import Digest


def on_one_axis(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table of a simulated run with all instants on the axis of the first rank."""
    begins_s = table.groupby("rank")["start_counter"].transform("min")
    first_s = table["start_counter"].min()
    return table.assign(
        start_counter=table["start_counter"] - begins_s + first_s,
        end_counter=table["end_counter"] - begins_s + first_s,
    )


def digest_of(table: pd.DataFrame, name: str = "node1", ranks: Collection[int] | None = None) -> Digest:
    """Return the digest of a run, or of some of its ranks, as the collector of a host makes it at its end."""
    of_host = table if ranks is None else table[table["rank"].isin(ranks)]
    with tempfile.TemporaryDirectory() as folder:
        return Collector(write_table(Path(folder) / "run", of_host), name).digest()
