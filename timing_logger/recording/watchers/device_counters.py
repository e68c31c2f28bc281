"""The devices that this process computes on, and what their libraries state of them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import reduce
from importlib.util import find_spec
from operator import or_
from typing import Any

from timing_logger.process.launchers import local_rank
from timing_logger.recording.device.accelerator import allocator_counters, find_accelerator
from timing_logger.recording.watchers.apart import Apart, UnavailableError, Values
from timing_logger.recording.watchers.kernel_files import CounterSource, ParsedSource

Numbers = Iterable[int]

_MOST_EVENTS = 16


def _all_bits(of_devices: Numbers) -> int:
    return reduce(or_, of_devices)


Asked = Mapping[str, tuple[Callable[[Any, Any], Any], Callable[[Numbers], int]]]
"""For each counter: how a library is asked it of one device, and what is made of the answers of several."""


def _stated(asked: Asked, library: Any, devices: Sequence[Any], errors: tuple[Any, ...]) -> dict[str, float]:
    """Return what is stated of devices; ``errors`` say that one does not state it, or this version."""
    found: dict[str, float] = {}
    for name, (ask, of_all) in asked.items() if devices else ():
        with suppress(*errors):
            found[name] = of_all([int(ask(library, of)) for of in devices])
    return found


_OF_NVIDIA: Asked = {
    "gpu_sm_mhz": (lambda nvml, of: nvml.nvmlDeviceGetClockInfo(of, nvml.NVML_CLOCK_SM), min),
    "gpu_throttle_bits": (lambda nvml, of: nvml.nvmlDeviceGetCurrentClocksThrottleReasons(of), _all_bits),
    "gpu_temperature_c": (lambda nvml, of: nvml.nvmlDeviceGetTemperature(of, nvml.NVML_TEMPERATURE_GPU), max),
    "gpu_power_w": (lambda nvml, of: nvml.nvmlDeviceGetPowerUsage(of) // 1000, sum),
    "gpu_ecc_corrected": (lambda nvml, of: _ecc_errors(nvml, of, nvml.NVML_MEMORY_ERROR_TYPE_CORRECTED), sum),
    "gpu_ecc_uncorrected": (
        lambda nvml, of: _ecc_errors(nvml, of, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED), sum,
    ),
    "gpu_pcie_width": (lambda nvml, of: nvml.nvmlDeviceGetCurrPcieLinkWidth(of), min),
    "gpu_pcie_generation": (lambda nvml, of: nvml.nvmlDeviceGetCurrPcieLinkGeneration(of), min),
}  # fmt: skip


class NvidiaDevices:
    """The devices of this process, as far as NVML states anything of them.

    Args:
        used: returns the devices that the process uses, given how many the host has.

    Raises:
        pynvml.NVMLError: the driver is not there, or of another version.
    """

    def __init__(self, used: Callable[[int], list[str]]) -> None:
        import pynvml

        pynvml.nvmlInit()
        self._nvml: Any = pynvml
        self._used = used
        self._names: list[str] = []
        self._handles: list[Any] = []
        self._events: Any = None

    def read(self) -> Mapping[str, float]:
        """Return what is stated of all devices that the process uses now."""
        names = self._used(self._nvml.nvmlDeviceGetCount())
        if names != self._names:
            self._names, self._handles = names, [self._handle(name) for name in names]
            self._events = self._watched()
        found = _stated(_OF_NVIDIA, self._nvml, self._handles, (self._nvml.NVMLError, AttributeError))
        last_xid = self._last_xid()
        return found if last_xid is None else {**found, "gpu_xid": last_xid}

    def _handle(self, name: str) -> Any:
        if name.isdecimal():
            return self._nvml.nvmlDeviceGetHandleByIndex(int(name))
        return self._nvml.nvmlDeviceGetHandleByUUID(name)  # of a device, or a part of one (MIG)

    def _watched(self) -> Any:
        """Have Xid errors noted from now on; return where. None if that is not possible."""
        nvml = self._nvml
        try:
            events = nvml.nvmlEventSetCreate()
            for handle in self._handles:
                nvml.nvmlDeviceRegisterEvents(handle, nvml.nvmlEventTypeXidCriticalError, events)
        except (nvml.NVMLError, AttributeError):
            return None
        return events

    def _last_xid(self) -> int | None:
        """Return the number of the last error that was noted since it was asked before, without waiting."""
        if self._events is None or not self._handles:
            return None
        last = 0
        try:
            for _ in range(_MOST_EVENTS):
                last = int(self._nvml.nvmlEventSetWait_v2(self._events, 0).eventData)
        except (self._nvml.NVMLError, AttributeError):  # none is left
            pass
        return last


def _ecc_errors(nvml: Any, of: Any, kind: Any) -> int:
    return int(nvml.nvmlDeviceGetTotalEccErrors(of, kind, nvml.NVML_VOLATILE_ECC))


# -- what AMD SMI states of AMD's devices, through its own Python package --------------------------------


def _temperature_c(smi: Any, of: Any) -> Any:
    kind = smi.AmdSmiTemperatureType.HOTSPOT
    return smi.amdsmi_get_temp_metric(of, kind, smi.AmdSmiTemperatureMetric.CURRENT)


def _power_w(smi: Any, of: Any) -> Any:
    stated = smi.amdsmi_get_power_info(of)
    now = stated.get("current_socket_power")
    return now if isinstance(now, int) else stated["average_socket_power"]


_OF_AMD: Asked = {
    "gpu_sm_mhz": (lambda smi, of: smi.amdsmi_get_clock_info(of, smi.AmdSmiClkType.GFX)["clk"], min),
    "gpu_throttle_bits": (lambda smi, of: smi.amdsmi_get_gpu_metrics_info(of)["throttle_status"], _all_bits),
    "gpu_temperature_c": (_temperature_c, max),
    "gpu_power_w": (_power_w, sum),
    "gpu_ecc_corrected": (lambda smi, of: smi.amdsmi_get_gpu_total_ecc_count(of)["correctable_count"], sum),
    "gpu_ecc_uncorrected": (
        lambda smi, of: smi.amdsmi_get_gpu_total_ecc_count(of)["uncorrectable_count"],
        sum,
    ),
    "gpu_pcie_width": (lambda smi, of: smi.amdsmi_get_pcie_info(of)["pcie_metric"]["pcie_width"], min),
}


class AmdDevices:
    """The devices of this process, as far as AMD SMI states anything of them.

    Args:
        used: returns the devices that the process uses, given how many the host has.

    Raises:
        amdsmi.AmdSmiException: the driver is not there.
    """

    def __init__(self, used: Callable[[int], list[str]]) -> None:
        import amdsmi

        amdsmi.amdsmi_init()
        self._smi: Any = amdsmi
        self._used = used

    def read(self) -> Mapping[str, float]:
        """Return what is stated of all devices that the process uses now."""
        handles = self._smi.amdsmi_get_processor_handles()
        numbers = [int(name) for name in self._used(len(handles)) if name.isdecimal()]
        own = [handles[number] for number in numbers if number < len(handles)]
        # "N/A", or not stated
        return _stated(
            _OF_AMD, self._smi, own, (self._smi.AmdSmiException, AttributeError, KeyError, ValueError)
        )


_OF_DEVICES = (*_OF_NVIDIA, "gpu_xid")

_OF_ALLOCATOR = {"gpu_alloc_retries": "num_alloc_retries", "gpu_alloc_failures": "num_ooms"}

_VISIBLE = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")


def device_sources() -> list[CounterSource]:
    """Return what states the counters of devices, each in a thread of its own, where it is installed."""
    return [_of_devices(), _of_allocator()]


def _of_devices() -> CounterSource:
    readers: dict[str, Callable[[], Callable[[], Values]]] = {
        "pynvml": lambda: NvidiaDevices(used_devices).read,
        "amdsmi": lambda: AmdDevices(used_devices).read,
    }
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
