"""Whose bucket or module a row is; ``instrument`` and ``uninstrument``: gloo ranks under torchrun."""

from __future__ import annotations

import functools
import gc
import os
import weakref
from typing import Any

import pytest
import torch
import torch.distributed as dist
from slow import slow
from torch.nn.parallel import DistributedDataParallel
from torch_runner import run_with_torchrun

from allreduce_instrumentation import instrument, uninstrument
from timing_logger import TimingLogger
from timing_logger.sinks.memory import MemorySink

Results = list[dict[str, Any]]
Row = dict[str, Any]

COLUMNS = "operation", "layer", "size", "group", "group_size", "seq", "peer", "status"
STEPS = 5
TRAININGS = (
    "in order", "one bucket", "torch's default sizes", "out of order", "of one size, out of order", "views",
    "static graph", "a part unused", "frozen", "two types", "buffers", "allreduce_hook", "fp16_compress_hook",
)  # fmt: skip
BY_DAY = "in order", "out of order", "a part unused", "buffers", "fp16_compress_hook"
OTHERS = tuple(name for name in TRAININGS if name not in BY_DAY)
WAYS = {"initialised": "init", "instrumented": "instrument"}
RARER = "another model or option of DDP, whose buckets are named in the same way"


@functools.cache
def started(ways: str, *names: str) -> Results:
    """One start, in which groups are timed in these ways, and these trainings are over them."""
    return run_with_torchrun(2, "instrumented_group.py", ways, *names)


def run(way: str, *names: str) -> Results:
    """What a start was with groups that were timed in that way: of both ways, where Python times them."""
    ways = way if os.environ.get("TIMING_LOGGER_GROUP") == "native" else "both"
    return [rank[way] for rank in started(ways, *names)]


@pytest.fixture(scope="module")
def initialised() -> Results:
    return run("init", *BY_DAY)


@pytest.fixture(scope="module")
def instrumented() -> Results:
    return run("instrument", *BY_DAY)


def run_with(way: str, name: str) -> Results:
    """What a run was in which that training was over groups that were timed in that way."""
    return run(WAYS[way], *(BY_DAY if name in BY_DAY else OTHERS))


@pytest.fixture(params=[pytest.param("init_process_group", marks=pytest.mark.both_groups), "instrument"])
def either(request: pytest.FixtureRequest) -> Results:
    """What both ways of timing must do."""
    way = "initialised" if request.param == "init_process_group" else "instrumented"
    results: Results = request.getfixturevalue(way)
    return results


@pytest.fixture(
    params=[
        *(pytest.param(("initialised", name), marks=pytest.mark.both_groups) for name in BY_DAY),
        *(("instrumented", name) for name in BY_DAY),
        *(slow((way, name), RARER) for way in ("initialised", "instrumented") for name in OTHERS),
    ],
    ids="-".join,
)
def trained(request: pytest.FixtureRequest) -> tuple[Results, str]:
    """What a run with a training was, and the training's name."""
    way, name = request.param
    return run_with(way, name), name


def rows(rank: dict[str, Any], iteration: int) -> list[Row]:
    """In the order of their issue; a wait stands after what it waited for."""
    found = [dict(zip(COLUMNS, row, strict=True)) for row in rank["rows"].get(str(iteration), [])]
    return sorted(found, key=lambda row: (row["group"], row["seq"], row["operation"] == "WAIT"))


def steps(rank: dict[str, Any], part: dict[str, Any], number: int = STEPS) -> list[list[Row]]:
    return [rows(rank, part["iteration"] + step) for step in range(number)]


def buckets(found: list[Row]) -> list[str]:
    return [row["layer"] for row in found if row["operation"] == "IALLREDUCE" and row["layer"]]


# -- DDP -------------------------------------------------------------------------------------------------


def test_losses_and_parameters_are_those_of_an_untimed_training(trained: tuple[Results, str]) -> None:
    results, name = trained
    for rank in results:
        assert rank["trainings"][name]["timed"] == rank["trainings"][name]["untimed"]


def test_a_bucket_has_the_name_of_the_first_parameter_that_a_hook_is_told(
    trained: tuple[Results, str],
) -> None:
    results, name = trained
    for rank in results:
        part = rank["trainings"][name]
        found = [buckets(step) for step in steps(rank, part)]
        assert found[0] == part["told"][0]
        assert found[-1] == part["told"][-1]
        for named, told in zip(found, part["told"], strict=True):
            assert named in (told, [])


def test_two_passes_at_most_have_buckets_without_names(trained: tuple[Results, str]) -> None:
    results, name = trained
    for rank in results:
        named = [buckets(step) for step in steps(rank, rank["trainings"][name])]
        assert named.count([]) <= 2


def test_a_bucket_is_a_row_and_a_wait_of_the_backward_pass(trained: tuple[Results, str]) -> None:
    results, name = trained
    for rank in results:
        part = rank["trainings"][name]
        for step, told in zip(steps(rank, part), part["told"], strict=True):
            issued = [row for row in step if row["operation"] == "IALLREDUCE"]
            waits = [row for row in step if row["operation"] == "WAIT" and row["peer"] is None]
            assert len(told) <= len(issued) <= len(told) + 1  # the map of unused parameters is one more
            assert waits == [{**row, "operation": "WAIT"} for row in issued]
            assert {(row["group"], row["group_size"], row["status"]) for row in issued} == {
                ("default_pg 0", 2, "ok")
            }


def test_the_buckets_of_a_step_are_as_large_as_the_model(either: Results) -> None:
    whole = sum(4 * (6 * width + width + width * 6 + 6) for width in (6, 7, 8, 9))
    for rank in either:
        for step in steps(rank, rank["trainings"]["out of order"]):
            assert sum(row["size"] for row in step if row["operation"] == "IALLREDUCE") == whole
        for step in steps(rank, rank["trainings"]["fp16_compress_hook"]):
            assert sum(row["size"] for row in step if row["operation"] == "IALLREDUCE") == whole / 2


def test_numbers_of_buckets_are_the_same_on_all_ranks(trained: tuple[Results, str]) -> None:
    results, name = trained

    def numbered(rank: dict[str, Any]) -> list[Any]:
        found = steps(rank, rank["trainings"][name])
        return [(row["operation"], row["seq"], row["layer"]) for step in found for row in step]

    assert numbered(results[0]) == numbered(results[1])


def test_broadcasts_of_buffers_are_rows(either: Results) -> None:
    for rank in either:
        for step in steps(rank, rank["trainings"]["buffers"]):
            sizes = [row["size"] for row in step if row["operation"] == "IBCAST"]
            assert sizes[-2:] == [4 * (6 + 6), 8]  # mean and variance; the number of batches
            assert {row["peer"] for row in step if row["operation"] == "IBCAST"} == {0}


def test_a_label_beats_the_bucket_and_the_module(either: Results) -> None:
    for rank in either:
        for step in steps(rank, rank["labelled"]):
            assert {row["layer"] for row in step} == {"mine"}
        assert {row["layer"] for row in rows(rank, rank["sharded"]["iteration"] + 2)} == {"mine"}


def test_a_model_that_is_given_in_the_middle_of_its_training_has_names_after_one_pass(
    either: Results,
) -> None:
    for rank in either:
        first, *named = (buckets(step) for step in steps(rank, rank["in the middle"]))
        told = rank["trainings"]["out of order"]["told"][-1]
        assert first in (told, [])
        assert named == [told] * (STEPS - 1)


def test_passes_without_reduction_are_no_rows_and_do_not_shift_names(either: Results) -> None:
    for rank in either:
        found = [buckets(step) for step in steps(rank, rank["no_sync"], 3 * STEPS)]
        told = rank["trainings"]["in order"]["told"]
        assert found[2] == told[0]
        assert found[-1] == told[-1]
        assert found[0::3] == found[1::3] == [[]] * STEPS


def test_a_bucket_never_has_the_name_of_another_models_parameter(either: Results) -> None:
    """Two models of one shape reduce over one group, by turns."""
    for rank in either:
        for number, step in enumerate(steps(rank, rank["two models"], 2 * STEPS)):
            own = ("ddp:first.", "ddp:second.")[number % 2]
            assert [name for name in buckets(step) if not name.startswith(own)] == []


def test_a_hook_in_python_that_waits_for_a_named_bucket_has_the_wait_where_it_waited(either: Results) -> None:
    for rank in either:
        found = rank["waiting in a hook"]["found"]
        assert found["named"] == [True] * 3
        for (start_ns, end_ns), (blocked_ns, freed_ns) in zip(found["waits"], found["blocked"], strict=True):
            assert blocked_ns <= start_ns <= end_ns <= freed_ns


# -- FSDP2 -----------------------------------------------------------------------------------------------


def test_a_collective_of_fsdp_has_the_name_of_its_module(either: Results) -> None:
    layers = [f"fsdp:layers.{number}" for number in range(3)]
    for rank in either:
        for step in steps(rank, rank["sharded"], 2):
            gathered = [row["layer"] for row in step if row["operation"] == "ALLGATHER"]
            reduced = [row["layer"] for row in step if row["operation"] == "REDUCE_SCATTER"]
            assert gathered[:4] == ["fsdp:(root)", *layers]
            assert sorted(gathered[4:]) == layers
            assert sorted(reduced) == ["fsdp:(root)", *layers]


def test_sizes_of_fsdp_are_those_of_the_send_buffers(either: Results) -> None:
    for rank in either:
        for row in rows(rank, rank["sharded"]["iteration"]):
            parameters = 6 * 2 + 2 if row["layer"] == "fsdp:(root)" else 6 * 6 + 6
            shard = 4 * parameters // 2
            assert row["size"] == (shard if row["operation"] == "ALLGATHER" else 2 * shard)


# -- instrument and uninstrument -------------------------------------------------------------------------

EACH_CALL = [
    ("ALLREDUCE", 20, None), ("IALLREDUCE", 20, None), ("WAIT", 20, None), ("ALLGATHER", 20, None),
    ("REDUCE_SCATTER", 40, None), ("BCAST", 20, 1), ("BARRIER", 0, None), ("ALLREDUCE", 40, None),
]  # fmt: skip


@pytest.mark.parametrize("group", ["world", "before", "after"])
def test_groups_that_exist_and_those_made_later_are_rows(instrumented: Results, group: str) -> None:
    for rank in instrumented:
        found = [row for row in rows(rank, rank["calls"]["iteration"]) if row["layer"] == group]
        collectives = [row for row in found if row["peer"] is None or row["operation"] == "BCAST"]
        assert [(row["operation"], row["size"], row["peer"]) for row in collectives] == EACH_CALL
        assert {row["status"] for row in found} == {"ok"}
        if group != "world":
            assert [row["seq"] for row in collectives] == [0, 1, 1, 2, 3, 4, 5, 6]
            assert {row["group"].rsplit(" ", 1)[0] for row in found} == {group}


@pytest.mark.parametrize("group", ["world", "before", "after"])
def test_messages_over_groups_that_exist_are_rows(instrumented: Results, group: str) -> None:
    for rank, (operation, peer) in zip(instrumented, [("ISEND", 1), ("IRECV", 0)], strict=True):
        found = [row for row in rows(rank, rank["calls"]["iteration"]) if row["layer"] == group]
        messages = [row for row in found if row["peer"] == peer and row["operation"] != "BCAST"]
        assert [row["operation"] for row in messages] == [operation, "WAIT"]
        assert {(row["seq"], row["size"]) for row in messages} == {(0, 20)}


def test_a_monitored_barrier_over_a_group_that_exists_is_a_row(instrumented: Results) -> None:
    for rank in instrumented:
        found = [row for row in rows(rank, rank["calls"]["iteration"]) if row["layer"] == "monitored"]
        assert [row["operation"] for row in found] == ["BARRIER"]


def test_uninstrument_puts_back_the_very_same_objects(instrumented: Results) -> None:
    for rank in instrumented:
        assert "allreduce" in rank["calls"]["found"]["during"]
        assert rank["calls"]["found"]["after"] == []
        assert rank["changed at the end"] == []


def test_after_uninstrument_there_are_no_more_rows(instrumented: Results) -> None:
    for rank in instrumented:
        assert rows(rank, rank["calls"]["iteration"] + 1) == []


def test_a_later_instrument_goes_on_counting_where_the_first_stopped(instrumented: Results) -> None:
    """What was called in between is not counted: on all ranks alike."""
    for rank in instrumented:
        (row,) = rows(rank, rank["calls"]["iteration"] + 2)
        assert (row["operation"], row["seq"]) == ("ALLREDUCE", 7)


@pytest.mark.parametrize("name", [*BY_DAY, *(slow(name, RARER) for name in OTHERS)])
def test_a_model_trains_on_after_uninstrument(name: str) -> None:
    both = (run_with(way, name) for way in ("instrumented", "initialised"))
    for rank, by_init in zip(*both, strict=True):
        loss = rank["trainings"][name]["goes on"]
        assert loss == by_init["trainings"][name]["goes on"]
        assert loss < rank["trainings"][name]["timed"][0]


def test_a_group_that_is_not_initialised_is_torchs_own_error(either: Results) -> None:
    for rank in either:
        instruments, torchs = rank["not initialised"]
        assert instruments == torchs
        assert torchs.startswith("ValueError: Default process group has not been initialized")


def test_a_model_that_issues_no_collectives_is_refused(either: Results) -> None:
    for rank in either:
        assert rank["refused"]["neither"].startswith("ConfigurationError: model must be a Distributed")
        assert "and is a Linear: wrap it first" in rank["refused"]["neither"]


def test_a_second_instrument_is_refused_unless_it_brings_another_model(instrumented: Results) -> None:
    for rank in instrumented:
        for name in ("again", "other logger", "same model"):
            assert rank["refused"][name].startswith("ConfigurationError: instrument() is in force already")
        for name in ("first", "another model", "after uninstrument"):
            assert rank["refused"][name] == ""


@pytest.mark.both_groups
def test_instrument_of_groups_that_are_timed_already_is_refused_unless_it_names_a_model(
    initialised: Results,
) -> None:
    for rank in initialised:
        for name in ("again", "other logger"):
            assert rank["refused"][name].startswith("ConfigurationError: init_process_group() of this")
        for name in ("first", "after uninstrument"):
            assert rank["refused"][name] == ""


def test_a_logger_that_is_off_changes_nothing(instrumented: Results) -> None:
    for rank in instrumented:
        assert rank["refused"]["off"] == ""
        assert rank["refused"]["off changed"] == "[]"


@pytest.mark.slow("memory after the end of a group; that a training is unchanged is quick")
def test_a_group_does_not_outlive_its_destruction_and_its_models() -> None:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    logger = TimingLogger(0, None, sinks=[MemorySink()])
    group = dist.new_group([0])
    model = DistributedDataParallel(torch.nn.Linear(2, 2), process_group=group)
    instrument(logger, model)
    model(torch.ones(1, 2)).sum().backward()
    alive = weakref.ref(group)
    dist.destroy_process_group(group)
    del group, model
    gc.collect()
    assert alive() is None
    uninstrument()
    dist.destroy_process_group()
    logger.close()
