"""How right comparisons of runs are: how often equal programs are told apart, and slower ones found.

Runs are simulated, with noise from run to run, or real ones of a small training on this machine.
``docs/compare.md`` says what each figure means.

Run: python benchmarks/compare.py [--quick] [--only REGEX] [--runs DIR] [--write docs/compare.md]
"""

from __future__ import annotations

import argparse
import os
import re
import tempfile
import time
from pathlib import Path

from compare_runs.parts import PARTS, Options
from live_runs import page


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="fewer runs and comparisons: ten minutes")
    parser.add_argument("--only", default="", metavar="REGEX", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--runs", type=Path, metavar="DIR", help="where real runs are, or are to be kept")
    parser.add_argument("--write", type=Path, metavar="FILE", help="the page whose tables are made anew")
    options = parser.parse_args()
    chosen = [name for name in PARTS if re.search(options.only, name)]
    if not chosen:
        parser.error(f"no part matches {options.only!r}: there are {', '.join(PARTS)}")
    with tempfile.TemporaryDirectory() as made:
        asked = Options(options.quick, (options.runs or Path(made)).absolute())
        for name in chosen:
            _measure(name, asked, options.write)


def _measure(name: str, asked: Options, page_to_write: Path | None) -> None:
    began_s, lines = time.perf_counter(), []
    print(f"== {name}", flush=True)
    for line in PARTS[name](asked):
        print(line, flush=True)
        lines.append(line)
    print(f"   {time.perf_counter() - began_s:.0f} s", flush=True)
    if page_to_write:
        page.write(page_to_write, {name: lines})


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
