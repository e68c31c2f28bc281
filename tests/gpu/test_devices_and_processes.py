"""Where the work is not on the current device, or not in this process alone: two GPUs, a fork, two ranks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from loaded_nccl import nccl_version
from processes import run_python
from recordings import Figure, Recording, elapsed_ms
from spinning import Known
from torch_runner import run_with_torchrun

from allreduce_instrumentation import copy_to_device
from timing_logger import read_timings
from timing_logger.analysis import overlap

FIRST_NCCL_WITH_RANKS_ON_ONE_GPU = (2, 30, 0)

needs_nccl = pytest.mark.skipif(not dist.is_nccl_available(), reason="this torch has no NCCL")
needs_two_gpus = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")


def _can_have_two_ranks() -> bool:
    if not dist.is_nccl_available():
        return False
    return torch.cuda.device_count() > 1 or nccl_version() >= FIRST_NCCL_WITH_RANKS_ON_ONE_GPU


# -- off the current device ------------------------------------------------------------------------------


@needs_two_gpus
def test_a_copy_is_timed_on_the_device_where_it_goes(recording: Recording) -> None:
    on_host = torch.empty(256 << 20, dtype=torch.uint8, pin_memory=True)
    there = torch.empty_like(on_host, device="cuda:1")
    with Known(torch.cuda.current_stream(1)) as known:
        copy_to_device(on_host, "cuda:1", out=there, non_blocking=True, timing_logger=recording.logger)
    (row,) = recording.rows
    assert (row.clock, row.status, row.stream) == ("device", "ok", "cuda:1/0")
    assert elapsed_ms(row) == pytest.approx(known.ms, rel=0.1, abs=0.1)
    assert torch.cuda.current_device() == 0


@needs_nccl
@needs_two_gpus
@pytest.mark.parametrize("in_background", [False, True])
def test_a_collective_is_timed_on_the_device_of_its_tensor(nccl: Recording, in_background: bool) -> None:
    group = dist.new_group([0])
    given = torch.ones(1 << 30, dtype=torch.uint8, device="cuda:1")
    result = torch.empty_like(given)
    dist.all_gather_into_tensor(result, given, group=group)  # makes the communicator
    torch.cuda.synchronize(1)
    nccl.forget()
    with Known(torch.cuda.current_stream(1)) as known:
        work = dist.all_gather_into_tensor(result, given, group=group, async_op=in_background)
        if work is not None:
            work.wait()
    operation, *waits = nccl.rows
    dist.destroy_process_group(group)
    assert {(row.clock, row.status) for row in (operation, *waits)} == {("device", "ok")}
    assert {row.stream for row in waits or [operation]} == {"cuda:1/0"}
    assert elapsed_ms(operation) == pytest.approx(known.ms, rel=0.1, abs=0.1)
    assert torch.cuda.current_device() == 0


@needs_two_gpus
def test_a_thread_that_chose_no_device_is_timed_on_the_one_that_the_process_uses() -> None:
    run = run_python(
        """
        import threading, torch
        from timing_logger import TimingLogger
        from timing_logger.sinks.memory import MemorySink
        torch.cuda.set_device(1)
        torch.ones(1, device="cuda")
        sink = MemorySink()
        logger = TimingLogger(1, None, sinks=[sink])
        def work():
            with logger.record_device_operation("FORWARD"):
                pass
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert logger.flush()
        print([row.stream for row in sink.records], torch._C._cuda_hasPrimaryContext(0))
        """
    )
    assert run.stdout == "['cuda:1/0'] False\n", run.stderr


# -- a forked child ----------------------------------------------------------------------------------------


def test_a_forked_child_is_timed_by_the_host() -> None:
    """A worker of a DataLoader, whose parent has used the device."""
    run = run_python(
        """
        import os, torch
        from timing_logger import TimingLogger
        from timing_logger.compat import CUDATimer
        from timing_logger.sinks.memory import MemorySink

        def timed():
            timer, sink = CUDATimer(), MemorySink()
            timer.start()
            timer.stop()
            with TimingLogger(0, None, sinks=[sink]) as logger:
                with logger.record_device_operation("DATA") as span:
                    pass
            (row,) = sink.records
            return [row.clock, row.status, timer.elapsed_ms() >= 0, span.elapsed_ms >= 0]

        torch.ones(1, device="cuda")
        print(timed(), flush=True)
        if os.fork() == 0:
            print(timed(), flush=True)
            os._exit(0)
        os.wait()
        print(timed())
        """
    )
    parent, child = "['device', 'ok', True, True]", "['host', 'ok', True, True]"
    assert run.stdout.splitlines() == [parent, child, parent], run.stderr


# -- two processes -----------------------------------------------------------------------------------------


def _on_two_processes(backend: str, folder: Path) -> list[dict[str, Any]]:
    return run_with_torchrun(2, "two_ranks_on_gpu.py", backend, str(folder))


@pytest.mark.skipif(not _can_have_two_ranks(), reason="needs two GPUs, or NCCL 2.30")
def test_two_ranks_of_nccl_show_who_waits_for_whom(
    tmp_path: Path, figure: Figure, monkeypatch: pytest.MonkeyPatch
) -> None:
    if torch.cuda.device_count() < 2:
        monkeypatch.setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1")
        monkeypatch.setenv("NCCL_ALGO", "Ring")
    ranks = _on_two_processes("nccl", tmp_path)
    for rank in ranks:
        assert rank["sums"] == [[3.0]] * 4
        assert [row[:3] for row in rank["rows"]] == [
            ["ALLREDUCE", "device", "ok"],
            ["IALLREDUCE", "device", "ok"],
            ["WAIT", "device", "ok"],
        ]
    early_ms, late_ms = (rank["rows"][0][4] for rank in ranks)
    figure("NCCL, two ranks, one of them 100 ms late", f"{early_ms:.1f} ms; the late one {late_ms:.1f} ms")
    assert late_ms < early_ms / 2
    _look_at_training(tmp_path, figure)


def _look_at_training(folder: Path, figure: Figure) -> None:
    rows = read_timings(folder)
    rows = rows[rows.iteration >= 3]  # DDP makes its buckets anew, and torch its kernels
    assert set(rows.clock) == {"device"}
    assert set(rows.status) == {"ok"}
    assert set(rows.thread) == {"MainThread"}
    early_ms, late_ms = overlap(rows).groupby("rank").waited_ms.median()
    figure("DDP, two ranks, one 50 ms late in each step", f"{early_ms:.1f} ms waited; {late_ms:.1f} ms")
    assert late_ms < early_ms / 2


def test_gloo_times_cuda_tensors_on_the_hosts_clock(tmp_path: Path) -> None:
    for rank in _on_two_processes("gloo", tmp_path):
        assert rank["sums"] == [[3.0]] * 4
        assert [row[:3] for row in rank["rows"]] == [
            ["ALLREDUCE", "host", "ok"],
            ["IALLREDUCE", "host", "ok"],
            ["WAIT", "host", "ok"],
        ]
        assert len({row[3] for row in rank["rows"][1:]}) == 1
