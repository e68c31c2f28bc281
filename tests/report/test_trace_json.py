"""What each span of a trace is said to be."""

from __future__ import annotations

import pytest

from timing_logger.report._trace_json import _category


@pytest.mark.parametrize(
    ("operation", "category"), [("ALLREDUCE", "communication"), ("WAIT", "wait"), ("FORWARD", "work")]
)
def test_a_span_is_communication_waiting_or_work(operation: str, category: str) -> None:
    assert _category(operation) == category
