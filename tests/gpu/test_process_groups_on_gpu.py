"""Process groups on a real GPU: NCCL's operations by its own clock, graphs, overlap, memory; gloo beside it.

NCCL runs with one process here, and with two where there are two devices. With one process an
all-gather is a copy on the device, which takes long enough to be measured.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from processes import run_job
from spinning import Known, spin

from allreduce_instrumentation.process_group import init_process_group
from timing_logger import TimingLogger
from timing_logger.record import Record
from timing_logger.sinks.memory import MemorySink

Figure = Callable[[str, str], None]

REPOSITORY = Path(__file__).parents[2]
GATHERED_BYTES = 1 << 30
BETWEEN_MS = 0.1  # what may lie between two events that are recorded one after the other

needs_nccl = pytest.mark.skipif(not dist.is_nccl_available(), reason="this torch has no NCCL")


class Recording:
    """A logger in memory, and the rows of the operations since it was last told to forget."""

    def __init__(self) -> None:
        self._sink = MemorySink()
        self.logger = TimingLogger(0, None, sinks=[self._sink], flush_interval=0.005, device_timeout=30.0)

    def forget(self) -> None:
        assert self.logger.flush(timeout=60)
        self._sink.records.clear()

    @property
    def rows(self) -> list[Record]:
        assert self.logger.flush(timeout=60)
        return sorted(self._sink.records, key=lambda row: (row.seq or 0, row.operation))


@pytest.fixture(scope="module")
def nccl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recording]:
    """A timed default group of one process, whose communicator is made."""
    store = tmp_path_factory.mktemp("nccl") / "store"
    recording = Recording()
    torch.cuda.set_device(0)
    init_process_group(
        "nccl", timing_logger=recording.logger, init_method=f"file://{store}", rank=0, world_size=1
    )
    try:
        dist.all_reduce(torch.ones(1, device="cuda"))
        torch.cuda.synchronize()
        yield recording
    finally:
        dist.destroy_process_group()
        recording.logger.close()


@pytest.fixture
def recording(nccl: Recording) -> Recording:
    torch.cuda.synchronize()
    nccl.forget()
    return nccl


@pytest.fixture
def gathered(recording: Recording) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Output and input of an all-gather that takes some tenths of a millisecond; the first one is done."""
    given = torch.ones(GATHERED_BYTES, dtype=torch.uint8, device="cuda")
    result = torch.empty_like(given)
    dist.all_gather_into_tensor(result, given)
    dist.all_gather_into_tensor(result, given, async_op=True).wait()
    torch.cuda.synchronize()
    recording.forget()
    yield result, given
    torch.cuda.synchronize()
    del given, result
    torch.cuda.empty_cache()


def elapsed_ms(row: Record) -> float:
    assert row.end_ns is not None, row
    return (row.end_ns - row.start_ns) / 1e6


def summary(rows: list[Record]) -> list[tuple[str, str, str]]:
    return [(row.operation, row.clock, row.status) for row in rows]


# -- the right times -----------------------------------------------------------------------------------


@needs_nccl
def test_a_synchronous_collective_is_one_row_as_long_as_events_around_it_say(
    recording: Recording, gathered: tuple[torch.Tensor, torch.Tensor], figure: Figure
) -> None:
    with Known() as known:
        dist.all_gather_into_tensor(*gathered)
    (row,) = recording.rows
    figure(f"NCCL, synchronous, events around it {known.ms:.3f} ms", f"{elapsed_ms(row):.3f} ms")
    assert summary([row]) == [("ALLGATHER", "device", "ok")]
    assert row.stream == f"cuda:{torch.cuda.current_device()}/0"
    assert elapsed_ms(row) == pytest.approx(known.ms, rel=0.1, abs=BETWEEN_MS)


@needs_nccl
def test_a_background_collective_is_two_rows_with_one_number(
    recording: Recording, gathered: tuple[torch.Tensor, torch.Tensor]
) -> None:
    dist.all_gather_into_tensor(*gathered, async_op=True).wait()
    operation, wait = recording.rows
    assert summary([operation, wait]) == [("IALLGATHER", "device", "ok"), ("WAIT", "device", "ok")]
    assert (operation.seq, operation.group) == (wait.seq, wait.group)
    assert elapsed_ms(wait) <= elapsed_ms(operation) + BETWEEN_MS


@needs_nccl
def test_a_background_collective_takes_as_long_as_nccl_says_itself(
    recording: Recording, gathered: tuple[torch.Tensor, torch.Tensor], figure: Figure
) -> None:
    group = dist.new_group([0])
    group._enable_collectives_timing()
    nccls_ms, ours_ms = [], []
    for repetition in range(11):
        work = dist.all_gather_into_tensor(*gathered, group=group, async_op=True)
        work.wait()
        torch.cuda.synchronize()
        if repetition:  # the first one makes the communicator
            nccls_ms.append(work._get_duration())
            ours_ms.append(elapsed_ms(recording.rows[0]))
        recording.forget()
    dist.destroy_process_group(group)
    nccls, ours = statistics.median(nccls_ms), statistics.median(ours_ms)
    figure(f"NCCL, in the background, its own duration {nccls:.3f} ms", f"{ours:.3f} ms")
    assert ours == pytest.approx(nccls, rel=0.1, abs=BETWEEN_MS)


@needs_nccl
def test_rows_of_nccls_own_durations_agree_with_ours(
    recording: Recording,
    gathered: tuple[torch.Tensor, torch.Tensor],
    figure: Figure,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TORCH_NCCL_ENABLE_TIMING", "1")
    group = dist.new_group([0])
    for _ in range(11):
        dist.all_gather_into_tensor(*gathered, group=group, async_op=True).wait()
        torch.cuda.synchronize()
    dist.destroy_process_group(group)  # waits for the hook
    rows = recording.rows
    nccls, ours = (
        {row.seq: elapsed_ms(row) for row in rows if row.operation == operation}
        for operation in ("BACKEND", "IALLGATHER")
    )
    assert set(nccls) == set(ours) == set(range(11))
    del nccls[0], ours[0]  # the first one makes the communicator
    nccl_ms, our_ms = statistics.median(nccls.values()), statistics.median(ours.values())
    figure(f"NCCL, in the background, its rows BACKEND {nccl_ms:.3f} ms", f"{our_ms:.3f} ms")
    assert our_ms == pytest.approx(nccl_ms, rel=0.1, abs=BETWEEN_MS)
    assert {row.clock for row in rows} == {"device"}


@needs_nccl
def test_recording_makes_no_caller_wait_for_the_device(recording: Recording) -> None:
    tensor, done = torch.ones(1000, device="cuda"), torch.cuda.Event()
    spin(500)
    dist.all_reduce(tensor)
    dist.all_reduce(tensor, async_op=True).wait()
    done.record()
    assert not done.query()
    assert {row.status for row in recording.rows} == {"ok"}


@needs_nccl
def test_the_rows_of_a_ddp_model_are_by_the_device_and_every_bucket_is_waited_for(
    recording: Recording,
) -> None:
    layers = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(4))).cuda()
    model = torch.nn.parallel.DistributedDataParallel(layers, bucket_cap_mb=0.02)
    recording.forget()
    for _ in range(4):
        model(torch.ones(8, 64, device="cuda")).sum().backward()
    torch.cuda.synchronize()
    rows = recording.rows
    buckets = [row for row in rows if row.operation == "IALLREDUCE"]
    waited_for = {row.seq for row in rows if row.operation == "WAIT"}
    assert {(row.clock, row.status) for row in rows} == {("device", "ok")}
    assert len(buckets) >= 8
    assert {row.seq for row in buckets} <= waited_for
    assert any(row.layer_name.startswith("ddp:") for row in buckets)
    assert {row.thread for row in rows} == {"MainThread"}  # which called backward; autograd's own wrote them
    assert {row.stream for row in buckets} == {""}
    assert all(row.stream.startswith("cuda:") for row in rows if row.operation == "WAIT")


# -- nothing changes -------------------------------------------------------------------------------------


@needs_nccl
def test_a_collective_ends_while_the_stream_that_issued_it_computes_on(
    recording: Recording, gathered: tuple[torch.Tensor, torch.Tensor], figure: Figure
) -> None:
    with Known() as computing:
        work = dist.all_gather_into_tensor(*gathered, async_op=True)
        spin(50)
    work.wait()
    operation, wait = recording.rows
    figure(
        f"NCCL in the background beside a kernel of {computing.ms:.1f} ms",
        f"{elapsed_ms(operation):.3f} ms, and a WAIT of {elapsed_ms(wait):.3f} ms",
    )
    assert elapsed_ms(operation) < computing.ms / 2
    assert elapsed_ms(wait) < computing.ms / 2


@needs_nccl
def test_computing_and_communicating_side_by_side_takes_as_long_as_untimed(
    recording: Recording, gathered: tuple[torch.Tensor, torch.Tensor], figure: Figure
) -> None:
    timed_ms, untimed_ms = [], []
    for _ in range(20):
        timed_ms.append(_overlapped_ms(dist.group.WORLD, *gathered))
        untimed_ms.append(_overlapped_ms(dist.group.WORLD.untimed, *gathered))
    timed, untimed = statistics.median(timed_ms), statistics.median(untimed_ms)
    figure(f"10 all-gathers beside kernels, untimed {untimed:.2f} ms", f"timed {timed:.2f} ms")
    assert timed <= untimed * 1.1 + BETWEEN_MS


def _overlapped_ms(group: Any, result: torch.Tensor, given: torch.Tensor) -> float:
    torch.cuda.synchronize()
    spin(5)  # so that the device is not ahead of the host
    with Known() as known:
        for _ in range(10):
            work = group._allgather_base(result, given)
            spin(1)
            work.wait()
    return known.ms


@needs_nccl
def test_memory_given_back_while_the_device_is_behind_is_used_again(
    recording: Recording, figure: Figure
) -> None:
    timed, untimed = (_reserved_mib(group) for group in (dist.group.WORLD, dist.group.WORLD.untimed))
    figure(f"reserved for 20 tensors of 32 MiB, one at a time, untimed {untimed} MiB", f"timed {timed} MiB")
    assert timed <= untimed


def _reserved_mib(group: Any) -> int:
    """What 20 tensors need that are reduced in the background and dropped, one after the other."""
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_reserved()
    spin(500)
    for _ in range(20):
        tensor = torch.empty(32 << 20, dtype=torch.uint8, device="cuda")
        work = group.allreduce([tensor])
        work.wait()
        del tensor, work
    reserved = torch.cuda.memory_reserved() - before
    torch.cuda.synchronize()
    return reserved >> 20


@needs_nccl
@pytest.mark.parametrize("in_background", [False, True])
def test_a_collective_in_a_graph_is_captured_unrecorded_and_replays(
    recording: Recording, in_background: bool
) -> None:
    tensor = torch.zeros(1000, device="cuda")
    _reduce_in_a_side_stream(tensor)
    captured_before = _captured(recording)
    dist.all_reduce(tensor)
    (before,) = recording.rows
    recording.forget()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        tensor.add_(1)
        work = dist.all_reduce(tensor, async_op=in_background)
        if work is not None:
            work.wait()
    for _ in range(3):
        graph.replay()
    torch.cuda.synchronize()
    assert tensor.unique().tolist() == [3.0]
    assert recording.rows == []
    assert _captured(recording) > captured_before
    dist.all_reduce(tensor)
    (after,) = recording.rows
    assert (before.seq, after.seq) == (before.seq, (before.seq or 0) + 2)


def _reduce_in_a_side_stream(tensor: torch.Tensor) -> None:
    """What torch asks to be done before a capture."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        dist.all_reduce(tensor)
        dist.all_reduce(tensor, async_op=True).wait()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()


def _captured(recording: Recording) -> int:
    recording.forget()
    return sum(clock.captured for clock in recording.logger._flusher._device_rows.info())


# -- two processes -----------------------------------------------------------------------------------------

_TWO_PROCESSES = """
import json, os, sys
import torch
import torch.distributed as dist
from allreduce_instrumentation.process_group import init_process_group
from timing_logger import TimingLogger
from timing_logger.sinks.memory import MemorySink

backend, rank = sys.argv[1], int(os.environ["RANK"])
torch.cuda.set_device(rank if backend == "nccl" else 0)
sink = MemorySink()
logger = TimingLogger(rank, None, sinks=[sink], device_timeout=30.0)
init_process_group(backend, timing_logger=logger)

def reduced(**how):
    tensor = torch.full((1000,), rank + 1.0, device="cuda")
    work = dist.all_reduce(tensor, **how)
    if work is not None:
        work.wait()
    torch.cuda.synchronize()
    return tensor.unique().tolist()

sums = [reduced(), reduced(async_op=True)]  # these make the communicator
assert logger.flush(timeout=60)
sink.records.clear()
dist.barrier()
if rank == 1:
    torch.cuda._sleep(150_000_000)  # about 100 ms
sums += [reduced(), reduced(async_op=True)]
assert logger.flush(timeout=60)
rows = [
    [row.operation, row.clock, row.status, row.seq, (row.end_ns - row.start_ns) / 1e6]
    for row in sink.records
    if row.operation != "BARRIER"
]
everyones = [None, None]
dist.all_gather_object(everyones, {"sums": sums, "rows": sorted(rows)})
if rank == 0:
    print("RESULTS", json.dumps(everyones))
dist.destroy_process_group()
"""


def _on_two_processes(backend: str, folder: Path) -> list[dict[str, Any]]:
    program = folder / "program.py"
    program.write_text(_TWO_PROCESSES, encoding="utf-8")
    job = run_job(
        [
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--standalone",
            "--nproc-per-node",
            2,
            program,
            backend,
        ],
        environment={"PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"},
        limit_s=240,
        name=f"{backend} on two processes",
    )
    assert job.returncode == 0, job.stdout + job.stderr
    (line,) = (line for line in job.stdout.splitlines() if line.startswith("RESULTS "))
    found: list[dict[str, Any]] = json.loads(line.removeprefix("RESULTS "))
    return found


@needs_nccl
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_nccl_on_two_devices_shows_who_waits_for_whom(tmp_path: Path, figure: Figure) -> None:
    ranks = _on_two_processes("nccl", tmp_path)
    for rank in ranks:
        assert rank["sums"] == [[3.0]] * 4
        assert [row[:3] for row in rank["rows"]] == [
            ["ALLREDUCE", "device", "ok"],
            ["IALLREDUCE", "device", "ok"],
            ["WAIT", "device", "ok"],
        ]
    early_ms, late_ms = (rank["rows"][0][4] for rank in ranks)
    figure(
        "NCCL on two devices, one of them 100 ms late", f"{early_ms:.1f} ms; the late one {late_ms:.1f} ms"
    )
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
