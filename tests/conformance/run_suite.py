"""One rank of mpi4py's own test suite: plain, or with every communicator replaced by a timed one.

    mpiexec -n 4 python -m mpi4py run_suite.py plain|timed OUTPUT_DIR SUITE_DIR [options of the suite]

Writes ``OUTPUT_DIR/{plain|timed}-rank{i}.json``: the outcome of each test, and the number of rows.
"""

from __future__ import annotations

import json
import runpy
import sys
import unittest
from pathlib import Path
from typing import Any

import mpi4py.MPI as MPI

from allreduce_instrumentation import TimedIntracomm
from timing_logger import TimingLogger

outcomes: dict[str, str] = {}
_HANDLES = MPI.Comm, MPI.Request, MPI.Message, MPI.Win, MPI.File  # mpi4py's own: stand-ins take their names


class Recorder(unittest.TextTestResult):
    """Remembers how each test ended."""

    def addSuccess(self, test: Any) -> None:
        super().addSuccess(test)
        outcomes.setdefault(test.id(), "ok")

    def addSkip(self, test: Any, reason: str) -> None:
        super().addSkip(test, reason)
        outcomes[test.id()] = f"skipped: {reason}"

    def addError(self, test: Any, error: Any) -> None:
        super().addError(test, error)
        outcomes[test.id()] = f"error: {error[0].__name__}: {error[1]}"

    def addFailure(self, test: Any, error: Any) -> None:
        super().addFailure(test, error)
        outcomes[test.id()] = f"failure: {error[1]}"

    def addSubTest(self, test: Any, subtest: Any, error: Any) -> None:
        super().addSubTest(test, subtest, error)
        if error is not None:
            outcomes[test.id()] = f"failure: {subtest}: {error[1]}"

    def addExpectedFailure(self, test: Any, error: Any) -> None:
        super().addExpectedFailure(test, error)
        outcomes[test.id()] = "expected failure"

    def addUnexpectedSuccess(self, test: Any) -> None:
        super().addUnexpectedSuccess(test)
        outcomes[test.id()] = "unexpected success"


def time_everything(output: Path) -> TimingLogger:
    """Put timed communicators in the place of mpi4py's constants, from which all others are made."""
    logger = TimingLogger(MPI.COMM_WORLD.Get_rank(), output / "timings", flush_interval=0.2)
    for name in ("COMM_WORLD", "COMM_SELF"):
        timed: Any = TimedIntracomm(getattr(MPI, name), timing_logger=logger)
        timed.free = lambda: None  # which does nothing on a constant, and sets a copy of it to null
        setattr(MPI, name, timed)
    return logger


def let_timed_classes_stand_for_their_originals() -> None:
    """``assertIs(type(comm), MPI.Cartcomm)`` is the one thing that a wrapper cannot hold.

    There, and nowhere else, a timed class counts as the class of mpi4py that it extends.
    """

    def original(value: Any) -> Any:
        if not isinstance(value, type) or not issubclass(value, _HANDLES):
            return value
        while value.__module__ != MPI.__name__ or type(value) is not type:
            value = value.__base__
        return value

    for name in ("assertIs", "assertEqual"):
        plain = getattr(unittest.TestCase, name)
        setattr(
            unittest.TestCase, name,
            lambda self, first, second, msg=None, plain=plain: plain(
                self, original(first), original(second), msg
            ),
        )  # fmt: skip


def main() -> None:
    way, output, suite, *options = sys.argv[1:]
    rank = MPI.COMM_WORLD.Get_rank()
    logger = None
    if way == "timed":
        logger = time_everything(Path(output))
        let_timed_classes_stand_for_their_originals()
    unittest.TextTestRunner.resultclass = Recorder  # type: ignore[assignment]
    sys.argv = [str(Path(suite) / "main.py"), *options]
    sys.path.insert(0, suite)
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    finally:
        rows = 0
        if logger is not None:
            logger.close()
            rows = logger.stats.written
        report = {"outcomes": outcomes, "rows": rows}
        (Path(output) / f"{way}-rank{rank}.json").write_text(json.dumps(report))


if __name__ == "__main__":
    main()
