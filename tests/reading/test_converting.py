"""What was converted is what was read: every row, every value, and what was known of the files."""

from __future__ import annotations

import csv
import hashlib
import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from places import SAMPLE
from sidecars import states
from slow import examples, slow
from timing_files import content, earlier_content, record, write_sidecar, write_timing_file

from timing_logger import read_timings
from timing_logger.errors import ConfigurationError, LogPathError, NotATimingFileError
from timing_logger.reading.converting import Converted, convert
from timing_logger.reading.sources import Source
from timing_logger.schema.record import COLUMNS, FIELDS, Record

PROCESS = ["rank", "incarnation"]

pq = pytest.importorskip("pyarrow.parquet", reason="converts to Parquet: pip install pyarrow")


@pytest.fixture(autouse=True)
def warnings_are_errors() -> Iterator[None]:
    """What a test does not expect, no user may see either."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def by_start(df: pd.DataFrame) -> pd.DataFrame:
    """In the order of what ``convert`` writes."""
    return df.sort_values([*PROCESS, "start_counter"], kind="stable", ignore_index=True)


def without_path(df: pd.DataFrame) -> list[dict[str, Any]]:
    return [{key: value for key, value in file.items() if key != "path"} for file in df.attrs["files"]]


def assert_same(converted: pd.DataFrame, original: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(converted, by_start(original))
    assert without_path(converted) == without_path(original)


def two_runs(folder: Path) -> Path:
    """Two ranks, the second of which was started twice; rows as they end, not as they begin."""
    rows = [record(start_s=1.5, elapsed_ms=1.0), record("BACKWARD", start_s=1.0, elapsed_ms=900.0)]
    for rank, incarnation in ((0, 1), (1, 1), (1, 2)):
        write_sidecar(write_timing_file(folder / "logs", rank, rows, incarnation=incarnation))
    return folder / "logs"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of ``two_runs``; no test may change them."""
    return two_runs(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def hashes_before(runs: Path) -> dict[str, str]:
    """Of their content before anything was converted."""
    return hashes(runs)


def hashes(folder: Path) -> dict[str, str]:
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.iterdir()}


@pytest.fixture(scope="module")
def in_one(runs: Path, hashes_before: dict[str, str]) -> Path:
    """What they are in one file of Parquet."""
    convert(runs, "parquet", runs.parent / "one.parquet")
    return runs.parent / "one.parquet"


@pytest.fixture(scope="module")
def in_folder(runs: Path, hashes_before: dict[str, str]) -> Converted:
    """What they are in a file of Parquet each."""
    return convert(runs, "parquet", runs.parent / "folder")


# -- Parquet -------------------------------------------------------------------------------------


@pytest.mark.slow("a larger run; runs of two incarnations are read from one file and from a folder")
@pytest.mark.parametrize("output", ["one.parquet", "folder"])
def test_parquet_reads_as_the_files_that_it_was_made_from(output: str, tmp_path: Path) -> None:
    convert(SAMPLE, "parquet", tmp_path / output)
    assert_same(read_timings(tmp_path / output), read_timings(SAMPLE))


def test_all_incarnations_are_converted(runs: Path, in_folder: Converted) -> None:
    everything = read_timings(in_folder.files[0].parent, incarnations="all")
    assert_same(everything, read_timings(runs, incarnations="all"))
    assert everything["incarnation"].tolist() == [1, 1, 1, 1, 2, 2]


def test_the_latest_incarnation_is_read_from_parquet_too(runs: Path, in_one: Path) -> None:
    with pytest.warns(UserWarning, match="left out"):
        df, original = read_timings(in_one), read_timings(runs)
    assert_same(df, original)
    assert len(df.attrs["left_out"]) == len(original.attrs["left_out"]) > 0


def test_a_folder_has_a_file_for_each_timing_file(in_folder: Converted) -> None:
    files, rows, n_bytes = in_folder
    names = ["timing-rank0.parquet", "timing-rank1.parquet", "timing-rank1.run2.parquet"]
    assert [file.name for file in files] == sorted(file.name for file in files[0].parent.iterdir()) == names
    assert (rows, n_bytes) == (6, sum(file.stat().st_size for file in files))


def test_one_file_has_row_groups_of_one_process_each(in_one: Path) -> None:
    file = pq.ParquetFile(in_one)
    groups = [file.read_row_group(i).to_pandas() for i in range(file.num_row_groups)]
    assert [set(zip(g["rank"], g["incarnation"], strict=True)) for g in groups] == [
        {(0, 1)},
        {(1, 1)},
        {(1, 2)},
    ]
    assert all(group["start_counter"].is_monotonic_increasing for group in groups)


def test_other_tools_find_typed_columns(in_one: Path) -> None:
    types = {field.name: str(field.type) for field in pq.read_schema(in_one)}
    kinds = {
        "timestamp": "timestamp[us, tz=UTC]",
        "integer": "int64",
        "text": "dictionary<values=string, indices=int32, ordered=0>",
        "milliseconds": "double",
        "seconds": "double",
        "amount": "double",
    }
    assert types == {field.name: kinds[field.kind] for field in FIELDS} | dict.fromkeys(PROCESS, "int64")


def test_blanks_are_null_for_other_tools(tmp_path: Path) -> None:
    write_timing_file(tmp_path / "logs", 0, [record(iteration=None, elapsed_ms=None, layer_name="")])
    convert(tmp_path / "logs", "parquet", tmp_path / "one.parquet")
    (row,) = pq.read_table(tmp_path / "one.parquet").to_pylist()
    assert row["iteration"] is row["elapsed_ms"] is row["end_counter"] is None
    assert row["layer_name"] == ""


def test_many_row_groups_are_one_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("timing_logger.reading.parquet.ROWS_PER_GROUP", 2)
    rows = [record(name, start_s=i) for i, name in enumerate("abcde")]
    write_timing_file(tmp_path / "logs", 0, rows)
    write_timing_file(tmp_path / "logs", 1, [])
    write_timing_file(tmp_path / "logs", 2, rows[::-1])
    convert(tmp_path / "logs", "parquet", tmp_path / "one.parquet")
    assert pq.ParquetFile(tmp_path / "one.parquet").num_row_groups == 6
    assert_same(read_timings(tmp_path / "one.parquet"), read_timings(tmp_path / "logs"))


def test_durations_that_come_again_take_little_space(tmp_path: Path) -> None:
    durations_ms = np.random.default_rng(0).integers(1000, 1200, 2000) / 1000
    write_timing_file(
        tmp_path / "logs", 0, [record("SEND", i, ms) for i, ms in enumerate(durations_ms.tolist())]
    )
    convert(tmp_path / "logs", "parquet", tmp_path / "one.parquet")
    row_group = pq.read_metadata(tmp_path / "one.parquet").row_group(0)
    columns = [row_group.column(i) for i in range(row_group.num_columns)]
    (taken,) = (c.total_compressed_size for c in columns if c.path_in_schema == "elapsed_ms")
    assert taken < 3 * len(durations_ms)


@pytest.mark.slow("a larger run; that sizes choose the engine is quick in test_plain_files.py")
def test_parquet_is_large_where_what_it_was_made_from_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyarrow", reason="reads large files: pip install pyarrow")
    convert(SAMPLE, "parquet", tmp_path / "one.parquet")
    as_text = sum(path.stat().st_size for path in SAMPLE.glob("*.csv"))
    assert (tmp_path / "one.parquet").stat().st_size < as_text
    monkeypatch.setattr("timing_logger.reading.sources.LARGE_BYTES", as_text - 1)
    assert read_timings(tmp_path / "one.parquet").attrs["engine"] == "pyarrow"
    monkeypatch.setattr("timing_logger.reading.sources.LARGE_BYTES", as_text)
    assert read_timings(tmp_path / "one.parquet").attrs["engine"] == "pandas"


@pytest.mark.parametrize("later", [("stream", "work"), slow(("work",), "one of both")], ids=" ".join)
def test_parquet_of_an_earlier_version_is_read(tmp_path: Path, later: tuple[str, ...]) -> None:
    write_timing_file(tmp_path / "logs", 0, [record(), record(start_s=2)])
    with pytest.MonkeyPatch.context() as earlier:
        earlier.setattr(
            "timing_logger.reading.parquet.FIELDS", [field for field in FIELDS if field.name not in later]
        )
        convert(tmp_path / "logs", "parquet", tmp_path / "old.parquet")
    assert not set(later) & set(pq.read_schema(tmp_path / "old.parquet").names)
    assert_same(read_timings(tmp_path / "old.parquet"), read_timings(tmp_path / "logs"))


@pytest.mark.parametrize("to", ["parquet", "csv", "jsonl"])
def test_work_is_converted_as_it_was(tmp_path: Path, to: Literal["parquet", "csv", "jsonl"]) -> None:
    given = [4096, 0.1, 1e21, None]
    write_timing_file(
        tmp_path / "logs", 0, [record(start_s=1 + i, work=work) for i, work in enumerate(given)]
    )
    convert(tmp_path / "logs", to, tmp_path / f"all.{to}")
    if to == "parquet":
        found = read_timings(tmp_path / "all.parquet")["work"].tolist()
        assert [None if work != work else work for work in found] == given
    elif to == "csv":
        rows = csv.DictReader((tmp_path / "all.csv").read_text().splitlines())
        assert [row["work"] for row in rows] == ["4096", "0.1", "1e+21", ""]
    else:
        lines = (tmp_path / "all.jsonl").read_text().splitlines()
        assert [json.loads(line)["work"] for line in lines] == given


def test_files_of_an_earlier_version_are_converted_with_blank_streams(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "timing-rank0.csv").write_bytes(earlier_content([record()]))
    for to in ("parquet", "csv", "jsonl"):
        convert(logs, to, tmp_path / f"all.{to}")
    (row,) = csv.DictReader((tmp_path / "all.csv").read_text().splitlines())
    assert row["stream"] == json.loads((tmp_path / "all.jsonl").read_text())["stream"] == ""
    assert_same(read_timings(tmp_path / "all.parquet"), read_timings(logs))


def test_parquet_is_converted_like_what_it_was_made_from(runs: Path, in_one: Path, tmp_path: Path) -> None:
    for name, source in (("a.csv", runs), ("b.csv", in_one)):
        convert(source, "csv", tmp_path / name)
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()


def test_parquet_of_somebody_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.parquet"
    pd.DataFrame({"a": [1]}).to_parquet(path)
    with pytest.raises(NotATimingFileError, match=r"other\.parquet.*metadata name no timing files"):
        read_timings(path)


def test_what_is_no_parquet_is_refused(tmp_path: Path) -> None:
    (tmp_path / "torn.parquet").write_bytes(b"PAR1 and then nothing")
    with pytest.raises(NotATimingFileError, match=r"torn\.parquet.*not a Parquet file"):
        read_timings(tmp_path / "torn.parquet")


def test_without_pyarrow_the_error_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'timing_logger\[parquet\]'"):
        convert(SAMPLE, "parquet", tmp_path / "one.parquet")
    assert list(tmp_path.iterdir()) == []


def test_timing_files_are_read_before_parquet_that_was_made_of_them(tmp_path: Path) -> None:
    write_timing_file(tmp_path, 0, [record()])
    convert(tmp_path, "parquet", tmp_path / "timing-rank0.parquet")
    write_timing_file(tmp_path, 0, [record(), record()])
    assert len(read_timings(tmp_path)) == 2


# -- the round trip ------------------------------------------------------------------------------

integers = st.none() | st.integers(-(2**63) + 1, 2**63 - 1)
texts = st.text(max_size=8)


@st.composite
def records(draw: st.DrawFn) -> Record:
    return record(
        draw(texts),
        start_s=draw(st.integers(0, 2**40)) / 2**10,
        elapsed_ms=draw(st.none() | st.integers(0, 2**40).map(lambda ns: ns / 1e6)),
        iteration=draw(integers),
        layer_name=draw(texts),
        seq=draw(integers),
        message_size_bytes=draw(integers),
        thread=draw(texts),
    )


@settings(
    max_examples=examples(60, few=2),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    ranks=st.dictionaries(st.integers(0, 3), st.lists(records(), max_size=4), min_size=1, max_size=2),
    cut=st.integers(0, 20),
)
def test_what_is_read_from_parquet_is_what_is_read_from_the_files(
    ranks: dict[int, list[Record]], cut: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("run")
    for rank, rows in ranks.items():
        data = content(rows)
        write_timing_file(folder, rank, rows).write_bytes(data[: len(data) - cut])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        convert(folder, "parquet", folder / "one.parquet")
        converted, original = read_timings(folder / "one.parquet"), read_timings(folder)
    assert_same(converted, original)


# -- CSV and JSON lines --------------------------------------------------------------------------


def test_csv_has_the_lines_of_the_timing_files_and_whose_they_are(tmp_path: Path) -> None:
    rows = [
        record(layer_name='a "b", c\n=d'),
        record("BACKWARD", start_s=0.5, iteration=None, elapsed_ms=None),
    ]
    file = write_timing_file(tmp_path / "logs", 3, rows, incarnation=2)
    convert(tmp_path / "logs", "csv", tmp_path / "all.csv")
    lines = file.read_text().splitlines()
    expected = [lines[0] + ",rank,incarnation", lines[2] + ",3,2", lines[1] + ",3,2"]
    assert (tmp_path / "all.csv").read_text().splitlines() == expected


def test_json_lines_hold_every_value(tmp_path: Path) -> None:
    rows = [record(layer_name="ä\u2028\n", seq=2**63 - 1), record(start_s=2, iteration=None, elapsed_ms=None)]
    write_timing_file(tmp_path / "logs", 3, rows)
    convert(tmp_path / "logs", "jsonl", tmp_path / "all.jsonl")
    objects = [json.loads(line) for line in (tmp_path / "all.jsonl").read_text().splitlines()]
    df = read_timings(tmp_path / "logs")[[*COLUMNS, *PROCESS]]
    df["timestamp"] = df["timestamp"].dt.strftime("%Y-%m-%dT%H:%M:%S.%f")
    plain = df.astype(object).where(df.notna(), None)
    assert objects == plain.to_dict("records")
    assert objects[0]["timestamp"] == "2026-02-06T14:30:46.000000"


def test_a_row_without_a_timestamp_has_null_or_a_blank(tmp_path: Path) -> None:
    file = write_timing_file(tmp_path / "logs", 0, [record()])
    head, line = file.read_text().splitlines()
    file.write_text(f"{head}\n{line[line.index(',') :]}\n")
    for to in ("csv", "jsonl"):
        convert(tmp_path / "logs", to, tmp_path / to)
    assert json.loads((tmp_path / "jsonl").read_text())["timestamp"] is None
    (row,) = csv.DictReader((tmp_path / "csv").read_text().splitlines())
    assert row["timestamp"] == ""


def test_sidecars_survive_beside_the_file(runs: Path, tmp_path: Path) -> None:
    convert(runs, "jsonl", tmp_path / "all.jsonl")
    described = json.loads((tmp_path / "all.jsonl.meta.json").read_text())["files"]
    sidecars = [file["sidecar"] for file in read_timings(runs, incarnations="all").attrs["files"]]
    assert [file["sidecar"] for file in described] == sidecars


OTHERS = pytest.mark.slow(
    "no format depends on who read the rows, and that torn files are left to another is quick"
)


@pytest.mark.parametrize(
    ("output", "torn"),
    [
        pytest.param("one.parquet", True, id="torn-one.parquet", marks=OTHERS),
        pytest.param("all.csv", False, id="plain-all.csv", marks=OTHERS),
        pytest.param("one.parquet", False, id="plain-one.parquet"),
        pytest.param("all.csv", True, id="torn-all.csv", marks=OTHERS),
        pytest.param("all.jsonl", False, id="plain-all.jsonl", marks=OTHERS),
        pytest.param("all.jsonl", True, id="torn-all.jsonl", marks=OTHERS),
    ],
)
def test_large_files_are_converted_as_small_ones_are(
    output: str, torn: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyarrow", reason="reads large files: pip install pyarrow")
    rows = [record(layer_name='a "b", ä\n'), record("BACKWARD", start_s=0.5, iteration=None, elapsed_ms=None)]
    write_sidecar(write_timing_file(tmp_path / "logs", 0, rows))
    file = write_timing_file(tmp_path / "logs", 1, rows * 3)
    if torn:  # such a file is left to the parser of small ones
        file.write_text(file.read_text()[:-10])
        warnings.simplefilter("ignore")
    to: Any = Path(output).suffix[1:]
    engines = []
    for size, large_bytes in (("small", 2**26), ("large", 0)):
        monkeypatch.setattr("timing_logger.reading.sources.LARGE_BYTES", large_bytes)
        monkeypatch.setattr(Source, "parsed", noting(engines, Source.parsed))
        convert(tmp_path / "logs", to, tmp_path / size / output)
        monkeypatch.undo()
    assert engines == ["pandas", "pandas", "pyarrow", "pyarrow"]
    small, large = tmp_path / "small" / output, tmp_path / "large" / output
    if to == "parquet":
        pd.testing.assert_frame_equal(read_timings(large), read_timings(small))
        assert pq.read_schema(large).equals(pq.read_schema(small))
    else:
        assert large.read_bytes() == small.read_bytes()


def noting(engines: list[str], parsed: Any) -> Any:
    """What reads each file, in turn."""

    def read(source: Source) -> Any:
        engines.append(source.engine)
        return parsed.func(source)

    return property(read)


# -- what it refuses and says --------------------------------------------------------------------


@pytest.mark.parametrize(("to", "output"), [("csv", "timing-rank0.csv"), ("parquet", "one.parquet")])
def test_nothing_is_overwritten(to: Any, output: str, tmp_path: Path) -> None:
    write_timing_file(tmp_path, 0, [record()])
    (tmp_path / "one.parquet").write_bytes(b"precious")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(LogPathError, match=f"{output}.*exists already"):
        convert(tmp_path, to, tmp_path / output)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_no_file_of_a_folder_is_written_if_one_is_there(tmp_path: Path) -> None:
    logs = two_runs(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "timing-rank1.parquet").touch()
    with pytest.raises(LogPathError):
        convert(logs, "parquet", tmp_path / "folder")
    assert len(list((tmp_path / "folder").iterdir())) == 1


def test_another_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="to='xlsx': say one of 'parquet', 'csv', 'jsonl'"):
        convert(SAMPLE, "xlsx", tmp_path / "a.xlsx")  # type: ignore[arg-type]


@pytest.mark.usefixtures("in_one", "in_folder")
def test_the_input_stays_as_it_was(runs: Path, hashes_before: dict[str, str], tmp_path: Path) -> None:
    for to in ("csv", "jsonl"):
        convert(runs, to, tmp_path / to)
    assert hashes(runs) == hashes_before


def test_torn_lines_are_warned_of_and_stay_known(tmp_path: Path) -> None:
    file = write_timing_file(tmp_path / "logs", 0, [record(), record()])
    file.write_bytes(file.read_bytes()[:-5])
    with pytest.warns(UserWarning, match=r"timing-rank0\.csv: the unterminated last line was cut"):
        convert(tmp_path / "logs", "parquet", tmp_path / "one.parquet")
    with pytest.warns(UserWarning, match=r"one\.parquet: the unterminated last line was cut"):
        df = read_timings(tmp_path / "one.parquet")
    assert df.attrs["files"][0]["cut"].startswith("2026-02-06T14:30:46")


def test_a_warning_is_of_the_line_that_converts(tmp_path: Path) -> None:
    file = write_timing_file(tmp_path / "logs", 0, [record(), record()])
    file.write_bytes(file.read_bytes()[:-5])
    states(file, schema_version=99)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        convert(tmp_path / "logs", "csv", tmp_path / "all.csv")
    assert ["schema version 99" in str(one.message) for one in said] == [True, False]
    assert {one.filename for one in said} == {__file__}


def test_a_failure_leaves_no_torn_file(tmp_path: Path) -> None:
    write_timing_file(tmp_path / "logs", 0, [record()])
    (tmp_path / "logs" / "timing-rank1.csv").write_text("something else\n")
    with pytest.raises(NotATimingFileError):
        convert(tmp_path / "logs", "parquet", tmp_path / "one.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["logs"]


@pytest.mark.parametrize("output", [slow("one.parquet", "as of a folder"), "folder"])
def test_progress_counts_timing_files(output: str, runs: Path, tmp_path: Path) -> None:
    calls: list[tuple[int, int]] = []
    convert(runs, "parquet", tmp_path / output, progress=lambda done, total: calls.append((done, total)))
    assert calls == [(1, 3), (2, 3), (3, 3)]


def test_what_was_written_is_counted(runs: Path, tmp_path: Path) -> None:
    path = tmp_path / "all.csv"
    assert convert(runs, "csv", path) == Converted([path], 6, path.stat().st_size)
    assert np.sum([len(line) > 0 for line in path.read_text().splitlines()]) == 6 + 1
