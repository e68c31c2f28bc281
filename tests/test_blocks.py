"""In blocks of collectives, however small, an analysis says what it says of all rows together."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from timing_files import record, write_timing_file

from timing_logger import analysis, read_timings
from timing_logger._blocks import answered_in_blocks
from timing_logger._questions import BANDWIDTH, WAITS
from timing_logger._workers import Processes
from timing_logger.analysis import COLUMNS_OF
from timing_logger.reading import TimingFiles, timing_files
from timing_logger.record import Record


def as_text(table: pd.DataFrame) -> pd.DataFrame:
    coded = [name for name in table if isinstance(table[name].dtype, pd.CategoricalDtype)]
    return table.astype(dict.fromkeys(coded, "str"))


def assert_same(found: pd.DataFrame, expected: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(
        as_text(found).reset_index(drop=True), as_text(expected).reset_index(drop=True), check_exact=True
    )


def written(folder: Path, processes: Sequence[Sequence[list[Record]]]) -> Path:
    for rank, runs in enumerate(processes):
        for incarnation, records in enumerate(runs, 1):
            write_timing_file(folder, rank, records, incarnation=incarnation)
    return folder


def in_blocks(question: Any, found: TimingFiles, rows_per_block: int) -> Any:
    return answered_in_blocks(
        question, found, ranks=None, iterations=None, workers=Processes(1), rows_per_block=rows_per_block
    )


def assert_blocks_say_the_same(folder: Path, rows_per_block: int) -> int:
    """Of waits, messages, states and bandwidth; returns of how many blocks the waits were made."""
    rows = read_timings(folder, incarnations="all", engine="pandas")
    found = timing_files(folder, incarnations="all", columns=COLUMNS_OF["waits"])
    waits = in_blocks(WAITS, found, rows_per_block)
    totals, states, flawed = waits.of_collectives
    assert_same(totals, analysis.summarize_waits(analysis.waits(rows)))
    matched = analysis.match_collectives(rows).drop_duplicates("instance")
    assert states == matched["state"].value_counts().to_dict()
    assert_same(
        flawed,
        matched.loc[matched["state"] != "complete", ["group", "seq", "operation", "state", "why"]],
    )
    assert_same(waits.of_files, analysis.summarize_messages(analysis.message_waits(rows)))
    found = timing_files(folder, incarnations="all", columns=COLUMNS_OF["bandwidth"])
    assert_same(in_blocks(BANDWIDTH, found, rows_per_block).of_collectives, analysis.bandwidth(rows))
    return int(waits.n_blocks)


rows = st.builds(
    record,
    operation=st.sampled_from(
        ["ALLREDUCE", "IALLREDUCE", "ALLGATHERV", "BCAST", "WAIT", "SEND", "RECV", "H2D", "FORWARD"]
    ),
    start_s=st.integers(1, 40).map(lambda tenths: tenths / 10),
    elapsed_ms=st.none() | st.integers(1, 3000).map(lambda tenths: tenths / 7),
    iteration=st.none() | st.integers(0, 3),
    seq=st.none() | st.integers(0, 5),
    group=st.sampled_from(["", "world", "tp"]),
    group_size=st.none() | st.integers(1, 3),
    peer=st.none() | st.integers(0, 2),
    message_size_bytes=st.none() | st.integers(0, 5),
    status=st.sampled_from(["ok", "ok", "ok", "unresolved"]),
)
processes = st.lists(
    st.lists(st.lists(rows, max_size=12), min_size=1, max_size=2), min_size=1, max_size=3
)


@given(processes, st.integers(1, 12))
@settings(deadline=None, max_examples=60)
@pytest.mark.filterwarnings("ignore:.*left out")
def test_blocks_of_any_size_say_the_same_of_any_rows(
    ranks: list[list[list[Record]]], rows_per_block: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        assert_blocks_say_the_same(written(Path(folder), ranks), rows_per_block)
