"""A group's backends: for which devices, and whether they queue their work in streams."""

from __future__ import annotations

import torch
import torch.distributed as dist

_ON_THE_HOST = ("gloo", "mpi", "ucc")


def backends_of(group: dist.ProcessGroup) -> dict[str, str]:
    """The backend for each type of device, ``{"cpu": "gloo", "cuda": "nccl"}``, of a group in use."""
    pairs = str(dist.get_backend_config(group)).split(",")
    return dict(pair.split(":", 1) for pair in pairs)


def runs_in_streams(backend: str) -> bool:
    """Whether its work is queued in a stream of the tensors' device; gloo's is done by host threads."""
    return backend not in _ON_THE_HOST


def control_device(group: dist.ProcessGroup) -> torch.device:
    """Where every rank of ``group`` can have tensors exchanged: the host, if it has a backend for that."""
    accelerator = torch.accelerator.current_accelerator()
    if "cpu" in backends_of(group) or accelerator is None:
        return torch.device("cpu")
    return torch.device(accelerator.type, torch.accelerator.current_device_index())
