"""No command fails for a file of host counters: they stand beside an answer, which can do without them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from slow import slow
from timing_files import record, write_sidecar, write_timing_file

from timing_logger import read_host_counters
from timing_logger.cli import main
from timing_logger.errors import NotATimingFileError
from timing_logger.reading.host_rows import host_counters_of
from timing_logger.reading.timings import timing_files
from timing_logger.schema.host_counters import HEADER, NAMES

LINE = "1.0,2.0," + ",".join("5" for _ in NAMES) + "\n"


def _of_another_program(path: Path) -> None:
    path.write_text("host,load\na,1\n")


def _a_folder(path: Path) -> None:
    path.mkdir()


@pytest.fixture(params=[_of_another_program, slow(_a_folder, "left out where that of another program is")])
def logs(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Two ranks, of which the second one's counters cannot be read."""
    spoil: Callable[[Path], None] = request.param
    for rank in range(2):
        write_sidecar(write_timing_file(tmp_path / "logs", rank, [record()]), world_size=2)
    (tmp_path / "logs" / "host-rank0.csv").write_text(HEADER + LINE)
    spoil(tmp_path / "logs" / "host-rank1.csv")
    return tmp_path / "logs"


@pytest.mark.parametrize(
    "command", [slow("report", "a whole page; counters are read in the same way for a trace"), "trace"]
)
def test_a_command_answers_without_counters_that_cannot_be_read(
    logs: Path, tmp_path: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "output"
    assert main([command, str(logs), "-o", str(output)]) == 0
    assert output.stat().st_size > 0
    if command == "trace":
        assert "host-rank1.csv" in capsys.readouterr().err


def test_those_of_other_ranks_are_there_and_a_program_is_told(logs: Path) -> None:
    with pytest.warns(UserWarning, match=r"host-rank1\.csv.*left out"):
        assert host_counters_of(timing_files(logs).aligned)["rank"].unique().tolist() == [0]
    with pytest.raises((NotATimingFileError, OSError)):
        read_host_counters(logs)
