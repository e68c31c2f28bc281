"""What each span of a trace is said to be, and what its processes and lanes are called."""

from __future__ import annotations

import json

import numpy as np
import pytest

from timing_logger.report._trace_json import TraceNumbers, _category, name_events
from timing_logger.report._trace_rows import TraceLanes


@pytest.mark.parametrize(
    ("operation", "category"), [("ALLREDUCE", "communication"), ("WAIT", "wait"), ("FORWARD", "work")]
)
def test_a_span_is_communication_waiting_or_work(operation: str, category: str) -> None:
    assert _category(operation) == category


def test_a_process_and_its_lanes_have_names_and_an_order() -> None:
    lanes = TraceLanes(["main", "io"], np.zeros(0, np.int64))
    told = [json.loads(text) for text in name_events(TraceNumbers(7, 30), "rank 2", 4, lanes)]
    assert {one["ph"] for one in told} == {"M"}
    assert [(one["pid"], one["tid"], one["name"], one["args"]) for one in told] == [
        (7, 0, "process_name", {"name": "rank 2"}), (7, 0, "process_sort_index", {"sort_index": 4}),
        (7, 30, "thread_name", {"name": "main"}), (7, 30, "thread_sort_index", {"sort_index": 30}),
        (7, 31, "thread_name", {"name": "io"}), (7, 31, "thread_sort_index", {"sort_index": 31}),
    ]  # fmt: skip
