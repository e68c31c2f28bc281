"""What is read of many files together is what is read of them one by one, whatever state they are in."""

from __future__ import annotations

import itertools
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slow import examples, slow
from timing_files import content, earlier_content, record, write_sidecar

from timing_logger import read_timings
from timing_logger.errors import NotATimingFileError
from timing_logger.reading import batches
from timing_logger.reading.batches import batches_of, read_batch
from timing_logger.reading.converting import convert
from timing_logger.reading.timings import timing_files
from timing_logger.schema.record import COLUMNS, INFLIGHT
from timing_logger.schema.timing_files import TimingFile

ENGINES = ["pandas"]
try:
    import pyarrow  # type: ignore[import-untyped]  # noqa: F401

    ENGINES.append("pyarrow")
except ModuleNotFoundError:
    pass


def rows(rank: int, n: int = 6, **fields: Any) -> list[Any]:
    return [
        record(("FORWARD", "ALLREDUCE")[i % 2], 1 + rank / 8 + i / 4, 3.5 + i, iteration=i // 2, seq=i,
               group=f"g{i % 3}", layer_name=f"layer{rank + i}", **fields)
        for i in range(n)
    ]  # fmt: skip


def sound(rank: int) -> bytes:
    return content(rows(rank))


def of_line(change: Callable[[bytes], bytes], line: int = 3) -> Callable[[int], bytes]:
    """Return what makes a file of which one line is changed; line 0 is the header."""

    def changed(rank: int) -> bytes:
        lines = sound(rank).split(b"\n")
        lines[line] = change(lines[line])
        return b"\n".join(lines)

    return changed


def of_cell(place: str, cell: bytes, line: int = 3) -> Callable[[int], bytes]:
    def changed(text: bytes) -> bytes:
        cells = text.split(b",")
        cells[COLUMNS.index(place)] = cell
        return b",".join(cells)

    return of_line(changed, line)


def of_words_for_missing(rank: int) -> bytes:
    """A file in which NA stands for a number, and so also for a name."""
    lines = of_cell("elapsed_ms", b"NA")(rank).split(b"\n")
    lines[4] = lines[4].replace(b"layer%d" % (rank + 3), b"NA")
    return b"\n".join(lines)


def bare(rank: int) -> bytes:
    lines = [line.split(b",")[:10] for line in sound(rank).splitlines()]
    return b"".join([b",".join(line) + b"\n" for line in lines])


def in_another_order(rank: int) -> bytes:
    lines = [line.split(b",") for line in sound(rank).splitlines()]
    return b"".join([b",".join(line[::-1]) + b"\n" for line in lines])


def with_open_calls(rank: int) -> bytes:
    one, other = (record("BARRIER", start_s, None, status=INFLIGHT) for start_s in (0.5, 0.75))
    ended = one._replace(end_ns=one.start_ns + 10**6, status="ok")
    return content([one, *rows(rank), ended, other])


def two_processes(rank: int) -> bytes:
    return content(rows(rank)) + b"".join(content(rows(rank)).splitlines(keepends=True)[1:])


SOUND: dict[str, Callable[[int], bytes]] = {
    "sound": sound,
    "no rows": lambda rank: content([]),
    "of an earlier version": lambda rank: earlier_content(rows(rank)),
    "quoted text": lambda rank: content(rows(rank, thread='a "b", c')),
    "text beyond ASCII": lambda rank: content(rows(rank, thread="ä…😀")),
    "cut last line": lambda rank: sound(rank)[:-9],
    "open calls": with_open_calls,
    "number too large to be exact": of_cell("message_size_bytes", b"9007199254740993"),
    "numbers that occur twice": two_processes,
}

DAMAGED: dict[str, Callable[[int], bytes]] = {
    "empty": lambda rank: b"",
    "torn header": lambda rank: sound(rank)[:40],
    "ten columns": bare,
    "columns in another order": in_another_order,
    "byte order mark": lambda rank: b"\xef\xbb\xbf" + sound(rank),
    "CRLF": lambda rank: sound(rank).replace(b"\n", b"\r\n"),
    "NUL bytes for a line": of_line(lambda line: b"\0" * len(line)),
    "NUL bytes at the end": lambda rank: sound(rank) + b"\0" * 64,
    "short line": of_line(lambda line: b",".join(line.split(b",")[:9])),
    "long line": of_line(lambda line: line + b",x"),
    "two lines in one": of_line(lambda line: line + line),
    "blank line": of_line(lambda line: b""),
    "no number": of_cell("elapsed_ms", b"12/3"),
    "infinite": of_cell("elapsed_ms", b"inf"),
    "hexadecimal": of_cell("iteration", b"0x1F"),
    "integer saved as a float": of_cell("iteration", b"3.0"),
    "integer beyond 64 bits": of_cell("seq", b"9223372036854775808"),
    "word for what is missing": of_cell("elapsed_ms", b"NA"),
    "name that is such a word": of_cell("layer_name", b"NA"),
    "both in one file": of_words_for_missing,
    "no UTF-8": of_cell("layer_name", b"\xff\xfe"),
    "quote that opens": of_cell("thread", b'"x'),
    "quote that opens at the end": of_cell("stream", b'"', line=6),
    "quote inside": of_cell("layer_name", b'a"b'),
    "quoted line end": of_cell("layer_name", b'"a\nb"'),
    "no instant": of_cell("timestamp", b"2026-13-45"),
    "instant long ago": of_cell("timestamp", b"0999-01-01"),
    "second header": lambda rank: sound(rank) + sound(rank),
}

KINDS = {**SOUND, **DAMAGED}


def write(folder: Path, kinds: list[str], *, later: bool = False) -> None:
    """Write a file of each kind; with ``later``, some are restarts, or parts of a file."""
    for place, kind in enumerate(kinds):
        name = TimingFile(place)
        if later and place % 3 == 1:
            name = TimingFile(place - 1, incarnation=2)
        if later and place % 3 == 2:
            name = TimingFile(place - 2, part=2)
        path = folder / name.name
        path.write_bytes(KINDS[kind](place))
        if place % 2 and name.part == 1:
            write_sidecar(path)


def read(folder: Path, **options: Any) -> tuple[pd.DataFrame, list[str]]:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        timings = read_timings(folder, **options)
    return timings, [str(one.message) for one in said]


def assert_read_alike(folder: Path, engine: str, **options: Any) -> None:
    together, said = read(folder, engine=engine, **options)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(batches, "MOST_JOINED_BYTES", -1)
        one_by_one, said_then = read(folder, engine=engine, **options)
    pd.testing.assert_frame_equal(together, one_by_one, check_exact=True)
    assert together.attrs == one_by_one.attrs
    assert said == said_then


FEW_KINDS = [
    "cut last line", "open calls", "empty", "columns in another order", "short line",
    "word for what is missing", "quote that opens",
]  # fmt: skip
"""One of each way in which a file is left to another parser than the others."""


def test_odd_files_of_some_kinds_among_sound_ones_are_read_as_if_alone(tmp_path: Path) -> None:
    write(tmp_path, ["sound", *FEW_KINDS[:4], "sound", *FEW_KINDS[4:]])
    assert_read_alike(tmp_path, "pandas")


@pytest.mark.slow("some kinds are quick; to read all of them one by one takes long")
@pytest.mark.parametrize("engine", ENGINES)
def test_odd_files_of_all_kinds_among_sound_ones_are_read_as_if_alone(tmp_path: Path, engine: str) -> None:
    """Every third one is followed by a sound one."""
    write(tmp_path, [each for i, kind in enumerate(KINDS) for each in (kind, "sound")[: 1 + (i % 3 == 2)]])
    assert_read_alike(tmp_path, engine)


ALL_AT_ONCE = pytest.mark.slow("some kinds are tried in one folder")
QUICK = [("word for what is missing", "pyarrow")]
ONE_AMONG_MANY = [
    pytest.param(*each, marks=[] if each in QUICK else [ALL_AT_ONCE])
    for each in itertools.product(KINDS, ENGINES)
]


@pytest.mark.parametrize(
    "columns",
    [None, slow(["operation", "seq", "end_s"], "columns are chosen at random in the test that follows")],
    ids=["all", "some"],
)
@pytest.mark.parametrize(("kind", "engine"), ONE_AMONG_MANY)
def test_one_odd_file_among_many_is_read_as_if_alone(
    tmp_path: Path, kind: str, engine: str, columns: list[str] | None
) -> None:
    write(tmp_path, ["sound", "sound", kind, "sound"])
    assert_read_alike(tmp_path, engine, columns=columns)


@given(
    st.lists(st.sampled_from(["sound", *KINDS]), min_size=1, max_size=5),
    st.booleans(),
    st.sampled_from(ENGINES),
    st.sampled_from([None, ["elapsed_ms"], ["layer_name", "clock_uncertainty_s"]]),
)
@settings(deadline=None, max_examples=examples(60, few=2))
def test_files_in_any_state_are_read_as_one_by_one(
    kinds: list[str], later: bool, engine: str, columns: list[str] | None
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), kinds, later=later)
        assert_read_alike(Path(folder), engine, incarnations="all", columns=columns)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_file_that_is_none_is_named_among_many(tmp_path: Path, engine: Any) -> None:
    write(tmp_path, ["sound", "sound", "sound"])
    (tmp_path / "timing-rank1.csv").write_bytes(b"a,b\n1,2\n")
    with pytest.raises(NotATimingFileError, match=r"timing-rank1\.csv' is not a timing file"):
        read_timings(tmp_path, engine=engine)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "kind",
    [
        "sound",
        "open calls",
        *(slow(kind, "as of others") for kind in ("of an earlier version", "cut last line")),
    ],
)
def test_sound_files_are_parsed_together(
    tmp_path: Path, kind: str, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, [kind] * 4)
    monkeypatch.setattr(batches, "_alone", None)
    timings, _ = read(tmp_path, engine=engine)
    assert timings["rank"].nunique() == 4


@pytest.mark.parametrize("engine", ["pandas", *(slow(engine, "as of pandas") for engine in ENGINES[1:])])
def test_only_the_damaged_file_is_read_by_itself(
    tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, ["sound", "sound", "sound", "short line", "sound", "sound", "sound"])
    alone, ranks = batches._alone, []
    monkeypatch.setattr(batches, "_alone", lambda source: ranks.append(source.name.rank) or alone(source))
    read(tmp_path, engine=engine)
    assert ranks == [3]


@pytest.mark.skipif("pyarrow" not in ENGINES, reason="pyarrow is not installed")
@pytest.mark.parametrize("engine", [slow("pandas", "Parquet is read by pyarrow anyway"), "pyarrow"])
def test_parquet_files_are_read_among_others(tmp_path: Path, engine: str) -> None:
    (tmp_path / "csv").mkdir()
    write(tmp_path / "csv", ["sound", "no rows", "sound", "open calls"])
    convert([tmp_path / "csv" / TimingFile(rank).name for rank in (1, 3)], "parquet", tmp_path / "some")
    mixed = [
        tmp_path / "csv" / "timing-rank0.csv",
        tmp_path / "some" / "timing-rank1.parquet",
        tmp_path / "csv" / "timing-rank2.csv",
        tmp_path / "some" / "timing-rank3.parquet",
    ]
    assert_read_alike(mixed, engine)  # type: ignore[arg-type]


def test_batches_hold_whole_files_up_to_a_size(tmp_path: Path) -> None:
    write(tmp_path, ["sound"] * 5)
    (tmp_path / TimingFile(5).name).write_bytes(content(rows(5, n=60)))
    found = timing_files(tmp_path).aligned
    n_bytes = 2 * found[0][0].n_bytes + 9
    batches = batches_of(found, n_bytes)
    assert [[source.name.rank for source, _ in batch] for batch in batches] == [[0, 1], [2, 3], [4], [5]]
    read = [read_batch(batch) for batch in batches]
    assert [len(batch.columns["rank"]) for batch in read] == [12, 12, 6, 60]
