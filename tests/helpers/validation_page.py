"""Writes ``docs/validation-gpu.md``: a column for each kind of GPU, of which a data file has all figures."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import _tables_of_page as tables

CHOSEN = {
    "run": "run",
    "failed": "failed",
    "record_device_operation, with": "a timed span, on the host",
    "all_reduce, ": "`all_reduce`, on the host",
    "a bucket in a backward pass, ": "a DDP bucket, on the host",
    "span beside CUPTI's kernel of 7": "length of a span beside CUPTI's kernel",
    "place of spans beside CUPTI's kernels": "its place, at worst",
    "drift of placed spans": "drift of the clocks",
    "of DDP's communication CUPTI saw hidden ": "communication hidden, by CUPTI",
    "another thread beside a stream full of launches for 300 ms, timed": "a thread beside a full stream",
}
"""What the page has of the figures: how their names begin, and what they are called there."""


def write(page: Path, device: str, figures: Sequence[tuple[str, str]]) -> None:
    """Write the data file of a kind of device anew, and the page's table of all kinds."""
    kind = re.sub(r"\W+", "-", device.lower())
    tables.write_csv(tables.data_file(page, kind), ("measured", device), figures)
    tables.write(page, {"figures": list(_table(sorted(page.parent.glob(f"data/{page.stem}-*.csv"))))})


def _table(files: Sequence[Path]) -> Iterator[str]:
    found = [[*csv.reader(file.read_text(encoding="utf-8").splitlines())] for file in files]
    devices = (f"[{rows[0][1]}](data/{file.name})" for file, rows in zip(files, found, strict=True))
    yield from (f"| | {' | '.join(devices)} |", "|---" * (1 + len(files)) + "|")
    for begin, called in CHOSEN.items():
        cells = [_cell(rows[1:], begin) for rows in found]
        if any(cells):
            yield f"| {called} | {' | '.join(cells)} |"


def _cell(rows: Sequence[Sequence[str]], begin: str) -> str:
    """Return the figures whose names begin like this, after what else the name says."""
    return "; ".join(
        f"{name.removeprefix(begin)}: {figure}" if begin.endswith(" ") else figure
        for name, figure in rows
        if name.startswith(begin)
    )
