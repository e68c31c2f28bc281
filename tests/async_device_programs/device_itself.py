"""On one process: what the asynchronous device promises to the tests that stand on it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from _scenarios import run
from torch import Event, Stream, nn

from timing_logger import TimingLogger
from timing_logger.sinks.memory import MemorySink

device = torch.asyncdev


@contextmanager
def _held(index: int = 0) -> Iterator[Any]:
    """A block in which the current stream of a device stands still, unless its gate is opened."""
    gate = device.hold(index)
    try:
        yield gate
    finally:
        gate.open()
        device.synchronize(index)


def _mark(stream: Stream | None = None) -> Event:
    event = Event(enable_timing=True)
    event.record(device.current_stream() if stream is None else stream)
    return event


def host_goes_on() -> list[bool]:
    with _held():
        kernel = _mark()
        before = kernel.query()
    return [before, kernel.query()]


def kernels_in_order() -> list[float]:
    numbers = torch.arange(5.0).pin_memory()
    cell = torch.zeros(1, device="asyncdev")
    seen = [torch.zeros(1).pin_memory() for _ in numbers]
    with _held():
        for number, place in zip(numbers, seen, strict=True):
            cell.copy_(number, non_blocking=True)
            place.copy_(cell, non_blocking=True)
    return [place.item() for place in seen]


def streams_beside_one_another() -> list[bool]:
    side = Stream()
    with _held():
        held = _mark()
        passed = _mark(side)
        passed.synchronize()
        return [held.query(), passed.query()]


def events_measure() -> float:
    start = _mark()
    device.spin(20)
    end = _mark()
    end.synchronize()
    return start.elapsed_time(end)


def too_early_to_measure() -> str:
    with _held():
        start, end = _mark(), _mark()
        try:
            start.elapsed_time(end)
        except RuntimeError as error:
            return str(error)
    return ""


def stream_waits_for_event() -> list[bool]:
    side = Stream()
    with _held() as gate:
        side.wait_event(_mark())
        after = _mark(side)
        before = after.query()
        gate.open()
        after.synchronize()
    return [before, after.query()]


def full_queue() -> list[bool]:
    device.set_queue_capacity(4)
    full = Stream()
    done = threading.Event()

    def fill() -> None:
        with full:
            for _ in range(4):
                device.spin(0)
        done.set()

    with full:
        gate = device.hold()
    filler = threading.Thread(target=fill)
    filler.start()
    done_while_held = done.wait(0.1)
    gate.open()
    filler.join()
    full.synchronize()
    device.set_queue_capacity(1024)
    return [done_while_held, done.is_set()]


def mark_in_full_stream() -> bool:
    """Torch keeps the interpreter's lock while it waits: a stream that needed it would never get on."""
    device.set_queue_capacity(2)
    for _ in range(8):
        device.spin(2)
        last = _mark()
    device.set_queue_capacity(1024)
    last.synchronize()
    return last.query()


def devices_apart() -> list[bool]:
    with _held(0):
        held = _mark()
        device.spin(1, 1)
        device.synchronize(1)
        return [held.query(), device.current_stream(1).query()]


def copies_between_devices() -> list[bool]:
    given = torch.arange(3.0)
    first = given.to("asyncdev:0")
    with _held(0):
        second = first.to("asyncdev:1", non_blocking=True)
        waits = not device.current_stream(1).query()
    return [waits, torch.equal(second.cpu(), given)]


def contexts() -> list[bool]:
    """Of the three devices, the last one is used by nobody."""
    torch.zeros(1, device="asyncdev:1")
    return [device.has_context(index) for index in (0, 1, 2)]


def futures_callback() -> list[Any]:
    own = Stream()
    future: torch.futures.Future[Any] = torch.futures.Future(devices=["asyncdev:0"])
    tensor = torch.ones(1, device="asyncdev:0")
    marks: list[Event] = []
    streams: list[int] = []

    def note(_: Any) -> None:
        streams.append(device.current_stream().stream_id)
        marks.append(_mark())

    with own:
        gate = device.hold()
        future.set_result([tensor])
    future.add_done_callback(note)
    before = marks[0].query()
    gate.open()
    marks[0].synchronize()
    return [streams[0], own.stream_id, before]


def pool_of_streams() -> list[int]:
    return [Stream().stream_id for _ in range(65)]


def backward_in_its_thread() -> bool:
    threads: list[int] = []
    weight = torch.ones(2, device="asyncdev", requires_grad=True)
    weight.register_hook(lambda _: threads.append(threading.get_ident()))
    (weight * weight).sum().backward()
    return threads[0] != threading.get_ident()


def training() -> list[bool]:
    """The same training on the host and on the device: every parameter alike?"""
    nets = []
    for on in ("cpu", "asyncdev"):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2)).to(on)
        optimizer = torch.optim.AdamW(net.parameters())
        for _ in range(3):
            net(torch.randn(5, 4).to(on)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        nets.append(net)
    pairs = zip(*(net.state_dict().values() for net in nets), strict=True)
    return [torch.allclose(on_host, on_device.cpu()) for on_host, on_device in pairs]


def pinned_copy() -> list[bool]:
    pinned, plain = torch.ones(2).pin_memory(), torch.ones(2)
    with _held():
        copy = pinned.to("asyncdev", non_blocking=True)
        went_on = not device.current_stream().query()
    return [pinned.is_pinned(), plain.is_pinned(), went_on, torch.equal(copy.cpu(), plain)]


def emptied_storage() -> list[str]:
    storage = torch.ones(2, device="asyncdev:1").untyped_storage()
    storage.resize_(0)
    empty = str(storage.device)
    storage.resize_(8)
    return [empty, str(storage.device)]


def captured() -> list[Any]:
    with device.capture() as tasks:
        device.spin(1)
        device.spin(1)
        capturing = device.is_current_stream_capturing()
    start = _mark()
    device.replay()
    end = _mark()
    end.synchronize()
    return [capturing, device.is_current_stream_capturing(), tasks, start.elapsed_time(end)]


def timed_span() -> list[Any]:
    sink = MemorySink()
    logger = TimingLogger(0, log_dir=None, sinks=[sink])
    with _held() as gate:
        with logger.record_device_operation("ALLREDUCE", 4):
            device.spin(30)
        went_on = not device.current_stream().query()
        gate.open()
    logger.close()
    (record,) = sink.records
    return [went_on, record.clock, (record.end_ns - record.start_ns) / 1e6]


if __name__ == "__main__":
    run(globals())
