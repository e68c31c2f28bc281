"""Reading gives back what was written, whatever state the files are in, and says what is missing."""

from __future__ import annotations

import hashlib
import os
import string
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from read_folders import job, read_files, read_one
from slow import examples, slow
from timing_files import content, earlier_content, record, write_sidecar, write_timing_file

from timing_logger import read_timings
from timing_logger.errors import ConfigurationError, NotATimingFileError, NoTimingFilesError
from timing_logger.live.watcher import Watcher
from timing_logger.reading.csv_lines import UnknownHeader, parse_timings
from timing_logger.schema.record import COLUMNS, FIELDS, HEADER, Record
from timing_logger.schema.sidecar import Counters
from timing_logger.schema.timing_files import sidecar_path

BARE_HEADER = (
    "timestamp,iteration,epoch,layer_name,operation,phase,"
    "message_size_bytes,elapsed_ms,start_counter,end_counter"
)
BARE_ROWS = """\
2026-02-06T14:30:45.123456,0,0,layer1,ALLREDUCE,dense,110280000,5.234,1234.567,1239.801
2026-02-06T14:30:50,1,0,layer1,ALLREDUCE,dense,110280000,4.891,1239.802,1244.693
"""
ADDED_COLUMNS = ["rank", "incarnation", "start_s", "end_s", "clock_uncertainty_s"]
POISON = [
    "a,b",
    'a"b',
    '"',
    "a\nb",
    "a\r\nb",
    "\x00",
    "\ud800",
    "\u2028",
    "=cmd",
    "-1",
    "\\u000a",
    "\\",
    "'",
    "ä…😀",
    " x ",
    "NA",
    "#",
]


@pytest.fixture(autouse=True)
def warnings_are_errors() -> Iterator[None]:
    """What a test does not expect, no user may see either."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def plain(value: Any) -> Any:
    return None if value is None or value is pd.NA or value != value else value


def in_a_column(value: Any) -> Any:
    """Lone surrogates stay escaped; everything else is as it was."""
    return value.encode(errors="backslashreplace").decode() if isinstance(value, str) else value


# -- the table ---------------------------------------------------------------------------------


def test_all_ranks_come_in_one_typed_table(tmp_path: Path) -> None:
    for rank in (1, 0, 10, 2):
        write_timing_file(tmp_path, rank, [record(iteration=rank), record("WAIT", peer=3, seq=7)])
    df = read_timings(tmp_path)
    assert list(df.columns) == [*COLUMNS, *ADDED_COLUMNS]
    assert df["rank"].tolist() == [0, 0, 1, 1, 2, 2, 10, 10]
    assert df["operation"].tolist() == ["ALLREDUCE", "WAIT"] * 4
    kinds = {
        "timestamp": "datetime64[us, UTC]",
        "integer": "Int64",
        "milliseconds": "float64",
        "seconds": "float64",
        "amount": "float64",
    }
    for field in FIELDS:
        if field.kind == "text":
            assert pd.api.types.is_string_dtype(df[field.name]), field.name
        else:
            assert str(df[field.name].dtype) == kinds[field.kind], field.name
    assert str(df["rank"].dtype) == str(df["incarnation"].dtype) == "int64"


def test_values_keep_every_digit(tmp_path: Path) -> None:
    row = record(start_s=1.25, elapsed_ms=0.000001, seq=2**63 - 1, peer=-1, message_size_bytes=2**53 + 1)
    write_timing_file(tmp_path, 0, [row, record(message_size_bytes=None)])
    df = read_timings(tmp_path)
    first = df.iloc[0]
    assert first["timestamp"] == pd.Timestamp("2026-02-06T14:30:46.25", tz="UTC")
    assert (first["elapsed_ms"], first["start_counter"], first["end_counter"]) == (
        0.000001,
        1.25,
        1.250000001,
    )
    assert (first["seq"], first["peer"], first["message_size_bytes"]) == (2**63 - 1, -1, 2**53 + 1)
    assert df["message_size_bytes"].isna().tolist() == [False, True]


def test_a_row_without_a_duration_has_nan_and_its_status(tmp_path: Path) -> None:
    write_timing_file(tmp_path, 0, [record(elapsed_ms=None)])
    row = read_timings(tmp_path).iloc[0]
    assert pd.isna(row["elapsed_ms"])
    assert pd.isna(row["end_counter"])
    assert row["status"] == "error:InvalidValue"


names = st.text(max_size=20) | st.sampled_from(POISON)
integers = st.none() | st.integers(-(2**63) + 1, 2**63 - 1)
intervals = st.tuples(st.integers(0, 2**50), st.none() | st.integers(0, 2**50))
records = st.builds(
    lambda interval, **fields: Record(
        start_ns=interval[0], end_ns=None if interval[1] is None else sum(interval), **fields
    ),
    intervals,
    **dict.fromkeys(["layer_name", "operation", "phase", "group", "thread", "clock", "status"], names),
    **dict.fromkeys(["iteration", "epoch", "message_size_bytes", "group_size", "seq", "peer"], integers),
)


@given(st.lists(records, max_size=5))
@settings(deadline=None, max_examples=examples(200, few=2))
def test_what_was_written_is_read_back(batch: list[Record]) -> None:
    parsed = parse_timings(content(batch))
    assert (parsed.content.cut, parsed.content.bad_lines, len(parsed.frame)) == ("", 0, len(batch))
    for before, (_, after) in zip(batch, parsed.frame.iterrows(), strict=True):
        expected = before._replace(operation=before.operation.upper())._asdict()
        expected = {name: in_a_column(value) for name, value in expected.items()}
        start_ns, end_ns = expected.pop("start_ns"), expected.pop("end_ns")
        assert expected.pop("metadata") is None  # has no column
        assert {name: plain(after[name]) for name in expected} == expected
        assert after["start_counter"] == start_ns / 1e9
        assert plain(after["elapsed_ms"]) == (None if end_ns is None else (end_ns - start_ns) / 1e6)


# -- torn and damaged files --------------------------------------------------------------------


@pytest.mark.parametrize("every", [89, slow(1, "all prefixes: a thousand")])
def test_every_prefix_of_a_file_parses_and_the_torn_line_is_no_row(every: int) -> None:
    data = content([record(layer_name="-".join(POISON[i::3]), thread=POISON[i]) for i in range(3)])
    whole = parse_timings(data).frame
    for length in range(0, len(data), every):
        prefix = data[:length]
        parsed = parse_timings(prefix)
        n_rows = max(prefix.count(b"\n") - 1, 0)
        assert (len(parsed.frame), parsed.content.bad_lines) == (n_rows, 0)
        assert parsed.content.cut == prefix.rpartition(b"\n")[2].decode(errors="backslashreplace")
        if length % 50 < every:
            pd.testing.assert_frame_equal(parsed.frame, whole.head(n_rows))


def test_a_cut_line_is_reported(tmp_path: Path) -> None:
    path = write_timing_file(tmp_path, 0, [record()])
    path.write_bytes(path.read_bytes() + b"2026-02-06T14:30:45.5,12")
    with pytest.warns(UserWarning, match=r"timing-rank0\.csv: the unterminated last line was cut"):
        df = read_timings(tmp_path)
    assert len(df) == 1
    assert df.attrs["files"][0]["cut"] == "2026-02-06T14:30:45.5,12"


@pytest.mark.parametrize("data", [b"", b"\0" * 4096, HEADER[:20].encode(), HEADER.encode()])
def test_a_file_without_a_whole_line_has_no_rows(tmp_path: Path, data: bytes) -> None:
    df = read_one(tmp_path, data)
    assert len(df) == 0
    assert str(df["seq"].dtype) == "Int64"
    assert df.attrs["files"][0]["rows"] == 0


GOOD = content([record()]).partition(b"\n")[2]


@pytest.mark.parametrize(
    "damage",
    [
        b"\0" * 100 + GOOD,
        GOOD.replace(b"layer1", b"layer\xff"),
        GOOD.replace(b"layer1", b'"layer1'),
        GOOD.replace(b"layer1", b'layer"1,'),
        GOOD.replace(b"layer1,", b""),
        GOOD.replace(b",ok,", b","),
        GOOD.replace(b"\n", b",\n"),
        GOOD.replace(b"\n", b"cuda:0/7,\n"),
        GOOD.replace(b"\n", b",more\n"),
        GOOD.replace(b"4096", b"many"),
        GOOD.replace(b"4096", b"9" * 30),
        GOOD.replace(b"2026-02-06", b"2026-02-31"),
        GOOD.replace(b"1.000000,", b"1.0.0,"),
        GOOD.replace(b"1.000000,", b"inf,"),
        GOOD.replace(b"layer1", b"layer\r1"),
        HEADER.encode(),
        b"\n",
    ],
)
def test_a_damaged_line_costs_no_other(damage: bytes) -> None:
    parsed = parse_timings(HEADER.encode() + GOOD + damage + GOOD + damage + GOOD)
    assert (parsed.content.bad_lines, parsed.content.cut) == (2, "")
    assert len(parsed.content.bad_examples) == 2
    assert parsed.frame["layer_name"].tolist() == ["layer1"] * 3


def test_damaged_lines_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "timing-rank0.csv"
    path.write_bytes(HEADER.encode() + b"rubbish\n" + GOOD)
    with pytest.warns(UserWarning, match=r"timing-rank0\.csv: 1 damaged line was skipped, such as 'rubbish'"):
        df = read_timings(path)
    file = df.attrs["files"][0]
    assert (file["rows"], file["bad_lines"], file["bad_examples"]) == (1, 1, ["rubbish"])


@given(
    st.lists(
        st.sampled_from([GOOD, b"\n", b'"', b",", b"\0", b"\r", b"\xff", b"1", b'""', GOOD[:60]]), max_size=12
    )
)
@settings(deadline=None, max_examples=examples(200, few=4))
def test_no_damage_makes_reading_fail(pieces: list[bytes]) -> None:
    body = b"".join(pieces)
    parsed = parse_timings(HEADER.encode() + body)
    assert len(parsed.frame) + parsed.content.bad_lines == body.replace(b"\r\n", b"\n").count(b"\n")


def test_lines_are_found_bad_in_any_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("timing_logger.reading.csv_lines._BLOCK_BYTES", 2 * len(GOOD))
    parsed = parse_timings(HEADER.encode() + GOOD * 5 + b"bad\n" + GOOD * 2 + b"worse\n" + GOOD)
    assert (len(parsed.frame), parsed.content.bad_examples) == (8, ["bad", "worse"])
    assert parsed.frame.index.tolist() == list(range(8))


def test_reading_changes_nothing_and_can_be_repeated(tmp_path: Path) -> None:
    path = write_timing_file(tmp_path, 0, [record(name) for name in POISON])
    path.write_bytes(path.read_bytes() + b"bad\ntorn")
    write_sidecar(path)

    def state() -> dict[str, str]:
        return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in tmp_path.iterdir()}

    before = state()
    with pytest.warns(UserWarning, match="cut"):
        first = read_timings(tmp_path)
    with pytest.warns(UserWarning, match="cut"):
        second = read_timings(tmp_path)
    assert state() == before
    pd.testing.assert_frame_equal(first, second)
    assert first.attrs == second.attrs


def test_a_file_can_be_read_while_it_grows(tmp_path: Path) -> None:
    data = content([record(seq=i) for i in range(3)])
    path = tmp_path / "timing-rank0.csv"
    seen = []
    for end in range(0, len(data), 130):
        path.write_bytes(data[:end])
        seen.append(len(read_one(tmp_path, data[:end])))
    assert seen == sorted(seen)
    assert seen[0] == 0


# -- files of other makers ----------------------------------------------------------------------


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_bare_file_of_ten_columns_is_read(tmp_path: Path, newline: str) -> None:
    df = read_one(tmp_path, (BARE_HEADER + "\n" + BARE_ROWS).replace("\n", newline).encode())
    assert list(df.columns) == [*COLUMNS, *ADDED_COLUMNS]
    assert df["elapsed_ms"].tolist() == [5.234, 4.891]
    assert df["timestamp"].tolist() == [
        pd.Timestamp("2026-02-06T14:30:45.123456", tz="UTC"), pd.Timestamp("2026-02-06T14:30:50", tz="UTC"),
    ]  # fmt: skip
    assert set(df["clock"]) == {"host"}
    assert set(df["status"]) == {"ok"}
    assert set(df["group"]) == set(df["thread"]) == {""}
    assert df["seq"].isna().all()
    assert df.attrs["files"][0]["sidecar"] is None


def test_a_file_of_before_there_were_streams_is_read(tmp_path: Path) -> None:
    df = read_one(tmp_path, earlier_content([record(status="unresolved")]))
    assert list(df.columns) == [*COLUMNS, *ADDED_COLUMNS]
    assert (df["status"].tolist(), df["stream"].tolist()) == (["unresolved"], [""])


def test_files_with_and_without_streams_are_one_table(tmp_path: Path) -> None:
    write_timing_file(tmp_path, 0, [record(clock="device", stream="cuda:0/7")])
    (tmp_path / "timing-rank1.csv").write_bytes(earlier_content([record()]))
    assert read_timings(tmp_path)["stream"].tolist() == ["cuda:0/7", ""]


@pytest.mark.parametrize("place", [0, 5, 10])
def test_the_thread_name_column_may_stand_anywhere(tmp_path: Path, place: int) -> None:
    lines = [line.split(",") for line in (BARE_HEADER + "\n" + BARE_ROWS).splitlines()]
    for line, cell in zip(lines, ["thread_name", "MainThread", "AllReducer"], strict=True):
        line.insert(place, cell)
    df = read_one(tmp_path, "".join(",".join(line) + "\n" for line in lines).encode())
    assert df["thread"].tolist() == ["MainThread", "AllReducer"]
    assert df["end_counter"].tolist() == [1239.801, 1244.693]


def test_a_backslash_in_a_bare_file_stands_for_itself(tmp_path: Path) -> None:
    df = read_one(tmp_path, (BARE_HEADER + "\n" + BARE_ROWS.replace("layer1", r"layer\u0041")).encode())
    assert df["layer_name"].tolist() == [r"layer\u0041"] * 2


@pytest.mark.parametrize("every", [37, slow(1, "all lengths")])
def test_a_torn_header_of_a_bare_file_has_no_rows(tmp_path: Path, every: int) -> None:
    for length in [*range(0, len(BARE_HEADER), every), len(BARE_HEADER)]:
        assert len(read_one(tmp_path, BARE_HEADER[:length].encode())) == 0


# -- files that other programs wrote again ---------------------------------------------------------


def varied() -> list[Record]:
    return [
        record(),
        record("SEND", 1.1, peer=1, seq=0, layer_name="", phase="", group=""),
        record("BCAST", 1.2, None, iteration=None, epoch=None, message_size_bytes=None, group_size=None),
        record("H2D", 1.3, clock="device", stream="cuda:0/7", message_size_bytes=2**40, layer_name="a, b"),
    ]


def same_rows(found: pd.DataFrame, expected: pd.DataFrame) -> None:
    found.attrs, expected.attrs = {}, {}
    texts = [field.name for field in FIELDS if field.kind == "text"]
    pd.testing.assert_frame_equal(
        found.astype(dict.fromkeys(texts, "str")), expected.astype(dict.fromkeys(texts, "str"))
    )


WORDS = ["", "NaN", "nan", "<NA>", "NA", "None", "null"]
SAME_WORD = pytest.mark.slow("four words are tried, and each kind")


@pytest.mark.parametrize(
    ("kinds", "missing", "engine"),
    [
        pytest.param(
            kinds, missing, engine, marks=[] if (i + j) % 3 == (i + k) % 2 == 0 == i // 4 else [SAME_WORD]
        )
        for j, kinds in enumerate(["float", "nullable", "text"])
        for i, missing in enumerate(WORDS)
        for k, engine in enumerate(["pandas", "pyarrow"])
    ],
)
def test_what_pandas_wrote_again_is_read_as_before(
    kinds: str, missing: str, engine: Literal["pandas", "pyarrow"], tmp_path: Path
) -> None:
    path = write_timing_file(tmp_path / "before", 0, varied())
    expected = read_timings(path)
    again = pd.read_csv(path, dtype=object if kinds == "text" else None)
    if kinds == "nullable":
        again = again.convert_dtypes()
    again.to_csv(tmp_path / "timing-rank0.csv", index=False, na_rep=missing)
    same_rows(read_timings(tmp_path / "timing-rank0.csv", engine=engine), expected)


@pytest.mark.parametrize("engine", ["pandas", slow("pyarrow", "its own words for blanks are tried above")])
@pytest.mark.parametrize("missing", ["", "NaN"])
def test_a_table_that_was_read_and_saved_is_read_again(
    missing: str, engine: Literal["pandas", "pyarrow"], tmp_path: Path
) -> None:
    expected = read_timings(write_timing_file(tmp_path / "before", 0, varied()))
    path = tmp_path / "timing-rank0.csv"
    expected.astype(dict.fromkeys(["iteration", "peer"], "float64")).to_csv(path, na_rep=missing)
    same_rows(read_timings(path, engine=engine), expected)


def test_integers_may_stand_as_floats_of_any_form(tmp_path: Path) -> None:
    row = BARE_ROWS.splitlines()[0].replace(",0,0,", ",3.0,NaN,").replace("110280000", "1.5e+16")
    df = read_one(tmp_path, f"{BARE_HEADER}\n{row}\n".encode())
    assert (df["iteration"].tolist(), df["message_size_bytes"].tolist()) == ([3], [15 * 10**15])
    assert df["epoch"].isna().all()


def test_a_word_for_what_is_missing_is_a_name_in_a_file_of_the_logger(tmp_path: Path) -> None:
    rows = [record("NAN", layer_name=name, phase=name, iteration=None) for name in ("NaN", "NA", "None")]
    df = read_one(tmp_path, content(rows))
    assert df["layer_name"].tolist() == df["phase"].tolist() == ["NaN", "NA", "None"]


def test_blanks_after_each_comma_are_no_part_of_the_cells(tmp_path: Path) -> None:
    text = BARE_HEADER + ",status\n" + BARE_ROWS.replace("\n", ",ok\n").replace("layer1", '"a, b"')
    df = read_one(tmp_path, text.replace("a, b", "a;b").replace(",", ", ").replace("a;b", "a, b").encode())
    assert (df["operation"].tolist(), df["status"].tolist()) == (["ALLREDUCE"] * 2, ["ok"] * 2)
    assert (df["layer_name"].tolist(), df["epoch"].tolist()) == (["a, b"] * 2, [0, 0])


# -- which files ---------------------------------------------------------------------------------


def test_a_file_and_a_list_of_either_can_be_named(tmp_path: Path) -> None:
    first = write_timing_file(tmp_path / "a", 0, [record()])
    write_timing_file(tmp_path / "b", 1, [record()])
    assert read_timings(first)["rank"].tolist() == [0]
    assert read_timings(str(first))["rank"].tolist() == [0]
    assert read_timings([tmp_path / "b", first])["rank"].tolist() == [0, 1]


def test_a_file_named_twice_is_read_once(tmp_path: Path) -> None:
    path = write_timing_file(tmp_path / "a", 0, [record()])
    assert len(read_timings([path, tmp_path / "a", tmp_path / "a" / ".." / "a"])) == 1


def test_two_files_of_one_rank_from_two_folders_are_refused(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        write_timing_file(tmp_path / folder, 3, [record()])
    with pytest.raises(ConfigurationError, match="both of rank 3, incarnation 1"):
        read_timings([tmp_path / "a", tmp_path / "b"])


def test_a_missing_path_is_named_with_what_was_looked_for(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    with pytest.raises(
        NoTimingFilesError, match=r"nowhere' does not exist.*timing-rank\*\.csv.*holds notes\.txt"
    ):
        read_timings(tmp_path / "nowhere")


def test_an_empty_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(NoTimingFilesError, match=rf"no timing-rank\*\.csv in '{tmp_path}'.*holds nothing"):
        read_timings(tmp_path)


def test_a_folder_of_other_files_says_what_it_holds(tmp_path: Path) -> None:
    for name in ("timing-rank0.meta.json", "timing-rankx.csv", "a", "b", "c", "d"):
        (tmp_path / name).touch()
    with pytest.raises(NoTimingFilesError, match=r"holds a, b, c, d, timing-rank0\.meta\.json, and 1 more"):
        read_timings(tmp_path)


def test_a_folder_of_folders_says_where_timing_files_are(tmp_path: Path) -> None:
    write_timing_file(tmp_path / "healthy", 0, [record()])
    with pytest.raises(NoTimingFilesError, match=r"There are timing files in '.*/healthy'"):
        read_timings(tmp_path)


def test_nothing_named_is_an_error() -> None:
    with pytest.raises(NoTimingFilesError, match="none given"):
        read_timings([])


@pytest.mark.parametrize(
    "data", [b"a,b,c\n1,2,3\n", b"hello", b"{}\n", (BARE_HEADER.replace("phase", "stage") + "\n").encode()]
)
def test_a_file_with_another_header_is_refused(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(NotATimingFileError, match=r"Looked for a first line .*elapsed_ms.*; found"):
        read_one(tmp_path, data)
    with pytest.raises(UnknownHeader):
        parse_timings(data)


def test_a_file_whose_name_states_no_rank_is_refused(tmp_path: Path) -> None:
    path = write_timing_file(tmp_path, 0, [record()]).rename(tmp_path / "old.csv")
    with pytest.raises(NotATimingFileError, match=r"'.*old\.csv' states no rank.*'timing-rank0\.csv'"):
        read_timings(path)


def test_a_fifo_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "timing-rank0.csv")
    with pytest.raises(NotATimingFileError, match="is not a regular file"):
        read_timings(tmp_path)


# -- sidecars ------------------------------------------------------------------------------------


def test_the_sidecar_comes_along(tmp_path: Path) -> None:
    path = write_timing_file(tmp_path, 0, [record()])
    write_sidecar(path, counters=Counters(3, 1, 1, 1))
    file = read_timings(tmp_path).attrs["files"][0]
    assert file["sidecar"]["counters"] == {"accepted": 3, "written": 1, "dropped": 1, "pending": 1}
    assert file["bytes"] == path.stat().st_size


@pytest.mark.parametrize("text", ["", "{", "[]", "\xff", "[" * 100_000])
def test_a_broken_sidecar_is_none(tmp_path: Path, text: str) -> None:
    path = write_timing_file(tmp_path, 0, [record()])
    path.with_suffix(".meta.json").write_text(text, encoding="latin-1")
    assert read_timings(tmp_path).attrs["files"][0]["sidecar"] is None


# -- incarnations --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sidecar", [slow(True, "with sidecars, runs of a job are told apart in test_runs_of_job.py"), False]
)
class TestIncarnations:
    def test_the_newest_of_each_rank_is_read(self, tmp_path: Path, sidecar: bool) -> None:
        job(tmp_path, {0: 1, 1: 1}, 0, 10, sidecar=sidecar)
        job(tmp_path, {0: 2, 1: 2}, 20, 30, sidecar=sidecar)
        read, left_out = read_files(tmp_path)
        assert read == [(0, 2), (1, 2)]
        assert left_out["timing-rank0.csv"] == "timing-rank0.run2.csv of the same rank is newer"

    def test_all_are_told_apart_by_a_column(self, tmp_path: Path, sidecar: bool) -> None:
        job(tmp_path, {0: 1}, 0, 10, sidecar=sidecar)
        job(tmp_path, {0: 2}, 20, 30, sidecar=sidecar)
        df = read_timings(tmp_path, incarnations="all")
        assert df["incarnation"].tolist() == [1, 1, 2, 2]
        assert df.attrs["left_out"] == []

    def test_ranks_that_the_newest_job_lacks_are_left_out(self, tmp_path: Path, sidecar: bool) -> None:
        job(tmp_path, {0: 1, 1: 1, 2: 1, 3: 1}, 0, 10, sidecar=sidecar)
        job(tmp_path, {0: 2, 1: 2}, 20, 30, sidecar=sidecar)
        read, left_out = read_files(tmp_path)
        assert read == [(0, 2), (1, 2)]
        assert (
            left_out["timing-rank3.csv"] == "of an earlier job: it had ended when timing-rank0.run2.csv began"
        )

    @pytest.mark.slow("ranks that the newest of two jobs lacks are quick")
    def test_ranks_that_only_the_oldest_of_three_jobs_had_are_left_out(
        self, tmp_path: Path, sidecar: bool
    ) -> None:
        job(tmp_path, {0: 1, 1: 1, 2: 1}, 0, 10, sidecar=sidecar)
        job(tmp_path, {0: 2, 1: 2}, 20, 30, sidecar=sidecar)
        job(tmp_path, {0: 3, 1: 3}, 40, 50, sidecar=sidecar)
        assert read_files(tmp_path)[0] == [(0, 3), (1, 3)]

    def test_a_job_with_more_ranks_is_read_whole(self, tmp_path: Path, sidecar: bool) -> None:
        job(tmp_path, {0: 1}, 0, 10, sidecar=sidecar)
        job(tmp_path, {0: 2, 1: 1, 2: 1}, 20, 30, sidecar=sidecar)
        assert read_files(tmp_path)[0] == [(0, 2), (1, 1), (2, 1)]

    def test_one_rank_that_was_restarted_leaves_the_others(self, tmp_path: Path, sidecar: bool) -> None:
        job(tmp_path, {1: 1, 2: 1}, 0, 50, sidecar=sidecar)
        job(tmp_path, {0: 1}, 0, 10, sidecar=sidecar)
        job(tmp_path, {0: 2}, 20, 50, sidecar=sidecar)
        assert read_files(tmp_path)[0] == [(0, 2), (1, 1), (2, 1)]

    def test_a_rank_that_lived_between_two_of_another_is_kept(self, tmp_path: Path, sidecar: bool) -> None:
        job(tmp_path, {0: 1}, 0, 10, sidecar=sidecar)
        job(tmp_path, {1: 1}, 12, 15, sidecar=sidecar)
        job(tmp_path, {0: 2}, 20, 30, sidecar=sidecar)
        assert read_files(tmp_path)[0] == [(0, 2), (1, 1)]


def test_rows_younger_than_a_stale_sidecar_count(tmp_path: Path) -> None:
    job(tmp_path, {0: 1}, 0, 10, sidecar=True)
    job(tmp_path, {0: 2}, 20, 50, sidecar=True)
    alive = write_timing_file(tmp_path, 1, [record(start_s=0), record(start_s=30)])
    write_sidecar(alive, start_s=0, end_s=12, closed=False)
    assert read_files(tmp_path)[0] == [(0, 2), (1, 1)]


def test_files_left_out_are_reported(tmp_path: Path) -> None:
    job(tmp_path, {0: 1}, 0, 10, sidecar=False)
    job(tmp_path, {0: 2}, 20, 30, sidecar=False)
    with pytest.warns(
        UserWarning, match=r"timing-rank0\.csv: left out, timing-rank0\.run2\.csv of the same rank"
    ):
        read_timings(tmp_path)


def test_another_word_for_incarnations_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigurationError, match="incarnations='newest': say 'latest', 'all' or the number of a run"
    ):
        read_timings(tmp_path, incarnations="newest")  # type: ignore[call-overload,arg-type,unused-ignore]


def test_the_alphabet_of_names_survives(tmp_path: Path) -> None:
    every = [record(layer_name=character) for character in string.printable]
    write_timing_file(tmp_path, 0, every)
    assert read_timings(tmp_path)["layer_name"].tolist() == list(string.printable)


# -- what a folder may hold --------------------------------------------------------------------------------


def make_fifo(path: Path) -> None:
    os.mkfifo(path)


def make_endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("make", [make_fifo, slow(make_endless, "another that is no regular file")])
def test_a_sidecar_that_can_be_none_is_as_good_as_none(make: Callable[[Path], None], tmp_path: Path) -> None:
    path = write_timing_file(tmp_path, 0, [record()])
    make(sidecar_path(path))
    assert read_timings(tmp_path).attrs["files"][0]["sidecar"] is None


@pytest.mark.slow("reading passes it over, which is quick")
def test_whoever_watches_passes_over_a_sidecar_that_can_be_none(tmp_path: Path) -> None:
    make_fifo(sidecar_path(write_timing_file(tmp_path, 0, [record()])))
    assert len(Watcher(tmp_path).snapshot().ranks) == 1


@pytest.mark.parametrize("read", [read_timings, lambda folder: Watcher(folder).snapshot()])
def test_what_is_called_like_a_timing_file_and_is_none_is_an_error_that_names_it(
    read: Callable[[Path], object], tmp_path: Path
) -> None:
    path = tmp_path / "timing-rank0.csv"
    os.mkfifo(path)
    with pytest.raises(NotATimingFileError, match="is not a regular file"):
        read(tmp_path)
    path.unlink()
    path.write_text("a,b\n1,2\n")
    with pytest.raises(NotATimingFileError, match="is not a timing file"):
        read(tmp_path)


def test_a_rank_that_no_job_can_have_is_none(tmp_path: Path) -> None:
    write_timing_file(tmp_path, 0, [record()]).rename(tmp_path / f"timing-rank{10**20}.csv")
    with pytest.raises(NoTimingFilesError):
        read_timings(tmp_path)


@pytest.mark.parametrize(("written", "closed"), [(3, True), (3, False), (1, True)])
def test_rows_that_a_logger_wrote_and_are_not_there_are_warned_of(
    written: int, closed: bool, tmp_path: Path
) -> None:
    path = write_timing_file(tmp_path, 0, [record(), record()])
    write_sidecar(path, closed=closed, counters=Counters(written, written, 0, 0))
    with pytest.warns(UserWarning, match=f"its logger wrote {written} rows, and 2 are there"):
        read_timings(tmp_path)


def test_a_sidecar_that_is_behind_its_growing_file_is_not_warned_of(tmp_path: Path) -> None:
    path = write_timing_file(tmp_path, 0, [record(), record()])
    write_sidecar(path, closed=False, counters=Counters(1, 1, 0, 0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_timings(tmp_path)
