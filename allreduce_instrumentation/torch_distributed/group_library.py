"""Builds the process group in C++ with the user's compiler, against the torch that is installed.

The library lies in the user's cache, by a name that follows from the sources, torch, Python and the compiler.
Of several processes that need it at once, one builds it and the others wait.
"""

from __future__ import annotations

import logging
import os
import shlex
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import torch

from timing_logger.process.shared_files import (
    library_path,
    locked,
    make_folder,
    opened_to_append,
    private_folder,
    rename,
    write,
)
from timing_logger.schema import columns_in_c
from timing_logger.schema.columns_in_c import HEADER_FILE, columns_header

NAME = "timing_group"

_SOURCES = Path(__file__).parent / "csrc"
_SHARED = Path(columns_in_c.__file__).parents[1] / "csrc"
_LIMIT_S, _SPARE_S = 90.0, 5.0
_FLAGS = (
    "-std=c++20", "-O2", "-g1", "-fPIC", "-shared", "-fvisibility=hidden", "-fno-plt",
    "-Wno-deprecated-declarations", f"-DTIMING_MODULE={NAME}", "-DTORCH_API_INCLUDE_EXTENSION_H",
)  # fmt: skip

log = logging.getLogger("timing_logger")


class CannotBuildError(Exception):
    """The library cannot be built; the message says why, in one line."""


def library() -> ModuleType:
    """Return the library as a module, which the first call on a machine builds.

    Raises:
        CannotBuildError: there is no compiler, it fails or takes longer than 90 seconds, or there is no room.
        ImportError: the library cannot be loaded.
    """
    path = library_path(NAME, _depends_on())
    if not path.exists():
        _build_once(path)
    spec = spec_from_file_location(NAME, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no library")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _depends_on() -> list[str]:
    sources = [path.read_text() for folder in (_SOURCES, _SHARED) for path in sorted(folder.glob("*.[ch]*"))]
    about = [sys.version, torch.__version__, str(torch.version.git_version), os.uname().machine]
    return [*about, *_compiler(), *_FLAGS, columns_header(), *sources]


def _compiler() -> list[str]:
    return shlex.split(os.environ.get("CXX", "")) or ["c++"]


def _build_once(path: Path) -> None:
    try:
        make_folder(path.parent)
        with opened_to_append(path.with_suffix(".lock")) as file:
            if _turn_to_build(file.fileno(), path):
                log.warning(
                    "timing logger: the process group in C++ is built for torch %s, once: half a minute, "
                    "90 s at most",
                    torch.__version__,
                )
                _build(path)
    except OSError as error:
        raise CannotBuildError(f"{str(path.parent)!r} cannot be written: {error}") from error


def _turn_to_build(descriptor: int, path: Path) -> bool:
    """Wait until the library is there, or until it is this process's turn to build it; tell which.

    Raises:
        CannotBuildError: another process has had its turn for longer than a build may take.
    """
    deadline_s = time.monotonic() + _LIMIT_S + _SPARE_S
    while not path.exists():
        if locked(descriptor):  # until this process ends, however that ends
            return not path.exists()
        if time.monotonic() > deadline_s:
            raise CannotBuildError("another process has not finished building it")
        time.sleep(0.1)
    return False


def _build(path: Path) -> None:
    """Compile into a folder of its own, and give the library its name when it is whole."""
    with private_folder(path.parent) as folder:
        write(folder / HEADER_FILE, columns_header().encode())
        draft = folder / path.name
        _run([
            *_compiler(), *_FLAGS, *_as_torch_was_built(), *_includes(folder),
            str(_SOURCES / "module.cpp"), *_libraries(), "-o", str(draft),
        ])  # fmt: skip
        rename(draft, path)


def _as_torch_was_built() -> list[str]:
    """Return the flags by which the library and torch know each other's classes."""
    # Until torch 2.8, only extensions of the same compiler share them, unless they name that of torch.
    kinds = ("COMPILER_TYPE", "STDLIB", "BUILD_ABI")
    named = {kind: getattr(torch._C, f"_PYBIND11_{kind}", None) for kind in kinds}
    return [
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}",
        *(f'-DPYBIND11_{kind}="{name}"' for kind, name in named.items() if name),
    ]


def _includes(made: Path) -> list[str]:
    of_torch = Path(torch.__file__).parent / "include"
    others = [of_torch, of_torch / "torch/csrc/api/include", Path(sysconfig.get_path("include"))]
    return [*(f"-I{path}" for path in (made, _SHARED, _SOURCES)), *(f"-isystem{path}" for path in others)]


def _libraries() -> list[str]:
    of_torch = Path(torch.__file__).parent / "lib"
    return [f"-L{of_torch}", "-lc10", "-ltorch_cpu", "-ltorch", "-ltorch_python"]


def _run(command: list[str]) -> None:
    if shutil.which(command[0]) is None:
        raise CannotBuildError(f"there is no C++ compiler {command[0]!r}; CXX names another one")
    # In this process's group: who ends that ends the compiler, too.
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as compiler:
        try:
            _, said = compiler.communicate(timeout=_LIMIT_S)
        except subprocess.TimeoutExpired:
            _end(compiler.pid)
            raise CannotBuildError(f"{command[0]} took longer than {_LIMIT_S:.0f} s") from None
    if compiler.returncode:
        lines = said.strip().splitlines() or [f"it ended with {compiler.returncode}"]
        first = next((line for line in lines if "error" in line), lines[-1])
        raise CannotBuildError(f"{command[0]} failed: {first}")


def _end(pid: int) -> None:
    """Kill a process and what it has started: a compiler's driver goes, and the compiler would go on."""
    try:
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            _end(int(child))
        os.kill(pid, signal.SIGKILL)
    except (FileNotFoundError, ProcessLookupError):
        pass  # it ended meanwhile
