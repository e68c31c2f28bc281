"""What explains a part of a difference, in a sentence."""

from __future__ import annotations

import pytest

from timing_logger.analysis.comparison.result import CauseKind, NewCause
from timing_logger.report.comparison_cause_wording import _part


@pytest.mark.parametrize(
    ("kind", "verb"), [("transfer", "take"), ("waiting", "takes"), ("not timed", "takes")]
)
def test_transfers_take_time_and_other_parts_take_it_as_one(kind: CauseKind, verb: str) -> None:
    said = _part(NewCause(kind, "", "", (), 3.0, 2.0))
    assert f" {verb} " in said
    assert said.endswith("in each step against 2.000 ms.")
