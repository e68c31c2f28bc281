"""After how long a call hangs is one number, whoever asks."""

from __future__ import annotations

import json
from pathlib import Path

from timing_logger import TimingLogger
from timing_logger.autologging.native_mpi.run_info_in_c import run_info_header
from timing_logger.autologging.settings import hang_after_s
from timing_logger.run_info import HANG_AFTER_S


def test_a_call_hangs_after_60_s_in_a_logger_that_is_told_nothing_else(tmp_path: Path) -> None:
    TimingLogger(0, tmp_path).close()
    sidecar = json.loads((tmp_path / "timing-rank0.meta.json").read_text())
    assert sidecar["options"]["hang_after"] == 60.0


def test_under_run_it_hangs_after_as_long_where_the_environment_says_nothing() -> None:
    assert hang_after_s({}) == hang_after_s({"TIMING_LOGGER_HANG_AFTER": "soon"}) == HANG_AFTER_S


def test_in_a_program_in_c_it_hangs_after_as_long() -> None:
    assert f"#define HANG_AFTER_S {HANG_AFTER_S}\n" in run_info_header()
