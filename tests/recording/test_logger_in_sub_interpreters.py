"""A process may have several interpreters: only the main one records."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from processes import run_python

PROGRAM = """
import sys
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
import timing_logger
other = interpreters.create()
failed = interpreters.run_string(other, {inside!r})
assert failed is None, failed
with timing_logger.TimingLogger(0, sys.argv[1]) as logger:  # the main one goes on
    logger.record_timing("A", 1.0)
print(logger.stats)
"""
REFUSED = """
from timing_logger import TimingLogger
from timing_logger.errors import ConfigurationError
try:
    TimingLogger(1, {folder!r})
except ConfigurationError as error:
    print(error)
"""
OFF = """
from timing_logger import TimingLogger
logger = TimingLogger(1, {folder!r}, enabled=False)
with logger.record_mpi_operation("A"):
    pass
logger.close()
print("off")
"""


def interpreters() -> Any:
    for name in ("_interpreters", "_xxsubinterpreters"):
        try:
            return import_module(name)
        except ImportError:
            pass
    return pytest.skip("this Python has no sub-interpreters")


@pytest.mark.slow("sub-interpreters are rare; the error itself is quick in test_logger.py")
@pytest.mark.skipif(sys.version_info[:2] == (3, 12), reason="CPython 3.12.1 itself aborts at its exit")
@pytest.mark.parametrize(("inside", "said"), [(REFUSED, "this is a sub-interpreter"), (OFF, "off")])
def test_a_sub_interpreter_gets_a_clear_error_or_a_logger_that_is_off(
    tmp_path: Path, inside: str, said: str
) -> None:
    interpreters()
    run = run_python(PROGRAM.replace("{inside!r}", repr(inside.format(folder=str(tmp_path)))), tmp_path)
    assert said in run.stdout
    assert "Counters(accepted=1, written=1" in run.stdout
    assert run.stderr == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == ["timing-rank0.csv", "timing-rank0.meta.json"]
