"""The tables that tests of analyses make are those that are read of files."""

from __future__ import annotations

import pandas as pd
from hypothesis import given
from hypothesis import strategies as st
from rank_tables import quick_table, table
from seeds import few_examples
from timing_files import record

from timing_logger.schema.record import Record

NUMBER = st.none() | st.integers(0, 2**40)
TEXT = st.sampled_from(["", "a", "layer 1", "\u00e9"])

records = st.lists(
    st.builds(
        record,
        operation=st.sampled_from(["ALLREDUCE", "my part", "FORWARD"]),
        start_s=st.floats(0, 1e6),
        elapsed_ms=st.none() | st.floats(0, 1e6),
        iteration=NUMBER,
        seq=NUMBER,
        message_size_bytes=NUMBER,
        group=TEXT,
        layer_name=TEXT,
        stream=st.sampled_from(["", "cuda:0/7"]),
        work=st.none() | st.floats(0, 1e9) | st.integers(0, 2**40),
    ),
    max_size=4,
)


@few_examples(4)
@given(st.lists(records, min_size=1, max_size=3))
def test_a_table_that_is_made_quickly_is_that_which_is_read(ranks: list[list[Record]]) -> None:
    numbers = [1 + rank % 2 for rank in range(len(ranks))]
    expected = table(*ranks, incarnations=numbers)
    pd.testing.assert_frame_equal(quick_table(*ranks, incarnations=numbers), expected, check_exact=True)
