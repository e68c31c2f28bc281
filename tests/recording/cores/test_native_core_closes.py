"""A close beside a thread that has begun to put a record, and does not get to the end of it."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from limits import PROCESS_S
from places import ROOT, TESTS
from processes import run_python

from timing_logger import read_timings
from timing_logger.process import which_core
from timing_logger.reading.recovery import recover
from timing_logger.schema.columns_in_c import HEADER_FILE, columns_header

needs_compiler = pytest.mark.skipif(
    which_core.NAME != "native" or shutil.which("cc") is None, reason="no native core, or no C compiler"
)
REASON = "only C code stops within a put; what a ring keeps is quick in test_native_ring.py"
pytestmark = [pytest.mark.slow(REASON), needs_compiler]

PROGRAM = """
import ctypes, json, sys, threading
from timing_logger import TimingLogger

folder, ring_dir, library, after_s = sys.argv[1:]
claims = ctypes.CDLL(library)
claims.claim.restype = ctypes.c_uint64
ctypes.pythonapi.PyCapsule_GetPointer.restype = ctypes.c_void_p
logger = TimingLogger(0, folder, ring_dir=ring_dir, flush_interval=3600)
address = ctypes.pythonapi.PyCapsule_GetPointer(
    ctypes.py_object(logger.recording_in_c()), b"timing_logger.recording"
)
recording = ctypes.c_void_p(address)
logger.record_timing("BEFORE", 1.0)
position = ctypes.c_uint64(claims.claim(recording))
for _ in range(3):
    logger.record_timing("BEHIND", 1.0)
if after_s:
    threading.Timer(float(after_s), claims.fill, (recording, position)).start()
logger.close()
logger.record_timing("LATE", 1.0)
stats = logger.stats
print(json.dumps([stats.accepted, stats.written, stats.dropped, stats.pending]))
"""


@pytest.fixture(scope="module")
def claims(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that claims positions of a ring, and fills them when it is asked to."""
    folder = tmp_path_factory.mktemp("claims")
    (folder / HEADER_FILE).write_text(columns_header())
    source, library = TESTS / "native_programs" / "claims.c", folder / "claims.so"
    shared = ROOT / "timing_logger" / "csrc"
    command = ["cc", "-std=gnu11", "-shared", "-fPIC", f"-I{folder}", f"-I{shared}", str(source)]
    subprocess.run([*command, "-o", str(library)], check=True, timeout=PROCESS_S)
    return library


def closed(folder: Path, claims: Path, filled_after_s: str = "") -> tuple[list[int], str]:
    """Return what became of the records, as counted, and what was said, of a program that has ended."""
    run = run_python(PROGRAM, folder / "logs", folder, claims, filled_after_s)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout), run.stderr


def test_a_close_waits_for_a_record_that_a_thread_is_putting(tmp_path: Path, claims: Path) -> None:
    counts, said = closed(tmp_path, claims, "0.02")
    assert counts == [6, 5, 1, 0]
    assert said == "timing logger: 1 records came after close and were dropped\n"
    assert len(read_timings(tmp_path / "logs")) == 5
    assert not list(tmp_path.glob("*.ring"))


def test_records_behind_one_that_is_never_finished_are_counted_told_and_kept(
    tmp_path: Path, claims: Path
) -> None:
    counts, said = closed(tmp_path, claims)
    assert counts == [6, 1, 1, 4]
    assert "4 records were not written" in said
    (recovery,) = recover(tmp_path / "logs")
    assert str(recovery) == (
        "3 rows added that its process had not written; 1 record lost that only the process held"
    )
    assert list(read_timings(tmp_path / "logs")["operation"]) == ["BEFORE", "BEHIND", "BEHIND", "BEHIND"]
