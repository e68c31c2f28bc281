"""Python programs that start at once, for tests: a warm parent has imported torch and pandas, and forks.

``python()`` stands in for ``sys.executable`` where a fresh interpreter is not what is tested: programs that fork, are
killed or stopped, read their own command line, or are asked how they import take ``sys.executable``.
"""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
COLD = "TIMING_LOGGER_TESTS_COLD"
"""The environment variable that has every program start in an interpreter of its own."""

SITE = "TIMING_LOGGER_TESTS_WARM_SITE"
"""The one that has a ``sitecustomize`` run in a warm program, too: later than torch was imported."""


@functools.cache
def python() -> str:
    """Return the path of what runs a program as ``sys.executable`` does; that itself without a C compiler."""
    if os.environ.get(COLD) or not (compiler := shutil.which("cc")) or sys.platform != "linux":
        return sys.executable
    folder = Path(tempfile.mkdtemp(prefix="warm-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    client, at = folder / "python", folder / "socket"
    values = [f'-D{name}="{value}"' for name, value in (("PYTHON", sys.executable), ("SOCKET", at))]
    subprocess.run([compiler, "-O1", *values, "-o", client, HERE / "client.c"], check=True)
    parent = subprocess.Popen(
        [sys.executable, HERE / "server.py", at, client],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    atexit.register(parent.communicate)
    assert parent.stdout is not None
    assert parent.stdout.readline() == b"ready\n", "the warm parent of the tests did not start"
    return str(client)
