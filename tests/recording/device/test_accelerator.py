"""What is asked of torch about devices, and in which order; torch is a stand-in, for there is no device."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from processes import run_python

from timing_logger.recording.device import accelerator
from timing_logger.recording.device.accelerator import Accelerator, find_accelerator


class DeviceError(RuntimeError):
    """As torch.AcceleratorError."""


class StandInTorch(SimpleNamespace):
    """As much of torch as is asked of, with a list of what happened to the current device."""

    def __init__(self, kind: str = "cuda", *, cuda: str | None = "13.0", hip: str | None = None) -> None:
        self.happened: list[str] = []
        self.initialized = True

        @contextmanager
        def device(index: int) -> Iterator[None]:
            self.happened.append(f"enter device {index}")
            yield
            self.happened.append(f"leave device {index}")

        module = SimpleNamespace(
            device=device, is_initialized=lambda: self.initialized, is_current_stream_capturing=bool
        )
        super().__init__(
            AcceleratorError=DeviceError,
            _C=SimpleNamespace(),
            Event=SimpleNamespace,
            Stream=SimpleNamespace,
            version=SimpleNamespace(cuda=cuda, hip=hip),
            accelerator=SimpleNamespace(
                current_accelerator=lambda: SimpleNamespace(type=kind),
                current_device_index=int,
                current_stream=lambda index: f"stream of {index}",
                set_stream=lambda stream: self.happened.append(f"current: {stream}"),
            ),
            **{kind: module},
        )


@pytest.fixture(autouse=True)
def nothing_found_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accelerator, "_found", None)


# -- finding it ----------------------------------------------------------------------------------------


def test_a_device_is_found_once_the_process_has_used_it(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = StandInTorch()
    torch.initialized = False
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert find_accelerator() is None
    torch.initialized = True
    found = find_accelerator()
    assert found is not None
    assert found is find_accelerator()
    assert found.kind == "cuda"


@pytest.mark.parametrize(
    "torch",
    [
        None,
        SimpleNamespace(),
        SimpleNamespace(accelerator=SimpleNamespace()),
        StandInTorch("mps"),
    ],
    ids=["not imported", "being imported", "too old", "without timed streams"],
)
def test_without_what_it_takes_there_is_none(torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert find_accelerator() is None


def test_recording_imports_no_torch() -> None:
    run = run_python(
        """
        import sys
        from timing_logger import TimingLogger
        from timing_logger.sinks.memory import MemorySink
        logger = TimingLogger(0, None, sinks=[MemorySink()])
        with logger.record_device_operation("H2D"):
            pass
        logger.close()
        print("torch" in sys.modules)
        """
    )
    assert run.stdout == "False\n", run.stderr


# -- asking --------------------------------------------------------------------------------------------


def test_a_device_is_entered_and_left_in_the_way_that_makes_no_context_elsewhere() -> None:
    torch = StandInTorch()
    with Accelerator(torch, "cuda").asking(3):
        torch.happened.append("ask")
    assert torch.happened == ["enter device 3", "ask", "leave device 3"]


def test_the_mode_is_exchanged_within_the_device_and_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    torch, modes = StandInTorch(), []

    def exchange(pointer: Any) -> int:
        modes.append(pointer._obj.value)
        pointer._obj.value = 0
        torch.happened.append("exchange")
        return 0

    monkeypatch.setattr(accelerator, "_loaded", lambda library, name: exchange)
    with Accelerator(torch, "cuda").asking(0) as harmless:
        assert harmless
        torch.happened.append("ask")
    assert torch.happened == ["enter device 0", "exchange", "ask", "exchange", "leave device 0"]
    assert modes == [2, 0]  # relaxed, and what it was before


@pytest.mark.parametrize(
    ("torch", "libraries"),
    [
        (StandInTorch(cuda="13.0"), ["libcudart.so.13", "libcuda.so.1"]),
        (StandInTorch(cuda=None, hip="7.2.1"), ["libamdhip64.so.7"]),
        (StandInTorch(cuda=None, hip="7.1.25424"), []),
    ],
    ids=["CUDA", "ROCm", "ROCm before it honoured the mode"],
)
def test_where_the_mode_cannot_be_exchanged_asking_is_not_harmless(
    torch: StandInTorch, libraries: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []
    monkeypatch.setattr(accelerator, "_loaded", lambda library, name: tried.append(library))
    with Accelerator(torch, "cuda").asking(0) as harmless:
        assert not harmless
    assert tried == libraries


def test_xpu_has_no_such_modes() -> None:
    with Accelerator(StandInTorch("xpu", cuda=None), "xpu").asking(0) as harmless:
        assert harmless


def test_a_function_of_a_library_that_is_not_loaded_is_not_loaded() -> None:
    """One of a CUDA that no torch of today is built with: other tests may have imported theirs."""
    assert accelerator._loaded("libcudart.so.7", "cudaThreadExchangeStreamCaptureMode") is None


# -- errors --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "is_failure"),
    [
        (DeviceError("whatever it says"), True),
        (RuntimeError("CUDA error: device-side assert triggered"), True),
        (RuntimeError("HIP error: an illegal memory access was encountered"), True),
        (RuntimeError("Both events must be recorded before calculating elapsed time."), False),
        (
            DeviceError("CUDA error: operation would make the legacy stream depend on a capturing stream"),
            False,
        ),
    ],
)
def test_a_devices_failure_is_told_from_a_call_that_cannot_be(error: Exception, is_failure: bool) -> None:
    assert Accelerator(StandInTorch(), "cuda").is_failure(error) is is_failure


def test_a_stream_of_the_current_device_is_made_current_for_a_block_that_may_raise() -> None:
    torch = StandInTorch()
    with pytest.raises(KeyError), Accelerator(torch, "cuda").current("the training's", 0):
        raise KeyError
    assert torch.happened == ["current: the training's", "current: stream of 0"]


def test_an_event_is_marked_on_the_device_of_its_stream() -> None:
    torch, marked = StandInTorch(), []
    event = SimpleNamespace(record=marked.append)
    accelerator = Accelerator(torch, "cuda")
    accelerator.mark(event, "one", 0)
    accelerator.mark(event, "other", 1)
    assert marked == ["one", "other"]
    assert torch.happened == ["enter device 1", "leave device 1"]


def test_a_stream_that_cannot_say_whether_it_is_captured_is_made_current_to_ask() -> None:
    torch = StandInTorch()

    @contextmanager
    def stream(given: Any) -> Iterator[None]:
        torch.happened.append("enter stream")
        yield
        torch.happened.append("leave stream")

    torch.cuda.stream = stream
    accelerator = Accelerator(torch, "cuda")
    assert accelerator.look_at(SimpleNamespace(device=SimpleNamespace(index=1))) == (False, 1)
    assert torch.happened == ["enter device 1", "enter stream", "leave stream", "leave device 1"]
    newer = SimpleNamespace(is_capturing=lambda: True, device=SimpleNamespace(index=2))
    assert accelerator.look_at(newer) == (True, 2)


def test_a_handle_of_0_is_the_default_stream_and_any_other_one_that_other_code_made() -> None:
    torch = StandInTorch()
    torch.cuda.default_stream = lambda index: f"default of {index}"
    torch.cuda.ExternalStream = lambda handle, device: f"{handle} of {device}"
    accelerator = Accelerator(torch, "cuda")
    assert accelerator.stream_of_handle(0, 3) == "default of 3"
    assert accelerator.stream_of_handle(9, 3) == "9 of 3"


def test_events_tell_times_and_streams_of_ours_come_first() -> None:
    torch, made = StandInTorch("xpu"), []
    torch.Event = lambda kind, enable_timing: made.append((kind, enable_timing))
    torch.Stream = lambda device, priority: made.append((device, priority))
    accelerator = Accelerator(torch, "xpu")
    accelerator.new_event()
    accelerator.new_stream(3)
    assert made == [("xpu", True), ("xpu:3", -1)]


def test_a_torch_that_cannot_say_it_captures_nothing_and_has_a_context_everywhere() -> None:
    torch = StandInTorch()
    del torch.cuda.is_current_stream_capturing
    torch.cuda.device_count = lambda: 2
    accelerator = Accelerator(torch, "cuda")
    assert (accelerator.is_capturing(), accelerator.used_devices()) == (False, [0, 1])


def test_a_forked_child_cannot_use_the_device_of_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = StandInTorch()
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert find_accelerator() is not None
    torch.initialized = False
    accelerator._forget()
    assert find_accelerator() is None


# -- what the allocator counts -------------------------------------------------------------------------


def counting(*devices: dict[str, Any], used: tuple[int, ...]) -> StandInTorch:
    torch = StandInTorch()
    torch._C._cuda_hasPrimaryContext = used.__contains__
    torch.cuda.device_count = lambda: len(devices)
    torch.cuda.memory_stats_as_nested_dict = devices.__getitem__
    return torch


def test_what_the_allocator_counts_is_summed_over_the_devices_in_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    unused = {"num_alloc_retries": 100, "num_ooms": 100}
    torch = counting(
        {"num_alloc_retries": 2, "num_ooms": 0, "segment": {}}, unused, {"num_alloc_retries": 3}, used=(0, 2)
    )
    monkeypatch.setitem(sys.modules, "torch", torch)  # type: ignore[arg-type]
    assert accelerator.allocator_counters() == {"num_alloc_retries": 5, "num_ooms": 0}
    assert torch.happened == []


def test_where_no_device_is_used_nothing_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = counting(used=())
    monkeypatch.setitem(sys.modules, "torch", torch)  # type: ignore[arg-type]
    assert accelerator.allocator_counters() == {}
    torch.initialized = False
    monkeypatch.setattr(accelerator, "_found", None)
    assert accelerator.allocator_counters() == {}


def test_a_torch_that_does_not_count_and_a_device_that_failed_have_no_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch = counting({}, used=(0,))
    del torch.cuda.memory_stats_as_nested_dict
    monkeypatch.setitem(sys.modules, "torch", torch)  # type: ignore[arg-type]
    assert accelerator.allocator_counters() == {}

    def fail(index: int) -> Any:
        raise DeviceError("CUDA error: unspecified launch failure")

    torch.cuda.memory_stats_as_nested_dict = fail
    assert accelerator.allocator_counters() == {}
