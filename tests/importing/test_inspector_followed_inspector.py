"""Dumps of NCCL Inspector that grow become timing files that grow, with the rows of one import of all."""

from __future__ import annotations

import json
import random
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from growing_sources import Act, Followed, added, followed, pieces, rows_by_rank
from inspector_dumps import FIRST_US, RANKS, collective, line, records_of
from seeds import seeds

from timing_logger import read_timings
from timing_logger.errors import NotImportableError
from timing_logger.importing import follow_inspector, import_inspector

COLUMNS = ["group", "group_size", "seq", "peer", "message_size_bytes", "thread"]


def follow(folder: Path, *acts: Act) -> Followed:
    folder.mkdir(exist_ok=True)
    return followed(partial(follow_inspector, folder, folder.parent / "out"), *acts)


def as_lines(records: list[Any]) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def small(rank: int, sn: int, start_us: int | None = None, coll: str = "AllReduce") -> dict[str, Any]:
    """Return an operation in a communicator of two ranks."""
    perf = collective(sn, 900, start_us, coll=coll)
    found = line(rank % 2, perf, pid=1000 + rank, id=f"0xab{rank // 2}", comm_name="TP", n_ranks=2)
    found["metadata"]["hostname"] = f"node{rank // 2}"
    return found


def dumped(drawn: random.Random, folder: Path, *, verbose: bool) -> dict[Path, bytes]:
    """Return the dumps of a run whose largest communicator, and further kinds of collectives, come late."""
    files = {}
    for rank in range(RANKS):
        at_us = FIRST_US - 10**6 if verbose else None
        records = [small(rank, sn, at_us and at_us + sn * 1000) for sn in range(20)]
        records += records_of(rank, 1, verbose=verbose)
        late_us = FIRST_US + 10**7 if verbose else None
        records += [
            line(rank, collective(sn, 700, late_us and late_us + sn, coll="AllGather")) for sn in range(9)
        ]
        if drawn.random() < 0.5:
            records.insert(drawn.randrange(len(records)), {"header": 1})
        files[folder / f"node{rank // 2}-pid{1000 + rank}.log"] = as_lines(records)
    return files


def compared(folder: Path, *, by_instants: bool) -> pd.DataFrame:
    return rows_by_rank(folder, by_instants=by_instants, columns=COLUMNS)


@pytest.mark.parametrize("seed", seeds(8))
def test_whatever_is_written_when_the_rows_are_those_of_one_import_of_all(tmp_path: Path, seed: int) -> None:
    drawn, verbose = random.Random(seed), seed % 2 == 0
    folder = tmp_path / "dumps"
    files = dumped(drawn, folder, verbose=verbose)
    made = follow(folder, *pieces(drawn, files)).made
    whole = import_inspector(folder, tmp_path / "whole")
    assert made._replace(folder=whole.folder) == whole
    pd.testing.assert_frame_equal(
        compared(tmp_path / "out", by_instants=verbose), compared(tmp_path / "whole", by_instants=verbose)
    )


def test_a_process_that_comes_late_is_a_further_rank_and_the_files_of_the_others_stay(tmp_path: Path) -> None:
    folder = tmp_path / "dumps"
    inodes = []

    def look() -> None:
        inodes.append((tmp_path / "out" / "timing-rank0.csv").stat().st_ino)

    first, second = (added(folder / f"{rank}.log", as_lines(records_of(rank, None))) for rank in (0, 1))
    made = follow(folder, first, look, second, look).made
    assert (made.ranks, inodes[0]) == ([0, 1], inodes[1])


def test_a_larger_communicator_that_comes_late_tells_the_ranks_of_all_rows(tmp_path: Path) -> None:
    folder, seen = tmp_path / "dumps", []

    def look() -> None:
        seen.append(read_timings(tmp_path / "out")["rank"].unique().tolist())

    small_one = added(folder / "3.log", as_lines([small(3, sn, FIRST_US + sn) for sn in range(3)]))
    follow(folder, small_one, look, added(folder / "3.log", as_lines(records_of(3, None))), look)
    assert seen == [[1], [3]]


def test_a_last_line_without_an_end_counts_where_nothing_more_comes(tmp_path: Path) -> None:
    folder = tmp_path / "dumps"
    only = as_lines([line(2, collective(0, 900, FIRST_US))]).rstrip()
    assert follow(folder, added(folder / "2.log", only)).made.ranks == [2]


def test_a_file_that_is_no_dump_is_left_out_with_what_was_counted(tmp_path: Path) -> None:
    folder = tmp_path / "dumps"
    dump, other = (
        added(folder / "0.log", as_lines(records_of(0, None))),
        added(folder / "x.log", b"text\n" * 3),
    )
    assert follow(folder, dump, other).made.left_out == {"a line that is no JSON": 3}


def test_two_processes_that_are_one_rank_end_the_import_with_what_was_there_before(tmp_path: Path) -> None:
    folder = tmp_path / "dumps"
    again = line(0, collective(0, 900, FIRST_US), pid=7)
    before = added(folder / "0.log", as_lines(records_of(0, None)))
    with pytest.raises(NotImportableError, match="two processes are rank 0"):
        follow(folder, before, added(folder / "other.log", as_lines([again])))
    rows = read_timings(tmp_path / "out")
    assert len(rows) == 60
    assert rows.attrs["files"][0]["sidecar"]["closed"]


def test_where_ranks_get_other_names_a_file_that_is_gone_ends_the_import(tmp_path: Path) -> None:
    folder = tmp_path / "dumps"
    first = folder / "3.log"
    dumped = added(first, as_lines([small(3, sn, FIRST_US + sn) for sn in range(3)]))
    with pytest.raises(NotImportableError, match="cannot be read again, and what was read since changes"):
        follow(folder, dumped, first.unlink, added(folder / "other.log", as_lines(records_of(3, None))))
    assert len(read_timings(tmp_path / "out")) == 3
