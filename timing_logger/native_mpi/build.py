"""Builds the library with the MPI compiler of the machine, once for each MPI, at a path that loaders take.

``LD_PRELOAD`` ends a path at a space and at a colon.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from timing_logger.errors import ConfigurationError
from timing_logger.native_mpi.run_info_in_c import run_info_header
from timing_logger.native_mpi.wrappers import real_header, wrappers
from timing_logger.process import launchers
from timing_logger.process.launchers import VARIABLE_IN_TEXT, Launcher, of_pmix
from timing_logger.process.shared_files import (
    content_of,
    library_path,
    make_folder,
    make_private_folder,
    private_folder,
    remove_tree,
    rename,
    write,
)
from timing_logger.schema.columns_in_c import HEADER_FILE, columns_header

VARIABLE = "TIMING_LOGGER_NATIVE_MPI"
"""The environment variable that names the folder of the timing files, for a program with the library."""

_SOURCES = Path(__file__).parent / "csrc"
_SHARED = Path(__file__).parents[1] / "csrc"  # what the native core has as well
_FLAGS = (
    "-std=gnu11", "-O2", "-g", "-fPIC", "-shared", "-fvisibility=hidden", "-pthread", "-Wall", "-Wextra",
    "-Wl,--as-needed", "-Wl,-z,lazy",
)  # fmt: skip
_LIMIT_S = 120.0


def library() -> Path:
    """Return the path of the library, which the first call builds.

    The compiler is ``mpicc``, or what the environment variable ``MPICC`` states. The library is kept in
    ``$XDG_CACHE_HOME/timing_logger``, by default ``~/.cache/timing_logger``.

    Raises:
        ConfigurationError: the system is not Linux, there is no compiler, or it fails.
    """
    if sys.platform != "linux":
        raise ConfigurationError("--native-mpi: works on Linux only, which can preload a library.")
    compiler = _compiler()
    declared = _declared_functions(compiler)
    texts = _texts(declared)
    path = library_path("native-mpi", _depends_on(compiler, declared, texts))
    if not path.exists():
        _build(compiler, texts, path)
    return path


def _compiler() -> list[str]:
    named = os.environ.get("MPICC", "mpicc")
    words = shlex.split(named)
    if not words or shutil.which(words[0]) is None:
        raise ConfigurationError(
            f"--native-mpi: the MPI compiler {named!r} is not there. Load the module of your MPI, or set "
            "MPICC to its mpicc."
        )
    return words


def _declared_functions(compiler: list[str]) -> str:
    """Return mpi.h as the compiler reads it, from which follow the functions that this MPI has."""
    return _run([*compiler, "-E", "-x", "c", "-"], "#include <mpi.h>\n")


def _texts(declared: str) -> dict[str, str]:
    names = set(re.findall(r"\bPMPI_(\w+)\s*\(", declared))
    return {
        HEADER_FILE: columns_header(),
        "real.h": real_header(names.__contains__),
        "launchers.h": launchers_header(),
        "run_info.h": run_info_header(),
        "wrappers.c": wrappers(names.__contains__),
    }


def _depends_on(compiler: list[str], declared: str, texts: dict[str, str]) -> list[str]:
    sources = [path.read_text() for folder in (_SOURCES, _SHARED) for path in sorted(folder.iterdir())]
    return [*compiler, declared, *texts.values(), *sources, *_FLAGS, os.uname().machine]


def _build(compiler: list[str], texts: dict[str, str], path: Path) -> None:
    """Compile into a folder of its own, and give the library its name when it is whole."""
    try:
        make_folder(path.parent)
        with private_folder(path.parent) as folder:
            for name, text in texts.items():
                write(folder / name, text.encode())
            draft = folder / "library.so"
            sources = [*sorted(_SOURCES.glob("*.c")), *sorted(_SHARED.glob("*.c"))]
            files = [*map(str, sources), str(folder / "wrappers.c")]
            include = [f"-I{path}" for path in (folder, _SOURCES, _SHARED)]
            _run([*compiler, *_FLAGS, *include, *files, "-o", str(draft), "-ldl"])
            rename(draft, path)
    except OSError as error:
        raise ConfigurationError(f"--native-mpi: {str(path.parent)!r} cannot be written: {error}.") from error


def _run(command: list[str], given: str = "") -> str:
    try:
        done = subprocess.run(
            command, input=given, capture_output=True, text=True, check=True, timeout=_LIMIT_S
        )
    except subprocess.SubprocessError as error:
        told = str(getattr(error, "stderr", None) or error).strip().splitlines()
        first = next((line for line in told if "error" in line), told[-1])
        raise ConfigurationError(f"--native-mpi: the MPI compiler {command[0]!r} failed: {first}") from error
    return done.stdout


_NOT_IN_A_PATH = frozenset(" :$")  # the loader replaces $ORIGIN and the like


def preloadable_library() -> Path:
    """Return the path of the library, or of a copy of it that stays until this process ends.

    The copy is in a folder that only this user may enter, with a name that nobody could know before.

    Raises:
        ConfigurationError: the library cannot be built, or no folder has such a path.
    """
    path = library()
    if _is_taken_by_the_loader(path):
        return path
    for folder in _folders():
        with suppress(OSError):
            private = make_private_folder(folder)
            atexit.register(remove_tree, private)
            write(private / path.name, content_of(path))
            return private / path.name
    raise ConfigurationError(
        f"--native-mpi: the loader takes no path with a space, a colon or a $, as {str(path)!r} is, and no "
        "temporary folder is usable in its place. Set XDG_CACHE_HOME to a folder without them."
    )


def _is_taken_by_the_loader(path: Path) -> bool:
    return not _NOT_IN_A_PATH & set(str(path))


def _folders() -> Iterator[Path]:
    """Yield folders of this machine that the loader can load from."""
    for folder in map(Path, (tempfile.gettempdir(), "/dev/shm", "/var/tmp")):
        with suppress(OSError):
            if _is_taken_by_the_loader(folder) and not os.statvfs(folder).f_flag & os.ST_NOEXEC:
                yield folder


# -- the table of launchers in C, made when the library is built -----------------------------------------


def launchers_header() -> str:
    """Return ``launchers.h``: what a launcher says of the run, as ``identity.c`` reads it.

    Launchers whose ``run_id`` is a function are not in it, but for PMIx, for which the C code has its own.
    """
    cases = [case for one in launchers.LAUNCHERS if one.run and (case := _case(one))]
    return f"""/* Made of launchers.LAUNCHERS by build.py. */
#define READ_STARTED \\
    {" else ".join(cases)}
"""


def _case(launcher: Launcher) -> str:
    if launcher.run_id is of_pmix:
        then = f'read_namespace(variable("{launcher.run}"));'
    elif isinstance(launcher.run_id, str):
        plain = re.sub(VARIABLE_IN_TEXT, "%s", launcher.run_id.replace("%", "%%"))
        values = [f', variable("{name}")' for name in re.findall(VARIABLE_IN_TEXT, launcher.run_id)]
        then = f"snprintf(started, sizeof started, {json.dumps(plain)}{''.join(values)});"
    else:
        return ""
    return f'if (*variable("{launcher.run}")) {{ \\\n        {then} \\\n    }}'
