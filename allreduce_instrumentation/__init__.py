"""MPI communicators, process groups, optimizers and all-reducers that time themselves.

Their rows go to ``timing_logger``. Each name of this module is imported when it is first used, so that
importing the package needs neither MPI nor torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from allreduce_instrumentation.clock_sync import synchronise_clocks
    from allreduce_instrumentation.compressors import FP16, NoCompression, TopK
    from allreduce_instrumentation.copies import copy_to_device, copy_to_host
    from allreduce_instrumentation.mpi import TimedIntercomm, TimedIntracomm
    from allreduce_instrumentation.sparse import (
        DistributedOptimizer,
        dense_allreduce,
        gtopk_sparse_allreduce,
        oktopk_sparse_allreduce,
        topk_sparse_allreduce,
    )
    from allreduce_instrumentation.torch_distributed import init_process_group, instrument, uninstrument

__all__ = [
    "FP16",
    "DistributedOptimizer",
    "NoCompression",
    "TimedIntercomm",
    "TimedIntracomm",
    "TopK",
    "copy_to_device",
    "copy_to_host",
    "dense_allreduce",
    "gtopk_sparse_allreduce",
    "init_process_group",
    "instrument",
    "oktopk_sparse_allreduce",
    "synchronise_clocks",
    "topk_sparse_allreduce",
    "uninstrument",
]

_NAMES_OF = {
    "clock_sync": ["synchronise_clocks"],
    "compressors": ["FP16", "NoCompression", "TopK"],
    "copies": ["copy_to_device", "copy_to_host"],
    "mpi": ["TimedIntercomm", "TimedIntracomm"],
    "sparse": [
        "DistributedOptimizer",
        "dense_allreduce",
        "gtopk_sparse_allreduce",
        "oktopk_sparse_allreduce",
        "topk_sparse_allreduce",
    ],
    "torch_distributed": ["init_process_group", "instrument", "uninstrument"],
}
_HOME = {name: module for module, names in _NAMES_OF.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
