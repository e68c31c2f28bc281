"""Process groups that time themselves: every operation of torch.distributed, on gloo ranks under torchrun."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed as dist
from slow import slow
from torch_runner import run_with_torchrun

from allreduce_instrumentation import init_process_group
from timing_logger import TimingLogger
from timing_logger.sinks.memory import MemorySink

both_groups = pytest.mark.both_groups  # rows; what comes out of calls is compared over one kind by day

Results = list[dict[str, Any]]
Row = dict[str, Any]

COLUMNS = "operation", "size", "group", "group_size", "seq", "peer", "status", "iteration", "epoch", "thread"
WORLD = "default_pg 0"

# What is called, see torch_programs/timed_group.py -> operation, bytes and peer of its row on both ranks.
COLLECTIVES: dict[str, tuple[str, int, int | None]] = {
    "all_reduce": ("ALLREDUCE", 20, None),
    "all_reduce max": ("ALLREDUCE", 40, None),
    "all_reduce complex": ("ALLREDUCE", 40, None),
    "all_reduce half": ("ALLREDUCE", 10, None),
    "broadcast": ("BCAST", 20, 1),
    "broadcast group_src": ("BCAST", 20, 0),
    "reduce": ("REDUCE", 20, 1),
    "all_gather": ("ALLGATHER", 20, None),
    "all_gather_coalesced": ("ALLGATHER", 32, None),
    "all_gather_into_tensor": ("ALLGATHER", 20, None),
    "all_gather_single": ("ALLGATHER", 20, None),
    "_all_gather_base": ("ALLGATHER", 20, None),
    "reduce_scatter": ("REDUCE_SCATTER", 40, None),
    "reduce_scatter_tensor": ("REDUCE_SCATTER", 40, None),
    "reduce_scatter_single": ("REDUCE_SCATTER", 40, None),
    "_reduce_scatter_base": ("REDUCE_SCATTER", 40, None),
    "gather": ("GATHER", 20, 0),
    "scatter": ("SCATTER", 40, 1),  # the root's send buffer
    "all_to_all": ("ALLTOALL", 40, None),
    "all_to_all_single": ("ALLTOALL", 40, None),
    "all_to_all_single unequal": ("ALLTOALLV", 12, None),
    "barrier": ("BARRIER", 0, None),
    "all_reduce_coalesced": ("ALLREDUCE", 32, None),
    "together all_reduce": ("ALLREDUCE", 60, None),
    "together all_gather": ("ALLGATHER", 60, None),
    "together reduce_scatter": ("REDUCE_SCATTER", 120, None),
}
if not hasattr(dist, "all_gather_single"):  # before torch 2.12, and what its gloo lacks
    for lacking in ("all_gather_single", "reduce_scatter_single", "all_to_all"):
        COLLECTIVES.pop(lacking)
FUTURE_FOR_A_WORK = ("all_gather_coalesced", "all_reduce_coalesced")  # what torch returns for these

OBJECTS = {  # -> the operations that torch makes of them
    "all_gather_object": ["ALLGATHER", "ALLGATHER"],
    "gather_object": ["ALLGATHER", "GATHER"],
    "broadcast_object_list": ["BCAST", "BCAST"],
    "scatter_object_list": ["BCAST", "SCATTER", "SCATTER"],
    "monitored_barrier": ["BARRIER"],
}

FUNCTIONAL = [  # in the order of their issue: operation, bytes, peer
    ("IALLREDUCE", 20, None),
    ("IALLGATHER", 20, None),
    ("IREDUCE_SCATTER", 40, None),
    ("IBCAST", 20, 1),
    ("IALLTOALL", 40, None),
]


@pytest.fixture(scope="module")
def both_ways() -> Results:
    """One start, in which torch's own groups do everything, and then timed ones."""
    return run_with_torchrun(2, "timed_group.py", "both", *PARTS, "sampled")


@pytest.fixture(scope="module")
def timed(both_ways: Results) -> Results:
    return [rank["timed"] for rank in both_ways]


@pytest.fixture(
    scope="module", params=[slow("compiled", "compiling takes seconds; the calls are quick as they are")]
)
def timed_compiled(request: pytest.FixtureRequest) -> Results:
    return run_with_torchrun(2, "timed_group.py", "timed", "functional", request.param)


@pytest.fixture(scope="module")
def untimed(both_ways: Results) -> Results:
    return [rank["untimed"] for rank in both_ways]


@pytest.fixture(scope="module")
def untimed_compiled() -> Results:
    return run_with_torchrun(2, "timed_group.py", "untimed", "compiled")


@pytest.fixture(
    scope="module",
    params=[slow(4, "two ranks show all but new groups of some ranks, meshes and three peers")],
    ids="{} ranks".format,
)
def four(request: pytest.FixtureRequest) -> Results:
    return run_with_torchrun(request.param, "timed_group.py", "timed", "messages", "groups", "sampled")


@pytest.fixture(
    scope="module", params=[slow("DETAIL", "what torch itself checks, by the same calls as without")]
)
def checked(request: pytest.FixtureRequest) -> Results:
    """Under torch's debug mode, in which it wraps the backend and compares what ranks call."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("TORCH_DISTRIBUTED_DEBUG", request.param)
        return run_with_torchrun(2, "timed_group.py", "timed", "facts", "collectives", "objects", "messages")


def rows(rank: dict[str, Any], label: str) -> list[Row]:
    return [dict(zip(COLUMNS, row, strict=True)) for row in rank["rows"].get(label, [])]


def one_row(rank: dict[str, Any], label: str) -> Row:
    found = rows(rank, label)
    assert len(found) == 1, found
    return found[0]


def by_number(found: list[Row]) -> list[Row]:
    """In the order of their issue; a wait stands after what it waited for."""
    return sorted(found, key=lambda row: (row["seq"], row["operation"] == "WAIT"))


# -- nothing changes -------------------------------------------------------------------------------------


PARTS = "facts", "collectives", "objects", "messages", "functional", "groups"


@pytest.mark.parametrize("part", PARTS)
def test_what_comes_out_is_what_an_untimed_group_gives(timed: Results, untimed: Results, part: str) -> None:
    for with_rows, without in zip(timed, untimed, strict=True):
        assert with_rows[part] == without[part]


@both_groups
def test_compiled_calls_give_what_they_give_if_they_are_not_compiled(timed_compiled: Results) -> None:
    for rank in timed_compiled:
        assert rank["compiled"]["functional, aot_eager"] == rank["functional"]["functional"]


def test_what_comes_out_of_compiled_calls_is_what_an_untimed_group_gives(
    timed_compiled: Results, untimed_compiled: Results
) -> None:
    for with_rows, without in zip(timed_compiled, untimed_compiled, strict=True):
        assert with_rows["compiled"] == without["compiled"]
        assert "Error: " not in str(without["compiled"])


def test_the_untimed_run_is_torchs_own_and_every_call_of_it_worked(timed: Results, untimed: Results) -> None:
    assert [rank["is timed"] for rank in timed] == [True, True]
    assert [rank["is timed"] for rank in untimed] == [False, False]
    assert untimed[0]["rows"] == {}
    for part in ("collectives", "objects", "messages", "functional"):
        failed = {name: found for name, found in untimed[0][part].items() if "Error: " in str(found)}
        assert failed == {}


@both_groups
def test_a_timed_group_is_a_process_group(timed: Results) -> None:
    assert [rank["is a group"] for rank in timed] == [True, True]


@pytest.mark.parametrize("part", ["collectives", "objects", "messages"])
def test_in_torchs_debug_mode_everything_is_as_without(checked: Results, untimed: Results, part: str) -> None:
    for with_checks, without in zip(checked, untimed, strict=True):
        assert with_checks[part] == without[part]


@both_groups
def test_in_torchs_debug_mode_the_backend_is_torchs_wrapper_and_the_rows_are_the_same(
    checked: Results, timed: Results
) -> None:
    for with_checks, without in zip(checked, timed, strict=True):
        assert with_checks["facts"]["backend of the CPU"] == "_ProcessGroupWrapper"
        for label in with_checks["rows"]:
            assert by_number(rows(with_checks, label)) == by_number(rows(without, label))


# -- collectives -----------------------------------------------------------------------------------------


@both_groups
@pytest.mark.parametrize("name", COLLECTIVES)
def test_a_call_that_waits_is_one_row(timed: Results, name: str) -> None:
    if name == "together all_gather" and torch.__version__.startswith("2.8."):
        pytest.skip("this torch issues it in the background and waits, so it has two rows")
    operation, size, peer = COLLECTIVES[name]
    for rank in timed:
        row = one_row(rank, f"{name}, sync")
        assert (row["operation"], row["size"], row["peer"]) == (operation, size, peer)
        assert (row["group"], row["group_size"], row["status"]) == (WORLD, 2, "ok")


@both_groups
@pytest.mark.parametrize("name", [name for name in COLLECTIVES if name not in FUTURE_FOR_A_WORK])
def test_a_call_in_the_background_is_a_row_and_a_wait_with_its_number(timed: Results, name: str) -> None:
    operation, size, peer = COLLECTIVES[name]
    for rank in timed:
        issued, waited = by_number(rows(rank, f"{name}, async"))
        assert issued["operation"] == "I" + operation
        assert (issued["size"], issued["peer"]) == (size, peer)
        assert (issued["group"], issued["group_size"], issued["status"]) == (WORLD, 2, "ok")
        assert waited == {**issued, "operation": "WAIT"}


@both_groups
@pytest.mark.parametrize("name", FUTURE_FOR_A_WORK)
def test_a_call_of_which_torch_gives_a_future_alone_has_a_row_and_no_wait(timed: Results, name: str) -> None:
    operation, size, _ = COLLECTIVES[name]
    for rank in timed:
        row = one_row(rank, f"{name}, async")
        assert (row["operation"], row["size"], row["status"]) == ("I" + operation, size, "ok")


@both_groups
def test_collectives_of_a_group_are_numbered_in_the_order_of_the_calls(timed: Results) -> None:
    called = [f"{name}, {kind}" for name in COLLECTIVES for kind in ("sync", "async")]
    for rank in timed:
        assert [rows(rank, label)[0]["seq"] for label in called] == list(range(len(called)))


@both_groups
def test_no_row_has_a_negative_duration(timed: Results) -> None:
    for rank in timed:
        assert rank["shortest"] >= 0


# -- objects and barriers --------------------------------------------------------------------------------


@both_groups
@pytest.mark.parametrize("name", OBJECTS)
def test_collectives_of_objects_are_the_rows_of_what_torch_sends(timed: Results, name: str) -> None:
    for rank in timed:
        found = rows(rank, name)
        assert [row["operation"] for row in found] == OBJECTS[name]
        assert {row["status"] for row in found} == {"ok"}
        assert [row["seq"] for row in found] == [row["seq"] for row in rows(timed[0], name)]


@both_groups
def test_a_message_of_an_object_is_its_size_and_its_bytes(timed: Results) -> None:
    sent, received = (by_number(rows(rank, "object message")) for rank in timed)
    assert [row["operation"] for row in sent] == ["ISEND", "WAIT"] * 2
    assert [row["operation"] for row in received] == ["IRECV", "WAIT"] * 2
    assert [row["size"] for row in sent] == [row["size"] for row in received]
    assert [row["size"] for row in sent][:1] == [8]


# -- messages --------------------------------------------------------------------------------------------


def messages(rank: dict[str, Any], operation: str, peer: int, labels: tuple[str, ...]) -> list[Row]:
    found = [row for label in labels for row in rows(rank, label)]
    return [row for row in found if row["operation"] == operation and row["peer"] == peer]


EVERY_MESSAGE = "object message", "messages", "batch_isend_irecv", "any source"


@both_groups
def test_messages_have_a_number_for_each_direction_and_peer(timed: Results) -> None:
    for sender, receiver in ((0, 1), (1, 0)):
        sent = messages(timed[sender], "ISEND", receiver, EVERY_MESSAGE)
        received = messages(timed[receiver], "IRECV", sender, EVERY_MESSAGE)
        assert [row["seq"] for row in sent] == list(range(len(sent)))
        assert [(row["seq"], row["size"]) for row in sent] == [(row["seq"], row["size"]) for row in received]
    assert len(messages(timed[0], "ISEND", 1, EVERY_MESSAGE)) == 2 + 3 + 1
    assert len(messages(timed[1], "ISEND", 0, EVERY_MESSAGE)) == 1 + 1 + 1


@both_groups
def test_a_wait_for_a_message_has_its_number_and_peer(timed: Results) -> None:
    for rank in timed:
        for label in EVERY_MESSAGE:
            found = rows(rank, label)
            for issued, waited in zip(found[::2], found[1::2], strict=True):
                assert waited == {**issued, "operation": "WAIT"}


@both_groups
def test_a_message_sent_by_one_pair_does_not_shift_the_numbers_of_another(four: Results) -> None:
    for sender in range(4):
        for receiver in range(4):
            sent = messages(four[sender], "ISEND", receiver, EVERY_MESSAGE)
            received = messages(four[receiver], "IRECV", sender, EVERY_MESSAGE)
            assert [row["seq"] for row in sent] == list(range(len(sent)))
            assert sorted((row["seq"], row["size"]) for row in received) == [
                (row["seq"], row["size"]) for row in sent
            ]
    assert len(messages(four[0], "ISEND", 1, EVERY_MESSAGE)) == 4


@both_groups
def test_a_receive_from_any_source_says_from_whom_it_was(four: Results) -> None:
    received = [row for row in rows(four[0], "any source") if row["operation"] == "IRECV"]
    assert sorted(row["peer"] for row in received) == [1, 2, 3]
    assert four[0]["messages"]["any source"] == [1, 2, 3]


@both_groups
def test_a_message_whose_peer_is_given_by_name_has_peer_and_number(timed: Results) -> None:
    before = len(messages(timed[0], "ISEND", 1, EVERY_MESSAGE))
    (sent, *_), (received, *_) = rows(timed[0], "by names"), rows(timed[1], "by names")
    assert (sent["operation"], sent["peer"], sent["seq"]) == ("ISEND", 1, before)
    assert (received["operation"], received["peer"], received["seq"]) == ("IRECV", 0, before)


# -- functional collectives ------------------------------------------------------------------------------


def check_functional_rows(results: Results, name: str) -> None:
    for rank in results:
        found = by_number(rows(rank, name))
        issued = [row for row in found if row["operation"] != "WAIT"]
        assert [(row["operation"], row["size"], row["peer"]) for row in issued] == FUNCTIONAL
        waits = [row for row in found if row["operation"] == "WAIT"]
        assert waits == [{**row, "operation": "WAIT"} for row in issued]


@both_groups
def test_functional_collectives_are_rows(timed: Results) -> None:
    check_functional_rows(timed, "functional")


@both_groups
def test_functional_collectives_are_rows_if_they_are_compiled(timed_compiled: Results) -> None:
    check_functional_rows(timed_compiled, "functional, aot_eager")


@both_groups
def test_a_coalesced_functional_call_is_one_row(timed: Results) -> None:
    for rank in timed:
        issued, waited = by_number(rows(rank, "functional coalesced"))
        assert (issued["operation"], issued["size"]) == ("IALLREDUCE", 32)
        assert waited == {**issued, "operation": "WAIT"}


@both_groups
def test_an_all_reduce_that_torch_compile_rewrites_is_a_row(timed_compiled: Results) -> None:
    for rank in timed_compiled:
        issued, waited = by_number(rows(rank, "all_reduce, eager"))
        assert (issued["operation"], issued["size"], issued["group"]) == ("IALLREDUCE", 20, WORLD)
        assert waited == {**issued, "operation": "WAIT"}


# -- further groups --------------------------------------------------------------------------------------


def over_group(results: Results, name: str) -> list[Row | None]:
    """The row of each rank's one all-reduce; None for a rank that is not in the group."""
    return [(rows(rank, f"group {name}") or [None])[0] for rank in results]


@both_groups
@pytest.mark.parametrize("name", ["all", "backwards", "enumerated"])
def test_a_new_group_is_timed_and_counts_from_0(four: Results, name: str) -> None:
    found = [row for row in over_group(four, name) if row is not None]
    assert len(found) == 4
    assert {(row["operation"], row["seq"], row["group_size"]) for row in found} == {("ALLREDUCE", 0, 4)}
    assert len({row["group"] for row in found}) == 1
    assert {row["group"] for row in found} != {WORLD}


@both_groups
def test_a_groups_description_is_in_its_name(four: Results) -> None:
    for row in over_group(four, "all"):
        assert row is not None
        assert row["group"] == "everybody 1"


@both_groups
def test_ranks_that_are_not_in_a_group_have_no_rows_of_it(four: Results) -> None:
    assert [row is not None for row in over_group(four, "the last")] == [False, False, False, True]
    assert [row is not None for row in over_group(four, "without the first")] == [False, True, True, True]
    sizes = {row["group_size"] for row in over_group(four, "without the first") if row is not None}
    assert sizes == {3}


@both_groups
@pytest.mark.parametrize("name", ["local", "subgroups"])
def test_groups_of_one_rank_each_have_names_of_their_own(four: Results, name: str) -> None:
    found = [row for row in over_group(four, name) if row is not None]
    assert len({row["group"] for row in found}) == 4
    assert {row["group_size"] for row in found} == {1}


@both_groups
@pytest.mark.parametrize(("dimension", "pairs"), [("dp", [(0, 2), (1, 3)]), ("tp", [(0, 1), (2, 3)])])
def test_a_group_of_a_device_mesh_shows_its_dimension(
    four: Results, dimension: str, pairs: list[tuple[int, int]]
) -> None:
    found = over_group(four, f"mesh {dimension}")
    names = [row["group"] for row in found if row is not None]
    assert [name.rsplit(" ", 1)[0] for name in names] == [f"mesh_{dimension}"] * 4
    for one, other in pairs:
        assert names[one] == names[other]
    assert len(set(names)) == 2
    for rank, each in enumerate(four):
        partner = next(sum(pair) - rank for pair in pairs if rank in pair)
        assert each["groups"][f"mesh {dimension}"][0] == [10.0 * (rank + partner) + 2 * n for n in range(5)]


def test_a_group_is_split_or_not_as_torch_does_it_by_itself(timed: Results, untimed: Results) -> None:
    for with_rows, without in zip(timed, untimed, strict=True):  # gloo cannot, before torch 2.14
        assert with_rows["groups"]["split"] == without["groups"]["split"]


# -- over either core ------------------------------------------------------------------------------------


@pytest.mark.both_cores
def test_calls_of_a_rank_by_itself_are_rows(logger: TimingLogger, sink: MemorySink) -> None:
    init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1, timing_logger=logger)
    try:
        dist.all_reduce(torch.ones(5))
        dist.all_reduce(torch.ones(5), async_op=True).wait()
    finally:
        dist.destroy_process_group()
    logger.close()
    found = sorted((row.seq, row.operation, row.message_size_bytes, row.status) for row in sink.records)
    assert found == [(0, "ALLREDUCE", 20, "ok"), (1, "IALLREDUCE", 20, "ok"), (1, "WAIT", 20, "ok")]


# -- iterations ------------------------------------------------------------------------------------------


@both_groups
def test_an_iteration_that_is_not_sampled_writes_nothing(timed: Results, four: Results) -> None:
    for rank in (*timed, *four):
        found = rows(rank, "sampled")
        assert {(row["iteration"], row["epoch"]) for row in found} == {(0, 0), (2, 1)}


@both_groups
def test_a_number_names_the_same_collective_on_every_rank(timed: Results, four: Results) -> None:
    for results in (timed, four):
        named: dict[tuple[str, int], set[tuple[str, int]]] = {}
        for rank in results:
            for row in rows(rank, "sampled"):
                if row["operation"] not in ("WAIT", "ISEND", "IRECV"):
                    named.setdefault((row["group"], row["seq"]), set()).add((row["operation"], row["size"]))
        assert [number for number, operations in named.items() if len(operations) > 1] == []
        assert len(named) == 2 * (2 * 4 + 1 + 5 + 1)


@both_groups
def test_calls_that_are_not_sampled_count(timed: Results) -> None:
    for rank in timed:
        first = [row for row in rows(rank, "sampled") if row["operation"] == "ALLREDUCE"]
        world = [row["seq"] for row in first if row["group"] == WORLD]
        pair = [row["seq"] for row in first if row["group"] != WORLD]
        assert pair == [0, 4 + 2 * 4]  # the second iteration makes twice the calls over it
        a_step = 4 + 1 + 5 + 1
        assert [seq - world[0] for seq in world] == [0, 4, 2 * a_step, 2 * a_step + 4]


@both_groups
def test_messages_that_are_not_sampled_count_from_any_source_too(timed: Results) -> None:
    sent = messages(timed[0], "ISEND", 1, ("sampled",))
    received = messages(timed[1], "IRECV", 0, ("sampled",))
    assert [row["seq"] - sent[0]["seq"] for row in sent] == [0, 1, 4, 5]
    assert [(row["seq"], row["size"]) for row in received] == [(row["seq"], row["size"]) for row in sent]
