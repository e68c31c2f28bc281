"""What is told of a run while it goes on: how soon, how often right, how often wrongly, and what it costs.

Some of it is measured in real jobs on this machine, which should have nothing else to do; most of it in jobs
on a simulated clock, which are judged as a monitor judges. ``docs/live.md`` says what each figure means.

Run: python benchmarks/live.py [--quick] [--only REGEX] [--write docs/live.md]
"""

from __future__ import annotations

import argparse
import os
import re
import time
from pathlib import Path

from live_runs import page
from live_runs.parts import PARTS


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="fewer jobs, at most 512 ranks: five minutes")
    parser.add_argument("--only", default="", metavar="REGEX", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--write", type=Path, metavar="FILE", help="the page whose tables are made anew")
    options = parser.parse_args()
    chosen = [name for name in PARTS if re.search(options.only, name)]
    if not chosen:
        parser.error(f"no part matches {options.only!r}: there are {', '.join(PARTS)}")
    for name in chosen:
        began_s, lines = time.perf_counter(), []
        print(f"== {name}", flush=True)
        for line in PARTS[name](options.quick):
            print(line, flush=True)
            lines.append(line)
        print(f"   {time.perf_counter() - began_s:.0f} s", flush=True)
        if options.write:
            page.write(options.write, {name: lines})


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
