"""What a run would have taken with something repaired, and what it did take: how far these are apart.

Simulated runs have the same noise with the fault and without it; real ones are made again on this machine.
``docs/what-if.md`` says what the figures mean.

Run: python benchmarks/what_if.py [--quick] [--only REGEX] [--write docs/what-if.md]
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator

from _tables_of_page import measure, parser_of
from what_if_runs import prediction, program, real, simulated


def _simulated(quick: bool) -> Iterator[str]:
    tasks = [(case, seed) for case in range(len(simulated.CASES)) for seed in range(2 if quick else 10)]
    with multiprocessing.Pool(2) as pool:
        yield from prediction.lines(pool.map(simulated.prediction, tasks, chunksize=1))


def _real(quick: bool) -> Iterator[str]:
    yield from prediction.lines(list(real.predictions(program.FAULTS, 1 if quick else 5)))


def _work(quick: bool) -> Iterator[str]:
    yield from prediction.lines(list(real.predictions(program.UNEVEN, 1 if quick else 5)))


PARTS: dict[str, Callable[[bool], Iterator[str]]] = {"simulated": _simulated, "real": _real, "work": _work}


def main() -> None:
    parser = parser_of(__doc__, "few runs of each kind: three minutes")
    measure(parser, {name: lambda asked, part=part: part(asked.quick) for name, part in PARTS.items()})


if __name__ == "__main__":
    main()
