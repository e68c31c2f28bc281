"""What else times a block of Python code, each as its documentation has it: one block, or one line of a log.

Whatever is not installed is left out: ``pip install '.[bench]'`` brings all of them.
"""

from __future__ import annotations

import contextlib
import datetime
import importlib
import os
import queue
import time
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

CALLS = 2000
"""The number of blocks of one turn."""

Around = Callable[[], contextlib.AbstractContextManager[object]]


class Contender(NamedTuple):
    """A way to time a block.

    Attributes:
        loop: times an empty block :data:`CALLS` times.
        around: what encloses a turn, and is not measured.
    """

    loop: Callable[[], None]
    around: Around = contextlib.nullcontext


def installed(folder: Path) -> dict[str, Contender]:
    """Return the contenders that are there, by name, package and version; ``folder`` is for their files."""
    found = {"the guide's design": guide()}
    for package, make in _PEERS.items():
        try:
            about = f"{package} {metadata.version(package)}"
            made = make(folder)
        except (ImportError, metadata.PackageNotFoundError):
            continue
        found |= {f"{name} ({about})": contender for name, contender in made.items()}
    return found


# -- the guide ------------------------------------------------------------------------------------


class _GuideLogger:
    """A logger of the design in the guide: a generator context manager, a dict, a queue.Queue."""

    def __init__(self) -> None:
        self.queue: queue.Queue[dict[str, Any]] = queue.Queue(maxsize=0)

    @contextlib.contextmanager
    def record_mpi_operation(
        self, operation: str, size: int, layer: str, phase: str, iteration: int, epoch: int
    ) -> Iterator[None]:
        start = time.perf_counter()
        yield
        end = time.perf_counter()
        self.queue.put({
            "timestamp": datetime.datetime.now().isoformat(), "iteration": iteration, "epoch": epoch,
            "layer_name": layer, "operation": operation, "phase": phase, "message_size_bytes": size,
            "elapsed_ms": (end - start) * 1000, "start_counter": start, "end_counter": end,
        })  # fmt: skip


def guide() -> Contender:
    logger = _GuideLogger()

    def loop() -> None:
        for _ in range(CALLS):
            with logger.record_mpi_operation("ALLREDUCE", 1024, "layer1", "dense", 3, 0):
                pass
        logger.queue = queue.Queue()

    return Contender(loop)


# -- timers and profilers -------------------------------------------------------------------------


def megatron(_: Path) -> dict[str, Contender]:
    """Megatron-core's timers; what makes a device wait is empty here, where there is none."""
    import torch

    timers = importlib.import_module("megatron.core.timers").Timers(log_level=2, log_option="minmax")
    if not torch.cuda.is_available():
        torch.cuda.synchronize = lambda *_: None  # type: ignore[assignment]

    def loop() -> None:
        for _ in range(CALLS):
            timers("ALLREDUCE", log_level=0).start()
            timers("ALLREDUCE").stop()

    return {"start and stop of a timer": Contender(loop)}


def record_function(_: Path) -> dict[str, Contender]:
    import torch

    def loop() -> None:
        for _ in range(CALLS):
            with torch.profiler.record_function("ALLREDUCE"):
                pass

    @contextlib.contextmanager
    def profiling() -> Iterator[None]:
        with _no_stderr(), torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
            yield

    return {
        "record_function, off": Contender(loop),
        "record_function, on": Contender(loop, profiling),
    }


@contextlib.contextmanager
def _no_stderr() -> Iterator[None]:
    """Have the process's standard error go nowhere: the profiler tells of each start and stop there."""
    kept = os.dup(2)
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def viztracer(_: Path) -> dict[str, Contender]:
    tracer = importlib.import_module("viztracer").VizTracer(verbose=0, tracer_entries=10 * CALLS)

    @contextlib.contextmanager
    def tracing() -> Iterator[None]:
        tracer.start()
        yield
        tracer.stop()
        tracer.clear()

    def loop() -> None:
        for _ in range(CALLS):
            with tracer.log_event("ALLREDUCE"):
                pass

    return {"log_event": Contender(loop, tracing)}


def lightning(_: Path) -> dict[str, Contender]:
    profiler = importlib.import_module("lightning.pytorch.profilers").SimpleProfiler()

    @contextlib.contextmanager
    def emptied() -> Iterator[None]:
        yield
        profiler.recorded_durations.clear()

    def loop() -> None:
        for _ in range(CALLS):
            with profiler.profile("ALLREDUCE"):
                pass

    return {"SimpleProfiler": Contender(loop, emptied)}


# -- telemetry ------------------------------------------------------------------------------------


def opentelemetry(_: Path) -> dict[str, Contender]:
    """A span to a batch processor whose exporter discards it, and a histogram."""
    trace: Any = importlib.import_module("opentelemetry.sdk.trace")
    export: Any = importlib.import_module("opentelemetry.sdk.trace.export")
    metrics: Any = importlib.import_module("opentelemetry.sdk.metrics")
    reading: Any = importlib.import_module("opentelemetry.sdk.metrics.export")

    class Nowhere(export.SpanExporter):  # type: ignore[misc]
        def export(self, spans: object) -> Any:
            return export.SpanExportResult.SUCCESS

    provider = trace.TracerProvider()
    provider.add_span_processor(export.BatchSpanProcessor(Nowhere(), max_queue_size=10 * CALLS))
    tracer = provider.get_tracer("bench")
    meter = metrics.MeterProvider([reading.InMemoryMetricReader()]).get_meter("bench")
    durations = meter.create_histogram("allreduce")
    about = {"operation": "ALLREDUCE", "size": 1024, "layer": "layer1", "phase": "dense"}

    def span() -> None:
        for _ in range(CALLS):
            with tracer.start_as_current_span("ALLREDUCE", attributes=about):
                pass

    def histogram() -> None:
        clock = time.perf_counter_ns
        for _ in range(CALLS):
            start_ns = clock()
            durations.record(clock() - start_ns, about)

    @contextlib.contextmanager
    def exported() -> Iterator[None]:
        yield
        provider.force_flush()

    return {
        "a span": Contender(span, exported),
        "a histogram": Contender(histogram),
    }


# -- logs -----------------------------------------------------------------------------------------

_LINE = "3,0,layer1,ALLREDUCE,dense,1024,%s,%s"


def loguru(folder: Path) -> dict[str, Contender]:
    logger = importlib.import_module("loguru").logger
    logger.remove()
    logger.add(folder / "loguru", format="{time},{message}", enqueue=False)

    def loop() -> None:
        clock = time.perf_counter_ns
        for _ in range(CALLS):
            start_ns = clock()
            logger.info(_LINE % (start_ns, clock()))

    return {"two clocks and a line": Contender(loop)}


def picologging(folder: Path) -> dict[str, Contender]:
    module = importlib.import_module("picologging")
    logger = module.getLogger("bench")
    handler = module.FileHandler(str(folder / "picologging"))
    handler.setFormatter(module.Formatter("%(asctime)s,%(message)s"))
    logger.addHandler(handler)
    logger.setLevel(module.INFO)

    def loop() -> None:
        clock = time.perf_counter_ns
        for _ in range(CALLS):
            start_ns = clock()
            logger.info(_LINE, start_ns, clock())

    return {"two clocks and a line": Contender(loop)}


_PEERS: dict[str, Callable[[Path], dict[str, Contender]]] = {
    "megatron-core": megatron,
    "torch": record_function,
    "viztracer": viztracer,
    "lightning": lightning,
    "opentelemetry-sdk": opentelemetry,
    "loguru": loguru,
    "picologging": picologging,
}
