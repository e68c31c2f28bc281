"""The head of the page, which identifies the run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from timing_logger.record import escape_text
from timing_logger.report._wording import count, size
from timing_logger.report.html._findings import Findings


class Fact(NamedTuple):
    """One fact about the run: its name and its value."""

    name: str
    value: str


def title(findings: Findings) -> str:
    """Return the last two levels of the folder's path: the last alone is often ``timing`` or ``logs``."""
    folders = {os.path.abspath(Path(file["path"]).parent) for file in findings.summary.files}
    if not folders:
        return "Timings"
    return escape_text("/".join(Path(os.path.commonpath(sorted(folders))).parts[-2:]).lstrip("/"))


def facts(findings: Findings) -> list[Fact]:
    ranks, files = findings.summary.ranks, findings.summary.files
    sidecars = [file["sidecar"] for file in files if file["sidecar"]]
    hosts = sorted({str(sidecar["host"]) for sidecar in sidecars if sidecar.get("host")})
    begin = findings.began
    known = {
        "ranks": f"{ranks['rank'].nunique():,}",
        "iterations": f"{n_steps:,}" if (n_steps := _n_steps(findings)) else "",
        "rows": f"{findings.n_rows:,}",
        "wall time": f"{ranks['wall_s'].max():.2f} s" if ranks["wall_s"].notna().any() else "",
        "began (UTC)": f"{begin:%Y-%m-%d %H:%M:%S}" if begin == begin else "",
        "hosts": ", ".join(map(escape_text, hosts)) if len(hosts) <= 3 else count(len(hosts), "host"),
        "files": size(sum(file["bytes"] for file in files)) if files else "",
    }
    return [Fact(name, value) for name, value in known.items() if value]


def _n_steps(findings: Findings) -> int:
    """Return the number of distinct iterations of the run; per epoch, if they restart."""
    steps = findings.overlap[findings.overlap["iteration"].notna()]
    return len(steps[[name for name in ("epoch", "iteration") if name in steps]].drop_duplicates())
