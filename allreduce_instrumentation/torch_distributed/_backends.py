"""A process group's members and backends: for which devices these are, and whether they work in streams."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from timing_logger.errors import ConfigurationError

_ON_THE_HOST = ("gloo", "mpi", "ucc")
_NCCL2 = ("nccl2", "nccl-lazy")


def members_of(group: dist.ProcessGroup) -> list[int]:
    """Return the ranks in the world of the members of ``group``, which was given as ``comm``.

    Raises:
        ConfigurationError: ``group`` was destroyed.
    """
    try:
        return dist.get_process_group_ranks(group)
    except Exception as error:
        raise ConfigurationError("comm is a process group that was destroyed: make a new one.") from error


def backends_of(group: dist.ProcessGroup) -> dict[str, str]:
    """Return the backend for each type of device, such as ``{"cpu": "gloo", "cuda": "nccl"}``.

    Args:
        group: a group that is registered and not destroyed.
    """
    pairs = str(dist.get_backend_config(group)).split(",")
    return dict(pair.split(":", 1) for pair in pairs)


def runs_in_streams(backend: str) -> bool:
    """Tell whether ``backend`` queues its work in a stream of the tensors' device; gloo uses host threads."""
    return backend not in _ON_THE_HOST


def has_nccl2(group: dist.ProcessGroup) -> bool:
    """Tell whether ``group`` has torch's newer backend for NCCL.

    torch 2.15 makes it for the name ``nccl``, so only the backend itself tells.
    """
    return any(_own_name(group._get_backend(device)) in _NCCL2 for device in group._device_types)


def _own_name(backend: Any) -> str:
    try:
        return str(backend.name())
    except (AttributeError, RuntimeError):  # one that others wrote need not have a name
        return ""


def control_device(group: dist.ProcessGroup) -> torch.device:
    """Return the device from which ``group`` can exchange tensors on every rank, whatever is reduced there.

    It is the host if the group has a backend for it, or if there is no accelerator; else the current device.
    """
    accelerator = torch.accelerator.current_accelerator()
    if "cpu" in backends_of(group) or accelerator is None:
        return torch.device("cpu")
    return torch.device(accelerator.type, torch.accelerator.current_device_index())
