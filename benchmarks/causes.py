"""How often the owner and the cause of slowness are told, in real jobs that something real slows down.

Each line is a scenario of ``real_causes/befalls.py``, run several times under ``timing-logger run`` on this
machine; then ``timing-logger stragglers --json`` is asked. The machine should have nothing else to do.
``docs/causes.md`` says how it is counted.

Run: python benchmarks/causes.py [--runs N] [--seconds S] [--only REGEX] [--write docs/causes.md]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from real_causes.befalls import SCENARIOS
from real_causes.expected import EXPECTED, Score, causes_told, scored
from real_causes.surroundings import surroundings

ROOT = Path(__file__).parents[1]
RANKS = 4
TIMES_LONGER = 4.0  # than the job is to run: until it counts as hung


class Line(NamedTuple):
    """What was said of one scenario.

    Attributes:
        scores: how many runs were scored how.
        others: what was said in the runs that are not right.
    """

    scores: Counter[Score]
    others: Counter[str]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=20, help="of each scenario")
    parser.add_argument("--only", default="", metavar="REGEX", help="scenarios whose name has a match")
    parser.add_argument("--write", type=Path, metavar="FILE", help="the page whose table is made anew")
    options = parser.parse_args()
    chosen = [name for name in SCENARIOS if re.search(options.only, name)]
    lines = {}
    for name in chosen:
        lines[name] = _line(name, options.runs)
        print(_printed(name, lines[name]), flush=True)
    if options.write:
        _write(options.write, lines, options)


def _line(name: str, runs: int) -> Line | None:
    """Run a scenario several times; None if this machine cannot."""
    line = Line(Counter(), Counter())
    for seed in range(runs):
        with surroundings(name) as environment:
            if environment is None:
                return None
            verdict = _verdict(name, EXPECTED[name].seconds, seed, environment)
        score = scored(verdict, EXPECTED[name])
        line.scores[score] += 1
        if score != "right":
            line.others[_said(verdict)] += 1
    return line


def _verdict(name: str, seconds: float, seed: int, around: Mapping[str, str]) -> dict[str, Any]:
    """Run the job, and return what ``stragglers --json`` says of it."""
    with tempfile.TemporaryDirectory() as folder:
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


def _printed(name: str, line: Line | None) -> str:
    if line is None:
        return f"{name:12} not possible on this machine"
    counts = "  ".join(f"{score} {line.scores[score]:3}" for score in ("right", "untold", "wrong"))
    others = "; ".join(f"{n} x {said}" for said, n in line.others.most_common(3))
    return f"{name:12} {counts}  {others}".rstrip()


def _write(page: Path, lines: Mapping[str, Line | None], options: argparse.Namespace) -> None:
    """Rewrite the part of the page between ``<!-- made: causes -->`` and ``<!-- end -->``."""
    rows = ["| scenario | what befalls | right | not told | wrong |", "|---|---|---|---|---|"]
    for name, line in lines.items():
        counts = (
            [line.scores[score] for score in ("right", "untold", "wrong")]
            if line
            else ["not possible", "", ""]
        )
        rows.append(f"| {name} | {SCENARIOS[name].__doc__} | {' | '.join(map(str, counts))} |")
    made = "\n".join(
        [f"Runs of each: {options.runs}, on {RANKS} ranks and {os.cpu_count()} cores.", "", *rows]
    )
    text = page.read_text(encoding="utf-8")
    marked = re.compile(r"(<!-- made: causes -->\n).*?(<!-- end -->)", re.DOTALL)
    page.write_text(marked.sub(lambda part: f"{part[1]}{made}\n{part[2]}", text), encoding="utf-8")


if __name__ == "__main__":
    main()
