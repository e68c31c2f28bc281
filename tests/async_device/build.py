"""Builds the device's library with the C++ compiler, once.

It lies in the user's cache, by the versions of torch and Python and a hash of the sources, so that a clean
clone finds it there. ``python build.py`` builds it, and says how.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

SOURCES = Path(__file__).parent / "csrc"
_NAME = "async_device_library"  # of the module, too


def missing() -> str:
    """What this machine lacks to build the library; blank if it lacks nothing."""
    compiler = os.environ.get("CXX", "c++")
    if not shutil.which(compiler):
        return f"no C++ compiler ({compiler})"
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        return "no Python.h"
    return ""


def built() -> Path:
    """Where the library lies once it is built."""
    import torch

    digest = hashlib.sha256()
    for source in sorted(SOURCES.iterdir()):
        digest.update(source.name.encode() + source.read_bytes())
    version = f"torch{torch.__version__}-py{sys.version_info.major}.{sys.version_info.minor}"
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "timing_logger_tests" / f"{version}-{digest.hexdigest()[:16]}" / f"{_NAME}.so"


def build() -> Path:
    """The library, built unless it is there.

    In a process of its own, which imports torch.

    Raises:
        RuntimeError: it cannot be built; with all that the compiler said.
    """
    library = built()
    if library.exists():
        return library
    library.parent.mkdir(parents=True, exist_ok=True)
    with (library.parent / "building").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # let go of when this process ends, however it does
        if not library.exists():
            job = subprocess.run([sys.executable, __file__], capture_output=True, text=True, check=False)
            if job.returncode:
                raise RuntimeError(f"the device's library cannot be built:\n{job.stdout}\n{job.stderr}")
    return library


@functools.cache
def load() -> Any:
    """The library as a module. From then on this process has another accelerator than before."""
    spec = importlib.util.spec_from_file_location(_NAME, build())
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _build_here(library: Path) -> None:
    """Compile all sources as one, as torch's headers take most of the time; name the library when whole.

    torch's own extension builder takes no path with a space in it.
    """
    import torch
    from torch.utils.cpp_extension import include_paths

    whole = "".join(f'#include "{source}"\n' for source in sorted(SOURCES.glob("*.cpp")))
    folders = [*include_paths(), sysconfig.get_path("include")]
    torch_lib = Path(torch.__file__).parent / "lib"
    draft = library.with_suffix(".draft")
    command = [
        *(os.environ.get("CXX", "c++"), "-std=c++20", "-O0", "-Wall", "-fPIC", "-shared", "-x", "c++", "-"),
        *(f"-DTORCH_EXTENSION_NAME={_NAME}", "-DTORCH_API_INCLUDE_EXTENSION_H"),
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}",
        *(part for folder in folders for part in ("-isystem", folder)),
        *(f"-L{torch_lib}", "-lc10", "-ltorch_cpu", "-ltorch", "-ltorch_python", "-o", str(draft)),
    ]
    subprocess.run(command, input=whole, text=True, check=True)
    draft.replace(library)


if __name__ == "__main__":
    _build_here(built())
