"""Rows that were damaged on their way are refused, and never taken for others."""

from __future__ import annotations

import numpy as np
import pytest
from rank_tables import table
from timing_files import record

from timing_logger.live.digest import NUMBERS, TEXTS, RowArrays, Texts
from timing_logger.live.packed_rows import packed_rows, unpacked_rows

ROWS = RowArrays.of(table([record("FORWARD", float(i), iteration=i, seq=i % 2 or None) for i in range(9)]))


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_that_some_row_lacks_is_refused(name: str) -> None:
    codes, texts = ROWS.texts[name]
    shorter = RowArrays(ROWS.numbers, {**ROWS.texts, name: Texts(codes[1:], texts)})
    with pytest.raises(ValueError, match="columns of different lengths"):
        unpacked_rows(*packed_rows(shorter))


@pytest.mark.parametrize("name", ["iteration", "rank"])
def test_a_number_that_some_row_lacks_is_refused(name: str) -> None:
    shorter = RowArrays({**ROWS.numbers, name: ROWS.numbers[name][1:]}, ROWS.texts)
    with pytest.raises(ValueError, match="columns of different lengths"):
        unpacked_rows(*packed_rows(shorter))


@pytest.mark.parametrize("code", [-1, 1])
def test_a_text_that_is_in_no_list_is_refused(code: int) -> None:
    codes = np.array([0] * 8 + [code])
    texts = {**ROWS.texts, "operation": Texts(codes, ["FORWARD"])}
    with pytest.raises(ValueError, match="in no list"):
        unpacked_rows(*packed_rows(RowArrays(ROWS.numbers, texts)))


def test_rows_come_back_with_what_is_blank() -> None:
    found = unpacked_rows(*packed_rows(ROWS))
    for name in NUMBERS:
        np.testing.assert_allclose(found.numbers[name], ROWS.numbers[name], rtol=0, atol=1e-4)
    assert {name: texts.texts for name, texts in found.texts.items()} == {
        name: texts.texts for name, texts in ROWS.texts.items()
    }
