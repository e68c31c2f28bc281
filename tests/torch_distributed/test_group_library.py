"""The library is built once by whoever comes first, and a build that is ended leaves nothing half done."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import group_in_cpp
import pytest
import warm
from conditions import wait_for
from limits import LIMIT_S, PROCESS_S

pytestmark = group_in_cpp.needed

PROGRAM = """
import os, pathlib, sys, time
from allreduce_instrumentation.torch_distributed import group_library

folder, takes_s, spare_s = pathlib.Path(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])

def compile(command):  # in place of the compiler
    (folder / f"begun-{os.getpid()}").touch()
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
    of_the_import = {"TIMING_LOGGER_GROUP": "python"}  # else it would build the real one
    command = [warm.python(), "-c", PROGRAM, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **of_the_import})


def begun(folder: Path) -> list[int]:
    """Return the processes that have begun to compile."""
    return [int(path.name.removeprefix("begun-")) for path in folder.glob("begun-*")]


@contextmanager
def an_endless_build(folder: Path) -> Iterator[Callable[[], None]]:
    """Start a build that does not end, and wait until it has begun; gives what kills it."""
    job = build(folder, takes_s=3600)
    (pid,) = wait_for(lambda: begun(folder), by=job)

    def kill() -> None:
        if job.poll() is None:
            os.kill(pid, signal.SIGKILL)
            job.communicate(timeout=PROCESS_S)

    try:
        yield kill
    finally:
        kill()


@pytest.mark.slow("several processes build at once; that one builds it and the next takes it is quick")
def test_of_processes_that_need_it_at_once_one_builds_it(tmp_path: Path) -> None:
    jobs = [build(tmp_path, takes_s=0.5) for _ in range(3)]
    assert [job.communicate(timeout=PROCESS_S)[0] for job in jobs] == ["whole\n"] * 3
    assert len(begun(tmp_path)) == 1


def test_one_that_is_killed_while_it_builds_leaves_it_to_the_next(tmp_path: Path) -> None:
    with an_endless_build(tmp_path) as kill:
        kill()
        assert not (tmp_path / "library.so").exists()
        assert build(tmp_path, takes_s=0).communicate(timeout=PROCESS_S)[0] == "whole\n"


@pytest.mark.slow("builds of a library; that one process builds it is quick")
def test_who_waits_longer_than_a_build_may_take_does_without(tmp_path: Path) -> None:
    with an_endless_build(tmp_path):
        said = build(tmp_path, takes_s=0, spare_s=0.2).communicate(timeout=PROCESS_S)[0]
    assert said == "another process has not finished building it\n"


def test_the_library_is_built_for_this_torch_and_its_group_is_a_group_of_torchs() -> None:
    torch = pytest.importorskip("torch")
    group_in_cpp.build()
    from allreduce_instrumentation.torch_distributed.group_library import library

    assert issubclass(library().Group, torch.distributed.ProcessGroup)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.slow("builds of a library; that one process builds it is quick")
def test_a_compiler_that_takes_too_long_is_ended_with_all_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    from allreduce_instrumentation.torch_distributed import group_library

    begun = tmp_path / "begun"
    compiler = tmp_path / "compiler"
    compiler.write_text(f"#!/bin/sh\nsleep 600 &\necho $! > {begun}\nwait\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    for limit_s in (1.0, 10.0, LIMIT_S):  # on a busy machine the shell itself may take longer than a second
        monkeypatch.setattr(group_library, "_LIMIT_S", limit_s)
        with pytest.raises(group_library.CannotBuildError) as refused:
            group_library._build(tmp_path / "library.so")
        if begun.exists() and begun.read_text():
            break
    assert str(refused.value) == f"{compiler} took longer than {limit_s:.0f} s"
    assert not is_running(int(begun.read_text()))
