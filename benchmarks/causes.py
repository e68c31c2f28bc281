"""How often the owner and the cause of slowness are told, in real jobs that something real slows down.

Each line is a scenario of ``real_causes/befalls.py``, run several times under ``timing-logger run`` on this
machine; then ``timing-logger stragglers --json`` is asked. The machine should have nothing else to do.
``docs/causes.md`` says how it is counted.

Run: python benchmarks/causes.py [--runs N] [--only REGEX] [--write docs/causes.md [--more]]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import _tables_of_page as tables
from real_causes.befalls import SCENARIOS
from real_causes.expected import EXPECTED, Score, causes_told, scored
from real_causes.surroundings import surroundings

ROOT = Path(__file__).parents[1]
RANKS = 4
TIMES_LONGER = 4.0  # than the job is to run: until it counts as hung


Line: TypeAlias = Counter[Score]
"""How many runs of a scenario were scored how."""

SCORES: dict[Score, str] = {"right": "right", "untold": "not told", "wrong": "wrong"}
"""The scores, with what they are called."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=20, help="of each scenario")
    parser.add_argument("--only", default="", metavar="REGEX", help="scenarios whose name has a match")
    parser.add_argument("--write", type=Path, metavar="FILE", help="the page; figures also go to data/")
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="keep the logs of runs that are not right"
    )
    parser.add_argument("--more", action="store_true", help="count on from what the page has of them")
    options = parser.parse_args()
    if options.more and not options.write:
        parser.error("--more counts on from a page: name it with --write")
    chosen = [name for name in SCENARIOS if re.search(options.only, name)]
    lines = counted(options.write) if options.write else {}
    if not options.more:
        lines = {name: line for name, line in lines.items() if name not in chosen}
    for name in chosen * options.runs:  # in turn: what is ended early has as many of each
        lines[name] = _with_one_more(name, lines.get(name, Counter()), options.keep)
        if options.write:
            write(options.write, lines)
    for name in chosen:
        counts = "  ".join(f"{score} {lines[name][score]}" for score in SCORES)
        print(f"{name:12} {counts if lines[name].total() else 'not possible on this machine'}")


def _with_one_more(name: str, line: Line, keep: Path | None) -> Line:
    """Run a scenario once more, and return what counts then: no run of one that this machine cannot make.

    What is said is printed where it is not right.
    """
    seed = line.total()
    with surroundings(name) as environment, tempfile.TemporaryDirectory() as folder:
        if environment is None:
            return line
        verdict = _verdict(name, EXPECTED[name].seconds, seed, environment, folder)
        score = scored(verdict, EXPECTED[name])
        if score != "right":
            print(f"{name}, seed {seed}: {score}. {_said(verdict)}", flush=True)
            if keep:
                shutil.copytree(folder, keep / f"{name}-{seed}", dirs_exist_ok=True)
    return line + Counter([score])


def _verdict(name: str, seconds: float, seed: int, around: Mapping[str, str], folder: str) -> dict[str, Any]:
    """Run the job, and return what ``stragglers --json`` says of it."""
    rank = [str(ROOT / "benchmarks/real_causes/program.py")]
    job = ["torchrun", "--standalone", "--nproc-per-node", str(RANKS), *rank]
    job += [name, str(seconds), str(seed)]
    _call(["run", "--quiet", "--log-dir", folder, "--", *job], TIMES_LONGER * seconds + 30, around)
    verdict: dict[str, Any] = json.loads(_call(["stragglers", folder, "--json"], 120, {}))
    return verdict


def _call(arguments: Sequence[str], limit_s: float, around: Mapping[str, str]) -> str:
    environment = {**os.environ, **around, "OMP_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = f"{ROOT}:{ROOT / 'benchmarks'}"
    environment["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    command = [sys.executable, "-m", "timing_logger", *arguments]
    return subprocess.run(
        command, env=environment, timeout=limit_s, check=True, stdout=subprocess.PIPE, text=True
    ).stdout


def _said(verdict: Mapping[str, Any]) -> str:
    ranks = " ".join(map(str, verdict["ranks"])) or "nobody"
    causes = ", ".join(sorted(causes_told(verdict))) or "no cause"
    return f"{verdict['verdict']}: {ranks}; {verdict['owner'] or 'no owner'}; {causes}"


# -- the page and its data file ------------------------------------------------------------------------------


def counted(page: Path) -> dict[str, Line]:
    """Return what the data file of the page has."""
    rows = tables.read_csv(tables.data_file(page, "scenarios"))
    return {name: Counter(dict(zip(SCORES, map(int, counts), strict=True))) for name, _, *counts in rows}


def write(page: Path, lines: Mapping[str, Line]) -> None:
    """Rewrite the data file, and the part of the page that says what is not right in it."""
    lines = {name: lines[name] for name in SCENARIOS if name in lines}
    rows = [
        [name, SCENARIOS[name].__doc__ or "", *(str(line[score]) for score in SCORES)]
        for name, line in lines.items()
    ]
    heading = ["scenario", "what befalls", *SCORES.values()]
    tables.write_csv(tables.data_file(page, "scenarios"), heading, rows)
    tables.write(page, {"causes": list(_told(lines))})


def _told(lines: Mapping[str, Line]) -> Iterator[str]:
    """Yield how many runs are right, and the lines of which some are not."""
    every: Line = sum(lines.values(), Counter[Score]())
    runs = f"{every['right']} of {every.total()} runs of {len(lines)} scenarios are right"
    yield from (f"**{runs}**, on {RANKS} ranks and {os.cpu_count()} cores.", "")
    for name, line in lines.items():
        if line["right"] < line.total() or not line.total():
            counts = ", ".join(f"{line[score]} {word}" for score, word in SCORES.items())
            yield f"- `{name}`: {counts if line.total() else 'not possible on this machine'}"


if __name__ == "__main__":
    main()
