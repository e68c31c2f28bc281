"""Calls that torch issues in C++ over a group that ``instrument()`` times, on a simulated accelerator."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from device_runner import on_device

from allreduce_instrumentation.torch_distributed import _dispatched_calls

pytestmark = pytest.mark.skipif(
    not _dispatched_calls.AVAILABLE, reason=f"torch {torch.__version__} has no hooks: they came with 2.14"
)
two_ranks = partial(on_device, "instrumented_nccl2.py", ranks=2)


def test_buckets_over_nccl2_are_waited_for_where_the_reducer_asks_for_their_futures() -> None:
    told = {
        "several, with names": True,
        "statuses": ["ok"],
        "one wait for each": True,
        "lasted": True,
        "blocked": True,
        "in the stream of backward": True,
    }
    assert two_ranks("ddp") == [told] * 2


def test_a_synchronous_call_over_nccl2_ends_where_it_lies_in_the_stream_though_it_has_a_work() -> None:
    assert two_ranks("synchronous_call") == [[["BCAST", "ok"]]] * 2
