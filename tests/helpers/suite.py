"""Runs the tests in parts, each in a pytest of its own, and says at the end what became of all of them.

Usage: ``suite.py quick`` (``make test``), ``suite.py all`` (``make test-all``), or ``suite.py deep`` (``make
test-deep``): the slow tests of what differs from a commit, as long as the time for them lasts.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import warm
from limits import scaled
from places import HELPERS, ROOT, TESTS

PACKAGES = ("timing_logger", "allreduce_instrumentation")

OVER_PYTHON = {"TIMING_LOGGER_CORE": "python"}
RECORDING = (
    "tests/faults", "tests/project/test_async_device.py", "tests/mpi/test_mpi.py",
    "tests/torch_distributed/test_torch_distributed.py",
)  # fmt: skip
"""Tests of programs, which are over their process's core; those of a core itself are over both."""

IN_CPP = {"TIMING_LOGGER_GROUP": "native"}
GROUPS = (
    "tests/torch_distributed", "tests/recording/test_autograd_threads.py",
    "tests/recording/device/test_rows_on_async_device.py",
)  # fmt: skip
"""Tests of groups, which are over the one in Python unless they are told."""

TEST_LIMIT_S = scaled(600)
"""A test that hangs is named after so many seconds, and the others go on."""

UNTIL = "TIMING_LOGGER_TESTS_UNTIL"
"""The environment variable with the time, in s since the epoch, after which no further test begins."""


class Part(NamedTuple):
    """Tests that one pytest runs.

    Attributes:
        name: what it is called in the summary.
        chosen: which tests, as ``pytest -m`` takes it.
        where: files and folders; none are all.
        environment: what it has beside this process's.
        one_by_one: whether nothing runs beside its tests.
    """

    name: str
    chosen: str
    where: Sequence[str] = ()
    environment: Mapping[str, str] = {}
    one_by_one: bool = False


class Outcome(NamedTuple):
    """What became of a part: how many passed, which failed, why others were skipped, how long it took."""

    name: str
    passed: int
    failed: Sequence[str]
    skipped: Counter[str]
    took_s: float


def quick_parts() -> list[Part]:
    return [
        Part("side by side", "not serial and not slow", _all_but_slow_files()),
        Part("one by one", "serial and not slow", _files_with("mark.serial"), one_by_one=True),
        Part("over the Python core", "both_cores and not serial and not slow", RECORDING, OVER_PYTHON),
        Part("over groups in C++", "both_groups and not serial and not slow", GROUPS, IN_CPP),
    ]


def all_parts() -> list[Part]:
    return [
        Part("side by side", "not serial"),
        Part("one by one", "serial", _files_with("mark.serial", "slow_and_serial"), one_by_one=True),
        Part("over the Python core", "not serial", RECORDING, OVER_PYTHON),
        Part("over groups in C++", "not serial", GROUPS, IN_CPP),
    ]


def deep_parts(since: str) -> list[Part]:
    """Return the slow tests of what differs from the commit ``since``."""
    where = places_of(_run("git", "diff", "--name-only", "--no-renames", since).splitlines())
    slow = sorted(
        {file for file in _files_with("slow") for place in where if Path(file).is_relative_to(place)}
    )
    return [
        Part("slow tests of what changed", "slow and not serial", slow),
        Part("of these, one by one", "slow and serial", slow, one_by_one=True),
    ]


def places_of(changed: Sequence[str]) -> set[str]:
    """Return where the tests of these files are: of a module the folder that mirrors its own."""
    return {_place_of(Path(file)) for file in changed}


def _place_of(file: Path) -> str:
    top, *rest = file.parts
    if top == "tests" and file.name.startswith("test_"):
        return str(file)
    if top not in PACKAGES:
        return "tests/project"
    folder = TESTS.joinpath(*rest[:-1])
    while not folder.is_dir():
        folder = folder.parent
    named = f"test_{file.stem.strip('_')}.py"
    return str((folder / named if folder == TESTS else folder).relative_to(ROOT))


def _files_with(*texts: str) -> list[str]:
    files = sorted(TESTS.rglob("test_*.py"))
    return [str(file.relative_to(ROOT)) for file in files if any(text in file.read_text() for text in texts)]


def _all_but_slow_files() -> list[str]:
    """Return options that leave out files of slow tests alone, which need not be imported."""
    lines = ("\npytestmark = pytest.mark.slow(", "\npytestmark = [pytest.mark.slow(")
    return ["tests", *(f"--ignore={file}" for file in _files_with(*lines))]


def _run(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def run(part: Part, workers: int, options: Sequence[str]) -> Outcome:
    """Run a part, which prints its progress. Its pytest itself may fail, too, which the outcome names."""
    environment = {**os.environ, **part.environment}
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder, "results.xml")
        command = [*_command(part, workers), f"--junitxml={results}", *options]
        began_s = time.monotonic()
        status = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
        outcome = _outcome(part.name, results, time.monotonic() - began_s)
    if status not in (0, 1, 5):  # 5: no test was chosen
        outcome = outcome._replace(failed=[*outcome.failed, f"{part.name}: pytest ended with {status}"])
    return outcome


def _command(part: Part, workers: int) -> list[str]:
    """Return how pytest runs a part: from the warm parent, as are its workers, which begin in a moment."""
    python = warm.python()
    workers_of_it = ["--tx", f"{workers}*popen//python={python}", "--dist", "loadfile"]
    side_by_side = [] if part.one_by_one else workers_of_it
    limit = f"--timeout={TEST_LIMIT_S}"
    pytest = [python, "-m", "pytest", "-q", "--no-header", limit, *side_by_side]
    return [*pytest, "-m", part.chosen, *part.where]


def _outcome(name: str, results: Path, took_s: float) -> Outcome:
    cases = list(ElementTree.parse(results).iter("testcase")) if results.exists() else []
    failed = [case for case in cases if case.find("failure") is not None or case.find("error") is not None]
    skipped = [found for case in cases if (found := case.find("skipped")) is not None]
    names = [f"{case.get('classname')}::{case.get('name')} ({name})" for case in failed]
    reasons = Counter(found.get("message", "") for found in skipped)
    return Outcome(name, len(cases) - len(failed) - len(skipped), names, reasons, took_s)


def summary(outcomes: Sequence[Outcome], builds_s: float) -> str:
    """Return what is said at the end: why tests were skipped, which failed, and one line over all parts."""
    skipped: Counter[str] = sum((outcome.skipped for outcome in outcomes), Counter())
    failed = [name for outcome in outcomes for name in outcome.failed]
    passed = sum(outcome.passed for outcome in outcomes)
    seconds = [("builds", builds_s), *((outcome.name, outcome.took_s) for outcome in outcomes)]
    in_all_s = sum(took_s for _, took_s in seconds)
    lines = [
        *(f"skipped, {number}: {reason}" for reason, number in skipped.most_common()),
        *(f"FAILED {name}" for name in failed),
        f"== {len(failed)} failed, {passed} passed, {skipped.total()} skipped in {in_all_s:.0f} s: "
        + ", ".join(f"{name} {took_s:.0f} s" for name, took_s in seconds),
    ]
    return "\n".join(lines)


def main() -> int:
    options = _parser().parse_args()
    chosen = {"quick": quick_parts, "all": all_parts, "deep": lambda: deep_parts(options.since)}
    parts = chosen[options.which]()
    began_s = time.monotonic()
    build()
    builds_s = time.monotonic() - began_s
    if options.seconds:
        os.environ[UNTIL] = str(time.time() + options.seconds)
    further = ["--hypothesis-profile=same-examples"] if options.which == "all" else []
    outcomes = []
    for number, part in enumerate(parts, 1):
        print(f"== part {number} of {len(parts)}: {part.name}", flush=True)
        if part.where or part.chosen.startswith("not"):
            outcomes.append(run(part, options.workers, further))
    print(summary(outcomes, builds_s))
    return any(outcome.failed for outcome in outcomes)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("which", choices=("quick", "all", "deep"))
    parser.add_argument("--workers", type=int, default=2, help="how many tests run at once")
    parser.add_argument(
        "--since", default="HEAD~1", metavar="COMMIT", help="of deep: what the change is told from"
    )
    parser.add_argument("--seconds", type=float, help="after so many, no further test begins")
    return parser


def build() -> None:
    """Build once, before the first test and with no test's limit, what is built on first use."""
    print("== building what tests use", flush=True)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    builds = subprocess.Popen([sys.executable, HELPERS / "built_ahead.py"], cwd=ROOT, env=environment)
    warm.share()
    if builds.wait():
        raise subprocess.CalledProcessError(builds.returncode, builds.args)


if __name__ == "__main__":
    sys.exit(main())
