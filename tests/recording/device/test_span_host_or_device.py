"""Which stream is meant by a device or by a handle, and none where there is no accelerator."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from scripted_device import ScriptedAccelerator

from timing_logger.recording.device import accelerator
from timing_logger.recording.device.span import (
    has_streams,
    stream_elsewhere,
    stream_of_handle,
    timed_block,
)


def of(index: int | None, kind: str = "cuda") -> Any:
    """A device."""
    return SimpleNamespace(type=kind, index=index)


def test_a_handle_is_that_of_a_stream_of_its_device(scripted_device: ScriptedAccelerator) -> None:
    stream: Any = stream_of_handle(7, 2)
    assert (stream.stream_id, stream.device.index) == (7, 2)


def test_where_torch_has_used_no_device_yet_there_is_no_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accelerator, "find_accelerator", lambda: None)
    assert stream_of_handle(7, 0) is None
    assert stream_elsewhere(of(1)) is None


def test_only_of_another_device_than_the_current_one_is_the_stream_stated(
    scripted_device: ScriptedAccelerator,
) -> None:
    stream: Any = stream_elsewhere(of(1))
    assert stream.device.index == 1
    assert [stream_elsewhere(device) for device in (of(0), of(None), None)] == [None] * 3


@pytest.mark.parametrize(
    ("kind", "streams"), [("cpu", False), ("meta", False), ("cuda", True), ("xpu", True)]
)
def test_work_on_the_host_is_queued_in_no_stream(kind: str, streams: bool) -> None:
    assert has_streams(of(None, kind)) is streams


@pytest.mark.parametrize(
    ("device", "recording", "expected"),
    [
        (None, True, ("host", {"layer_name": "fc"})),
        (of(None, "cpu"), True, ("host", {"layer_name": "fc"})),
        (of(0), False, ("host", {"layer_name": "fc"})),
        (of(0), True, ("device", {"stream": None, "layer_name": "fc"})),
    ],
    ids=["no device", "host", "not recorded", "device"],
)
def test_a_block_is_timed_by_its_device_if_that_has_streams_and_it_is_recorded(
    scripted_device: ScriptedAccelerator, device: Any, recording: bool, expected: tuple[str, dict[str, Any]]
) -> None:
    recorder: Any = SimpleNamespace(
        recording=recording,
        record_mpi_operation=lambda operation, **columns: ("host", columns),
        record_device_operation=lambda operation, **columns: ("device", columns),
    )
    made: object = timed_block(recorder, "BROADCAST", device, layer_name="fc")
    assert made == expected
