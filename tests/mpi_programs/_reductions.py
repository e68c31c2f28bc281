"""What an all-reduce must be, over whatever communicator: checks that MPI and torchrun programs share."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from _sparse_reference import ReferenceRank, gtopk, topk
from torch import Tensor

from allreduce_instrumentation.compressors import FP16, NoCompression, TopK
from allreduce_instrumentation.sparse import (
    dense_allreduce,
    gtopk_sparse_allreduce,
    oktopk_sparse_allreduce,
    topk_sparse_allreduce,
)

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
SPARSE: dict[str, Callable[..., Tensor]] = {
    "topk": topk_sparse_allreduce,
    "gtopk": gtopk_sparse_allreduce,
    "oktopk": oktopk_sparse_allreduce,
}
WITHOUT_LOSS: dict[str, tuple[Callable[..., Tensor], Callable[[], Any]]] = {
    "dense": (dense_allreduce, NoCompression),
    "dense FP16": (dense_allreduce, FP16),
    **{name: (reduce, lambda: TopK(1.0)) for name, reduce in SPARSE.items()},
}


class Ranks(NamedTuple):
    """A communicator, this process's place in it, and what is tried with each kind of number."""

    comm: Any
    rank: int
    size: int
    dtypes: Sequence[torch.dtype] = DTYPES


def dtypes_of(names: str) -> list[torch.dtype]:
    """What an argument of a program says, with commas."""
    return [getattr(torch, name) for name in names.split(",")]


def whole_numbers(rank: int, step: int, length: int, dtype: torch.dtype, limit: int = 8) -> Tensor:
    """Small integers, the same for the same arguments in every process: their sums are exact."""
    generator = torch.Generator().manual_seed(1000 * rank + step)
    return torch.randint(-limit, limit + 1, (length,), generator=generator).to(dtype)


def normal_numbers(rank: int, step: int, length: int, dtype: torch.dtype) -> Tensor:
    generator = torch.Generator().manual_seed(1000 * rank + step)
    return torch.randn(length, generator=generator, dtype=torch.float64).to(dtype)


def fingerprint(tensor: Tensor) -> str:
    content = tensor.detach().contiguous().view(-1).view(torch.uint8).numpy().tobytes()
    return hashlib.sha256(content).hexdigest()[:16]


def same_bits(one: Tensor, other: Tensor) -> bool:
    return one.dtype == other.dtype and one.shape == other.shape and fingerprint(one) == fingerprint(other)


def nothing_left_out(ranks: Ranks) -> dict[str, Any]:
    """Every reducer that keeps all entries, against the mean worked out here: ``[equal, bits]``."""
    found = {}
    lengths = {1, max(1, ranks.size - 1), ranks.size + 3}  # also fewer entries than ranks
    for name, (reduce, compressor) in WITHOUT_LOSS.items():
        for dtype in ranks.dtypes:
            for length in lengths:
                tensors = [whole_numbers(r, length, length, dtype) for r in range(ranks.size)]
                result = reduce(tensors[ranks.rank], comm=ranks.comm, compressor=compressor(), name="w")
                single = torch.float64 if dtype == torch.float64 else torch.float32
                mean = torch.stack(tensors).to(single).sum(dim=0) / ranks.size
                expected = (mean.half() if name == "dense FP16" else mean).to(dtype)
                key = f"{name}, {dtype}, {length} entries"
                found[key] = [same_bits(result, expected), fingerprint(result)]
    return found


def as_in_one_process(ranks: Ranks) -> dict[str, Any]:
    """Several steps of topk and gtopk beside the reference: ``[results equal, residuals equal, bits]``."""
    found = {}
    for name, reference in (("topk", topk), ("gtopk", gtopk)):
        for dtype in ranks.dtypes:
            for numbers in (whole_numbers, normal_numbers):
                key = f"{name}, {dtype}, {numbers.__name__}"
                found[key] = _beside(SPARSE[name], reference, ranks, dtype, numbers)
    return found


def _beside(
    reduce: Callable[..., Tensor], reference: Any, ranks: Ranks, dtype: torch.dtype, numbers: Any
) -> list[Any]:
    length, k = 30, 5
    compressor, references = TopK(k / length), [ReferenceRank(dtype, length) for _ in range(ranks.size)]
    results_equal, residuals_equal, bits = True, True, ""
    for step in range(4):
        tensors = [numbers(r, step, length, dtype) for r in range(ranks.size)]
        result = reduce(tensors[ranks.rank], comm=ranks.comm, compressor=compressor, name="w")
        results_equal &= same_bits(result, reference(references, tensors, k))
        residual = compressor.residual("w")
        expected = [float(x) for x in references[ranks.rank].residual]
        residuals_equal &= residual is not None and residual.tolist() == expected
        bits += fingerprint(result)
    return [results_equal, residuals_equal, bits]


def what_becomes_of_the_gradient(ranks: Ranks) -> dict[str, Any]:
    """Per sparse reducer and dtype: the inputs of all steps, the results, and the residual at the end.

    Whole numbers, small enough for bfloat16: nothing is rounded but the means, and those only where
    the number of ranks is no power of two.
    """
    found = {}
    exact_means = ranks.size & (ranks.size - 1) == 0
    for name, reduce in SPARSE.items():
        for dtype in ranks.dtypes if exact_means else [one for one in ranks.dtypes if one in DTYPES[2:]]:
            compressor = TopK(0.1)
            given, received = torch.zeros(40).double(), torch.zeros(40).double()
            for step in range(4):
                tensor = whole_numbers(ranks.rank, step, 40, dtype, limit=3)
                result = reduce(tensor, comm=ranks.comm, compressor=compressor, name="w")
                given += tensor.double()
                received += (result.double() * ranks.size).round()
            residual = compressor.residual("w")
            assert residual is not None
            found[f"{name}, {dtype}"] = [given.tolist(), received.tolist(), residual.double().tolist()]
    return found


def let_go_and_kept_elsewhere(ranks: Ranks) -> Any:
    """Four or more ranks. Index 0 loses to index 1 between ranks 0 and 1, and yet wins in the end.

    Returns the result's entries times the number of ranks, and this rank's residual.
    """
    if ranks.size < 4:
        return None
    tensor = torch.zeros(8)
    index, value = {0: (0, 3.0), 1: (1, 10.0), 2: (0, 6.0), 3: (0, 6.0)}.get(ranks.rank, (2, 1.0))
    tensor[index] = value
    compressor = TopK(0.125)
    result = gtopk_sparse_allreduce(tensor, comm=ranks.comm, compressor=compressor, name="w")
    residual = compressor.residual("w")
    assert residual is not None
    return [(result * ranks.size).round().tolist(), residual.tolist()]


def shapes_and_memory(ranks: Ranks) -> dict[str, Any]:
    """Whether input and result are what they should be: shape, dtype, and memory of their own."""
    found = {}
    for name, (reduce, compressor) in WITHOUT_LOSS.items():
        for shape in ((2, 3, 4), (1,), ()):
            tensor = normal_numbers(ranks.rank, 0, math.prod(shape), torch.float32).view(shape)
            tensor.requires_grad_()
            before = fingerprint(tensor)
            made = compressor()
            result = reduce(tensor, comm=ranks.comm, compressor=made, name="w")
            unchanged = fingerprint(tensor) == before
            result.add_(1)
            found[f"{name}, {shape}"] = [
                result.shape == tensor.shape and result.dtype == tensor.dtype,
                unchanged and fingerprint(tensor) == before,
                not result.requires_grad,
            ]
    return found


def names_do_not_mix(ranks: Ranks) -> bool:
    """One compressor for two tensors of different lengths gives what two compressors give."""
    shared = TopK(0.2)
    alone = {"a": TopK(0.2), "b": TopK(0.2)}
    equal = True
    for step in range(3):
        for name, length in (("a", 20), ("b", 35)):
            tensor = normal_numbers(ranks.rank, step, length, torch.float32)
            results = [
                gtopk_sparse_allreduce(tensor, comm=ranks.comm, compressor=c, name=name)
                for c in (shared, alone[name])
            ]
            equal &= same_bits(*results)
    return equal
