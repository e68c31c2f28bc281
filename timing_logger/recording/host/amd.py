"""What AMD SMI states of AMD's devices, through its own Python package."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from operator import or_
from typing import Any

Numbers = Iterable[int]


def _all_bits(of_devices: Numbers) -> int:
    return reduce(or_, of_devices)


def _clock_mhz(smi: Any, of: Any) -> Any:
    return smi.amdsmi_get_clock_info(of, smi.AmdSmiClkType.GFX)["clk"]


def _temperature_c(smi: Any, of: Any) -> Any:
    kind = smi.AmdSmiTemperatureType.HOTSPOT
    return smi.amdsmi_get_temp_metric(of, kind, smi.AmdSmiTemperatureMetric.CURRENT)


def _power_w(smi: Any, of: Any) -> Any:
    stated = smi.amdsmi_get_power_info(of)
    now = stated.get("current_socket_power")
    return now if isinstance(now, int) else stated["average_socket_power"]


_STATED: Mapping[str, tuple[Callable[[Any, Any], Any], Callable[[Numbers], int]]] = {
    "gpu_sm_mhz": (_clock_mhz, min),
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
"""For each counter: how it is asked of one device, and what is made of the answers of several."""


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
        found = {name: self._asked(own, ask, of_all) for name, (ask, of_all) in _STATED.items()}
        return {name: value for name, value in found.items() if value is not None}

    def _asked(
        self, own: list[Any], ask: Callable[[Any, Any], Any], of_all: Callable[[Numbers], int]
    ) -> int | None:
        try:
            answers = [int(ask(self._smi, handle)) for handle in own]
        except (self._smi.AmdSmiException, AttributeError, KeyError, ValueError):  # "N/A", or not stated
            return None
        return of_all(answers) if answers else None
