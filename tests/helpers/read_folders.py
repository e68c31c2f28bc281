"""Folders of timing files, and what reading them gives, warnings aside."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pandas as pd
from timing_files import record, write_sidecar, write_timing_file

from timing_logger import read_timings


def read_one(folder: Path, data: bytes) -> pd.DataFrame:
    """The table of a folder with one file that holds ``data``, warnings aside."""
    (folder / "timing-rank0.csv").write_bytes(data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return read_timings(folder)


def job(folder: Path, incarnations: dict[int, int], start_s: float, end_s: float, *, sidecar: bool) -> None:
    """The files of one job: which rank wrote which incarnation, from when to when."""
    for rank, incarnation in incarnations.items():
        path = write_timing_file(
            folder, rank, [record(start_s=start_s), record(start_s=end_s)], incarnation=incarnation
        )
        if sidecar:
            write_sidecar(path, start_s=start_s, end_s=end_s)


def read_files(folder: Path, incarnations: Any = "latest") -> tuple[list[tuple[int, int]], dict[str, str]]:
    """(rank, incarnation) of the files read, and the reasons for the others by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        df = read_timings(folder, incarnations=incarnations)
    left_out = {Path(file["path"]).name: file["reason"] for file in df.attrs["left_out"]}
    return [(file["rank"], file["incarnation"]) for file in df.attrs["files"]], left_out
