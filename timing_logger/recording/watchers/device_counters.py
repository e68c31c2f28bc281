"""The devices that this process computes on, and what their libraries state of them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec

from timing_logger.process.launchers import local_rank
from timing_logger.recording.device.accelerator import allocator_counters, find_accelerator
from timing_logger.recording.watchers.apart import Apart, UnavailableError, Values
from timing_logger.recording.watchers.kernel_files import CounterSource, ParsedSource

_OF_DEVICES = (
    "gpu_sm_mhz", "gpu_throttle_bits", "gpu_temperature_c", "gpu_power_w", "gpu_ecc_corrected",
    "gpu_ecc_uncorrected", "gpu_pcie_width", "gpu_pcie_generation", "gpu_xid",
)  # fmt: skip

_OF_ALLOCATOR = {"gpu_alloc_retries": "num_alloc_retries", "gpu_alloc_failures": "num_ooms"}

_VISIBLE = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")


def device_sources() -> list[CounterSource]:
    """Return what states the counters of devices, each in a thread of its own, where it is installed."""
    return [_of_devices(), _of_allocator()]


def _of_devices() -> CounterSource:
    readers = {"pynvml": _nvidia, "amdsmi": _amd}
    installed = [readers[module] for module in readers if find_spec(module) is not None]
    if not installed:
        return ParsedSource(_OF_DEVICES, [], lambda texts: {}, "neither nvidia-ml-py nor amdsmi is installed")
    return Apart(_OF_DEVICES, lambda: _first_that_works(installed))


def _of_allocator() -> CounterSource:
    names = tuple(_OF_ALLOCATOR)
    if find_spec("torch") is None:
        return ParsedSource(names, [], lambda texts: {}, "torch is not installed")
    # The allocator may hold the lock of its counts while it waits for a device.
    return Apart(names, lambda: _allocator, is_to_begin=lambda: "torch" in sys.modules)


def _first_that_works(readers: Sequence[Callable[[], Callable[[], Values]]]) -> Callable[[], Values]:
    reasons = []
    for reader in readers:
        try:
            return reader()
        except Exception as error:  # of the library's own kind: there is no driver, or another version of it
            reasons.append(str(error))
    raise UnavailableError("; ".join(reasons))


def _nvidia() -> Callable[[], Values]:
    from timing_logger.recording.watchers.nvidia import NvidiaDevices

    return NvidiaDevices(used_devices).read


def _amd() -> Callable[[], Values]:
    from timing_logger.recording.watchers.nvidia import AmdDevices

    return AmdDevices(used_devices).read


def _allocator() -> Mapping[str, float]:
    counted = allocator_counters()
    return {name: counted[key] for name, key in _OF_ALLOCATOR.items() if key in counted}


def used_devices(n_devices: int, environment: Mapping[str, str] = os.environ) -> list[str]:
    """Return the devices that this process uses, as numbers or as what the environment calls them.

    Once torch has initialised them it is asked; until then, and without torch, the environment tells. No
    device is initialised for it.

    Args:
        n_devices: how many devices the host has.
        environment: the environment variables.

    Returns:
        None of them if there are several and nothing tells which.
    """
    stated = next((environment[name] for name in _VISIBLE if environment.get(name)), None)
    visible = [one.strip() for one in stated.split(",")] if stated else [str(i) for i in range(n_devices)]
    accelerator = find_accelerator()
    if accelerator is not None and (used := accelerator.used_devices()):
        return [visible[index] for index in used if index < len(visible)]
    if len(visible) == 1:
        return visible
    place = local_rank(environment)
    if place.isdecimal() and int(place) < len(visible):
        return [visible[int(place)]]
    return []
