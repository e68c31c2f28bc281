"""Copies between host and device: what is copied, what is a row, and what its duration holds.

What happens on a device is asked of a scripted stand-in; at the end of a real one, where there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from scripted_device import ScriptedAccelerator
from torch import Tensor

from allreduce_instrumentation import copies
from allreduce_instrumentation.compressors import FP16, NoCompression, TopK
from allreduce_instrumentation.copies import copy_to_device, copy_to_host
from allreduce_instrumentation.sparse import _call
from timing_logger import TimingLogger
from timing_logger.errors import ConfigurationError
from timing_logger.recording.device import accelerator
from timing_logger.recording.device.span import timed_block
from timing_logger.schema.record import Record
from timing_logger.sinks.memory import MemorySink


class Recording:
    """A logger in memory."""

    def __init__(self) -> None:
        self._sink = MemorySink()
        self.logger = TimingLogger(0, None, sinks=[self._sink])

    @property
    def rows(self) -> list[Record]:
        assert self.logger.flush()
        return self._sink.records


@pytest.fixture
def recording() -> Iterator[Recording]:
    found = Recording()
    yield found
    found.logger.close()


# -- without a device ------------------------------------------------------------------------------


def test_a_tensor_that_is_there_already_is_returned_without_a_row(recording: Recording) -> None:
    tensor = torch.ones(3)
    for device in ("cpu", torch.device("cpu"), "cpu:0"):
        assert copy_to_device(tensor, device, timing_logger=recording.logger) is tensor
    for options in ({}, {"pin_memory": True}, {"non_blocking": True}):
        assert copy_to_host(tensor, timing_logger=recording.logger, **options) is tensor
    assert recording.rows == []


def test_the_way_to_the_meta_device_is_no_copy(recording: Recording) -> None:
    tensor = copy_to_device(torch.ones(3, 2), "meta", timing_logger=recording.logger)
    assert tensor.is_meta
    assert tensor.shape == (3, 2)
    assert recording.rows == []


def test_from_host_to_host_there_is_a_copy_but_no_row(recording: Recording) -> None:
    tensor, out = torch.arange(3.0), torch.zeros(3)
    assert copy_to_device(tensor, "cpu", out=out, timing_logger=recording.logger) is out
    assert out.tolist() == [0.0, 1.0, 2.0]
    tensor += 1
    assert copy_to_host(tensor, out=out, timing_logger=recording.logger) is out
    assert out.tolist() == [1.0, 2.0, 3.0]
    assert recording.rows == []


META = torch.ones(3, device="meta")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: copy_to_device([1.0], "cpu"), "tensor must be a torch tensor, and is"),
        (lambda: copy_to_host(None), "tensor must be a torch tensor, and is None"),
        (
            lambda: copy_to_device(torch.ones(3), "gpu"),
            "device must name a device, such as 'cuda', and is 'gpu'",
        ),
        (
            lambda: copy_to_device(torch.ones(3), None),
            "device must name a device, such as 'cuda', and is None",
        ),
        (lambda: copy_to_host(META), "tensor is on the meta device and has no data"),
        (lambda: copy_to_device(META, "cpu"), "tensor is on the meta device and has no data"),
        (lambda: copy_to_host(torch.ones(3), out=[0.0]), "out must be a torch tensor"),
        (
            lambda: copy_to_host(torch.ones(3), out=torch.ones(4)),
            r"out must have .* \(3,\), .* it has \(4,\)",
        ),
        (
            lambda: copy_to_host(torch.ones(3), out=torch.ones(3).half()),
            r"it has \(3,\), torch.float16 on cpu",
        ),
        (lambda: copy_to_device(torch.ones(3), "cpu", out=META), "it has .* on meta"),
        (
            lambda: copy_to_host(torch.ones(3), out=torch.ones(3), pin_memory=True),
            "pin_memory and out are both given",
        ),
        (
            lambda: copy_to_host(torch.ones(3), non_blocking=True, pin_memory=False),
            "non_blocking=True needs pinned memory, and pin_memory is False",
        ),
    ],
)
def test_bad_arguments_are_named(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        call()


@pytest.mark.skipif(torch.accelerator.is_available(), reason="there is a device")
def test_a_device_that_this_process_lacks_is_named() -> None:
    with pytest.raises(ConfigurationError, match="device is 'cuda', and this process has no accelerator"):
        copy_to_device(torch.ones(3), "cuda")


# -- a scripted stand-in for a device --------------------------------------------------------------


class StandIn(torch.Tensor):
    """Not a device: a tensor in host memory that says it is on one, and a script of what is asked of it."""

    script: list[str]

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return torch.device("cuda:0")

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if function is torch.empty_like:
            pinned = kwargs.pop("pin_memory", False)
            args[0].script.append(f"allocate {'pinned' if pinned else 'pageable'} on {kwargs.pop('device')}")
            return torch.empty(args[0].shape, dtype=args[0].dtype)
        if function is torch.Tensor.copy_:
            next(a for a in args if isinstance(a, cls)).script.append(
                "queue the copy" if kwargs.get("non_blocking") else "copy"
            )
        with torch._C.DisableTorchFunctionSubclass():
            return function(*args, **kwargs)


@pytest.fixture
def script(scripted_device: ScriptedAccelerator) -> list[str]:
    """What happens on the stand-in, in order, marks in its stream included."""
    scripted_device.busy = True
    return scripted_device.asks


def on_device(script: list[str], values: list[float]) -> Tensor:
    tensor = torch.tensor(values).as_subclass(StandIn)
    tensor.script = script
    return tensor


def test_a_copy_lasts_as_long_as_the_device_took(
    recording: Recording,
    script: list[str],
    scripted_device: ScriptedAccelerator,
) -> None:
    scripted_device.work_ns = 3_000_000
    there = on_device(script, [1.0, 2.0])
    copy_to_host(there, non_blocking=True, layer_name="fc", timing_logger=recording.logger)
    copy_to_device(torch.ones(2), "cuda:0", out=there, timing_logger=recording.logger)
    scripted_device.get_on()
    assert [
        (r.operation, r.message_size_bytes, r.layer_name, r.clock, r.end_ns - r.start_ns)
        for r in recording.rows
    ] == [("D2H", 8, "fc", "device", 3_000_000), ("H2D", 8, "", "device", 3_000_000)]


def test_a_device_that_cannot_be_asked_is_timed_by_the_host(
    recording: Recording, script: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accelerator, "find_accelerator", lambda: None)
    copy_to_host(on_device(script, [1.0]), timing_logger=recording.logger)
    assert [(r.operation, r.clock) for r in recording.rows] == [("D2H", "host")]


def test_without_a_row_no_mark_is_made(script: list[str]) -> None:
    copy_to_host(on_device(script, [1.0]))
    assert script == ["allocate pageable on cpu", "copy"]


def test_the_way_from_a_device_to_the_host_has_a_function_of_its_own(script: list[str]) -> None:
    with pytest.raises(ConfigurationError, match="device is the host, and tensor is on cuda:0: use copy_to"):
        copy_to_device(on_device(script, [1.0]), "cpu")
    assert script == []


@pytest.mark.parametrize(
    ("options", "steps"),
    [
        ({}, ["allocate pageable on cpu", "copy"]),
        ({"non_blocking": True}, ["allocate pinned on cpu", "queue the copy"]),
        ({"pin_memory": True}, ["allocate pinned on cpu", "copy"]),
        ({"pin_memory": False}, ["allocate pageable on cpu", "copy"]),
    ],
)
def test_memory_is_pinned_where_it_is_asked_for_or_the_copy_does_not_block(
    script: list[str], options: dict[str, Any], steps: list[str]
) -> None:
    copy_to_host(on_device(script, [1.0]), **options)
    assert script == steps


def test_a_copy_that_does_not_block_goes_to_no_memory_that_is_not_pinned(script: list[str]) -> None:
    there = on_device(script, [1.0])
    with pytest.raises(ConfigurationError, match="needs pinned memory, and out is not pinned"):
        copy_to_host(there, out=torch.zeros(1), non_blocking=True)
    assert script == []
    assert copy_to_host(there, out=torch.zeros(1)).tolist() == [1.0]


@pytest.mark.parametrize(
    ("device", "found"), [("cuda", "cuda:1"), ("cuda:3", "cuda:3"), ("cpu:0", "cpu"), ("meta", "meta")]
)
def test_a_device_without_a_number_is_the_current_one(
    device: str, found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("cuda"))
    monkeypatch.setattr(torch.accelerator, "current_device_index", lambda: 1)
    assert copies._device(device) == torch.device(found)


@pytest.mark.parametrize(("is_available", "has"), [(True, "xpu"), (False, "no accelerator")])
def test_a_device_of_another_kind_than_this_processs_is_refused(
    is_available: bool, has: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # a build names its accelerator where there is neither a device nor a driver, too
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: is_available)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("xpu"))
    monkeypatch.setattr(torch.accelerator, "current_device_index", lambda: 0)
    with pytest.raises(ConfigurationError, match=f"device is 'cuda', and this process has {has}"):
        copies._device("cuda")


@pytest.mark.parametrize(("device", "clock"), [("cuda:0", "device"), ("cpu", "host")])
def test_an_operation_is_timed_on_the_clock_of_its_device(
    recording: Recording, scripted_device: ScriptedAccelerator, device: str, clock: str
) -> None:
    with recording.logger.operation("FORWARD", torch.device(device), layer_name="fc"):
        pass
    scripted_device.get_on()
    assert [(r.operation, r.layer_name, r.clock) for r in recording.rows] == [("FORWARD", "fc", clock)]


def test_work_that_fails_on_a_device_says_so_in_its_row(
    recording: Recording, scripted_device: ScriptedAccelerator
) -> None:
    with (
        pytest.raises(ArithmeticError),
        timed_block(recording.logger, "COMPRESS", torch.device("cuda:0")),
    ):
        raise ArithmeticError
    assert [r.status for r in recording.rows] == ["error:ArithmeticError"]


def test_where_nothing_is_compressed_there_are_only_copies(recording: Recording) -> None:
    host = torch.device("cpu")
    for compressor, operations in ((NoCompression(), []), (FP16(), ["COMPRESS", "DECOMPRESS"])):
        before = len(recording.rows)
        timed = _call.TimedCompressor(compressor, host, host, recording.logger)
        timed.decompress(timed.compress(torch.ones(4), "w"))
        assert [r.operation for r in recording.rows[before:]] == operations


# -- a real device, where there is one ---------------------------------------------------------------

needs_device = pytest.mark.skipif(not torch.accelerator.is_available(), reason="no accelerator here")


@needs_device
@pytest.mark.parametrize("non_blocking", [False, True])
def test_values_survive_the_way_to_a_real_device_and_back(recording: Recording, non_blocking: bool) -> None:
    tensor = torch.arange(1_000_000.0)
    options: dict[str, Any] = {"non_blocking": non_blocking, "timing_logger": recording.logger}
    there = copy_to_device(tensor, torch.accelerator.current_accelerator() or "cpu", **options)
    again = copy_to_device(there, there.device, out=torch.empty_like(there), **options)
    back = copy_to_host(again, **options)
    torch.accelerator.synchronize()
    assert back.is_pinned() == non_blocking
    assert torch.equal(back, tensor)
    assert [(r.operation, r.message_size_bytes) for r in recording.rows] == [
        (operation, 4_000_000) for operation in ("H2D", "D2D", "D2H")
    ]


@needs_device
def test_picks_on_a_real_device_are_those_on_the_host() -> None:
    device = torch.accelerator.current_accelerator()
    on_host, there = TopK(0.1), TopK(0.1)
    for step in range(3):
        tensor = torch.randn(10_000, generator=torch.Generator().manual_seed(step))
        mine, theirs = on_host.compress(tensor, "w"), there.compress(tensor.to(device), "w")
        assert torch.equal(mine.indices, theirs.indices.cpu())
        assert torch.equal(mine.values, theirs.values.cpu())
