"""A digest travels in few bytes, and what arrives is what was sent, to 100 ns."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from digests import digest_of
from simulated_runs import data_parallel, factors, with_work
from timing_files import record, write_timing_file

from timing_logger.live.collector import Collector
from timing_logger.live.packed import DamagedDigest, packed, packed_within, unpacked

RUN = data_parallel(factors(60, 4, noise=0.1))
DIGEST = digest_of(RUN)


def test_what_is_unpacked_is_what_was_packed() -> None:
    run = data_parallel(factors(20, 2, noise=0.1))
    digest = digest_of(with_work(run, "FORWARD", np.full((20, 2), 512.5)))
    found = unpacked(packed(digest))
    assert (found.source, found.number, found.unix_s, found.every) == digest[:4]
    pd.testing.assert_frame_equal(found.rows.table(), digest.rows.table(), rtol=0, atol=1.1e-4)


def test_blank_cells_stay_blank(tmp_path: Path) -> None:
    rows = [
        record("A,B", 1.0, 2.0, iteration=None, epoch=None, group="", group_size=None, layer_name=""),
        record("SEND", 2.0, None, iteration=1, peer=0, seq=7, message_size_bytes=None),
        record("ALLREDUCE", 3.0, 1.0, iteration=2, seq=3, work=1.5),
        record("ALLREDUCE", 4.0, 1.0, iteration=3, seq=4),
    ]
    write_timing_file(tmp_path, 0, rows)
    digest = Collector(tmp_path).digest()
    pd.testing.assert_frame_equal(
        unpacked(packed(digest)).rows.table(), digest.rows.table(), rtol=0, atol=1.1e-4
    )


def test_a_row_takes_less_than_eight_bytes() -> None:
    without = packed(DIGEST._replace(rows=DIGEST.rows.only(slice(0))))
    assert (len(packed(DIGEST)) - len(without)) / len(DIGEST.rows) < 8


@pytest.mark.parametrize("most_bytes", [2000, 3000])
def test_a_digest_keeps_to_its_bytes_and_has_whole_steps_of_all_ranks(most_bytes: int) -> None:
    data = packed_within(DIGEST, most_bytes)
    found = unpacked(data)
    assert len(data) <= most_bytes
    per_step = found.rows.table().groupby(["iteration", "rank"]).size()
    assert found.every > 1
    assert set(per_step) == {len(RUN) / 240}
    assert {int(step) % found.every for step in found.rows.numbers["iteration"]} == {0}


def test_what_is_said_of_processes_is_never_left_out() -> None:
    found = unpacked(packed_within(DIGEST, 1))
    assert len(found.rows) == 0
    assert [process.rank for process in found.processes] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "data",
    [b"", b"no digest", zlib.compress(b"[]"), zlib.compress(b'{"format": 99}'), packed(DIGEST)[:-40]],
    ids=["empty", "text", "list", "format", "cut"],
)
def test_what_is_no_digest_is_refused(data: bytes) -> None:
    with pytest.raises(DamagedDigest, match="digest"):
        unpacked(data)
