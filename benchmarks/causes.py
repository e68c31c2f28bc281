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
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from real_causes.befalls import SCENARIOS
from real_causes.expected import EXPECTED, Score, causes_told, scored
from real_causes.surroundings import surroundings

ROOT = Path(__file__).parents[1]
RANKS = 4
TIMES_LONGER = 4.0  # than the job is to run: until it counts as hung


Line: TypeAlias = Counter[Score]
"""How many runs of a scenario were scored how."""

SCORES: dict[Score, str] = {"right": "right", "untold": "not told", "wrong": "wrong"}
"""The scores, with what they are called on the page."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=20, help="of each scenario")
    parser.add_argument("--only", default="", metavar="REGEX", help="scenarios whose name has a match")
    parser.add_argument("--write", type=Path, metavar="FILE", help="the page whose table is made anew")
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="keep the logs of runs that are not right"
    )
    parser.add_argument("--more", action="store_true", help="count on from what the page has of them")
    options = parser.parse_args()
    if options.more and not options.write:
        parser.error("--more counts on from a page: name it with --write")
    chosen = [name for name in SCENARIOS if re.search(options.only, name)]
    lines = _on_page(options.write) if options.write else {}
    if not options.more:
        lines = {name: line for name, line in lines.items() if name not in chosen}
    for name in chosen * options.runs:  # in turn: what is ended early has as many of each
        lines[name] = _with_one_more(name, lines.get(name, Counter()), options.keep)
        if options.write:
            _write(options.write, lines)
    for name in chosen:
        counts = "  ".join(f"{score} {lines[name][score]}" for score in SCORES)
        print(f"{name:12} {counts if lines[name] else 'not possible on this machine'}")


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


# -- the page ------------------------------------------------------------------------------------------------

_MADE = re.compile(r"(<!-- made: causes -->\n).*?(<!-- end -->)", re.DOTALL)
_ROW = re.compile(r"^\| (\w+) \| .* \| (\d+) \| (\d+) \| (\d+) \|$", re.MULTILINE)


def _on_page(page: Path) -> dict[str, Line]:
    """Return what the table of the page has."""
    rows = _ROW.findall(page.read_text(encoding="utf-8"))
    return {name: Counter(dict(zip(SCORES, map(int, counts), strict=True))) for name, *counts in rows}


def _write(page: Path, lines: Mapping[str, Line]) -> None:
    """Rewrite the table of the page."""
    rows = [f"| scenario | what befalls | {' | '.join(SCORES.values())} |", "|---|---|---|---|---|"]
    for name, befalls in SCENARIOS.items():
        line = lines.get(name)
        if line is not None:
            counts = [str(line[score]) for score in SCORES] if line else ["not possible", "", ""]
            rows.append(f"| {name} | {befalls.__doc__} | {' | '.join(counts)} |")
    made = "\n".join([f"On {RANKS} ranks and {os.cpu_count()} cores.", "", *rows])
    text = page.read_text(encoding="utf-8")
    page.write_text(_MADE.sub(lambda part: f"{part[1]}{made}\n{part[2]}", text), encoding="utf-8")


if __name__ == "__main__":
    main()
