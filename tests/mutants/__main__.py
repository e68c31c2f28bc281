"""Breaks a line of the packages, a hundred times: does a quick test of the mirroring folder notice?

First the quick tests run once under coverage.py, which tells which of them reach which line: those are tried
first, the quickest before others. What no quick test notices is tried on slow tests: those called like the
module, and those of whole answers.

Usage: python -m mutants [--seed 20261128] [--count 100] [--glance] [--write FILE] [FOLDER or FILE ...]

The lines are evenly apart, and the same for one seed and one state of the sources. Why no ready-made tool:
mutmut 3.8 leaves the constants of modules alone, where thresholds stand, and tries no tests beside those that
reach a function in their own process. cosmic-ray 8.7 changes the checkout
itself, has one test command for all mutants, and had not listed those of 80,000 lines after eight minutes.
"""

from __future__ import annotations

import argparse
import datetime
import queue
import resource
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import TypeVar

import warm

from mutants.copies import SLOW, Copy, mirroring
from mutants.mutations import Mutant, drawn, mutants_of

ROOT = Path(__file__).parents[2]
PACKAGES = ("timing_logger", "allreduce_instrumentation")
AT_ONCE = 2
Result = TypeVar("Result")
MOST_BYTES = 8 * 2**30  # of a process: else a mutant that fills the memory would end others


def main(arguments: Sequence[str]) -> None:
    """Try mutants, and print what became of each."""
    parser = argparse.ArgumentParser(prog="python -m mutants", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--seed", type=int, default=int(f"{datetime.date.today():%Y%m%d}"), help="default: today"
    )
    parser.add_argument("places", nargs="*", metavar="PLACE", help="folders or files; default: both packages")
    parser.add_argument("--count", type=int, default=100, help="how many mutants")
    parser.add_argument(
        "--glance", action="store_true", help="run only tests that are known to reach the line"
    )
    parser.add_argument("--write", type=Path, help="a file for what is printed")
    options = parser.parse_args(arguments)
    for place in options.places:
        if not (ROOT / place).exists():
            parser.error(f"{place}: there is no such folder or file in {ROOT}")
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_BYTES, resource.getrlimit(resource.RLIMIT_DATA)[1]))
    warm.share()
    lines = []
    for line in report(ROOT, PACKAGES, options.seed, options.count, options.places, options.glance):
        print(line, flush=True)
        lines.append(line)
    if options.write:
        options.write.write_text("\n".join(lines) + "\n")


def report(
    root: Path,
    packages: Sequence[str],
    seed: int,
    count: int,
    places: Sequence[str] = (),
    at_a_glance: bool = False,
) -> Iterator[str]:
    """Yield the seed, a line for each mutant as soon as it was tried, and the figure.

    Args:
        root: of the tree.
        packages: its folders of what is tested.
        seed: of what is drawn.
        count: how many are drawn.
        places: folders and files of the packages, from the root, whose lines are broken; none are all.
        at_a_glance: run only those quick tests that are known to reach the line.
    """
    yield f"seed {seed}"
    files = _files(root, packages, places)
    found = [mutant for file in files for mutant in mutants_of(file.relative_to(root), file.read_bytes())]
    mutants = list(drawn(found, count, seed))
    noticed: Counter[str] = Counter()
    for kind, said in tried(root, packages, mutants, at_a_glance):
        noticed[kind] += 1
        yield said
    n_noticed, by_slow = noticed.total() - noticed[""], f"{noticed[SLOW]} of them by slow tests alone"
    yield f"{n_noticed} of {len(mutants)} mutants were noticed, {by_slow}; {noticed['']} survived"


def _files(root: Path, packages: Sequence[str], places: Sequence[str]) -> list[Path]:
    files = [file for package in packages for file in sorted((root / package).rglob("*.py"))]
    chosen = [root / place for place in places or packages]
    return [file for file in files if any(file.is_relative_to(place) for place in chosen)]


def tried(
    root: Path, packages: Sequence[str], mutants: Sequence[Mutant], at_a_glance: bool = False
) -> Iterator[tuple[str, str]]:
    """Try mutants in copies of the tree, two at once, and yield of each what ``Copy.tried`` returns."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder, ThreadPoolExecutor(AT_ONCE) as workers:
        free: queue.Queue[Copy] = queue.Queue()
        for number in range(AT_ONCE):
            free.put(Copy(root, Path(folder).resolve() / str(number), packages))

        def in_copy(do: Callable[[Copy], Result]) -> Result:
            copy = free.get()
            try:
                return do(copy)
            finally:
                free.put(copy)

        tests = {Path(test).parent for mutant in mutants for test in mirroring(mutant.file, root / "tests")}
        folders = sorted(tests)
        reaches = workers.map(lambda place: in_copy(lambda copy: copy.learned(place)), folders)
        learned = dict(zip(folders, reaches, strict=True))
        trials = [
            workers.submit(in_copy, lambda copy, mutant=mutant: copy.tried(mutant, learned, at_a_glance))
            for mutant in mutants
        ]
        for done in as_completed(trials):
            yield done.result()


if __name__ == "__main__":
    main(sys.argv[1:])
