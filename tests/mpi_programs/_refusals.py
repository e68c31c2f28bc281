"""Calls that must not succeed, over whatever communicator: what each rank raises, and what works after."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import torch
from _reductions import SPARSE, Ranks, same_bits, whole_numbers
from torch import Tensor

from allreduce_instrumentation.compressors import FP16, NoCompression, ThresholdState, TopK
from allreduce_instrumentation.sparse import dense_allreduce

LENGTH = 12
STEPS = (0, 1)
NEW = "never seen before"
Reduce = Callable[..., Tensor]


class OutOfMemory(TopK):
    """Fails while it compresses."""

    def compress(self, tensor: Tensor, name: str) -> Any:
        super().compress(tensor, name)
        raise MemoryError("no room")


class OtherCount(TopK):
    """Picks one entry more than the others do, and does not say so."""

    def compress(self, tensor: Tensor, name: str) -> Any:
        return TopK(2 * self.density).compress(tensor, name)


def error_of(call: Callable[[], Any]) -> list[str]:
    """Type and message of what ``call`` raises; empty if nothing."""
    try:
        call()
    except Exception as error:
        return [type(error).__name__, str(error)]
    return []


def _good(**changes: Any) -> dict[str, Any]:
    return {"tensor": torch.arange(1.0, LENGTH + 1), "name": "w", **changes}


def _with_last(value: float) -> Tensor:
    tensor = torch.ones(LENGTH)
    tensor[-1] = value
    return tensor


# What the last rank passes, while the others pass what is right.
BAD_HERE: dict[str, Callable[[], dict[str, Any]]] = {
    "no tensor": lambda: _good(tensor=[1.0] * LENGTH),
    "nothing": lambda: _good(tensor=None),
    "whole numbers": lambda: _good(tensor=torch.arange(LENGTH)),
    "complex": lambda: _good(tensor=torch.zeros(LENGTH, dtype=torch.complex64)),
    "empty": lambda: _good(tensor=torch.empty(0)),
    "not contiguous": lambda: _good(tensor=torch.ones(2 * LENGTH)[::2]),
    "sparse": lambda: _good(tensor=torch.ones(LENGTH).to_sparse()),
    "meta": lambda: _good(tensor=torch.ones(LENGTH, device="meta")),
    "NaN": lambda: _good(tensor=_with_last(float("nan"))),
    "infinite": lambda: _good(tensor=_with_last(-float("inf"))),
    "compressor of the other kind": lambda: _good(compressor=NoCompression()),
    "no compressor": lambda: _good(compressor=None),
    "failing compressor": lambda: _good(compressor=OutOfMemory(0.25)),
    "no name": lambda: _good(name=7),
    "length of another": lambda: _good(tensor=torch.ones(LENGTH + 4)),
}
# As above, but nothing of it is wrong by itself.
APART: dict[str, Callable[[], dict[str, Any]]] = {
    "length": lambda: _good(tensor=torch.ones(LENGTH + 4), name=NEW),
    "dtype": lambda: _good(tensor=torch.ones(LENGTH, dtype=torch.bfloat16)),
    "density": lambda: _good(compressor=TopK(0.75)),
    "name": lambda: _good(name="another ä"),
}
OTHERS_PASS: dict[str, dict[str, Any]] = {"length": {"name": NEW}}
FOR_EVERY_REDUCER = ("NaN", "failing compressor", "length", "dtype")  # what is common is tried on topk


def refused(ranks: Ranks) -> dict[str, Any]:
    """Per reducer and case: ``[error, whether the next calls work]``."""
    last = ranks.rank == ranks.size - 1
    found = {}
    for reducer, reduce in SPARSE.items():
        undisturbed = TopK(0.25)
        expected = [_good_call(reduce, ranks, undisturbed, step) for step in STEPS]
        for case, make in {**BAD_HERE, **(APART if ranks.size > 1 else {})}.items():
            if reducer == "topk" or case in FOR_EVERY_REDUCER:
                arguments = make() if last else _good(**OTHERS_PASS.get(case, {}))
                error, results, compressor = _refused(reduce, arguments, ranks)
                works = all(map(same_bits, results, expected))
                found[f"{reducer}, {case}"] = [error, works and _same_memory(compressor, undisturbed)]
    return found


def _refused(reduce: Reduce, arguments: dict[str, Any], ranks: Ranks) -> tuple[list[str], list[Tensor], TopK]:
    """A good call, the bad one, and good ones: its error, the results of the others, and the compressor."""
    compressor = TopK(0.25)
    results = [_good_call(reduce, ranks, compressor, STEPS[0])]
    error = error_of(lambda: reduce(comm=ranks.comm, **{"compressor": compressor, **arguments}))
    results += [_good_call(reduce, ranks, compressor, step) for step in STEPS[1:]]
    return error, results, compressor


def _good_call(reduce: Reduce, ranks: Ranks, compressor: TopK, step: int) -> Tensor:
    tensor = whole_numbers(ranks.rank, step, LENGTH, torch.float32)
    return reduce(tensor, comm=ranks.comm, compressor=compressor, name="w")


def _same_memory(one: TopK, other: TopK) -> bool:
    mine, theirs = one.state_dict(), other.state_dict()
    return (
        mine["states"] == theirs["states"]
        and mine["residuals"].keys() == theirs["residuals"].keys()
        and all(same_bits(mine["residuals"][n], theirs["residuals"][n]) for n in mine["residuals"])
    )


def too_large(ranks: Ranks) -> dict[str, Any]:
    """Finite inputs whose sums are not: per case ``[error, the residual is as it was]``."""
    huge, half = torch.full((4,), 3e38), torch.full((4,), 60000.0, dtype=torch.float16)
    on_last = huge if ranks.rank == ranks.size - 1 else huge / 1e38
    found = {
        "dense": [error_of(lambda: _dense(ranks, huge, NoCompression())), True],
        "dense, halves": [error_of(lambda: _dense(ranks, half, NoCompression())), True],
    }
    to_half = FP16()
    found["dense FP16, on the last rank"] = [
        error_of(lambda: _dense(ranks, on_last, to_half)),
        to_half.residual("w") is None,
    ]
    for name, reduce in SPARSE.items():
        found[name] = _with_residual(reduce, ranks, TopK(1.0), torch.zeros(4), huge)
        found[f"{name}, on the last rank"] = _with_residual(reduce, ranks, TopK(0.25), on_last, on_last)
    return found


def _dense(ranks: Ranks, tensor: Tensor, compressor: Any) -> Tensor:
    return dense_allreduce(tensor, comm=ranks.comm, compressor=compressor, name="w")


def _with_residual(
    reduce: Reduce, ranks: Ranks, compressor: TopK, residual: Tensor, tensor: Tensor
) -> list[Any]:
    states = {"w": asdict(ThresholdState())}
    compressor.load_state_dict(
        {"density": compressor.density, "residuals": {"w": residual}, "states": states}
    )
    error = error_of(lambda: reduce(tensor, comm=ranks.comm, compressor=compressor, name="w"))
    after = compressor.residual("w")
    assert after is not None
    return [error, same_bits(after, residual)]


def different_calls(ranks: Ranks) -> dict[str, Any]:
    """The last rank calls another reducer, or compresses otherwise, than the others."""
    last = ranks.rank == ranks.size - 1
    tensor = torch.ones(LENGTH)
    calls: dict[str, Callable[[], Any]] = {
        "reducer": lambda: SPARSE["gtopk" if last else "topk"](
            tensor, comm=ranks.comm, compressor=TopK(0.25), name="w"
        ),
        "compressor": lambda: _dense(ranks, tensor, FP16() if last else NoCompression()),
        "count": lambda: SPARSE["topk"](
            tensor, comm=ranks.comm, compressor=(OtherCount if last else TopK)(0.25), name="w"
        ),
    }
    return {case: error_of(call) for case, call in calls.items()}
