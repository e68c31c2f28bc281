"""pyarrow reads what the parser reads: the same rows, counts and meaning, in less memory."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slow import examples, slow
from timing_files import content, earlier_content, record, write_sidecar, write_timing_file

from timing_logger import read_timings
from timing_logger.errors import ConfigurationError, NotATimingFileError
from timing_logger.reading import sources
from timing_logger.reading.plain_files import parse_plain_file
from timing_logger.schema.record import COLUMNS, EARLIER_COLUMNS, FIELDS, HEADER, Record

pytest.importorskip("pyarrow", reason="pyarrow is not installed (pip install 'timing_logger[large]')")

GOOD = content([record()]).partition(b"\n")[2]
POISON = [
    "a,b",
    'a"b',
    '"',
    " ",
    ' "x" ',
    "a\nb",
    "\x00",
    "\x1f",
    "\ud800",
    "\u2028",
    "=cmd",
    "\\u000a",
    "'",
    "ä…😀",
    "NA",
]


def read(path: Path, **options: Any) -> pd.DataFrame:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return read_timings(path, **options)


def as_text(table: pd.DataFrame) -> pd.DataFrame:
    """The table with its categoricals as the texts that they stand for."""
    coded = [name for name in table if isinstance(table[name].dtype, pd.CategoricalDtype)]
    return table.astype(dict.fromkeys(coded, "str"))


def assert_engines_agree(path: Path, **options: Any) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return what each of them reads, which is the same."""
    by_pandas, by_pyarrow = (read(path, engine=engine, **options) for engine in ("pandas", "pyarrow"))
    pd.testing.assert_frame_equal(as_text(by_pyarrow), as_text(by_pandas))
    assert by_pyarrow.attrs.pop("engine") == "pyarrow"
    assert by_pandas.attrs.pop("engine") == "pandas"
    assert by_pyarrow.attrs == by_pandas.attrs
    return by_pandas, by_pyarrow


def assert_read_alike(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "timing-rank0.csv")
        path.write_bytes(data)
        assert_engines_agree(path)


# -- the engines agree -----------------------------------------------------------------------------

names = st.text(max_size=12) | st.sampled_from(POISON)
integers = st.none() | st.integers(-(2**63) + 1, 2**63 - 1) | st.integers(0, 9)
intervals = st.tuples(st.integers(0, 2**50), st.none() | st.integers(0, 2**50))
OF_KIND = {
    "text": names,
    "integer": integers,
    "amount": st.none() | st.integers(0, 2**63) | st.floats(0, allow_nan=False, allow_infinity=False),
}
records = st.builds(
    lambda interval, **fields: Record(
        start_ns=interval[0], end_ns=None if interval[1] is None else sum(interval), **fields
    ),
    intervals,
    **{field.name: OF_KIND[field.kind] for field in FIELDS if field.kind in OF_KIND},
)


@given(st.lists(records, max_size=6))
@settings(deadline=None, max_examples=examples(40, few=1))
def test_both_engines_read_the_same_of_what_was_written(batch: list[Record]) -> None:
    assert_read_alike(content(batch))


CELLS = st.sampled_from(
    [b"", b"1", b"-1", b"3.0", b"3.7", b"1e3", b" 4", b"1_000", b"0x1F", b"inf", b"nan", b"-", b"9" * 30,
     b"1.5", b"2026-02-28", b"2026-02-28T23:59:59.000000", b"2026-02-31T00:00:00.000000",
     b"2026-02-28T24:00:00.000000", b"x", b'"x"', b' "x"', b'"x" ', b'x"y', b'"x"y', b'"', b'""', b"\x1f",
     b"\xff", b"\r", b"\0", b",", b"\n"]
)  # fmt: skip


@given(
    st.lists(st.tuples(st.integers(0, len(COLUMNS) - 1), CELLS), max_size=3),
    st.sampled_from([b"\n", b"\r\n", b""]),
    st.sampled_from([COLUMNS, *EARLIER_COLUMNS]),
)
@settings(deadline=None, max_examples=examples(40, few=1))
def test_both_engines_read_the_same_of_a_line_with_odd_cells(
    odd: Sequence[tuple[int, bytes]], end: bytes, columns: Sequence[str]
) -> None:
    assert_odd_line_is_read_alike(odd, end, columns)


AS_OF_ANOTHER = pytest.mark.slow("another cell of the same kind is quick, or other columns")


@pytest.mark.parametrize(
    ("place", "cell", "columns"),
    [
        (16, b",", EARLIER_COLUMNS[0]),
        (17, b'"', COLUMNS),
        (17, b"cuda:0/7,", COLUMNS),
        pytest.param(16, b",", COLUMNS, marks=AS_OF_ANOTHER),
        pytest.param(16, b"", COLUMNS, marks=AS_OF_ANOTHER),
        pytest.param(16, b"", EARLIER_COLUMNS[0], marks=AS_OF_ANOTHER),
        pytest.param(16, b'"', EARLIER_COLUMNS[0], marks=AS_OF_ANOTHER),
        pytest.param(17, b",", COLUMNS, marks=AS_OF_ANOTHER),
        pytest.param(17, b"cuda:0/7", COLUMNS, marks=AS_OF_ANOTHER),
        pytest.param(0, b"-1", COLUMNS, marks=AS_OF_ANOTHER),
    ],
)
def test_both_engines_read_the_same_of_a_cell_that_is_easily_read_in_two_ways(
    place: int, cell: bytes, columns: Sequence[str]
) -> None:
    assert_odd_line_is_read_alike([(place, cell)], b"\n", columns)


def assert_odd_line_is_read_alike(
    odd: Sequence[tuple[int, bytes]], end: bytes, columns: Sequence[str]
) -> None:
    good = GOOD.rstrip(b"\n").split(b",")[: len(columns)]
    cells = good.copy()
    for place, cell in odd:
        cells[min(place, len(cells) - 1)] = cell
    header = ",".join(columns).encode()
    assert_read_alike(b"\n".join([header, b",".join(good), b",".join(cells)]) + end)


@given(
    st.lists(st.sampled_from([GOOD, b"\n", b'"', b",", b"\0", b"\r", b"\xff", b"1", GOOD[:60]]), max_size=8)
)
@settings(deadline=None, max_examples=examples(40, few=1))
def test_both_engines_read_the_same_of_a_damaged_file(pieces: list[bytes]) -> None:
    assert_read_alike(HEADER.encode() + b"".join(pieces))


@pytest.mark.parametrize(
    "choice",
    [
        {"incarnations": "all"},
        slow({}, "the newest of all are chosen before a file is read"),
        slow({"columns": ["operation", "seq", "end_s"]}, "a column of another folder is read below"),
    ],
    ids="/".join,
)
def test_both_engines_read_the_same_folder(tmp_path: Path, choice: dict[str, Any]) -> None:
    for rank, names in enumerate((["FORWARD", "ALLREDUCE"], ["SEND"], [])):
        path = write_timing_file(tmp_path, rank, [record(name, peer=rank) for name in names])
        write_sidecar(path)
    old = write_timing_file(tmp_path, 1, [record("OLD")])
    old.rename(tmp_path / "timing-rank1.csv")
    write_timing_file(tmp_path, 1, [record("NEW")], incarnation=2)
    (tmp_path / "timing-rank3.csv").write_bytes(HEADER.encode() + GOOD + b"bad\n" + GOOD[:50])
    assert_engines_agree(tmp_path, **choice)


def test_a_file_of_another_kind_is_refused_by_either_engine(tmp_path: Path) -> None:
    path = tmp_path / "timing-rank0.csv"
    path.write_bytes(b"a,b\n1,2\n")
    for engine in ("pandas", "pyarrow"):
        with pytest.raises(NotATimingFileError, match="is not a timing file"):
            read_timings(path, engine=engine)


# -- how --------------------------------------------------------------------------------------------


def test_a_plain_file_is_left_to_pyarrow_and_another_to_the_parser(tmp_path: Path) -> None:
    plain, torn = tmp_path / "plain.csv", tmp_path / "torn.csv"
    plain.write_bytes(content([record(layer_name=name) for name in POISON if name not in (' "x" ', "\x1f")]))
    torn.write_bytes(HEADER.encode() + GOOD + GOOD[:50])
    parsed = parse_plain_file(plain, COLUMNS)
    assert parsed is not None
    assert len(parsed.frame) == len(POISON) - 2
    assert parse_plain_file(torn, COLUMNS) is None


@pytest.mark.parametrize(
    ("cell", "is_plain"),
    [
        (b"0x1F", False),
        (b"0X1F", False),
        (b"-0x1F", False),
        (b" 0x1F", False),
        (b"max", True),
        (b"FX", True),
        (b"a0x1F", True),
        (b"31", True),
    ],
)
def test_a_cell_that_begins_like_a_hexadecimal_number_is_left_to_the_parser(
    tmp_path: Path, cell: bytes, is_plain: bool
) -> None:
    path = tmp_path / "timing-rank0.csv"
    path.write_bytes(HEADER.encode() + GOOD + GOOD.replace(b"layer1", cell))
    assert (parse_plain_file(path, COLUMNS) is not None) is is_plain


def test_files_of_all_versions_are_read_in_one_folder(tmp_path: Path) -> None:
    for rank, columns in enumerate([*EARLIER_COLUMNS, COLUMNS]):
        lines = earlier_content([record(), record(start_s=2)], columns)
        (tmp_path / f"timing-rank{rank}.csv").write_bytes(lines)
    write_timing_file(tmp_path, len(EARLIER_COLUMNS) + 1, [record(work=4096), record(start_s=2, work=0.5)])
    for table in assert_engines_agree(tmp_path):
        found = table["work"]
        assert found.dtype == "float64"
        assert found.dropna().tolist() == [4096, 0.5]
        assert len(found) == 2 * (len(EARLIER_COLUMNS) + 2)


def test_a_plain_file_of_an_earlier_version_is_plain(tmp_path: Path) -> None:
    path = tmp_path / "timing-rank0.csv"
    path.write_bytes(earlier_content([record(status="ok"), record(status="unresolved", layer_name="ä")]))
    parsed = parse_plain_file(path, COLUMNS)
    assert parsed is not None
    assert parsed.frame["stream"].tolist() == ["", ""]
    assert list(parsed.frame) == list(COLUMNS)
    assert_engines_agree(path)


def test_files_with_and_without_streams_are_one_table_by_either_engine(tmp_path: Path) -> None:
    write_timing_file(tmp_path, 0, [record(clock="device", stream="cuda:0/7"), record()])
    (tmp_path / "timing-rank1.csv").write_bytes(earlier_content([record()]))
    assert_engines_agree(tmp_path)
    assert_engines_agree(tmp_path, columns=["stream"])


def test_many_blocks_are_one_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("timing_logger.reading.plain_files._BLOCK_BYTES", 2**14)
    path = tmp_path / "timing-rank0.csv"
    path.write_bytes(
        content([record(f"OP{i % 7}", layer_name=f"layer{i // 400}", seq=i) for i in range(1200)])
    )
    assert parse_plain_file(path, COLUMNS) is not None
    assert_engines_agree(path)


def test_text_comes_as_categoricals(tmp_path: Path) -> None:
    write_timing_file(tmp_path, 0, [record("B"), record("A")])
    write_timing_file(tmp_path, 1, [record("C")])
    operations = read_timings(tmp_path, engine="pyarrow")["operation"]
    assert operations.cat.categories.tolist() == ["A", "B", "C"]
    assert operations.tolist() == ["B", "A", "C"]


def test_a_name_with_wildcards_is_one_file(tmp_path: Path) -> None:
    for folder in ("run[12]*", "run1", "run2"):
        write_timing_file(tmp_path / folder, 0, [record(folder)])
    path = tmp_path / "run[12]*" / "timing-rank0.csv"
    assert parse_plain_file(path, COLUMNS) is not None
    assert read_timings(path, engine="pyarrow")["operation"].tolist() == ["RUN[12]*"]


# -- which --------------------------------------------------------------------------------------------


def test_the_size_of_all_files_chooses_the_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    n_bytes = sum(write_timing_file(tmp_path, rank, [record()]).stat().st_size for rank in range(2))
    monkeypatch.setattr(sources, "LARGE_BYTES", n_bytes)
    assert read_timings(tmp_path).attrs["engine"] == "pandas"
    monkeypatch.setattr(sources, "LARGE_BYTES", n_bytes - 1)
    assert read_timings(tmp_path).attrs["engine"] == "pyarrow"


def test_large_files_without_pyarrow_are_read_by_pandas_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_timing_file(tmp_path, 0, [record()])
    monkeypatch.setattr(sources, "LARGE_BYTES", 0)
    monkeypatch.setattr(sources, "has_pyarrow", lambda: False)
    with pytest.warns(UserWarning, match=r"timing_logger\[large\]"):
        assert read_timings(tmp_path).attrs["engine"] == "pandas"
    with pytest.raises(ConfigurationError, match=r"timing_logger\[large\]"):
        read_timings(tmp_path, engine="pyarrow")


def test_unknown_engines_and_columns_are_refused(tmp_path: Path) -> None:
    write_timing_file(tmp_path, 0, [record()])
    with pytest.raises(ConfigurationError, match="engine='spark': say 'auto', 'pandas' or 'pyarrow'"):
        read_timings(tmp_path, engine="spark")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="columns: there is no 'duration'"):
        read_timings(tmp_path, columns=["duration"])


@pytest.mark.parametrize("engine", ["pandas", "pyarrow"])
def test_only_the_columns_asked_for_come(tmp_path: Path, engine: Any) -> None:
    write_timing_file(tmp_path, 3, [record()])
    table = read_timings(tmp_path, engine=engine, columns=["operation", "start_s"])
    assert list(table.columns) == ["operation", "rank", "incarnation", "start_s"]
