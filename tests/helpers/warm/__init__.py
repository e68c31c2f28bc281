"""Python programs that start at once, for tests: a warm parent has imported torch and pandas, and forks.

``python()`` stands in for ``sys.executable`` where a fresh interpreter is not what is tested: programs that
fork, are killed or stopped, read their command line, or are asked how they import take ``sys.executable``.

A program has the environment, folder, streams, umask, limits and signals that it would have. What only a new
interpreter can have starts one: ``-X``, a variable such as ``PYTHONHASHSEED`` or ``LD_PRELOAD``, a descriptor
beyond 2, a module of one's own that is called like an imported one, fewer rights. What differs all the same:

- ``HEAVY`` is in ``sys.modules``.
- Hashes of strings, and so the orders of sets, are the same in all programs of one parent, as are addresses.
- Who started a program is not its parent, and in another process group.
- At its end modules are not taken apart.
"""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

HERE = Path(__file__).parent
COLD = "TIMING_LOGGER_TESTS_COLD"
"""The environment variable that has every program start in an interpreter of its own."""

SITE = "TIMING_LOGGER_TESTS_WARM_SITE"
"""The one that has a ``sitecustomize`` run in a warm program, too: later than torch was imported."""

SHARED = "TIMING_LOGGER_TESTS_WARM"
"""The one with the path of a client whose parent all processes of tests share."""

HEAVY = (
    "numpy", "pandas", "narwhals", "msgspec", "jinja2", "rich.console", "rich.table", "rich.progress",
    "pyarrow", "pyarrow.parquet", "scipy.stats", "torch", "torch._dynamo", "torch.distributed",
    "torch.distributed.elastic.agent.server.local_elastic_agent", "torch.distributed.launcher.api",
    "torch.nn.parallel", "torch.distributed.fsdp", "torch.profiler", "torch.utils.data", "email",
    "http.server", "multiprocessing.connection", "statistics", "concurrent.futures.thread",
)  # fmt: skip
"""What a parent imports. Of others alone: what is tested is imported by the program itself."""


@functools.cache
def python() -> str:
    """Return the path of what runs a program as ``sys.executable`` does; that itself without a C compiler."""
    shared = os.environ.get(SHARED, "")
    if os.environ.get(COLD):
        return sys.executable
    return shared if os.access(shared, os.X_OK) else start(HEAVY)


def share() -> None:
    """Start a parent for this process and all that it starts: each of their own would take ten seconds."""
    os.environ[SHARED] = python()


def start(modules: Iterable[str]) -> str:
    """Start a parent that imports ``modules``, and ends with this process; return the path of its client."""
    compiler = shutil.which("cc")
    if compiler is None or sys.platform != "linux":
        return sys.executable
    folder = Path(tempfile.mkdtemp(prefix="warm-"))
    client = folder / "python"
    (folder / "interpreter").symlink_to(sys.executable)
    build = [compiler, "-O1", "-o", client, HERE / "python.c"]
    built = subprocess.run(build, check=False, capture_output=True)
    if built.returncode or not os.access(client, os.X_OK):  # no headers; a file system without programs
        shutil.rmtree(folder)
        return sys.executable
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    parent = subprocess.Popen(
        [sys.executable, HERE / "parent.py", folder, *modules],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**environment, "OMP_NUM_THREADS": "1"},
        start_new_session=True,  # Ctrl-C is for the programs
    )
    atexit.register(parent.communicate)
    assert parent.stdout is not None
    assert parent.stdout.readline() == b"ready\n", "the warm parent of the tests did not start"
    return str(client)
