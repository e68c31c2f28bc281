"""What commands write is whole or not there, whatever happens meanwhile, and takes nobody's place."""

from __future__ import annotations

import os
import signal
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from processes import run_warm
from simulated_runs import data_parallel, factors
from slow import slow
from timing_files import write_table

from timing_logger import read_timings
from timing_logger.cli import main
from timing_logger.reading.converting import convert
from timing_logger.report import write_trace

COMMANDS: dict[str, tuple[list[str], str]] = {
    "trace": (["trace"], "out.json"),
    "trace, compressed": (["trace"], "out.json.gz"),
    "report": (["report"], "out.html"),
    "parquet": (["convert", "--to", "parquet"], "out.parquet"),
    "parquet folder": (["convert", "--to", "parquet"], "out"),
    "csv": (["convert", "--to", "csv"], "out.csv"),
    "jsonl": (["convert", "--to", "jsonl"], "out.jsonl"),
}
SLOW = {
    "report": "a report takes a second, and is written by the code that all outputs share",
    "trace, compressed": "it is a trace through gzip: the other one is tried",
    "parquet folder": "each of its files is written as a single one, which is tried",
    "jsonl": "by the code that writes CSV, which is tried",
}
of_each_kind = pytest.mark.parametrize(
    ("command", "name"),
    [
        pytest.param(*values, id=each, marks=pytest.mark.slow(SLOW[each]) if each in SLOW else ())
        for each, values in COMMANDS.items()
    ],
)


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_table(tmp_path_factory.mktemp("logs"), data_parallel(factors(60, 4, noise=0.1)))


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@of_each_kind
def test_on_a_full_disk_nothing_is_left_and_the_message_names_the_file(
    command: list[str], name: str, logs: Path, tmp_path: Path
) -> None:
    run = run_warm(
        """
        import resource, sys
        from timing_logger.cli import main
        resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, 5_000))
        sys.exit(main(sys.argv[1:]))
        """,
        *command, logs, "-o", tmp_path / name,
    )  # fmt: skip
    assert run.returncode == 2
    assert run.stderr.startswith(f"timing-logger: output: '{tmp_path / name}")
    assert "File too large" in run.stderr
    assert content(tmp_path) == {}


@of_each_kind
def test_where_there_is_no_folder_and_none_can_be_made_the_message_says_so(
    command: list[str], name: str, logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert main([*command, str(logs), "-o", str(tmp_path / "file" / name)]) == 2
    errors = capsys.readouterr().err
    assert errors.startswith("timing-logger: output: ")
    assert str(tmp_path / "file") in errors
    assert f".{os.getpid()}." not in errors


@of_each_kind
def test_a_timing_file_is_never_replaced(
    command: list[str], name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logs = write_table(tmp_path, data_parallel(factors(3, 2)))
    before = content(logs)
    for taken in ("timing-rank0.csv", "timing-rank1.meta.json", "timing-rank7.csv"):
        main([*command, str(logs), "-o", str(logs / taken)])
        found = content(logs)
        assert {key: found[key] for key in before} == before
    assert "timing-rank0.csv" in capsys.readouterr().err


@pytest.mark.slow(SLOW["report"])
def test_a_report_replaces_no_timing_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logs = write_table(tmp_path, data_parallel(factors(3, 2)))
    before = content(logs)
    assert main(["report", str(logs), "-o", str(logs / "timing-rank0.csv")]) == 2
    assert content(logs) == before
    assert "timing-rank0.csv" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command", [["trace"], slow(["report"], "a report takes a second"), ["convert", "--to", "csv"]]
)
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["FIFO", "folder"])
def test_what_is_no_regular_file_is_never_replaced(
    command: list[str], make: Callable[[Path], None], logs: Path, tmp_path: Path
) -> None:
    make(tmp_path / "out.html")
    kind = stat.S_IFMT((tmp_path / "out.html").stat().st_mode)
    assert main([*command, str(logs), "-o", str(tmp_path / "out.html")]) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["out.html"]
    assert stat.S_IFMT((tmp_path / "out.html").stat().st_mode) == kind


def interrupted(*_: Any) -> None:
    os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture
def interruptible() -> Iterator[None]:
    """A shell starts what it runs in the background with interrupts ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize(("to", "name"), [("parquet", "out.parquet"), ("parquet", "out"), ("csv", "out.csv")])
def test_an_interrupt_in_the_middle_of_a_conversion_leaves_nothing(
    to: Any, name: str, logs: Path, tmp_path: Path
) -> None:
    with pytest.raises(KeyboardInterrupt):
        convert(logs, to, tmp_path / name, progress=interrupted)
    assert content(tmp_path) == {}


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_in_the_middle_of_a_trace_leaves_the_one_that_was_there(
    logs: Path, tmp_path: Path
) -> None:
    (tmp_path / "out.json").write_text("of yesterday")
    with pytest.raises(KeyboardInterrupt):
        write_trace(read_timings(logs), tmp_path / "out.json", progress=interrupted)
    assert content(tmp_path) == {"out.json": b"of yesterday"}


@of_each_kind
def test_beside_the_timing_files_it_disturbs_nobody(command: list[str], name: str, tmp_path: Path) -> None:
    logs = write_table(tmp_path, data_parallel(factors(3, 2)))
    before = read_timings(logs)
    assert main([*command, str(logs), "-o", str(logs / name)]) == 0
    assert read_timings(logs).equals(before)
