"""The metadata stands in pyproject.toml; here is what is built: the native core, where there is a compiler.

Its columns are made here, from those of ``timing_logger/record.py``.

And what is installed beside the package: the file by which Python processes of a timed job start the timing.
"""

import sys
from glob import glob
from pathlib import Path
from types import ModuleType

from setuptools import Extension, setup
from setuptools.command.build_py import build_py

NATIVE = "timing_logger/recording/cores/native"
SHARED = "timing_logger/csrc"
SITE = "timing_logger/autologging/site"


class BuildWithStart(build_py):
    """Puts the ``.pth`` file, and the module that it imports, beside the packages: Python looks there."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:  # then Python starts the timing by PYTHONPATH alone
            for name in ("timing_logger_start.pth", "_timing_logger_start.py"):
                self.copy_file(f"{SITE}/{name}", f"{self.build_lib}/{name}")


def write_columns() -> None:
    """Write what the native core takes from ``record.py``. A file that would stay the same is not touched."""
    package = sys.modules["timing_logger"] = ModuleType("timing_logger")  # without what importing it loads
    package.__path__ = ["timing_logger"]
    from timing_logger.columns_in_c import CYTHON_FILE, HEADER_FILE, columns_cython, columns_header

    for name, text in ((HEADER_FILE, columns_header()), (CYTHON_FILE, columns_cython())):
        path = Path(NATIVE, name)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


write_columns()

setup(
    cmdclass={"build_py": BuildWithStart},
    ext_modules=[]
    if sys.platform == "win32"
    else [
        Extension(
            "timing_logger.recording.cores.native.core",
            sources=[f"{NATIVE}/core.pyx", *sorted(glob(f"{NATIVE}/csrc/*.c"))],
            depends=[
                *glob(f"{NATIVE}/*.pxi"),
                f"{NATIVE}/columns.h",
                *glob(f"{NATIVE}/csrc/*.h"),
                *glob(f"{SHARED}/*.h"),
            ],
            include_dirs=[NATIVE, SHARED],
            extra_compile_args=["-std=gnu11", "-O3", "-fvisibility=hidden"],
            optional=True,  # without it the Python core records
        )
    ],
)
