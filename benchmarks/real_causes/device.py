"""A stand-in for a device that can be throttled, and for the NVML that states its clock."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from real_causes.befall import Befall
from real_causes.computing import compute_on_a_device
from real_causes.keeper import called, kept

_SOURCE = Path(__file__).with_name("nvml_stand_in.c")
_FOLDER = "REAL_CAUSES_DEVICES"
_USUAL_MHZ, _SLOW_MHZ = 1980, 1238
_HOT_BITS = 0x40  # nvmlClocksThrottleReasonHwThermalSlowdown


@contextmanager
def with_devices() -> Iterator[dict[str, str]]:
    """Build the library, for the loader to find. Raises OSError where that is not possible."""
    import pynvml  # noqa: F401  (what the library is read through)

    folder = Path(tempfile.mkdtemp())
    with kept(f"rm -r {folder}"):
        build_nvml(folder)
        path = os.environ.get("LD_LIBRARY_PATH", "")
        yield {"LD_LIBRARY_PATH": f"{folder}:{path}".rstrip(":"), _FOLDER: str(folder)}


def build_nvml(folder: Path) -> None:
    """Build the stand-in for NVML in a folder. Raises OSError where that is not possible."""
    called("cc", "-shared", "-fPIC", "-o", str(folder / "libnvidia-ml.so.1"), str(_SOURCE))


class ThrottledDevice(Befall):
    """Work on a device takes longer as its clock falls, and the device states the clock.

    Args:
        index: the number of the device.
    """

    def __init__(self, index: int) -> None:
        super().__init__(switched=self._throttle, computes=self._compute)
        self._stated = Path(os.environ[_FOLDER]) / str(index)
        self._mhz = _USUAL_MHZ

    def _throttle(self, on: bool) -> None:
        self._mhz = _SLOW_MHZ if on else _USUAL_MHZ
        self._stated.write_text(f"{self._mhz} {_HOT_BITS if on else 0}")

    def _compute(self, ms: float) -> None:
        compute_on_a_device(ms * _USUAL_MHZ / self._mhz)
