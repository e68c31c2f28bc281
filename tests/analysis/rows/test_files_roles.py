"""The roles of ranks: as stated, by a column, or by the labels of sidecars; and as text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from timing_logger.analysis.rows.files import NO_ROLE, roles_of


def run(labels: list[Any] | None = None, **columns: Any) -> pd.DataFrame:
    timings = pd.DataFrame({"rank": [0, 0, 1], **columns})
    files = [{"rank": rank, "sidecar": {"labels": one}} for rank, one in enumerate(labels or [])]
    timings.attrs["files"] = files
    return timings


@pytest.mark.parametrize(
    ("role", "text"),
    [
        ("actor", "actor"), (3, "3"), (None, NO_ROLE), (np.nan, NO_ROLE), ("", NO_ROLE),
        ({"stage": 1, "kind": "x"}, "kind=x, stage=1"), ({}, NO_ROLE),
    ],
)  # fmt: skip
def test_a_role_is_told_as_text(role: object, text: str) -> None:
    assert roles_of(run(), [0, 1], {0: role, 1: "other"}) == {0: text, 1: "other"}


def test_what_is_stated_goes_before_a_column_and_that_before_labels() -> None:
    labels, column = [{"a": 1}, {"a": 2}], ["x", "x", "y"]
    assert roles_of(run(labels, role=column), [0, 1], {1: "z"}) == {0: NO_ROLE, 1: "z"}
    assert roles_of(run(labels, role=column), [0, 1], None) == {0: "x", 1: "y"}
    assert roles_of(run(labels), [0, 1], {}) == {0: "a=1", 1: "a=2"}
    assert roles_of(run(), [0, 1], None) == {0: NO_ROLE, 1: NO_ROLE}


def test_a_column_of_any_library_states_roles_and_a_blank_there_none() -> None:
    timings = pl.DataFrame({"rank": [0, 0, 1], "role": ["x", "x", None]})
    for table in (timings, timings.lazy(), run(role=["x", "x", None])):
        assert roles_of(table, [0, 1, 2], None) == {0: "x", 1: NO_ROLE, 2: NO_ROLE}
