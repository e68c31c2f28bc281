"""Which NCCL this process has loaded."""

from __future__ import annotations

import ctypes

import torch
import torch.distributed as dist


def nccl_version() -> tuple[int, int, int]:
    """Return the version of the library in use; (0, 0, 0) if torch has none.

    ``torch.cuda.nccl.version()`` is the one that torch was built with; ``LD_PRELOAD`` may name another.
    """
    if not dist.is_nccl_available():
        return 0, 0, 0
    number = ctypes.c_int()
    try:
        ctypes.CDLL(None).ncclGetVersion(ctypes.byref(number))
    except AttributeError:
        major, minor, patch, *_ = torch.cuda.nccl.version()
        return major, minor, patch
    return number.value // 10_000, number.value // 100 % 100, number.value % 100
