"""Through which rooms of the packages a walk leads, in the order in which their functions are first called.

Usage: ``walks.py`` prints the walks as docs/architecture.md has them.
"""

from __future__ import annotations

import re
import shlex
import tempfile
from collections.abc import Mapping
from pathlib import Path

from places import ROOT
from processes import run_warm
from runs_with_counters import write_run_with_counters

PAGE = ROOT / "docs" / "architecture.md"

_TRACED = """
import contextlib, io, os, sys, threading
PACKAGES = {packages!r}
rooms, seen = [], set()

def is_imported(frame):  # what a module does while it is imported is no walk
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_code.co_filename.startswith(PACKAGES):
            return True
        frame = frame.f_back
    return False

def look(frame, event, _):
    file = frame.f_code.co_filename
    if event == "call" and file not in seen and file.startswith(PACKAGES) and not is_imported(frame):
        seen.add(file)
        room = os.path.dirname(file[len({root!r}) + 1:]).removeprefix("timing_logger/")
        if room not in rooms:
            rooms.append(room)

def walk(of):
    threading.setprofile(look)
    sys.setprofile(look)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
            of()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    print(*rooms)
"""

_RECORD = """
import sys
from timing_logger import TimingLogger

def record():
    with TimingLogger(0, sys.argv[1]) as logger, logger.record_mpi_operation("ALLREDUCE", 8):
        pass

walk(record)
"""

_BUCKET = """
import os, sys
import torch
import torch.distributed as dist
from allreduce_instrumentation import init_process_group
from timing_logger import TimingLogger

def reduce():
    with TimingLogger(0, sys.argv[1]) as logger:
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
        store = dist.HashStore()
        init_process_group("gloo", store=store, rank=0, world_size=1, timing_logger=logger)
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
        model(torch.ones(1, 2)).sum().backward()
        dist.destroy_process_group()

walk(reduce)
"""

_COMMAND = """
import sys
from timing_logger.cli import main
def ask():
    for command in sys.argv[1:]:
        assert main(command.split("\\t")) == 0, command

walk(ask)
"""

_STEPS = "".join(
    f'{{"rank": {rank}, "step": {step}, "step_time": 0.1}}\n' for step in range(30) for rank in (0, 1)
)

_ON_PYTHON = {"TIMING_LOGGER_CORE": "python", "TIMING_LOGGER_GROUP": "python"}


def walks(folder: Path) -> Mapping[str, str]:
    """Return for each walk the rooms that it leads through, with arrows between them."""
    with_counters, steps = folder / "with-counters", folder / "steps.jsonl"
    write_run_with_counters(with_counters)
    steps.write_text(_STEPS)
    sample = str(ROOT / "logs" / "sample")
    return {
        "A record to the CSV": _walked(_RECORD, folder / "record"),
        "A bucket to the CSV": _walked(_BUCKET, folder / "bucket"),
        "A folder to a sentence": _asked(f"stragglers {sample}"),
        "A sidecar field to `hang`": _asked(f"hang {sample}"),
        "A counter to a cause": _asked(f"stragglers --why {with_counters}"),
        "An import to a verdict": _asked(
            f"import steps {steps} --seconds step_time --output {folder / 'made'}",
            f"stragglers {folder / 'made'}",
        ),
    }


def _asked(*commands: str) -> str:
    return _walked(_COMMAND, *("\t".join(shlex.split(command)) for command in commands))


def _walked(program: str, *arguments: object) -> str:
    packages = tuple(f"{ROOT / name}/" for name in ("timing_logger", "allreduce_instrumentation"))
    traced = _TRACED.format(packages=packages, root=str(ROOT)) + program
    run = run_warm(traced, *arguments, environment=_ON_PYTHON)
    assert run.returncode == 0, run.stderr
    return " → ".join(f"`{room}`" for room in run.stdout.split())


def on_the_page() -> Mapping[str, str]:
    """Return the walks that docs/architecture.md shows."""
    text = PAGE.read_text(encoding="utf-8").partition("\n## Walks\n")[2].partition("\n## ")[0]
    return {
        name: " ".join(rooms.split()) for name, rooms in re.findall(r"^- \*\*(.+?)\*\*: ([^-]+)", text, re.M)
    }


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        for name, rooms in walks(Path(made)).items():
            print(f"- **{name}**: {rooms}")
