"""Which devices this process uses, and what libraries state of them; the libraries are stand-ins."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kernel_files import read
from places import ROOT

from timing_logger.recording.watchers import apart
from timing_logger.recording.watchers import device_counters as devices
from timing_logger.recording.watchers.device_counters import (
    AmdDevices,
    NvidiaDevices,
    device_sources,
    used_devices,
)


@pytest.mark.parametrize(
    ("environment", "used"),
    [
        ({}, []),
        ({"LOCAL_RANK": "2"}, ["2"]),
        ({"LOCAL_RANK": "7"}, []),
        ({"CUDA_VISIBLE_DEVICES": "3"}, ["3"]),
        ({"CUDA_VISIBLE_DEVICES": "3", "LOCAL_RANK": "1"}, ["3"]),
        ({"CUDA_VISIBLE_DEVICES": "5, 6", "LOCAL_RANK": "1"}, ["6"]),
        ({"HIP_VISIBLE_DEVICES": "GPU-a,GPU-b", "SLURM_LOCALID": "0"}, ["GPU-a"]),
        ({"CUDA_VISIBLE_DEVICES": "", "LOCAL_RANK": "1"}, ["1"]),
    ],
)
def test_before_torch_has_initialised_them_the_environment_says_which_devices_are_used(
    environment: Mapping[str, str], used: list[str]
) -> None:
    assert used_devices(4, environment) == used


def test_the_only_device_of_a_host_is_used() -> None:
    assert used_devices(1, {}) == ["0"]


def test_once_torch_has_initialised_them_it_says_which(monkeypatch: pytest.MonkeyPatch) -> None:
    accelerator = SimpleNamespace(used_devices=lambda: [1])
    monkeypatch.setattr(devices, "find_accelerator", lambda: accelerator)
    assert used_devices(8, {"CUDA_VISIBLE_DEVICES": "5,6,7", "LOCAL_RANK": "0"}) == ["6"]


class NVMLError(Exception):
    """As that of pynvml."""


def stand_in_for_nvml(xids: list[int]) -> Any:
    """Return a module as pynvml: two devices, the second one hot and slow, the first without ECC."""

    def ecc(of: int, kind: str, counter: str) -> int:
        if of == 0:
            raise NVMLError("Not Supported")
        return 3

    def wait(events: object, timeout_ms: int) -> Any:
        assert timeout_ms == 0
        if not xids:
            raise NVMLError("Timeout")
        return SimpleNamespace(eventData=xids.pop(0))

    return SimpleNamespace(
        NVMLError=NVMLError, NVML_CLOCK_SM=1, NVML_TEMPERATURE_GPU=0, NVML_MEMORY_ERROR_TYPE_CORRECTED=0,
        NVML_MEMORY_ERROR_TYPE_UNCORRECTED=1, NVML_VOLATILE_ECC=0, nvmlEventTypeXidCriticalError=8,
        nvmlInit=lambda: None,
        nvmlDeviceGetCount=lambda: 2,
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetHandleByUUID=lambda uuid: int(uuid[-1]),
        nvmlDeviceGetClockInfo=lambda of, kind: (1980, 1200)[of],
        nvmlDeviceGetCurrentClocksThrottleReasons=lambda of: (1, 0x40)[of],
        nvmlDeviceGetTemperature=lambda of, kind: (40, 90)[of],
        nvmlDeviceGetPowerUsage=lambda of: (100_900, 700_000)[of],
        nvmlDeviceGetTotalEccErrors=ecc,
        nvmlDeviceGetCurrPcieLinkWidth=lambda of: (16, 8)[of],
        nvmlDeviceGetCurrPcieLinkGeneration=lambda of: 5,
        nvmlEventSetCreate=lambda: object(),
        nvmlDeviceRegisterEvents=lambda of, kinds, events: None,
        nvmlEventSetWait_v2=wait,
    )  # fmt: skip


def test_of_several_devices_the_worst_value_or_the_sum_is_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", stand_in_for_nvml([]))
    assert NvidiaDevices(lambda n_devices: ["0", "GPU-1"]).read() == {
        "gpu_sm_mhz": 1200, "gpu_throttle_bits": 0x41, "gpu_temperature_c": 90, "gpu_power_w": 800,
        "gpu_pcie_width": 8, "gpu_pcie_generation": 5, "gpu_xid": 0,
    }  # fmt: skip


def test_errors_of_a_device_that_counts_them_are_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", stand_in_for_nvml([13, 79]))
    nvidia = NvidiaDevices(lambda n_devices: ["1"])
    found = nvidia.read()
    assert (found["gpu_ecc_corrected"], found["gpu_ecc_uncorrected"], found["gpu_xid"]) == (3, 3, 79)
    assert nvidia.read()["gpu_xid"] == 0


def test_where_no_device_is_known_to_be_used_nothing_is_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", stand_in_for_nvml([13]))
    assert NvidiaDevices(lambda n_devices: []).read() == {}


@pytest.mark.slow("builds a library for nvidia-ml-py; what a stand-in for that states is quick")
@pytest.mark.skipif(shutil.which("cc") is None, reason="builds a library")
def test_what_a_library_states_of_the_device_of_this_rank_comes_through_nvidia_ml_py(tmp_path: Path) -> None:
    pytest.importorskip("pynvml")
    source = ROOT / "benchmarks" / "real_causes" / "nvml_stand_in.c"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / "libnvidia-ml.so.1", source], check=True)
    (tmp_path / "1").write_text("1238 64")
    module = "timing_logger.recording.watchers"
    program = f"from {module} import device_counters\n"
    program += "print(device_counters.NvidiaDevices(device_counters.used_devices).read())"
    around = {"LD_LIBRARY_PATH": str(tmp_path), "REAL_CAUSES_DEVICES": str(tmp_path)}
    around |= {"LOCAL_RANK": "1", "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, "-c", program]
    said = subprocess.run(command, env={**os.environ, **around}, check=True, capture_output=True, text=True)
    assert said.stdout.strip() == "{'gpu_sm_mhz': 1238, 'gpu_throttle_bits': 64}"


def test_amd_states_what_it_knows_and_leaves_out_what_is_not_available(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    smi = SimpleNamespace(
        AmdSmiException=NVMLError,
        AmdSmiClkType=SimpleNamespace(GFX=0),
        AmdSmiTemperatureType=SimpleNamespace(HOTSPOT=1),
        AmdSmiTemperatureMetric=SimpleNamespace(CURRENT=0),
        amdsmi_init=lambda: None,
        amdsmi_get_processor_handles=lambda: ["a", "b"],
        amdsmi_get_clock_info=lambda of, kind: {"clk": {"a": 2100, "b": 1300}[of]},
        amdsmi_get_temp_metric=lambda of, kind, metric: 55,
        amdsmi_get_power_info=lambda of: {"current_socket_power": "N/A", "average_socket_power": 300},
        amdsmi_get_gpu_metrics_info=lambda of: {"throttle_status": "N/A"},
        amdsmi_get_gpu_total_ecc_count=lambda of: {"correctable_count": 2, "uncorrectable_count": 0},
    )
    monkeypatch.setitem(sys.modules, "amdsmi", smi)
    assert AmdDevices(lambda n_devices: ["1"]).read() == {
        "gpu_sm_mhz": 1300, "gpu_temperature_c": 55, "gpu_power_w": 300,
        "gpu_ecc_corrected": 2, "gpu_ecc_uncorrected": 0,
    }  # fmt: skip


def test_of_several_devices_of_amd_the_worst_value_or_the_sum_is_stated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kinds: list[object] = []
    smi = SimpleNamespace(
        AmdSmiException=NVMLError,
        AmdSmiClkType=SimpleNamespace(GFX=0),
        AmdSmiTemperatureType=SimpleNamespace(HOTSPOT=1),
        AmdSmiTemperatureMetric=SimpleNamespace(CURRENT=0),
        amdsmi_init=lambda: kinds.append("begun"),
        amdsmi_get_processor_handles=lambda: [0, 1],
        amdsmi_get_clock_info=lambda of, kind: {"clk": (2100, 1300)[of]},
        amdsmi_get_temp_metric=lambda of, kind, metric: (55, 80)[of],
        amdsmi_get_power_info=lambda of: {"current_socket_power": (400, 500)[of], "average_socket_power": 1},
        amdsmi_get_gpu_metrics_info=lambda of: {"throttle_status": (1, 4)[of]},
        amdsmi_get_gpu_total_ecc_count=lambda of: {"correctable_count": 2, "uncorrectable_count": of},
        amdsmi_get_pcie_info=lambda of: {"pcie_metric": {"pcie_width": (16, 8)[of]}},
    )
    monkeypatch.setitem(sys.modules, "amdsmi", smi)
    used = ["0", "1", "2", "GPU-of-another-library"]  # the host has two, and they have no such names
    counted: list[int] = []
    devices_of_amd = AmdDevices(lambda n_devices: (counted.append(n_devices), used)[1])
    assert devices_of_amd.read() == {
        "gpu_sm_mhz": 1300, "gpu_throttle_bits": 5, "gpu_temperature_c": 80, "gpu_power_w": 900,
        "gpu_ecc_corrected": 4, "gpu_ecc_uncorrected": 1, "gpu_pcie_width": 8,
    }  # fmt: skip
    assert (kinds, counted) == (["begun"], [2])
    used.clear()
    assert devices_of_amd.read() == {}


def test_a_device_is_watched_for_errors_once_and_anew_when_others_are_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watched: list[tuple[int, int]] = []
    nvml, used = stand_in_for_nvml([]), ["0"]
    nvml.nvmlDeviceRegisterEvents = lambda of, kinds, events: watched.append((of, kinds))
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    nvidia = NvidiaDevices(lambda n_devices: list(used))
    nvidia.read()
    nvidia.read()
    assert watched == [(0, 8)]
    used.append("1")
    nvidia.read()
    assert watched == [(0, 8), (0, 8), (1, 8)]


def test_a_driver_that_notes_no_errors_states_all_else(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(of: int, kinds: int, events: object) -> None:
        raise NVMLError("Not Supported")

    nvml = stand_in_for_nvml([79])
    nvml.nvmlDeviceRegisterEvents = refuse
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    found = NvidiaDevices(lambda n_devices: ["1"]).read()
    assert found["gpu_temperature_c"] == 90
    assert "gpu_xid" not in found


def test_errors_that_never_end_are_asked_for_sixteen_times_at_a_reading(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", stand_in_for_nvml(list(range(1, 40))))
    nvidia = NvidiaDevices(lambda n_devices: ["1"])
    assert (nvidia.read()["gpu_xid"], nvidia.read()["gpu_xid"]) == (16, 32)


def test_the_allocator_states_what_it_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "allocator_counters", lambda: {"num_alloc_retries": 3, "other": 1})
    assert devices._allocator() == {"gpu_alloc_retries": 3}
    monkeypatch.setattr(devices, "allocator_counters", lambda: {"num_ooms": 2})
    assert devices._allocator() == {"gpu_alloc_failures": 2}


def test_the_first_library_that_works_is_read_and_else_all_reasons_are_said() -> None:
    def fails_with(error: Exception) -> Any:
        def reader() -> Any:
            raise error

        return reader

    no_driver, too_old = fails_with(NVMLError("no driver")), fails_with(OSError("too old"))
    assert devices._first_that_works([no_driver, lambda: dict, too_old]) is dict
    with pytest.raises(apart.UnavailableError, match=r"^no driver; too old$"):
        devices._first_that_works([no_driver, too_old])


@pytest.fixture
def none_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "find_spec", lambda name: None)


@pytest.mark.usefixtures("none_is_installed")
def test_without_any_library_there_is_no_thread_and_the_reason_is_said() -> None:
    sources = device_sources()
    assert read(sources) == {}
    assert [source.why for source in sources] == [
        "neither nvidia-ml-py nor amdsmi is installed",
        "torch is not installed",
    ]
    assert not any(isinstance(source, apart.Apart) for source in sources)


def test_a_host_without_a_driver_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_driver() -> None:
        raise NVMLError("Driver Not Loaded")

    broken = stand_in_for_nvml([])
    broken.nvmlInit = no_driver
    monkeypatch.setitem(sys.modules, "pynvml", broken)
    monkeypatch.setattr(apart, "PATIENCE_S", 30.0)
    monkeypatch.setattr(devices, "find_spec", lambda name: name == "pynvml" or None)
    source = device_sources()[0]
    assert read(source) == {}
    assert source.why == "Driver Not Loaded"
    assert isinstance(source, apart.Apart)
    source.close()
