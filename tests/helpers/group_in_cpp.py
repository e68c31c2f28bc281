"""Builds the process group in C++ ahead of tests, and says which tests need it.

A process that finds it built loads it at once. The first one on a machine would build it: in half a minute on
idle cores, but on busy ones in more than the package allows, and then Python times the groups.
``python group_in_cpp.py`` builds it.
"""

from __future__ import annotations

import functools
import os
import shutil

import pytest
import warm
from limits import scaled
from places import ROOT
from processes import run_job

from timing_logger.process import which_core

_LIMIT_S = scaled(900)
_VARIABLE = "TIMING_LOGGER_GROUP"


def missing() -> str:
    """What this machine lacks to build the group; blank if it lacks nothing."""
    if which_core.NAME != "native":
        return "no native core"
    return "" if shutil.which(os.environ.get("CXX", "c++")) else "no C++ compiler"


@functools.cache
def build() -> None:
    """Build the group unless it is there, or this machine lacks what that takes.

    In a process of its own: which group times in this one is for its environment to say.
    """
    if missing():
        return
    environment = {_VARIABLE: "python", "PYTHONPATH": str(ROOT)}
    job = run_job([warm.python(), __file__], environment=environment, limit_s=_LIMIT_S, name="a build")
    assert job.returncode == 0, f"the group in C++ cannot be built:\n{job.stdout}\n{job.stderr}"


def build_if_it_times() -> None:
    """Build the group where the environment of this process has it time."""
    if os.environ.get(_VARIABLE) == "native":
        build()


def build_here() -> None:
    """Do the same in this process, in which Python then times groups."""
    if missing():
        return
    os.environ[_VARIABLE] = "python"  # else to import the package would build it, within the package's limit
    from allreduce_instrumentation.torch_distributed import group_library

    group_library._LIMIT_S = _LIMIT_S
    group_library.library()


needed = pytest.mark.skipif(bool(missing()), reason=missing() or "it can be built")
"""A mark for tests of the group in C++."""

if __name__ == "__main__":
    build_here()
