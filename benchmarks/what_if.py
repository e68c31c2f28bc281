"""What a run would have taken with something repaired, and what it did take: how far these are apart.

Simulated runs have the same noise with the fault and without it; real ones are made again on this machine.
``docs/what-if.md`` says what the figures mean.

Run: python benchmarks/what_if.py [--quick] [--only REGEX] [--write docs/what-if.md]
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from live_runs import page
from what_if_runs import prediction, real, simulated


def _simulated(quick: bool) -> Iterator[str]:
    tasks = [(case, seed) for case in range(len(simulated.CASES)) for seed in range(2 if quick else 10)]
    with multiprocessing.Pool(2) as pool:
        yield from prediction.lines(pool.map(simulated.prediction, tasks, chunksize=1))


def _real(quick: bool) -> Iterator[str]:
    yield from prediction.lines(list(real.predictions(1 if quick else 5)))


PARTS: dict[str, Callable[[bool], Iterator[str]]] = {"simulated": _simulated, "real": _real}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="few runs of each kind: three minutes")
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
