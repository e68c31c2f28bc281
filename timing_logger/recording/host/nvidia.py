"""What NVML states of NVIDIA's devices, through nvidia-ml-py. Its calls give up the interpreter's lock."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from operator import or_
from typing import Any

Numbers = Iterable[int]

_MOST_EVENTS = 16


def _all_bits(of_devices: Numbers) -> int:
    return reduce(or_, of_devices)


_STATED: Mapping[str, tuple[Callable[[Any, Any], float], Callable[[Numbers], float]]] = {
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
"""For each counter: how it is asked of one device, and what is made of the answers of several."""


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
        found = {name: self._asked(ask, of_all) for name, (ask, of_all) in _STATED.items()}
        found["gpu_xid"] = self._last_xid()
        return {name: value for name, value in found.items() if value is not None}

    def _handle(self, name: str) -> Any:
        if name.isdecimal():
            return self._nvml.nvmlDeviceGetHandleByIndex(int(name))
        return self._nvml.nvmlDeviceGetHandleByUUID(name)  # of a device, or a part of one (MIG)

    def _asked(self, ask: Callable[[Any, Any], float], of_all: Callable[[Numbers], float]) -> float | None:
        try:
            answers = [int(ask(self._nvml, handle)) for handle in self._handles]
        except (self._nvml.NVMLError, AttributeError):  # this device does not state it, or this version
            return None
        return of_all(answers) if answers else None

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
