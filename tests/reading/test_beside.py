"""What lines of a file beside a timing file become, and what is said of those that are none."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from timing_logger.errors import NotATimingFileError
from timing_logger.reading import beside
from timing_logger.reading.beside import KindOfTable
from timing_logger.schema.timing_files import HOST, TimingFile


def parsed(lines: list[bytes], names: list[str]) -> pd.DataFrame:
    cells = [line.decode().split(",") for line in lines]
    return pd.DataFrame({"at": [float(one[0]) for one in cells], "what": [one[1] for one in cells]})


KIND = KindOfTable(
    HOST, "plain lines", ("at", "what"), parsed, lambda line, n: line.count(b",") == n - 1, {"at_s": "at"},
    lambda sidecar: {},
)  # fmt: skip
PATH = Path("host-rank0.csv")


@pytest.mark.parametrize(
    ("data", "rows", "cut", "bad"),
    [
        (b"", [], "", []),
        (b"at,wh", [], "at,wh", []),
        (b"at,what\n", [], "", []),
        (b"at,what\n1,a\n", ["a"], "", []),
        (b"at,what\n1,a\n2,", ["a"], "2,", []),
        (b"at,what\r\n1,a\r\n2,b\r\n", ["a", "b"], "", []),
        (b"at,what\n1,a\nno\n2,b\n\xff\xfe", ["a", "b"], r"\xff\xfe", [b"no"]),
    ],
)
def test_whole_lines_are_rows_or_damaged_and_what_follows_them_is_cut(
    data: bytes, rows: list[str], cut: str, bad: list[bytes]
) -> None:
    found = KIND.lines(PATH, data)
    assert (found.rows["what"].tolist(), found.cut, found.bad) == (rows, cut, bad)


def test_another_header_is_refused_with_its_beginning() -> None:
    with pytest.raises(NotATimingFileError) as error:
        KIND.lines(PATH, b"what,at" + b"x" * 500 + b"\n1,a\n")
    said = str(error.value)
    assert said.startswith(
        "paths: 'host-rank0.csv' holds no plain lines. Looked for a first line that begins"
    )
    shown = ("what,at" + "x" * 500)[: beside.MAX_EXAMPLE_CHARS]
    assert said.endswith(f"with 'at,what'; found {shown!r}.")


def test_a_fifo_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / PATH)
    with pytest.raises(NotATimingFileError, match="is not a regular file"):
        KIND._file(tmp_path / PATH)


def source(folder: Path, name: str = "timing-rank3.csv", **sidecar: Any) -> Any:
    """Return a timing file of rank 3, as it was found."""
    stated = {"parts": [{"path": str(folder / name)}]}
    return SimpleNamespace(
        name=TimingFile(3, 2), path=folder / name, sidecar=sidecar or None, stated=lambda: stated
    )


def test_of_damaged_lines_all_are_counted_and_a_few_shown_shortened() -> None:
    n, width = beside.MAX_EXAMPLES + 1, beside.MAX_EXAMPLE_CHARS
    data = b"at,what\n" + b"".join(b"%d" % i + b"x" * (width + 5) + b"\n" for i in range(n))
    told = KIND._told(source(Path("logs")), [PATH], [KIND.lines(PATH, data)])
    assert told["bad_lines"] == n
    assert told["bad_examples"] == [f"{i}{'x' * (width - 1)}" for i in range(n - 1)]


def test_what_was_cut_of_each_part_is_told() -> None:
    read = [KIND.lines(PATH, b"at,what\n1,a\n" + cut) for cut in (b"2", b"", b"3")]
    told = KIND._told(source(Path("logs")), [PATH, PATH, PATH], read)
    assert (told["rank"], told["incarnation"], told["rows"], told["cut"]) == (3, 2, 3, "2\n3")
    assert told["parts"] == [{"path": "host-rank0.csv"}] * 3


def test_files_beside_are_found_by_their_parts_in_order(tmp_path: Path) -> None:
    names = [f"host-rank3{part}.csv" for part in ("", ".part2", ".part10")]
    for name in (*names[::-1], "host-rank4.csv", "host-rank3.run2.csv", "host-rankx.csv"):
        (tmp_path / name).write_text("")
    files = beside._Beside(HOST)
    assert [path.name for path in files.of(source(tmp_path))] == names
    (tmp_path / names[0]).unlink()  # a folder is listed once
    assert len(files.of(source(tmp_path))) == 3
    assert files.of(source(tmp_path, "timing-rank7.csv")) == []
    assert files.of(source(tmp_path, "another name.csv")) == []


# -- when it was by the wall clock ---------------------------------------------------------------------------

S = 10**9


def anchors(*pairs: tuple[int, int]) -> dict[str, Any]:
    """Return a sidecar whose clock was at so many seconds when the wall clock was at so many."""
    stated = [{"perf_counter_ns": at * S, "unix_ns": unix * S} for at, unix in pairs]
    return {"clock_anchors": stated}


def wall_s(starts_s: list[float], sidecar: dict[str, Any]) -> list[float]:
    found = beside._timestamps(np.array(starts_s), sidecar)
    assert str(found.dtype) == "datetime64[us, UTC]"
    return [(one - pd.Timestamp(0, tz="UTC")).total_seconds() for one in found]


def test_the_last_anchor_before_an_instant_tells_when_it_was() -> None:
    sidecar = anchors((10, 1000), (20, 2000))
    assert wall_s([10.0, 19.5, 20.0, 25.0], sidecar) == [1000.0, 1009.5, 2000.0, 2005.0]


def test_before_the_first_anchor_that_one_tells() -> None:
    assert wall_s([5.0], anchors((10, 1000), (20, 2000))) == [995.0]


def test_without_an_anchor_it_is_not_known() -> None:
    for sidecar in ({}, {"clock_anchors": []}):
        assert all(map(np.isnan, wall_s([1.0, 2.0], sidecar)))
