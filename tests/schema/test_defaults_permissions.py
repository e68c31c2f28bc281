"""The permissions of new files: one number for all writers, in Python and in C."""

from __future__ import annotations

import re

from places import ROOT

from timing_logger.recording.options import Options
from timing_logger.schema.columns_in_c import HEADER_FILE, columns_header
from timing_logger.schema.defaults import FILE_MODE

SUFFIXES = {".py", ".pyx", ".pxi", ".c", ".h", ".cpp"}
MADE = {HEADER_FILE, "core.c"}  # by the build


def test_a_file_in_c_has_the_permissions_of_a_loggers_file() -> None:
    (stated,) = re.findall(r"^#define FILE_MODE 0(\d+)$", columns_header(), re.MULTILINE)
    assert int(stated, 8) == FILE_MODE == Options(rank=0).file_mode == 0o644


def test_they_are_stated_in_one_place() -> None:
    number = re.compile(r"\b0o?644\b")
    stating = [
        path.name
        for package in ("timing_logger", "allreduce_instrumentation")
        for path in (ROOT / package).rglob("*")
        if path.suffix in SUFFIXES and path.name not in MADE and number.search(path.read_text())
    ]
    assert stating == ["defaults.py"]
