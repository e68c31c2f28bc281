"""Tests on a real GPU: skipped with a reason where there is none; their figures make a page.

``make test-gpu`` passes ``--validation FILE``: what the tests measured is written there.
"""

from __future__ import annotations

import datetime
import platform
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

FIGURES: list[tuple[str, str]] = []
OUTCOMES: defaultdict[str, set[str]] = defaultdict(set)

NO_GPU = """# Validation on a GPU

**Not done yet.** The tests marked `gpu` (in `tests/gpu`) have not run on a real device: the machines that
this was developed on have none. What they try is tried on a scripted stand-in only
(`tests/test_device_clock.py`).

On a machine with a GPU, `make test-gpu` runs them and replaces this page by the device, the versions, the
date and the figures measured. `make test-gpu GPU_PYTHON=python3` runs them with a Python that has torch for
that GPU already, and pytest.
"""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--validation", metavar="FILE", help="write what the GPU tests measured to FILE")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.gpu)
            item.add_marker(pytest.mark.alone)
            if not _gpu_is_there():
                item.add_marker(pytest.mark.skip(reason="no CUDA or ROCm device here"))


def _gpu_is_there() -> bool:
    import torch

    return torch.cuda.is_available()


@pytest.fixture
def figure() -> Callable[[str, str], None]:
    """``figure("what was measured", "12.3 us")``: a line of the validation page."""
    return lambda name, value: FIGURES.append((name, value))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" or report.outcome != "passed":
        OUTCOMES[report.outcome].add(report.nodeid)


def pytest_sessionfinish(session: pytest.Session) -> None:
    target = session.config.getoption("--validation")
    if not target:
        return
    if _gpu_is_there():
        Path(target).write_text(_page(session), encoding="utf-8")
    elif not Path(target).exists():  # what a GPU has shown stays
        Path(target).write_text(NO_GPU, encoding="utf-8")


def _page(session: pytest.Session) -> str:
    import torch

    today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    runtime = f"ROCm {torch.version.hip}" if torch.version.hip else f"CUDA {torch.version.cuda}"
    passed, failed, skipped = (len(OUTCOMES[kind]) for kind in ("passed", "failed", "skipped"))
    lines = [
        "# Validation on a GPU",
        "",
        f"`make test-gpu` on {today}: {passed} tests passed, {failed} failed, {skipped} skipped, on a",
        f"{torch.cuda.get_device_name()} with torch {torch.__version__}, {runtime},",
        f"Python {platform.python_version()}.",
        "",
        "| measured | figure |",
        "|---|---|",
        *(f"| {name} | {value} |" for name, value in FIGURES),
        *(f"\nFailed: `{name}`" for name in sorted(OUTCOMES["failed"])),
    ]
    return "\n".join(lines) + "\n"
