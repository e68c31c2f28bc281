"""A file read by itself: the columns asked for, no row that a later one replaces, and what is known of it."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pandas as pd
import pytest
from timing_files import content, record

from timing_logger.errors import ConfigurationError, NotATimingFileError
from timing_logger.reading import sources
from timing_logger.reading.content import Content
from timing_logger.reading.csv_lines import Parsed
from timing_logger.reading.sources import Engine, Source, chosen_engine
from timing_logger.schema.timing_files import TimingFile

OPEN = record("ALLREDUCE", 5.0, None, seq=7, status="inflight")
ENDED = record("ALLREDUCE", 5.0, 2.0, seq=7)


def source_of(path: Path, *rows: Any, engine: Engine = "pandas") -> Source:
    """Return a file with these rows, of which only the operation is asked for."""
    path.write_bytes(content(rows))
    return Source([path], TimingFile(0), engine, ["operation"])


@pytest.mark.parametrize("engine", get_args(Engine))
def test_an_open_call_that_ended_is_dropped_where_few_columns_are_asked_for(
    tmp_path: Path, engine: Engine
) -> None:
    parsed = source_of(tmp_path / "timing-rank0.csv", record(), OPEN, ENDED, engine=engine).parsed
    assert (len(parsed.frame), parsed.content.n_rows, parsed.content.replaced) == (2, 2, 1)
    assert list(parsed.frame) == ["timestamp", "operation", "start_counter", "end_counter"]


def test_a_file_without_open_calls_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[bytes] = []
    by_lines = sources.parse_timings

    def noted(data: bytes) -> Parsed:
        read.append(data)
        return by_lines(data)

    monkeypatch.setattr(sources, "parse_timings", noted)
    source = source_of(tmp_path / "timing-rank0.csv", record(), ENDED)
    assert (len(source.parsed.frame), len(read)) == (2, 1)


@pytest.mark.parametrize("engine", get_args(Engine))
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_regular_file_is_refused_and_not_waited_for(
    tmp_path: Path, engine: Engine, make: Callable[[Path], None]
) -> None:
    path = tmp_path / "timing-rank0.csv"
    make(path)
    with pytest.raises(NotATimingFileError, match=r"^paths: .*rank0\.csv' is not a regular file"):
        _ = Source([path], TimingFile(0), engine).parsed


@pytest.mark.parametrize(
    ("n_bytes", "large_bytes", "engine"),
    [
        (sources.LARGE_BYTES, None, "pandas"), (sources.LARGE_BYTES + 1, None, "pyarrow"),
        (7, 7, "pandas"), (8, 7, "pyarrow"),
    ],
)  # fmt: skip
def test_pyarrow_reads_what_is_larger_than_small_unless_another_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, n_bytes: int, large_bytes: int | None, engine: Engine
) -> None:
    monkeypatch.setattr(sources, "has_pyarrow", lambda: True)
    assert chosen_engine("auto", n_bytes, large_bytes) == engine
    assert [chosen_engine(stated, n_bytes, large_bytes) for stated in ("pandas", "pyarrow")] == [
        "pandas", "pyarrow",
    ]  # fmt: skip


def test_without_pyarrow_it_is_said_of_large_files_only_and_refused_where_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sources, "has_pyarrow", lambda: False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert chosen_engine("auto", sources.LARGE_BYTES, 7) == "pandas"
    with pytest.warns(UserWarning, match="are read by pandas, which takes long"):
        assert chosen_engine("auto", sources.LARGE_BYTES + 1, 7) == "pandas"
    with pytest.raises(ConfigurationError, match="pyarrow is not installed"):
        chosen_engine("pyarrow", 1)


def lifetime(instants_us: list[int], **sidecar: Any) -> tuple[int, int] | None:
    """Return the time of a process whose rows have these instants; None if it is not known."""
    source = Source([Path("timing-rank0.csv")], TimingFile(0), final_sidecar=sidecar or {"rank": 0})
    return source.lifetime_with(instants_us)


@pytest.mark.parametrize(
    ("instants_us", "sidecar", "known"),
    [
        ([], {}, None),
        ([2, 3], {}, (2000, 3000)),
        ([2, 3], {"started_unix_ns": 2500, "updated_unix_ns": 2700}, (2500, 3000)),
        ([2, 3], {"started_unix_ns": 5, "updated_unix_ns": 9000}, (5, 9000)),
        ([], {"started_unix_ns": 5}, (5, 5)),
        ([2, 3], {"updated_unix_ns": 9000}, (2000, 9000)),
    ],
)
def test_a_process_lived_from_its_start_by_the_sidecar_until_the_last_sign_of_it(
    instants_us: list[int], sidecar: dict[str, int], known: tuple[int, int] | None
) -> None:
    assert lifetime(instants_us, **sidecar) == known


def test_a_sidecar_that_nobody_changes_any_more_is_not_read_again(tmp_path: Path) -> None:
    final = {"closed": True}
    assert Source([tmp_path / "gone"], TimingFile(0), final_sidecar=final).sidecar is final
    assert Source([tmp_path / "gone"], TimingFile(0)).sidecar is None


def test_rows_may_be_forgotten_before_they_were_read() -> None:
    Source([Path("gone")], TimingFile(0)).forget_rows()


def test_of_parts_the_headers_are_counted_on_and_a_few_damaged_lines_shown() -> None:
    frame = pd.DataFrame({"operation": ["A", "B"]})
    most = sources.MAX_EXAMPLES
    contents = [Content(2, 10, cut, most, ["bad"] * most, headers=[1]) for cut in ("torn", "", "too")]
    parts = [Parsed(frame, content) for content in contents]
    found = sources._as_one([Path(name) for name in "abc"], parts, ["operation"])
    assert found.frame["operation"].tolist() == ["A", "B"] * 3
    assert found.content.headers == [1, 3, 5]
    assert (found.content.cut, found.content.bad_lines) == ("torn\ntoo", 3 * most)
    assert found.content.bad_examples == ["bad"] * most
