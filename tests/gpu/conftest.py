"""Tests on a real GPU: skipped with a reason where there is none; their figures make a page.

``make test-gpu`` passes ``--validation FILE``: what the tests measured goes into that page and its data.
"""

from __future__ import annotations

import datetime
import platform
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import validation_page
from loaded_nccl import nccl_version
from recordings import Figure, Recording
from spinning import spin

from timing_logger import recording_core

GATHERED_BYTES = 1 << 30

FIGURES: list[tuple[str, str]] = []
OUTCOMES: defaultdict[str, set[str]] = defaultdict(set)

COSTS = "test_cost_and_full_streams.py"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--validation", metavar="FILE", help="the page that gets what the GPU tests measured")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    items.sort(key=lambda item: item.path.name != COSTS)  # the profiler slows its process down, once used
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.gpu)
            item.add_marker(pytest.mark.serial)
            if not torch.cuda.is_available():
                item.add_marker(pytest.mark.skip(reason="no CUDA or ROCm device here"))


@pytest.fixture
def figure() -> Figure:
    """``figure("what was measured", "12.3 us")``: a line of the validation page."""
    return lambda name, value: FIGURES.append((name, value))


@pytest.fixture
def recording() -> Iterator[Recording]:
    """A logger that has timed something on the device."""
    found = Recording()
    torch.cuda.synchronize()
    with found.logger.record_device_operation("WARM_UP"):  # the first one makes events
        spin(1)
    found.forget()
    yield found
    found.logger.close()


@pytest.fixture(scope="module")
def nccl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recording]:
    """A timed default group of one process, whose communicator is made."""
    from allreduce_instrumentation.torch_distributed import init_process_group

    store = tmp_path_factory.mktemp("nccl") / "store"
    found = Recording()
    torch.cuda.set_device(0)
    init_process_group(
        "nccl", timing_logger=found.logger, init_method=f"file://{store}", rank=0, world_size=1
    )
    try:
        dist.all_reduce(torch.ones(1, device="cuda"))
        torch.cuda.synchronize()
        yield found
    finally:
        dist.destroy_process_group()
        found.logger.close()


@pytest.fixture
def gathered(nccl: Recording) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Output and input of an all-gather that takes some tenths of a millisecond; the first one is done."""
    given = torch.ones(GATHERED_BYTES, dtype=torch.uint8, device="cuda")
    result = torch.empty_like(given)
    dist.all_gather_into_tensor(result, given)
    dist.all_gather_into_tensor(result, given, async_op=True).wait()
    torch.cuda.synchronize()
    nccl.forget()
    yield result, given
    torch.cuda.synchronize()
    del given, result
    torch.cuda.empty_cache()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" or report.outcome != "passed":
        OUTCOMES[report.outcome].add(report.nodeid)


def pytest_sessionfinish(session: pytest.Session) -> None:
    page = session.config.getoption("--validation")
    if page and torch.cuda.is_available():  # else the page stays, with what a GPU has shown
        failed = [("failed", name) for name in sorted(OUTCOMES["failed"])]
        validation_page.write(Path(page), torch.cuda.get_device_name(), [("run", _run()), *failed, *FIGURES])


def _run() -> str:
    today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    runtime = f"ROCm {torch.version.hip}" if torch.version.hip else f"CUDA {torch.version.cuda}"
    nccl = ".".join(map(str, nccl_version()))
    passed, failed, skipped = (len(OUTCOMES[kind]) for kind in ("passed", "failed", "skipped"))
    return (
        f"{today}: {passed} passed, {failed} failed, {skipped} skipped; torch {torch.__version__}, "
        f"{runtime}, NCCL {nccl}, Python {platform.python_version()}, {recording_core} core"
    )
