"""How right comparisons of runs are: how often equal programs are told apart, and slower ones found.

Runs are simulated, with noise from run to run, or real ones of small trainings on this machine.
``docs/compare.md`` says what each figure means.

Run: python benchmarks/compare.py [--quick] [--only REGEX] [--runs DIR] [--write docs/compare.md]
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from _tables_of_page import measure, parser_of
from compare_runs.parts import PARTS, Options


def main() -> None:
    parser = parser_of(__doc__, "fewer runs and comparisons: ten minutes")
    parser.add_argument("--runs", type=Path, metavar="DIR", help="where real runs are, or are to be kept")
    with tempfile.TemporaryDirectory() as made:
        measure(parser, {name: _with_runs(part, Path(made)) for name, part in PARTS.items()})


def _with_runs(
    part: Callable[[Options], Iterator[str]], otherwise: Path
) -> Callable[[argparse.Namespace], Iterator[str]]:
    """Return a part that keeps real runs in a folder, if none is named."""
    return lambda asked: part(Options(asked.quick, (asked.runs or otherwise).absolute()))


if __name__ == "__main__":
    main()
