"""How the library for MPI programs is built: its compiler, what it says, and where a loader finds it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from timing_logger.errors import ConfigurationError
from timing_logger.native_mpi import build
from timing_logger.process import launchers
from timing_logger.process.launchers import Launcher, of_pmix
from timing_logger.process.shared_files import remove_tree

# -- the compiler -----------------------------------------------------------------------------------------


def test_a_compiler_may_be_stated_with_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPICC", f"{sys.executable} -O0 '-I/a folder'")
    assert build._compiler() == [sys.executable, "-O0", "-I/a folder"]


def test_a_compiler_that_is_stated_as_nothing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPICC", " ")
    with pytest.raises(ConfigurationError, match=r"the MPI compiler ' ' is not there"):
        build._compiler()


def test_on_another_system_than_linux_nothing_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(build, "_compiler", None)
    with pytest.raises(ConfigurationError, match="works on Linux only"):
        build.library()


def fails_with(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def run(*args: object, **kwargs: object) -> None:
        raise error

    monkeypatch.setattr(subprocess, "run", run)


@pytest.mark.parametrize(
    ("stderr", "quoted"),
    [
        ("In file x.c:\nx.c: error: the first\nx.c: error: the second\n", "x.c: error: the first"),
        ("\nkilled\nby a signal\n", "by a signal"),
        ("", "Command .* returned non-zero exit status 1."),
    ],
    ids=["errors", "none of them named", "silent"],
)
def test_of_what_a_compiler_says_the_first_error_is_quoted_or_else_the_last_line(
    stderr: str, quoted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fails_with(monkeypatch, subprocess.CalledProcessError(1, ["mpicc", "-c"], stderr=stderr))
    with pytest.raises(
        ConfigurationError, match=rf"^--native-mpi: the MPI compiler 'mpicc' failed: {quoted}$"
    ):
        build._run(["mpicc", "-c"])


def test_a_compiler_that_takes_too_long_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    fails_with(monkeypatch, subprocess.TimeoutExpired(["mpicc"], 120))
    with pytest.raises(ConfigurationError, match=r"'mpicc' failed: .*timed out after 120 seconds"):
        build._run(["mpicc"])


def test_a_compiler_is_given_a_text_and_two_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}

    def run(command: list[str], **options: Any) -> SimpleNamespace:
        given.update(options, command=command)
        return SimpleNamespace(stdout="int PMPI_Init(int *argc);\n")

    monkeypatch.setattr(subprocess, "run", run)
    assert build._declared_functions(["mpicc", "-O0"]) == "int PMPI_Init(int *argc);\n"
    assert given["command"] == ["mpicc", "-O0", "-E", "-x", "c", "-"]
    assert (given["input"], given["timeout"], given["check"]) == ("#include <mpi.h>\n", 120.0, True)


def test_the_library_has_the_functions_that_are_declared() -> None:
    few = build._texts("int PMPI_Send (const void *buf);\nint MPI_Recv(void *buf);\n")["wrappers.c"]
    assert "wrapped_Send(" in few
    assert "wrapped_Recv(" not in few


# -- which library ----------------------------------------------------------------------------------------


def test_another_compiler_another_mpi_or_another_text_needs_another_library() -> None:
    cases = [
        (["mpicc"], "declared", {"real.h": "text"}),
        (["mpicc", "-O0"], "declared", {"real.h": "text"}),
        (["mpicc"], "declared otherwise", {"real.h": "text"}),
        (["mpicc"], "declared", {"real.h": "another text"}),
    ]
    found = [build._depends_on(*case) for case in cases]
    assert found[0] == build._depends_on(*cases[0])
    assert len(set(map(tuple, found))) == len(cases)
    assert {*build._FLAGS, os.uname().machine} <= set(found[0])


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Path]:
    """Have libraries built that are empty, and return which."""
    built: list[Path] = []

    def make(compiler: list[str], texts: dict[str, str], path: Path) -> None:
        built.append(path)
        path.touch()

    monkeypatch.setattr(build, "_compiler", lambda: ["mpicc"])
    monkeypatch.setattr(build, "_declared_functions", lambda compiler: "")
    monkeypatch.setattr(build, "_texts", lambda declared: {})
    monkeypatch.setattr(build, "library_path", lambda name, depends_on: tmp_path / f"{name}.so")
    monkeypatch.setattr(build, "_build", make)
    return built


def test_a_library_that_is_there_is_not_built(built: list[Path], tmp_path: Path) -> None:
    assert [build.library(), build.library()] == [tmp_path / "native-mpi.so"] * 2
    assert built == [tmp_path / "native-mpi.so"]


def test_a_library_gets_its_name_when_it_is_whole_and_leaves_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, commands = tmp_path / "cache" / "library-1.so", []

    def run(command: list[str], given: str = "") -> str:
        draft = Path(command[command.index("-o") + 1])
        assert (draft.parent / "wrappers.c").read_text() == "of this MPI"
        assert f"-I{draft.parent}" in command
        assert not path.exists()
        draft.write_text("compiled")
        commands.append(command)
        return ""

    monkeypatch.setattr(build, "_run", run)
    build._build(["mpicc", "-O0"], {"wrappers.c": "of this MPI"}, path)
    assert path.read_text() == "compiled"
    assert list(path.parent.iterdir()) == [path]
    assert (commands[0][:2], commands[0][-1]) == (["mpicc", "-O0"], "-ldl")


def test_where_no_library_can_be_written_the_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(ConfigurationError, match=r"cache' cannot be written: .*exists"):
        build._build(["mpicc"], {}, tmp_path / "cache" / "library.so")


# -- where a loader finds it --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "is_taken"),
    [("/home/me/l.so", True), ("/home/a b/l.so", False), ("/a:b/l.so", False), ("/$LIB/l.so", False)],
)
def test_a_loader_takes_a_path_without_a_space_a_colon_and_a_dollar(path: str, is_taken: bool) -> None:
    assert build._is_taken_by_the_loader(Path(path)) is is_taken


def test_a_path_that_a_loader_takes_is_that_of_the_library_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "library", lambda: Path("/cache/library.so"))
    monkeypatch.setattr(build, "_folders", None)
    assert build.preloadable_library() == Path("/cache/library.so")


@pytest.fixture
def at_exit(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What would be called when the process ends."""
    calls: list[tuple[Any, ...]] = []
    monkeypatch.setattr(build.atexit, "register", lambda *args, **kwargs: calls.append((*args, kwargs)))
    return calls


def test_of_another_one_there_is_a_copy_for_this_user_alone_until_the_process_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_exit: list[tuple[Any, ...]]
) -> None:
    library = tmp_path / "a cache" / "library-1.so"
    library.parent.mkdir()
    library.write_text("compiled")
    (tmp_path / "usable").mkdir()
    monkeypatch.setattr(build, "library", lambda: library)
    monkeypatch.setattr(build, "_folders", lambda: [tmp_path / "gone", tmp_path / "usable"])
    copy = build.preloadable_library()
    assert (copy.name, copy.read_text()) == ("library-1.so", "compiled")
    assert copy.parent.parent == tmp_path / "usable"
    assert copy.parent.stat().st_mode & 0o777 == 0o700
    assert at_exit == [(remove_tree, copy.parent, {})]


def test_a_copy_is_in_a_folder_that_a_loader_takes_and_may_load_from(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def statvfs(path: Path) -> SimpleNamespace:
        if str(path) == "/dev/shm":
            raise FileNotFoundError
        return SimpleNamespace(f_flag=os.ST_NOEXEC if str(path) == "/noexec" else os.ST_NODEV)

    monkeypatch.setattr(os, "statvfs", statvfs)
    for temporary, found in (
        ("/mine", ["/mine", "/var/tmp"]),
        ("/a b", ["/var/tmp"]),
        ("/noexec", ["/var/tmp"]),
    ):
        monkeypatch.setattr(tempfile, "gettempdir", lambda temporary=temporary: temporary)
        assert [str(folder) for folder in build._folders()] == found


# -- launchers ----------------------------------------------------------------------------------------------


def test_what_tells_a_run_is_printed_by_c_and_a_percent_sign_is_no_format() -> None:
    case = build._case(Launcher("mine", run="JOB", run_id="100%-{JOB}.{STEP}"))
    assert 'if (*variable("JOB"))' in case
    assert 'snprintf(started, sizeof started, "100%%-%s.%s", variable("JOB"), variable("STEP"));' in case


def test_of_functions_that_tell_a_run_c_has_that_of_pmix_alone() -> None:
    assert 'read_namespace(variable("PMIX"));' in build._case(Launcher("pmix", run="PMIX", run_id=of_pmix))
    assert build._case(Launcher("mine", run="JOB", run_id=lambda environment: "")) == ""


def test_launchers_that_tell_no_run_are_not_in_the_header(monkeypatch: pytest.MonkeyPatch) -> None:
    known = [
        Launcher("none", run_id="x"),
        Launcher("a", run="A", run_id="a"),
        Launcher("b", run="B", run_id="b"),
    ]
    monkeypatch.setattr(launchers, "LAUNCHERS", known)
    header = build.launchers_header()
    assert header.count("if (*variable(") == 2
    assert header.count(" else ") == 1
    assert header.index('"A"') < header.index('"B"')
