"""Payloads know their size, and which of their entries are asked for."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from allreduce_instrumentation.compressors import DensePayload, SparsePayload, ThresholdState  # noqa: E402


def sparse() -> SparsePayload:
    values, indices = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([4, 6, 8], dtype=torch.int64)
    return SparsePayload(values, indices, 9, torch.float16)


def test_a_payload_is_as_large_as_what_travels() -> None:
    assert DensePayload(torch.ones(3, dtype=torch.float16), 3, torch.float32).nbytes == 6
    assert sparse().nbytes == 3 * 4 + 3 * 8
    assert sparse().count == 3


@pytest.mark.parametrize("which", [torch.tensor([0, 2]), torch.tensor([True, False, True])])
def test_some_entries_keep_their_indices_and_what_they_are_of(which: Any) -> None:
    some = sparse().only(which)
    assert (some.values.tolist(), some.indices.tolist()) == ([1.0, 3.0], [4, 8])
    assert (some.length, some.dtype) == (9, torch.float16)


def test_before_the_first_call_no_threshold_is_known() -> None:
    state = ThresholdState()
    assert (state.calls, state.local_threshold, state.global_threshold) == (0, None, None)
    assert state.boundaries == ()
