"""How the library of the group in C++ is made: whose turn it is, by which compiler, and what is told."""

from __future__ import annotations

import fcntl
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")

from allreduce_instrumentation.torch_distributed import group_library
from allreduce_instrumentation.torch_distributed.group_library import CannotBuildError


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the library is to be, in a folder that is not there yet."""
    found = tmp_path / "cache" / "library.so"
    monkeypatch.setattr(group_library, "library_path", lambda name, depends_on: found)
    return found


@pytest.mark.parametrize(
    ("stated", "words"),
    [("", ["c++"]), ("g++-13", ["g++-13"]), ("ccache 'my c++' -m64", ["ccache", "my c++", "-m64"])],
)
def test_the_compiler_is_that_of_the_environment_with_its_options(
    stated: str, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", stated)
    assert group_library._compiler() == words


def test_another_torch_compiler_or_source_is_another_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "a")
    known = group_library._depends_on()
    assert any("class" in text for text in known)
    monkeypatch.setenv("CXX", "b")
    assert group_library._depends_on() != known


# -- when it is built -------------------------------------------------------------------------------------


def test_one_that_is_there_is_not_built(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[Path] = []

    def build(wanted: Path) -> None:
        built.append(wanted)
        path.parent.mkdir()
        path.write_text("no library")

    monkeypatch.setattr(group_library, "_build_once", build)
    for _ in range(2):
        with pytest.raises(ImportError):
            group_library.library()
    assert built == [path]


def test_it_is_built_once_and_the_folder_is_made_for_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[Path] = []
    monkeypatch.setattr(group_library, "_build", lambda wanted: (built.append(wanted), wanted.touch()))
    for _ in range(2):
        group_library._build_once(path)
    assert built == [path]


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")
    with pytest.raises(CannotBuildError, match=r"cache' cannot be written: .*File exists"):
        group_library._build_once(tmp_path / "cache" / "library.so")


class Waiting:
    """Stands for the module ``time``: to sleep takes no time, and what happens meanwhile happens."""

    def __init__(self, step_s: float, meanwhile: Callable[[float], object]) -> None:
        self.now_s, self._step_s, self._meanwhile = 1000.0, step_s, meanwhile

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, _: float) -> None:
        self.now_s += self._step_s
        self._meanwhile(self.now_s)


def turn_while_another_builds(path: Path, clock: Waiting, monkeypatch: pytest.MonkeyPatch) -> bool:
    monkeypatch.setattr(group_library, "time", clock)
    path.parent.mkdir(exist_ok=True)
    lock_path = path.with_suffix(".lock")
    with lock_path.open("w") as held, lock_path.open("w") as lock:
        fcntl.flock(held, fcntl.LOCK_EX)
        return group_library._turn_to_build(lock, path)


def test_who_waits_for_a_build_takes_what_is_built(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Waiting(1.0, lambda now_s: path.touch() if now_s == 1003.0 else None)
    assert not turn_while_another_builds(path, clock, monkeypatch)
    assert clock.now_s == 1003.0


def test_who_waits_for_more_than_95_seconds_does_without(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Waiting(5.0, lambda _: None)
    with pytest.raises(CannotBuildError, match="another process has not finished building it"):
        turn_while_another_builds(path, clock, monkeypatch)
    assert clock.now_s == 1000.0 + 95.0 + 5.0  # 95 s are still waited for


def test_a_build_is_whole_before_it_has_its_name_and_nothing_else_is_left(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[list[str]] = []

    def compile_it(command: list[str]) -> None:
        commands.append(command)
        draft = Path(command[-1])
        assert not path.exists()
        assert (draft.parent / group_library.HEADER_FILE).exists()
        assert f"-I{draft.parent}" in command
        draft.write_text("whole")

    monkeypatch.setattr(group_library, "_run", compile_it)
    path.parent.mkdir()
    group_library._build(path)
    assert [one.name for one in path.parent.iterdir()] == ["library.so"]
    assert path.read_text() == "whole"
    assert "-o" in commands[0]


# -- the compiler -----------------------------------------------------------------------------------------


class Compiler:
    """One that ends so, and says this; or that takes too long."""

    pid = 7

    def __init__(self, returncode: int = 0, said: str = "", *, takes_too_long: bool = False) -> None:
        self.returncode, self._said, self._takes_too_long = returncode, said, takes_too_long

    def __enter__(self) -> Compiler:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def communicate(self, timeout: float) -> tuple[None, str]:
        assert timeout == 90.0
        if self._takes_too_long:
            raise subprocess.TimeoutExpired("c++", timeout)
        return None, self._said


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> Callable[[Compiler], None]:
    """Run a compiler that is there."""
    monkeypatch.setattr(group_library.shutil, "which", lambda name: f"/usr/bin/{name}")

    def run(found: Compiler) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(group_library.subprocess, "Popen", lambda command, **_: found)
            group_library._run(["c++", "-o", "x"])

    return run


def test_a_compiler_that_succeeds_raises_nothing(compiler: Callable[[Compiler], None]) -> None:
    compiler(Compiler(said="a.cpp:1: an error is mentioned"))


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("a.cpp:1: warning: x\na.cpp:2: error: y\na.cpp:3: error: z\n", "a.cpp:2: error: y"),
        ("killed\nby the kernel\n", "by the kernel"),
        (" \n", "it ended with 4"),
    ],
)
def test_of_what_a_compiler_says_that_fails_the_first_error_is_told(
    said: str, told: str, compiler: Callable[[Compiler], None]
) -> None:
    with pytest.raises(CannotBuildError, match=rf"^c\+\+ failed: {told}$"):
        compiler(Compiler(4, said))


def test_a_compiler_that_takes_90_seconds_is_ended(
    compiler: Callable[[Compiler], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[int] = []
    monkeypatch.setattr(group_library, "_end", ended.append)
    with pytest.raises(CannotBuildError, match=r"^c\+\+ took longer than 90 s$"):
        compiler(Compiler(takes_too_long=True))
    assert ended == [7]


def test_a_compiler_that_is_not_there_is_named() -> None:
    with pytest.raises(
        CannotBuildError, match="there is no C\\+\\+ compiler 'no such one'; CXX names another"
    ):
        group_library._run(["no such one"])


def test_what_a_compiler_has_started_is_ended_before_it_and_what_has_ended_is_passed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    children = {7: "8 9", 8: "10", 10: ""}
    killed: list[int] = []

    def file(name: str) -> Any:
        pid = int(name.split("/")[2])

        def read_text() -> str:
            if pid not in children:
                raise FileNotFoundError(name)
            return children[pid]

        return SimpleNamespace(read_text=read_text)

    def kill(pid: int, _: int) -> None:
        killed.append(pid)
        if pid == 10:
            raise ProcessLookupError

    monkeypatch.setattr(group_library, "Path", file)
    monkeypatch.setattr(group_library, "os", SimpleNamespace(kill=kill))
    group_library._end(7)
    assert killed == [10, 8, 7]
