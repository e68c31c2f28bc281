"""The library is built once by whoever comes first, and a build that is ended leaves nothing half done."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conditions import wait_for
from limits import LIMIT_S

from timing_logger import which_core

COMPILER = shutil.which(os.environ.get("CXX", "c++")) or ""

pytestmark = pytest.mark.skipif(
    which_core.NAME != "native" or not COMPILER, reason="no native core, or no C++ compiler"
)

PROGRAM = """
import pathlib, sys, time
from allreduce_instrumentation.process_group.in_cpp import group_library

folder, takes_s, spare_s = pathlib.Path(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])

def compile(command):  # in place of the compiler
    (folder / f"begun-{time.monotonic_ns()}").touch()
    time.sleep(takes_s)
    pathlib.Path(command[-1]).write_text("whole")

group_library._run = compile
group_library._LIMIT_S, group_library._SPARE_S = 0.0, spare_s
try:
    group_library._build_once(folder / "library.so")
    print((folder / "library.so").read_text())
except group_library.CannotBuildError as error:
    print(error)
"""


def build(folder: Path, *, takes_s: float, spare_s: float = 60.0) -> subprocess.Popen[str]:
    """Start a process that builds a library in ``folder`` by a compiler that takes as long as stated."""
    arguments = [str(folder), str(takes_s), str(spare_s)]
    environment = {
        **os.environ,
        "TIMING_LOGGER_GROUP": "python",
    }  # else to import it would build the real one
    command = [sys.executable, "-c", PROGRAM, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


def n_begun(folder: Path) -> int:
    return len(list(folder.glob("begun-*")))


def endless_build(folder: Path) -> subprocess.Popen[str]:
    """Start one that does not end, and return when it has begun."""
    job = build(folder, takes_s=600)
    wait_for(lambda: n_begun(folder), by=job)
    return job


def test_of_processes_that_need_it_at_once_one_builds_it(tmp_path: Path) -> None:
    jobs = [build(tmp_path, takes_s=0.5) for _ in range(3)]
    assert [job.communicate(timeout=LIMIT_S)[0] for job in jobs] == ["whole\n"] * 3
    assert n_begun(tmp_path) == 1


def test_one_that_is_killed_while_it_builds_leaves_it_to_the_next(tmp_path: Path) -> None:
    killed = endless_build(tmp_path)
    killed.kill()
    killed.wait(LIMIT_S)
    assert not (tmp_path / "library.so").exists()
    assert build(tmp_path, takes_s=0).communicate(timeout=LIMIT_S)[0] == "whole\n"


def test_who_waits_longer_than_a_build_may_take_does_without(tmp_path: Path) -> None:
    other = endless_build(tmp_path)
    try:
        said = build(tmp_path, takes_s=0, spare_s=0.2).communicate(timeout=LIMIT_S)[0]
    finally:
        other.kill()
        other.wait(LIMIT_S)
    assert said == "another process has not finished building it\n"


def test_the_library_is_built_for_this_torch_and_its_group_is_a_group_of_torchs() -> None:
    torch = pytest.importorskip("torch")
    from allreduce_instrumentation.process_group.in_cpp.group_library import library

    assert issubclass(library().Group, torch.distributed.ProcessGroup)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except FileNotFoundError:
        return False


def test_a_compiler_that_takes_too_long_is_ended_with_all_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    from allreduce_instrumentation.process_group.in_cpp import group_library

    begun = tmp_path / "begun"
    compiler = tmp_path / "compiler"
    compiler.write_text(f"#!/bin/sh\nsleep 600 &\necho $! > {begun}\nwait\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    monkeypatch.setattr(group_library, "_LIMIT_S", 1.0)
    with pytest.raises(group_library.CannotBuildError) as refused:
        group_library._build(tmp_path / "library.so")
    assert str(refused.value) == f"{compiler} took longer than 1 s"
    assert not is_running(int(begun.read_text()))
