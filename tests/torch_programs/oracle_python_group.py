"""A process group written in Python, as torch lets everybody write one, held by a timed group."""

from __future__ import annotations

import gc
import weakref
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from allreduce_instrumentation import init_process_group, instrument, uninstrument
from allreduce_instrumentation.torch_distributed import TimedProcessGroup
from timing_logger.recording.logger import TimingLogger
from timing_logger.sinks.memory import MemorySink


class CountingWork(dist.Work):
    """Done when it is made; counts who asks."""

    def __init__(self, result: Any, group: LonelyGroup) -> None:
        super().__init__()
        self._future: torch.futures.Future[Any] = torch.futures.Future()
        self._future.set_result(result)
        self._group = weakref.ref(group)
        self.of_its_own = "kept"

    def wait(self, timeout: timedelta | None = None) -> bool:
        group = self._group()
        if group is not None:
            group.waits += 1
        return True

    def get_future(self) -> torch.futures.Future[Any]:
        group = self._group()
        if group is not None:
            group.futures += 1
        return self._future

    def is_completed(self) -> bool:
        return True


class LonelyGroup(dist.ProcessGroup):
    """Of one rank, so that nothing needs to be sent."""

    def __init__(self) -> None:
        super().__init__(0, 1)
        self.waits = self.futures = 0
        self.calls: list[str] = []
        self.works: list[CountingWork] = []  # C++ keeps none of them alive

    def _done(self, call: str, result: Any) -> CountingWork:
        self.calls.append(call)
        self.works.append(CountingWork(result, self))
        return self.works[-1]

    def allreduce(self, tensors: Any, opts: Any = None) -> CountingWork:
        return self._done("allreduce", tensors)

    def broadcast(self, tensors: Any, opts: Any = None) -> CountingWork:
        return self._done("broadcast", tensors)

    def allgather(self, outputs: Any, inputs: Any, opts: Any = None) -> CountingWork:
        for output, given in zip(outputs[0], inputs, strict=True):
            output.copy_(given)
        return self._done("allgather", outputs)

    def barrier(self, opts: Any = None) -> CountingWork:
        return self._done("barrier", [])

    def send(self, tensors: Any, to: int, tag: int = 0) -> CountingWork:
        return self._done("send", tensors)

    def recv(self, tensors: Any, source: int, tag: int = 0) -> CountingWork:
        return self._done("recv", tensors)

    def getBackendName(self) -> str:
        return "lonely"

    def abort(self) -> None:
        self.calls.append("abort")

    def shutdown(self) -> None:
        self.calls.append("shutdown")


def timed_and_held(logger: TimingLogger) -> tuple[Any, LonelyGroup]:
    held = LonelyGroup()
    return TimedProcessGroup(held, logger, {"cpu": "lonely"}), held


def layers() -> nn.Sequential:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.ReLU(), nn.Linear(2, 1))


def model_over(group: Any) -> DistributedDataParallel:
    """A model whose buffers are broadcast, too; over the default group if there is no other."""
    return DistributedDataParallel(layers(), process_group=group)


def of_one_pass(model: nn.Module) -> list[Any]:
    model(torch.ones(3, 2)).sum().backward()
    return [parameter.grad.tolist() for parameter in model.parameters()]


def gradients(group: Any) -> list[Any]:
    return of_one_pass(layers() if group is None else model_over(group))


def training(logger: TimingLogger) -> dict[str, Any]:
    timed, held = timed_and_held(logger)
    same = gradients(timed) == gradients(None)
    return {"same gradients": same, "waited": held.waits > 0, "took futures": held.futures > 0}


def works(logger: TimingLogger) -> dict[str, Any]:
    timed, held = timed_and_held(logger)
    work = timed.allreduce([torch.ones(2)])
    waited = work.wait()
    return {"waited": waited, "waits": held.waits, "done": work.is_completed(), "own": work.of_its_own}


def names(logger: TimingLogger) -> list[Any]:
    timed, _ = timed_and_held(logger)
    return [timed.name(), timed.rank(), timed.size()]


def ends(logger: TimingLogger) -> list[str]:
    timed, held = timed_and_held(logger)
    timed.abort()
    timed.shutdown()
    return held.calls


def a_work_outlives_both(logger: TimingLogger) -> list[bool]:
    timed, held = timed_and_held(logger)
    seen = weakref.ref(held)
    work = timed.broadcast([torch.ones(2)])
    del timed, held
    gc.collect()
    return [seen() is None, work.wait()]


def as_a_backend(logger: TimingLogger) -> dict[str, Any]:
    """Registered by name, and the default group, timed and as torch leaves it; there must be none."""

    def make(*_: Any) -> LonelyGroup:
        made.append(LonelyGroup())
        return made[-1]

    made: list[LonelyGroup] = []

    dist.Backend.register_backend("lonely", make, devices=["cpu"])
    alone: dict[str, Any] = {"store": dist.HashStore(), "rank": 0, "world_size": 1}
    init_process_group("lonely", timing_logger=logger, **alone)
    timed = use_of_the_world()
    dist.init_process_group("lonely", **alone)
    untimed = use_of_the_world()
    kinds = [timed.pop("kind"), untimed.pop("kind")]
    timed["calls"], untimed["calls"] = (group.calls for group in made)
    return {"kinds": kinds, "timed": timed, "untimed": untimed}


def instrumented(_: TimingLogger) -> dict[str, Any]:
    """The default group is written in Python and exists already; two models train, one made before."""
    sink = MemorySink()
    logger = TimingLogger(0, None, sinks=[sink])
    dist.init_process_group("lonely", store=dist.HashStore(), rank=0, world_size=1)
    own = dict(vars(LonelyGroup))
    before = model_over(None)
    try:
        instrument(logger, before)
        same = [of_one_pass(before), of_one_pass(model_over(None))] == [gradients(None)] * 2
        with logger.label("from Python"):
            dist.all_reduce(torch.ones(2))
    finally:
        uninstrument()
    dist.destroy_process_group()
    logger.close()
    changed = [name for name in own if vars(LonelyGroup).get(name) is not own[name]]
    rows = Counter(f"{record.operation} {record.status}" for record in sink.records)
    return {"same gradients": same, "left changed": changed, "rows": rows}


def use_of_the_world() -> dict[str, Any]:
    found: dict[str, Any] = {"kind": type(dist.group.WORLD).__name__, "backend": dist.get_backend()}
    tensor = torch.ones(2)
    dist.all_reduce(tensor)
    batch = [dist.P2POp(dist.isend, tensor, 0), dist.P2POp(dist.irecv, tensor, 0)]
    try:
        found["batch"] = [work.wait() for work in dist.batch_isend_irecv(batch)]
    except RuntimeError as error:  # of a newer torch, which asks the group for its backends
        found["batch"] = str(error)
    dist.destroy_process_group()
    return found


def guarded(check: Callable[[TimingLogger], Any]) -> Callable[[TimingLogger], Any]:
    """An error is a result, so that the others are looked at."""

    def run(logger: TimingLogger) -> Any:
        try:
            return check(logger)
        except Exception as error:
            return f"{type(error).__name__}: {error}"

    return run


PYTHON_GROUP_CHECKS = {
    "training": guarded(training),
    "works": guarded(works),
    "names": guarded(names),
    "ends": guarded(ends),
    "a work outlives both": guarded(a_work_outlives_both),
    "as a backend": guarded(as_a_backend),
    "instrumented": guarded(instrumented),
}
