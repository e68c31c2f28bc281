"""Rows against what CUPTI saw the device do: durations, places, lanes and overlap."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from cupti import DeviceWork, both_ns, device_work
from recordings import Figure, Recording, elapsed_ms
from spinning import spin
from timing_files import write_timing_file

from allreduce_instrumentation import copy_to_device, copy_to_host
from timing_logger import read_timings
from timing_logger.analysis import overlap
from timing_logger.schema.record import Record

BESIDE_MS = 0.05  # what the two marks, and the gaps between them and the work, may take
SPANS = 20

needs_nccl = pytest.mark.skipif(not dist.is_nccl_available(), reason="this torch has no NCCL")


def _in_spans(recording: Recording, work: Callable[[], object]) -> Callable[[], None]:
    """Twenty spans, the host being ahead of the device."""

    def run() -> None:
        spin(5)
        for _ in range(SPANS):
            with recording.logger.record_device_operation("SPAN"):
                work()

    return run


def _against(rows: list[Record], work: list[DeviceWork]) -> str:
    """How much longer the rows are, for a figure."""
    longer_us = [(elapsed_ms(row) - one.ms) * 1e3 for row, one in zip(rows, work, strict=True)]
    return f"{statistics.median(longer_us):+.1f} us, at worst {max(longer_us, key=abs):+.1f} us"


# -- durations -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("ms", [0.1, 1, 10])
def test_a_span_around_a_kernel_lasts_as_long_as_cupti_says(
    recording: Recording, figure: Figure, ms: float
) -> None:
    work = device_work(_in_spans(recording, lambda: spin(ms)))
    _, *spins = (one for one in work if one.is_spin())  # the first one is for the host
    rows = recording.rows
    figure(f"span beside CUPTI's kernel of {spins[0].ms:.3f} ms", _against(rows, spins))
    for row, kernel in zip(rows, spins, strict=True):
        assert elapsed_ms(row) == pytest.approx(kernel.ms, rel=0.05, abs=BESIDE_MS)


@pytest.mark.parametrize("direction", ["H2D", "D2H"])
def test_a_span_around_a_pinned_copy_lasts_as_long_as_cupti_says(
    recording: Recording, figure: Figure, direction: str
) -> None:
    on_host = torch.empty(64 << 20, dtype=torch.uint8, pin_memory=True)
    on_device = torch.empty_like(on_host, device="cuda")
    target, source = (on_device, on_host) if direction == "H2D" else (on_host, on_device)
    target.copy_(source, non_blocking=True)  # a first copy of its kind is set up while the device waits
    work = device_work(_in_spans(recording, lambda: target.copy_(source, non_blocking=True)))
    copies = [one for one in work if one.is_copy()]
    rows = recording.rows
    figure(f"span beside CUPTI's {direction} of {copies[0].ms:.3f} ms, pinned", _against(rows, copies))
    for row, copy in zip(rows, copies, strict=True):
        assert elapsed_ms(row) == pytest.approx(copy.ms, rel=0.05, abs=BESIDE_MS)


@pytest.mark.parametrize("direction", ["H2D", "D2H"])
def test_a_pageable_copy_lasts_no_less_than_cuptis_pieces_of_it_and_no_longer_than_the_call(
    recording: Recording, figure: Figure, direction: str
) -> None:
    """The driver copies such memory by way of its own, in pieces; the call returns when all is done."""
    on_host = torch.ones(64 << 20, dtype=torch.uint8)
    on_device = torch.ones_like(on_host, device="cuda")
    calls = []

    def copy_once() -> None:
        begun_ns = time.perf_counter_ns()
        if direction == "H2D":
            copy_to_device(on_host, "cuda", out=on_device, timing_logger=recording.logger)
        else:
            copy_to_host(on_device, out=on_host, timing_logger=recording.logger)
        calls.append((begun_ns, time.perf_counter_ns()))

    work = device_work(lambda: [copy_once() for _ in range(SPANS)])
    rows = recording.rows
    extents_ms = []
    for row, (begun_ns, done_ns) in zip(rows, calls, strict=True):
        pieces = [
            one for one in work if one.is_copy() and begun_ns < (one.start_ns + one.end_ns) / 2 < done_ns
        ]
        extents_ms.append((max(one.end_ns for one in pieces) - pieces[0].start_ns) / 1e6)
        assert row.clock == "device"
        assert elapsed_ms(row) >= extents_ms[-1] - BESIDE_MS
        assert elapsed_ms(row) <= (done_ns - begun_ns) / 1e6 + BESIDE_MS
    figure(
        f"{direction}, 64 MiB, pageable: by CUPTI {statistics.median(extents_ms):.3f} ms",
        f"row {statistics.median(map(elapsed_ms, rows)):.3f} ms",
    )


# -- places --------------------------------------------------------------------------------------------


def test_spans_stay_where_cupti_places_them_for_a_minute(recording: Recording, figure: Figure) -> None:
    begun_s = time.monotonic()
    at_s, misses_us = [], []
    while not at_s or at_s[-1] < 60:
        at_s.append(time.monotonic() - begun_s)
        misses_us.append(statistics.median(_misses_us(recording)))
        _record_for(20, recording)
    clock = recording.clock
    drift_ppm = statistics.linear_regression(at_s, misses_us).slope  # us in a second
    worst_us = max(misses_us, key=abs)
    figure("anchors in a minute", str(len(clock.anchors)))
    figure("worst uncertainty of an anchor", f"{clock.worst_uncertainty_ns / 1e3:.1f} us")
    figure("worst miss of the line through the anchors, at the next", f"{clock.worst_miss_ns / 1e3:.1f} us")
    figure("drift of placed spans against CUPTI's kernels, over a minute", f"{drift_ppm:+.2f} ppm")
    figure("place of spans beside CUPTI's kernels, at worst in four looks", f"{worst_us:+.1f} us")
    assert len(clock.anchors) >= 20
    assert clock.worst_miss_ns + clock.worst_uncertainty_ns < 50_000
    assert abs(drift_ppm) < 5
    assert abs(worst_us) < 200


def _misses_us(recording: Recording) -> list[float]:
    """How much later than CUPTI's kernels some spans begin."""
    recording.forget()
    _, *spins = (one for one in device_work(_in_spans(recording, lambda: spin(0.5))) if one.is_spin())
    return [(row.start_ns - one.start_ns) / 1e3 for row, one in zip(recording.rows, spins, strict=True)]


def _record_for(seconds: float, recording: Recording) -> None:
    """Anchors are renewed as long as there is something to place."""
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s:
        with recording.logger.record_device_operation("SPAN"):
            spin(0.1)
        time.sleep(0.05)


# -- lanes and overlap of DDP ----------------------------------------------------------------------------


class _Spins(torch.nn.Module):
    """A layer whose backward pass takes the device for some milliseconds."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x.register_hook(lambda _: spin(8))
        return x


def _model_that_gathers(result: torch.Tensor, given: torch.Tensor) -> torch.nn.Module:
    """DDP, of which one process alone communicates nothing, with an all-gather for each of two buckets."""

    def gathers(_, bucket):  # type: ignore[no-untyped-def]  # torch refuses annotations that are text
        gradients = bucket.buffer()
        work = dist.all_gather_into_tensor(result, given, async_op=True)
        return work.get_future().then(lambda _: gradients)

    layers = torch.nn.Linear(1024, 1024, bias=False), _Spins(), torch.nn.Linear(1024, 1024, bias=False)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers).cuda(), bucket_cap_mb=1)
    model.register_comm_hook(None, gathers)
    return model


def _train(model: torch.nn.Module, recording: Recording, steps: int) -> None:
    x = torch.ones(8, 1024, device="cuda")
    for step in range(steps):
        recording.logger.set_current_iteration(step)
        loss = model(x).sum()
        spin(20)  # so that the device is not ahead of the host
        with recording.logger.record_device_operation("BACKWARD"):
            loss.backward()
        torch.cuda.synchronize()


@needs_nccl
def test_ddp_hides_as_much_by_its_rows_as_by_cuptis_kernels(
    nccl: Recording, gathered: tuple[torch.Tensor, torch.Tensor], figure: Figure, tmp_path: Path
) -> None:
    model = _model_that_gathers(*gathered)
    _train(model, nccl, 3)  # DDP makes its buckets anew after the first one
    nccl.forget()
    work = device_work(lambda: _train(model, nccl, 5))
    gathers, spins = _gathers(work), [one for one in work if one.is_spin()]
    rows = nccl.rows
    write_timing_file(tmp_path, 0, rows)
    table = overlap(read_timings(tmp_path))
    by_rows = table.hidden_ms.sum() / table.communication_ms.sum()
    in_truth = both_ns(gathers, spins) / 1e6 / sum(one.ms for one in gathers)
    figure(f"of DDP's communication CUPTI saw hidden {in_truth:.3f}", f"{by_rows:.3f} by overlap()")
    assert len(gathers) == 10
    assert 0.25 < in_truth < 0.75  # the first bucket of each pass, and not the second
    assert by_rows == pytest.approx(in_truth, abs=0.1)


@needs_nccl
def test_rows_of_ddp_lie_in_lanes_as_cuptis_kernels_lie_in_streams(
    nccl: Recording, gathered: tuple[torch.Tensor, torch.Tensor], figure: Figure
) -> None:
    model = _model_that_gathers(*gathered)
    _train(model, nccl, 3)
    nccl.forget()
    work = device_work(lambda: _train(model, nccl, 5))
    rows: dict[str, Any] = {
        name: [row for row in nccl.rows if row.operation == name]
        for name in ("BACKWARD", "IALLGATHER", "WAIT")
    }
    gathers = _gathers(work)
    gather_ms = statistics.median(one.ms for one in gathers)
    row_ms = statistics.median(map(elapsed_ms, rows["IALLGATHER"]))
    figure(f"DDP's bucket, by CUPTI {gather_ms:.3f} ms", f"row {row_ms:.3f} ms")
    assert not {one.stream for one in gathers} & {one.stream for one in work if one.is_spin()}
    assert {row.stream for row in rows["IALLGATHER"]} == {""}  # nobody names NCCL's
    assert {row.stream for row in rows["WAIT"]} == {row.stream for row in rows["BACKWARD"]}
    assert {row.thread for name in rows for row in rows[name]} == {"MainThread"}
    assert row_ms == pytest.approx(gather_ms, rel=0.15, abs=0.1)


def _gathers(work: list[DeviceWork]) -> list[DeviceWork]:
    """What NCCL does on one process: copies, by far the longest, within the device."""
    return [one for one in work if ("DtoD" in one.name or "nccl" in one.name.lower()) and one.ms > 0.2]
