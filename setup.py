"""The metadata stands in pyproject.toml; here is what is built: the native core, where there is a compiler.

Its columns are made here, from those of ``timing_logger/schema/record.py``.

And what is installed beside the package: the file by which Python processes of a timed job start the timing.
"""

import gzip
import os
import sys
import tarfile
from glob import glob
from pathlib import Path
from types import ModuleType

from setuptools import Extension, setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

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


class SameSdist(sdist):
    """Makes the same archive of the same files each time, if ``SOURCE_DATE_EPOCH`` says when they are of."""

    def make_archive(self, base_name, format, root_dir=None, base_dir=None, owner=None, group=None):
        if format != "gztar" or not os.environ.get("SOURCE_DATE_EPOCH"):
            return super().make_archive(base_name, format, root_dir, base_dir, owner, group)
        instant = int(os.environ["SOURCE_DATE_EPOCH"])

        def same(member: tarfile.TarInfo) -> tarfile.TarInfo:
            member.mtime, member.uid, member.gid, member.uname, member.gname = instant, 0, 0, "", ""
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            return member

        made = f"{base_name}.tar.gz"
        os.makedirs(os.path.dirname(made), exist_ok=True)
        with (
            open(made, "wb") as file,
            gzip.GzipFile("", "wb", 9, file, instant) as packed,
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
        ):
            archive.add(base_dir, filter=same)  # the files of a folder by their names
        return made


def write_made() -> None:
    """Write what the native core takes from ``record.py``, and of what sources it is built.

    A file that would stay the same is not touched.
    """
    package = sys.modules["timing_logger"] = ModuleType("timing_logger")  # without what importing it loads
    package.__path__ = ["timing_logger"]
    from timing_logger.process import which_core
    from timing_logger.schema.columns_in_c import CYTHON_FILE, HEADER_FILE, columns_cython, columns_header

    for name, text in (
        (HEADER_FILE, columns_header()),
        (CYTHON_FILE, columns_cython()),
        (which_core.HEADER_FILE, which_core.header()),
    ):
        path = Path(NATIVE, name)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


write_made()

setup(
    cmdclass={"build_py": BuildWithStart, "sdist": SameSdist},
    ext_modules=[]
    if sys.platform == "win32"
    else [
        Extension(
            "timing_logger.recording.cores.native.core",
            sources=[
                f"{NATIVE}/core.pyx",
                *sorted(glob(f"{NATIVE}/csrc/*.c")),
                *sorted(glob(f"{SHARED}/*.c")),
            ],
            depends=[
                *glob(f"{NATIVE}/*.pxi"),
                f"{NATIVE}/columns.h",
                f"{NATIVE}/which_core.h",
                *glob(f"{NATIVE}/csrc/*.h"),
                *glob(f"{SHARED}/*.h"),
            ],
            include_dirs=[NATIVE, SHARED],
            # the last: what a debugger reads does not depend on the folder in which it was built
            extra_compile_args=[
                "-std=gnu11",
                "-O3",
                "-fvisibility=hidden",
                f"-fdebug-prefix-map={os.getcwd()}=.",
            ],
            optional=True,  # without it the Python core records
        )
    ],
)
