"""A timing file that is written in parts, one after the other, is one file to whoever reads it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import warnings
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from processes import run_python
from simulated_runs import data_parallel, factors
from slow import slow
from timing_files import content, record, write_sidecar, write_table, write_timing_file

from timing_logger import TimingLogger, read_timings
from timing_logger.cli import main
from timing_logger.errors import ConfigurationError
from timing_logger.live.watcher import Watcher
from timing_logger.reading.converting import convert
from timing_logger.schema.record import HEADER
from timing_logger.schema.timing_files import TimingFile, sidecar_path

N_ROWS, LAYER = 11_000, "a layer" * 20
ENDLESS_S = 1e9


# -- written -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def rotated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rotated")
    with TimingLogger(0, folder, flush_interval=3600, max_file_mb=1) as logger:
        for iteration in range(N_ROWS):
            logger.record_timing("FORWARD", 1.0, iteration=iteration, layer_name=LAYER)
    return folder


def test_a_file_that_has_reached_its_size_is_followed_by_the_next_part(rotated: Path) -> None:
    files = sorted(rotated.glob("*.csv"), key=lambda file: TimingFile.parse(file.name) or TimingFile(0))
    assert [file.name for file in files] == [
        "timing-rank0.csv",
        "timing-rank0.part2.csv",
        "timing-rank0.part3.csv",
    ]
    assert all(file.read_text().startswith(HEADER) for file in files)
    assert all(1e6 <= file.stat().st_size < 1.3e6 for file in files[:-1])
    assert read_timings(rotated)["iteration"].tolist() == list(range(N_ROWS))


def test_one_sidecar_tells_of_all_parts(rotated: Path) -> None:
    stated = json.loads((rotated / "timing-rank0.meta.json").read_text())
    assert [one["file"] for one in stated["parts"]] == [
        "timing-rank0.csv", "timing-rank0.part2.csv", "timing-rank0.part3.csv",
    ]  # fmt: skip
    for one in stated["parts"]:
        data = (rotated / one["file"]).read_bytes()
        assert (one["rows"], one["bytes"], one["lost"], one["why"]) == (
            data.count(b"\n") - 1,
            len(data),
            0,
            "",
        )
    assert stated["written_bytes"] == sum(one["bytes"] for one in stated["parts"])
    assert stated["counters"]["written"] == N_ROWS
    assert {file.name for file in rotated.glob("*.json")} == {"timing-rank0.meta.json"}


def test_a_part_that_was_deleted_while_the_run_went_on_is_counted_with_the_next(tmp_path: Path) -> None:
    """Complete parts are their user's to move; whoever takes the current one has often taken all."""
    with TimingLogger(0, tmp_path, flush_interval=3600, max_file_mb=1) as logger:
        for iteration in range(N_ROWS):
            logger.record_timing("FORWARD", 1.0, iteration=iteration, layer_name=LAYER)
        assert logger.flush()
        (tmp_path / "timing-rank0.csv").unlink()
        assert logger.flush()
        for part in tmp_path.glob("*.csv"):
            part.unlink()
        logger.record_timing("FORWARD", 1.0)
        assert not logger.flush()
    assert (logger.stats.written, logger.stats.dropped) == (1, N_ROWS)


def test_what_is_to_survive_a_crash_of_the_machine_is_synced_in_every_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one drain, in which several parts are begun."""
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    with TimingLogger(0, tmp_path, flush_interval=3600, max_file_mb=1, fsync=True) as logger:
        for iteration in range(N_ROWS):
            logger.record_timing("FORWARD", 1.0, iteration=iteration, layer_name=LAYER)
        assert logger.flush(60)
        assert len(synced) == len(set(synced)) == len(list(tmp_path.glob("*.csv"))) == 3


KILLED = """
import os, signal, sys
from timing_logger import TimingLogger
logger = TimingLogger(0, sys.argv[1], flush_interval=3600, max_file_mb=1)
for iteration in range(11_000):
    logger.record_timing("FORWARD", 1.0, iteration=iteration, layer_name="a layer" * 20)
    if iteration % 2_750 == 2_749:
        assert logger.flush(60)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow("starts and kills a process; parts as they then are are quick")
def test_of_a_process_that_is_killed_every_part_is_read(tmp_path: Path) -> None:
    assert run_python(KILLED, tmp_path).returncode == -signal.SIGKILL
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        df = read_timings(tmp_path)
    assert df["iteration"].tolist() == list(range(N_ROWS))
    assert len(df.attrs["files"][0]["parts"]) == 3


@pytest.mark.parametrize("size", [0, 0.5, -1, float("nan"), "1", True])
def test_a_size_that_is_none_is_refused(size: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="max_file_mb must be megabytes >= 1"):
        TimingLogger(0, tmp_path, max_file_mb=size)


@pytest.mark.parametrize("mode", [0o400, 0o1600, 0o200, -1, "0600", True, 384.0])
def test_permissions_that_are_none_or_lock_the_owner_out_are_refused(mode: Any, tmp_path: Path) -> None:
    with pytest.raises(
        ConfigurationError, match="file_mode must be an integer up to 0o777 that lets the owner"
    ):
        TimingLogger(0, tmp_path, file_mode=mode)


# -- read --------------------------------------------------------------------------------------------------


def split(path: Path, n_parts: int = 3) -> list[Path]:
    """What was in the file at ``path``, in parts."""
    header, *lines = path.read_bytes().splitlines(keepends=True)
    name = TimingFile.parse(path.name)
    assert name is not None
    borders = [len(lines) * number // n_parts for number in range(n_parts + 1)]
    paths = [path.with_name(name._replace(part=number + 1).name) for number in range(n_parts)]
    for part, first, end in zip(paths, borders, borders[1:], strict=False):
        part.write_bytes(header + b"".join(lines[first:end]))
    return paths


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_table(tmp_path_factory.mktemp("whole") / "run", data_parallel(factors(12, 2)))


@pytest.fixture(scope="module")
def in_parts(whole: Path) -> Path:
    folder = whole.parent.with_name("parts") / "run"
    shutil.copytree(whole, folder)
    for path in list(folder.glob("*.csv")):
        split(path)
    return folder


@pytest.mark.parametrize("engine", ["pandas", "pyarrow"])
def test_every_engine_reads_all_parts_as_one_table(engine: Any, whole: Path, in_parts: Path) -> None:
    expected, found = read_timings(whole, engine=engine), read_timings(in_parts, engine=engine)
    pd.testing.assert_frame_equal(found, expected)


def test_there_is_one_description_of_a_file_with_its_parts_in_it(whole: Path, in_parts: Path) -> None:
    files, expected = (read_timings(folder).attrs["files"] for folder in (in_parts, whole))
    assert [(file["rank"], file["rows"]) for file in files] == [
        (file["rank"], file["rows"]) for file in expected
    ]
    for file in files:
        assert [Path(part["path"]).name for part in file["parts"]] == [
            TimingFile(file["rank"], 1, number).name for number in (1, 2, 3)
        ]
        assert sum(part["rows"] for part in file["parts"]) == file["rows"]
        assert sum(part["bytes"] for part in file["parts"]) == file["bytes"]


COMMANDS = [
    "hang", "summary", "summary --by operation", "stragglers", "waits", "bandwidth", "overlap", "compression",
    "summary --engine pyarrow", "waits --engine pyarrow", "bandwidth --engine pyarrow",
]  # fmt: skip


@pytest.mark.slow("all ask the table, and the description of its files, that are compared above")
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_says_of_parts_what_it_says_of_the_whole(
    command: str, whole: Path, in_parts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = []
    for folder in (whole, in_parts):
        assert main([*command.split(), str(folder), "--json"]) == 0
        said.append(json.loads(capsys.readouterr().out))
    for answer, folder in zip(said, (whole, in_parts), strict=True):
        for file in answer.get("files", ()):
            file["path"] = str(Path(file["path"]).relative_to(folder))
            file.pop("bytes", None)  # of more headers
            file.pop("parts", None)
    assert said[1] == said[0]


@pytest.mark.parametrize("number", [slow(1, "as of others"), 2, slow(3, "as of others")])
@pytest.mark.filterwarnings("ignore:There is no file of rank 0")
def test_any_part_stands_for_all(number: int, whole: Path, in_parts: Path) -> None:
    found = read_timings(in_parts / TimingFile(1, 1, number).name)
    pd.testing.assert_frame_equal(found, read_timings(whole / "timing-rank1.csv"))


def test_all_parts_named_one_by_one_are_read_once(in_parts: Path) -> None:
    pd.testing.assert_frame_equal(read_timings(sorted(in_parts.glob("*.csv"))), read_timings(in_parts))


def test_converted_parts_are_one_file(whole: Path, in_parts: Path, tmp_path: Path) -> None:
    convert(in_parts, "parquet", tmp_path / "of-parts")
    assert sorted(file.name for file in (tmp_path / "of-parts").iterdir()) == [
        f"timing-rank{rank}.parquet" for rank in range(2)
    ]
    found = read_timings(tmp_path / "of-parts")
    convert(whole, "parquet", tmp_path / "of-whole")
    pd.testing.assert_frame_equal(found, read_timings(tmp_path / "of-whole"))
    assert found.attrs["files"][0]["parts"] == read_timings(in_parts).attrs["files"][0]["parts"]


def test_what_is_wrong_in_any_part_is_said(tmp_path: Path) -> None:
    first, second, _ = split(write_timing_file(tmp_path, 0, [record(iteration=i) for i in range(30)]))
    with first.open("ab") as file:
        file.write(b"torn")
    with second.open("ab") as file:
        file.write(b"damaged\n")
    for engine in ("pandas", "pyarrow"):
        with pytest.warns(UserWarning, match="last line was cut") as said:
            df = read_timings(tmp_path, engine=engine)  # type: ignore[call-overload,unused-ignore]
        assert df["iteration"].tolist() == list(range(30))
        assert df.attrs["files"][0]["cut"] == "torn"
        assert "1 damaged line was skipped, such as 'damaged'" in str(said[0].message)


def stated_in_parts(paths: list[Path], rows: list[int]) -> None:
    """A sidecar that says how many rows are in each part."""
    path = write_sidecar(paths[0])
    stated = json.loads(path.read_text())
    stated["parts"] = [
        {"file": part.name, "rows": n_rows, "bytes": 1, "lost": 0, "why": ""}
        for part, n_rows in zip(paths, rows, strict=False)
    ]
    stated["counters"] = {"accepted": sum(rows), "written": sum(rows), "dropped": 0, "pending": 0}
    path.write_text(json.dumps(stated))


def without_part(folder: Path, missing: int) -> str:
    """Write three parts of ten rows without one of them, and return what is to be said of it."""
    parts = split(write_timing_file(folder, 0, [record(iteration=i) for i in range(30)]))
    stated_in_parts(parts, [10, 10, 10])
    parts[missing].unlink()
    return f"its part {parts[missing].name}, with 10 rows, is not there"


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_a_part_that_is_missing_is_said_with_its_rows(missing: int, tmp_path: Path) -> None:
    said = without_part(tmp_path, missing)
    with pytest.warns(UserWarning, match=said):
        assert len(read_timings(tmp_path)) == 20


@pytest.mark.slow("reading says it, and a summary what reading says")
@pytest.mark.parametrize("missing", [0, 1, 2])
def test_a_summary_says_which_part_is_missing(
    missing: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = without_part(tmp_path, missing)
    main(["summary", str(tmp_path)])
    assert said in " ".join(capsys.readouterr().out.split())


def test_a_part_that_is_missing_between_two_is_said_without_a_sidecar(tmp_path: Path) -> None:
    parts = split(write_timing_file(tmp_path, 0, [record(iteration=i) for i in range(30)]))
    parts[1].unlink()
    with pytest.warns(UserWarning, match=r"its part timing-rank0\.part2\.csv is not there"):
        assert len(read_timings(tmp_path)) == 20


def test_parts_that_a_killed_process_did_not_state_are_read_too(tmp_path: Path) -> None:
    parts = split(write_timing_file(tmp_path, 0, [record(iteration=i) for i in range(30)]))
    stated_in_parts(parts[:1], [4])
    path = sidecar_path(parts[0])
    path.write_text(json.dumps({**json.loads(path.read_text()), "closed": False}))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_timings(tmp_path)["iteration"].tolist() == list(range(30))


DAMAGED = [5, None, [5], [{}], [{"file": 5, "rows": 1}], [{"file": "x", "rows": "y", "lost": "z"}]]


def write_stating(folder: Path, parts: Any) -> None:
    sidecar = write_sidecar(write_timing_file(folder, 0, [record()]))
    sidecar.write_text(json.dumps({**json.loads(sidecar.read_text()), "parts": parts}))


@pytest.mark.parametrize("parts", DAMAGED)
def test_what_a_damaged_sidecar_says_of_parts_is_passed_over(parts: Any, tmp_path: Path) -> None:
    write_stating(tmp_path, parts)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert len(read_timings(tmp_path)) == 1
    said = [str(warning.message) for warning in told]
    assert len(said) == (parts != [{}])  # an entry without a file is of no part, and of the right types
    assert all("states no value that can be one for parts" in text for text in said)


@pytest.mark.slow("reading passes it over, which is tested above, and so a summary gets none of it")
@pytest.mark.parametrize("parts", DAMAGED)
def test_a_summary_answers_whatever_a_sidecar_says_of_parts(parts: Any, tmp_path: Path) -> None:
    write_stating(tmp_path, parts)
    assert main(["summary", str(tmp_path)]) == 0


def test_parts_in_two_folders_are_not_taken_for_one_file(tmp_path: Path) -> None:
    parts = split(write_timing_file(tmp_path / "here", 0, [record(), record()]), 2)
    (tmp_path / "there").mkdir()
    other = parts[1].rename(tmp_path / "there" / parts[1].name)
    with pytest.raises(ConfigurationError, match="are parts of rank 0, incarnation 1, in different folders"):
        read_timings([parts[0], other])


def test_parts_of_later_incarnations_are_theirs(tmp_path: Path) -> None:
    split(write_timing_file(tmp_path, 0, [record(iteration=1)] * 4), 2)
    split(write_timing_file(tmp_path, 0, [record(iteration=2)] * 6, incarnation=2), 3)
    df = read_timings(tmp_path, incarnations="all")
    assert df.groupby("incarnation").size().to_dict() == {1: 4, 2: 6}
    assert (df["iteration"] == df["incarnation"]).all()
    assert [len(file["parts"]) for file in df.attrs["files"]] == [2, 3]


# -- watched -----------------------------------------------------------------------------------------------


def test_a_run_is_watched_from_one_part_into_the_next(tmp_path: Path) -> None:
    path = write_timing_file(tmp_path, 0, [record(iteration=i) for i in range(5)])
    watcher = Watcher(tmp_path, ENDLESS_S)
    assert watcher.snapshot().ranks[0].iteration == 4
    with path.open("ab") as file:  # after the last look, and before the next part
        file.write(content([record(iteration=5)]).split(b"\n", 1)[1])
    for number in (2, 3):
        part = tmp_path / TimingFile(0, 1, number).name
        part.write_bytes(content([record(iteration=4 + number), record(iteration=5 + number)]))
    (rank,) = watcher.snapshot().ranks
    assert (rank.written, rank.iteration) == (10, 8)


@pytest.mark.slow("that parts are one table is quick, and that they are watched from one into the next")
def test_who_begins_to_watch_sees_the_parts_before_the_last_too(tmp_path: Path) -> None:
    parts = split(write_timing_file(tmp_path, 0, [record(iteration=i) for i in range(30)]), 10)
    watcher = Watcher(tmp_path, ENDLESS_S)
    (rank,) = watcher.snapshot().ranks
    assert (rank.written, rank.iteration) == (30, 29)
    with parts[-1].open("ab") as file:
        file.write(content([record(iteration=30)]).split(b"\n", 1)[1])
    (rank,) = watcher.snapshot().ranks
    assert (rank.written, rank.iteration) == (31, 30)


@pytest.mark.slow(
    "two rarer things at once; parts are watched above, and a file that takes another's place elsewhere"
)
def test_a_run_that_takes_the_place_of_one_in_parts_is_watched_from_its_beginning(tmp_path: Path) -> None:
    parts = split(write_timing_file(tmp_path, 0, [record(iteration=i) for i in range(30)]))
    watcher = Watcher(tmp_path, ENDLESS_S)
    watcher.snapshot()
    for part in parts:
        part.unlink()
    write_timing_file(tmp_path, 0, [record("FORWARD", 100.0, iteration=3)])
    (rank,) = watcher.snapshot().ranks
    assert (rank.written, rank.iteration) == (1, 3)
