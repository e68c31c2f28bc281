"""A real asynchronous accelerator for tests: its streams are threads, its memory is the host's.

``async_device.register()`` makes it this process's accelerator, ``torch.device("asyncdev")``; torch allows
one in each process, for good, so tests use it in child processes (``device_runner.py``). ``torch.asyncdev``
is then a module like ``torch.cuda``, with what only a device for tests has: kernels of a stated duration
(``spin``), streams that a test holds and lets go (``hold``), queues of a stated capacity, failures, captures.

``spin``, copies within and between devices, copies from and to pinned memory, and collectives
(``process_group.py``) go on while the host does. All other operators are computed by the host, which waits
for the stream and so keeps their order: do not compute in a stream that is held.
"""

from __future__ import annotations

import sys

from async_device.build import build, load, missing

__all__ = ["build", "missing", "register"]

NAME = "asyncdev"


def register() -> None:
    """Make the device this process's accelerator."""
    import torch

    if torch._C._get_privateuse1_backend_name() == NAME:
        return
    load()
    torch.utils.rename_privateuse1_backend(NAME)
    from async_device import device_module

    torch._register_device_module(NAME, device_module)
    torch._C._asyncdev_hasPrimaryContext = device_module.has_context  # as it is called for CUDA
    sys.modules[f"torch.{NAME}"] = device_module
    torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)
