"""In C, only ``csrc/door.c`` opens, makes, locks, replaces and removes files: read from what is compiled."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sysconfig
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import pytest
from limits import PROCESS_S
from native_jobs import BIN, needs_compiler
from places import ROOT

from timing_logger.native_mpi import build

needs_nm = pytest.mark.skipif(shutil.which("nm") is None, reason="no nm, which lists what an object calls")
pytestmark = [needs_compiler, needs_nm]

NATIVE, SHARED = ROOT / "timing_logger/recording/cores/native", ROOT / "timing_logger/csrc"
OF_FILES = (
    "open|openat|creat|fopen|freopen|mkstemp|rename|renameat|renameat2|link|linkat|symlink|symlinkat|unlink|"
    "unlinkat|remove|mkdir|mkdirat|rmdir|flock|truncate|chmod"
)
"""The functions of libc that are given a path, or lock a file; ``__open64_2`` is ``open``, too."""
CALLED = re.compile(rf"^(\S+)\.o:\s+U _*({OF_FILES})(?:64)?(?:_2)?\b", re.MULTILINE)


def objects(folder: Path, compiler: Iterable[str], sources: Iterable[Path | str]) -> None:
    """Compile each source into an object of its name; not optimised, as only what is called counts."""
    command = [*compiler, "-O0", "-c", *map(str, sources)]
    subprocess.run(command, cwd=folder, check=True, timeout=PROCESS_S)


def called_by(folder: Path) -> dict[str, set[str]]:
    """Return which functions of files each object calls that calls any."""
    names = sorted(path.name for path in folder.glob("*.o"))
    assert "door.o" in names
    said = subprocess.run(
        ["nm", "-A", "-u", *names], cwd=folder, check=True, capture_output=True, text=True, timeout=PROCESS_S
    ).stdout
    found = defaultdict(set)
    for name, function in CALLED.findall(said):
        found[name].add(function)
    return dict(found)


@pytest.mark.skipif(not (NATIVE / "core.c").exists(), reason="the native core was not built here")
def test_of_the_native_core_only_the_door_opens_files(tmp_path: Path) -> None:
    include = [f"-I{path}" for path in (NATIVE, SHARED, sysconfig.get_path("include"))]
    sources = [NATIVE / "core.c", *NATIVE.glob("csrc/*.c"), *SHARED.glob("*.c")]
    objects(tmp_path, ["cc", "-std=gnu11", *include], sources)
    assert list(called_by(tmp_path)) == ["door"]


def test_of_the_library_for_mpi_programs_only_the_door_opens_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def instead_of_linking(command: list[str], given: str = "") -> str:
        compiler = [word for word in command if word.startswith(("-I", "-std="))]
        objects(tmp_path, ["mpicc", *compiler], [word for word in command if word.endswith(".c")])
        Path(command[command.index("-o") + 1]).touch()
        return ""

    monkeypatch.setenv("PATH", f"{BIN}:{os.environ['PATH']}")
    texts = build._texts(build._declared_functions(["mpicc"]))
    monkeypatch.setattr(build, "_run", instead_of_linking)
    build._build(["mpicc"], texts, tmp_path / "library.so")
    assert called_by(tmp_path) == {"door": {"open", "rename", "unlink", "mkdir", "flock"}}
