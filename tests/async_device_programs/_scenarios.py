"""What every program on the asynchronous device does: run its scenarios, and write down what they found."""

from __future__ import annotations

import faulthandler
import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

import async_device

async_device.register()

RANK = int(os.environ.get("RANK", "0"))
"""This process's rank; 0 where there is one process."""

_PATIENCE_S = 40.0


def run(scenarios: dict[str, Any]) -> None:
    """Call each public function of ``scenarios``, the names of a program, in order.

    What it returns or raised goes into the file ``{RANK}.json`` of the directory that the program was given.
    After one that raised on one of several ranks, no more are called: the ranks may be out of step.
    """
    results: dict[str, Any] = {}
    for name, scenario in scenarios.items():
        if name.startswith("_") or getattr(scenario, "__module__", "") != "__main__":
            continue
        faulthandler.dump_traceback_later(_PATIENCE_S, exit=True)  # a scenario that hangs says where
        try:
            results[name] = {"found": scenario()}
        except Exception:
            results[name] = {"raised": traceback.format_exc()}
            if "RANK" in os.environ:
                break
    faulthandler.cancel_dump_traceback_later()
    Path(sys.argv[1], f"{RANK}.json").write_text(json.dumps(results))


def run_on_ranks(scenarios: dict[str, Any]) -> None:
    """The same on several ranks, each with a device of its own, over ``asyncccl`` and, on the host, gloo."""
    import torch
    import torch.distributed as dist
    from async_device import process_group

    process_group.register()
    torch.accelerator.set_device_index(RANK)
    dist.init_process_group(f"cpu:gloo,asyncdev:{process_group.NAME}")
    run(scenarios)
    dist.destroy_process_group()
