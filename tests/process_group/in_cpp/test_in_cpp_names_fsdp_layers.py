"""A call's layer of FSDP2, which C++ takes from the ranges that FSDP2 makes for profilers.

That those of FSDP2 itself are understood is shown where its training is tested, over both kinds of groups.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from processes import run_python

from timing_logger import read_timings, which_core

pytestmark = pytest.mark.skipif(
    which_core.NAME != "native" or not shutil.which(os.environ.get("CXX", "c++")),
    reason="no native core, or no compiler",
)

AROUND = """
import json, sys, threading
import torch, torch.distributed as dist
from torch.profiler import record_function
from torch.testing._internal.distributed.fake_pg import FakeStore
import allreduce_instrumentation
from timing_logger import TimingLogger

def call():
    dist.all_reduce(torch.ones(2))

def on_thread(action):
    thread = threading.Thread(target=action)
    thread.start()
    thread.join()

with TimingLogger(0, {folder!r}) as logger:
    allreduce_instrumentation.init_process_group(
        "fake", timing_logger=logger, store=FakeStore(), rank=0, world_size=2
    )
{calls}
    dist.destroy_process_group()
"""


def layers_of(folder: Path, calls: str) -> list[str]:
    """Return the layer of each call that a program makes; ``""`` for none."""
    indented = "".join(f"    {line}\n" for line in calls.strip().splitlines())
    run = run_python(
        AROUND.format(folder=str(folder), calls=indented), environment={"TIMING_LOGGER_GROUP": "native"}
    )
    assert run.returncode == 0, run.stderr
    (about,) = folder.glob("*.json")
    assert json.loads(about.read_text())["process_group"] == "native"
    rows = read_timings(folder)
    return [str(layer) for layer in rows[rows["operation"] == "ALLREDUCE"]["layer_name"].fillna("")]


@pytest.mark.parametrize(
    ("label", "layer"),
    [
        ("FSDP::all_gather (layers.3)", "fsdp:layers.3"),
        ("FSDP::post_backward_reduce (layers.3)", "fsdp:layers.3"),
        ("FSDP::all_gather (layers.0, layers.1)", "fsdp:layers.0, layers.1"),
        ("FSDP::all_gather (layers.3) [pg=2]", "fsdp:layers.3"),
        ("FSDP::all_gather [pg=2]", "fsdp:(root)"),
        ("FSDP::all_gather", "fsdp:(root)"),
        ("FSDP::all_gather_copy_out (layers.3)", ""),
        ("FSDP::all_gather (", ""),
        ("FSDP::all_gather )(", ""),
        ("an all_gather (layers.3)", ""),
    ],
)
def test_a_call_in_a_range_of_fsdp_has_its_layer_and_one_in_any_other_has_none(
    tmp_path: Path, label: str, layer: str
) -> None:
    calls = f"with record_function({label!r}):\n    call()\ncall()"
    assert layers_of(tmp_path, calls) == [layer, ""]


def test_a_range_names_the_calls_of_its_thread_alone(tmp_path: Path) -> None:
    calls = "with record_function('FSDP::all_gather (a)'):\n    on_thread(call)\n    call()"
    assert layers_of(tmp_path, calls) == ["", "fsdp:a"]


def test_a_range_that_ends_on_another_thread_or_with_its_object_leaves_the_calls_in_order(
    tmp_path: Path,
) -> None:
    calls = """
first, second = record_function("FSDP::all_gather (a)"), record_function("FSDP::all_gather (b)")
on_thread(first.__enter__)
second.__enter__()
call()
first.__exit__(None, None, None)
del first, second
call()
"""
    assert layers_of(tmp_path, calls) == ["fsdp:b", ""]


def test_a_label_in_force_goes_before_the_layer(tmp_path: Path) -> None:
    calls = "with logger.label(layer_name='mine'), record_function('FSDP::all_gather (a)'):\n    call()"
    assert layers_of(tmp_path, calls) == ["mine"]
