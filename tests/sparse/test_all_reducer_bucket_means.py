"""How the values of a bucket become means: summed in full, or by an all-reducer."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from played_optimizer_ranks import PlayedRanks

torch = pytest.importorskip("torch")

from allreduce_instrumentation.compressors import FP16, NoCompression, TopK  # noqa: E402
from allreduce_instrumentation.sparse import ALL_REDUCERS  # noqa: E402
from allreduce_instrumentation.sparse._all_reducer import (  # noqa: E402
    CompressedMeans,
    SummedMeans,
    bucket_means,
)
from allreduce_instrumentation.sparse._buckets import Bucket  # noqa: E402
from timing_logger import TimingLogger  # noqa: E402
from timing_logger.errors import ConfigurationError, ReductionError  # noqa: E402


def loaded() -> Bucket:
    parameter = torch.zeros(2, requires_grad=True)
    parameter.grad = torch.tensor([3.0, 6.0])
    bucket = Bucket([("fc", parameter)])
    bucket.load()
    return bucket


def test_what_is_not_compressed_is_summed_in_the_first_sum(logger: TimingLogger) -> None:
    means = bucket_means("dense", NoCompression(), PlayedRanks(size=3), logger)
    assert isinstance(means, SummedMeans)
    bucket = loaded()
    means.prepare(bucket)
    assert means.first_sum(bucket).tolist() == [3, 6, 1, 0, 0]
    means.finish(bucket)
    assert bucket.values.tolist() == [1, 2]
    assert means.phase == "dense"
    assert not means.leaves_ranks_apart(MemoryError())


@pytest.mark.parametrize(
    ("name", "compressor", "phase"),
    [("dense", FP16(), "dense"), ("topk", TopK(0.5), "sparse"), ("oktopk", TopK(0.5), "sparse")],
)
def test_what_is_compressed_is_left_to_its_all_reducer(
    logger: TimingLogger, name: str, compressor: Any, phase: str
) -> None:
    ranks = PlayedRanks()
    ranks.comm = object()
    means = bucket_means(name, compressor, ranks, logger)
    assert isinstance(means, CompressedMeans)
    assert isinstance(means.reduce, partial)
    assert means.reduce.func is ALL_REDUCERS[name]
    assert means.reduce.keywords == {
        "comm": ranks.comm, "compressor": compressor, "timing_logger": logger
    }  # fmt: skip
    assert means.phase == phase


def test_with_compression_the_first_sum_is_of_flags_and_the_mean_is_the_all_reducers() -> None:
    given: dict[str, Any] = {}

    def reduce(values: torch.Tensor, **arguments: Any) -> torch.Tensor:
        given.update(arguments)
        return values + 1

    means = CompressedMeans("sparse", reduce)
    bucket = loaded()
    means.prepare(bucket)
    assert means.first_sum(bucket).tolist() == [1, 0, 0]
    means.finish(bucket)
    assert bucket.values.tolist() == [4, 7]
    assert given == {"name": "fc"}


@pytest.mark.parametrize(
    ("error", "apart"),
    [(MemoryError(), True), (ConfigurationError(""), False), (ReductionError(""), False)],
    ids=lambda value: type(value).__name__,
)
def test_an_error_that_all_ranks_raise_leaves_none_apart(error: Exception, apart: bool) -> None:
    means = CompressedMeans("sparse", ALL_REDUCERS["dense"])
    assert means.leaves_ranks_apart(error) is apart
