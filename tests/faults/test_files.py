"""P8, P18: no existing file is harmed, and a path that is not what it seems is refused."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

import pytest
from processes import rows, run_warm

from timing_logger import TimingLogger
from timing_logger.errors import LogPathError
from timing_logger.schema.timing_files import sidecar_path
from timing_logger.sinks import csv


def write_one(folder: Path, operation: str) -> Path:
    with TimingLogger(0, folder) as logger:
        logger.record_timing(operation, 1.0)
    assert logger.path is not None
    return logger.path


def test_a_restart_keeps_the_old_file_and_says_which_one_is_new(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    old = write_one(tmp_path, "OLD")
    torn = old.read_bytes() + b"2026-02-06T14:30"
    old.write_bytes(torn)
    with caplog.at_level(logging.WARNING):
        new = write_one(tmp_path, "NEW")
    assert (old.name, new.name) == ("timing-rank0.csv", "timing-rank0.run2.csv")
    assert old.read_bytes() == torn
    assert [row[4] for row in rows(new)] == ["NEW"]
    assert str(new) in caplog.text
    assert json.loads(sidecar_path(new).read_text())["incarnation"] == 2
    assert json.loads(sidecar_path(old).read_text())["incarnation"] == 1


def test_two_processes_with_the_same_rank_write_two_files(tmp_path: Path) -> None:
    with TimingLogger(0, tmp_path) as mine:
        mine.record_timing("MINE", 1.0)
        run = run_warm(
            """
            import sys
            from timing_logger import TimingLogger
            with TimingLogger(0, sys.argv[1]) as logger:
                logger.record_timing("THEIRS", 1.0)
            """,
            tmp_path,
        )
        assert run.returncode == 0, run.stderr
        mine.record_timing("MINE", 1.0)
    assert mine.path is not None
    assert [row[4] for row in rows(mine.path)] == ["MINE", "MINE"]
    assert [row[4] for row in rows(tmp_path / "timing-rank0.run2.csv")] == ["THEIRS"]


def test_a_file_that_appears_at_the_last_moment_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = write_one(tmp_path, "OLD")
    monkeypatch.setattr(csv, "_is_taken", lambda path: False)  # as if it had not been there yet
    assert write_one(tmp_path, "NEW").name == "timing-rank0.run2.csv"
    assert [row[4] for row in rows(old)] == ["OLD"]


def test_the_sidecar_of_a_file_that_is_gone_is_kept_too(tmp_path: Path) -> None:
    old = write_one(tmp_path, "OLD")
    sidecar = sidecar_path(old).read_bytes()
    old.unlink()
    assert write_one(tmp_path, "NEW").name == "timing-rank0.run2.csv"
    assert sidecar_path(old).read_bytes() == sidecar


def make_file(path: Path) -> None:
    path.write_text("precious")


def make_link(path: Path) -> None:
    target = path.with_name("target")
    target.mkdir() if path.suffix == "" else target.write_text("precious")
    path.symlink_to(target)


def make_fifo(path: Path) -> None:
    os.mkfifo(path)


def make_dangling_link(path: Path) -> None:
    path.symlink_to(path.with_name("nowhere"))


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (make_file, "a file"),
        (make_link, "a symbolic link"),
        (make_fifo, "a FIFO"),
        (make_dangling_link, "a symbolic link"),
    ],
)
def test_a_log_dir_that_is_no_directory_is_refused(make: object, kind: str, tmp_path: Path) -> None:
    make(tmp_path / "logs")  # type: ignore[operator]
    with pytest.raises(LogPathError, match=rf"log_dir: .*logs' is {kind}, not a directory"):
        TimingLogger(0, tmp_path / "logs")


@pytest.mark.parametrize("name", ["timing-rank0.csv", "timing-rank0.meta.json"])
@pytest.mark.parametrize(
    ("make", "kind"),
    [(make_link, "a symbolic link"), (make_fifo, "a FIFO"), (make_dangling_link, "a symbolic link"),
     (Path.mkdir, "a directory")],
)  # fmt: skip
def test_a_planted_file_is_refused(make: object, kind: str, name: str, tmp_path: Path) -> None:
    make(tmp_path / name)  # type: ignore[operator]
    with pytest.raises(LogPathError, match=f"is {kind}, not a regular file"):
        TimingLogger(0, tmp_path)


@pytest.mark.parametrize("log_dir", [5, b"logs", object()], ids=["int", "bytes", "object"])
def test_what_is_no_path_is_refused(log_dir: object) -> None:
    with pytest.raises(LogPathError, match="log_dir must be a path, and is"):
        TimingLogger(0, log_dir)  # type: ignore[arg-type]


def test_a_device_is_refused() -> None:
    with pytest.raises(LogPathError, match="is a device, not a directory"):
        TimingLogger(0, "/dev/null")


def test_a_folder_that_cannot_be_made_is_refused() -> None:
    with pytest.raises(LogPathError, match="log_dir='/proc/nowhere' cannot be made"):
        TimingLogger(0, "/proc/nowhere")


def test_a_folder_that_cannot_be_written_is_refused() -> None:
    with pytest.raises(LogPathError, match="log_dir='/proc'"):
        TimingLogger(0, "/proc")


def test_a_process_that_changes_its_folder_writes_on_into_its_own_files(tmp_path: Path) -> None:
    """Not into those of another run, which lie in the other folder under the same names."""
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    here.mkdir()
    with TimingLogger(0, elsewhere / "logs") as other:
        other.record_timing("A", 1.0)
    sidecar = (elsewhere / "logs" / "timing-rank0.meta.json").read_text()
    run = run_warm(
        """
        import os, sys
        from timing_logger import TimingLogger
        os.chdir(sys.argv[1])
        logger = TimingLogger(0, "logs")
        logger.record_timing("A", 1.0)
        os.chdir(sys.argv[2])
        logger.close()
        """,
        here,
        elsewhere,
    )
    assert run.returncode == 0, run.stderr
    assert (elsewhere / "logs" / "timing-rank0.meta.json").read_text() == sidecar
    assert json.loads((here / "logs" / "timing-rank0.meta.json").read_text())["closed"] is True
