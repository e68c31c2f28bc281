"""The metadata stands in setup.cfg; here is what is built: the native core, where there is a compiler."""

import sys
from glob import glob

from setuptools import Extension, setup

NATIVE = "timing_logger/_native"
SHARED = "timing_logger/csrc"

setup(
    ext_modules=[]
    if sys.platform == "win32"
    else [
        Extension(
            "timing_logger._native.core",
            sources=[f"{NATIVE}/core.pyx", *sorted(glob(f"{NATIVE}/csrc/*.c"))],
            depends=[*glob(f"{NATIVE}/*.pxi"), *glob(f"{NATIVE}/csrc/*.h"), *glob(f"{SHARED}/*.h")],
            include_dirs=[NATIVE, SHARED],
            extra_compile_args=["-std=gnu11", "-O3", "-fvisibility=hidden"],
            optional=True,  # without it the Python core records
        )
    ]
)
