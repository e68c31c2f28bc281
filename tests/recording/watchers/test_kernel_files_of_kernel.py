"""Why a file of the kernel is not read, in words."""

from __future__ import annotations

from pathlib import Path

from timing_logger.recording.watchers.kernel_files import why_unreadable


def test_nothing_is_said_of_a_file_that_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "loadavg").write_text("0.06")
    assert why_unreadable(str(tmp_path / "loadavg")) == ""


def test_a_file_that_is_not_there_is_said_to_be_missing(tmp_path: Path) -> None:
    assert why_unreadable(f"{tmp_path}/gone") == f"{tmp_path}/gone: No such file or directory"


def test_one_that_can_be_opened_and_not_read_is_found_out() -> None:
    """As those of the pressure are, where the kernel was told not to count it."""
    assert why_unreadable("/proc/self/mem") == "/proc/self/mem: Input/output error"
