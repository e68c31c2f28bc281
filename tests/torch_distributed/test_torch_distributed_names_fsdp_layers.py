"""A call's layer of FSDP2, which C++ takes from the ranges that FSDP2 makes for profilers.

That those of FSDP2 itself are understood is shown where its training is tested, over both kinds of groups.
"""

from __future__ import annotations

import json
from pathlib import Path

import group_in_cpp
import pytest
from processes import run_warm

from timing_logger import read_timings

pytestmark = [pytest.mark.slow("odd ranges; those of a training are quick over both"), group_in_cpp.needed]

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

for folder, calls in json.loads(sys.argv[1]):
    with TimingLogger(0, folder) as logger:
        allreduce_instrumentation.init_process_group(
            "fake", timing_logger=logger, store=FakeStore(), rank=0, world_size=2
        )
        exec(calls, dict(globals()))
        dist.destroy_process_group()
"""

LAYERS = {
    "FSDP::all_gather (layers.3)": "fsdp:layers.3",
    "FSDP::post_backward_reduce (layers.3)": "fsdp:layers.3",
    "FSDP::all_gather (layers.0, layers.1)": "fsdp:layers.0, layers.1",
    "FSDP::all_gather (layers.3) [pg=2]": "fsdp:layers.3",
    "FSDP::all_gather [pg=2]": "fsdp:(root)",
    "FSDP::all_gather": "fsdp:(root)",
    "FSDP::all_gather_copy_out (layers.3)": "",
    "FSDP::all_gather (": "",
    "FSDP::all_gather )(": "",
    "an all_gather (layers.3)": "",
}

ON_ANOTHER_THREAD = "with record_function('FSDP::all_gather (a)'):\n    on_thread(call)\n    call()"

IN_ANOTHER_ORDER = """
first, second = record_function("FSDP::all_gather (a)"), record_function("FSDP::all_gather (b)")
on_thread(first.__enter__)
second.__enter__()
call()
first.__exit__(None, None, None)
del first, second
call()
"""

WITH_A_LABEL = "with logger.label(layer_name='mine'), record_function('FSDP::all_gather (a)'):\n    call()"

PROGRAMS = [
    *(f"with record_function({label!r}):\n    call()\ncall()" for label in LAYERS),
    ON_ANOTHER_THREAD, IN_ANOTHER_ORDER, WITH_A_LABEL,
]  # fmt: skip


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Of each of the programs, which one process has run, the folder of its timing files."""
    group_in_cpp.build()
    of_all = tmp_path_factory.mktemp("layers")
    found = {calls: of_all / str(number) for number, calls in enumerate(PROGRAMS)}
    tasks = json.dumps([[str(folder), calls] for calls, folder in found.items()])
    run = run_warm(AROUND, tasks, environment={"TIMING_LOGGER_GROUP": "native"})
    assert run.returncode == 0, run.stderr
    return found


def layers_of(folder: Path) -> list[str]:
    """Return the layer of each call that a program made; ``""`` for none."""
    (about,) = folder.glob("*.json")
    assert json.loads(about.read_text())["process_group"] == "native"
    rows = read_timings(folder)
    return [str(layer) for layer in rows[rows["operation"] == "ALLREDUCE"]["layer_name"].fillna("")]


@pytest.mark.parametrize(("number", "layer"), [*enumerate(LAYERS.values())], ids=LAYERS)
def test_a_call_in_a_range_of_fsdp_has_its_layer_and_one_in_any_other_has_none(
    folders: dict[str, Path], number: int, layer: str
) -> None:
    assert layers_of(folders[PROGRAMS[number]]) == [layer, ""]


def test_a_range_names_the_calls_of_its_thread_alone(folders: dict[str, Path]) -> None:
    assert layers_of(folders[ON_ANOTHER_THREAD]) == ["", "fsdp:a"]


def test_a_range_that_ends_on_another_thread_or_with_its_object_leaves_the_calls_in_order(
    folders: dict[str, Path],
) -> None:
    assert layers_of(folders[IN_ANOTHER_ORDER]) == ["fsdp:b", ""]


def test_a_label_in_force_goes_before_the_layer(folders: dict[str, Path]) -> None:
    assert layers_of(folders[WITH_A_LABEL]) == ["mine"]
