"""Which of a group's backends queue their work in a device's streams."""

from __future__ import annotations

import torch.distributed as dist

_ON_THE_HOST = ("gloo", "mpi", "ucc")


def backends_of(group: dist.ProcessGroup) -> dict[str, str]:
    """The backend for each type of device, ``{"cpu": "gloo", "cuda": "nccl"}``, of a group in use."""
    pairs = str(dist.get_backend_config(group)).split(",")
    return dict(pair.split(":", 1) for pair in pairs)


def runs_in_streams(backend: str) -> bool:
    """Whether its work is queued in a stream of the tensors' device; gloo's is done by host threads."""
    return backend not in _ON_THE_HOST
