"""Training over timed process groups of gloo, bit for bit as without timing: DDP, FSDP2 and others."""

from __future__ import annotations

import functools
from collections import Counter
from typing import Any

import pytest
from limits import scaled
from torch_runner import run_with_torchrun

from timing_logger.analysis import base_operation

pytestmark = pytest.mark.slow(
    "seventy ways to train, three times each; test_existing_groups.py has the cheapest of DDP and FSDP2"
)

Case = tuple[str, int, str]
Found = dict[str, dict[str, Any]]
Rows = list[list[Any]]

ITERATION, OPERATION, BYTES, GROUP, SEQ, STATUS, LAYER, START, END = range(9)
LOSS, GRADIENTS, PARAMETERS = range(3)

WAYS = ("instrumented", "timed")

COMPILED = ("C++ compiler", "InvalidCxxCompiler", "CppCompileError")

# What torch itself may refuse on this machine, and what it then says.
MAY_BE_REFUSED = {
    "mixed precision (DDP's)": ("doesn't support events", "driver version is insufficient"),
    "synchronised batch norm": ("only work with GPU modules",),
    "compiled, inductor": COMPILED,
}

DDP = (
    "plain", "several buckets", "no_sync", "static graph", "unused parameters", "overlap", "bucket views",
    "unused on all ranks", "autocast", "mixed precision (DDP's)", "checkpointed", "checkpointed, reentrant",
    "batch norm", "synchronised batch norm", "uneven inputs", "two models", "a pass within a pass",
    "gradient of a gradient", "copies", "over a mesh", "over a new group", "compiled, aot_eager",
    "compiled inside, aot_eager", "compiled, inductor",
)  # fmt: skip
HOOKS = (
    "allreduce", "allreduce, registered later", "fp16", "fp16 around a user's own", "PowerSGD",
    "post-local SGD", "one that waits", "one that gathers", "built in", "built in, fp16",
    "built in, registered later", "optimizer in the hook",
)  # fmt: skip
FSDP2 = (
    "plain", "as a whole", "kept unsharded", "mixed precision", "reduced in halves", "accumulated",
    "checkpointed", "prefetched", "unsharded in the background", "clipped", "compiled, aot_eager",
    "compiled, inductor", "saved and loaded",
)  # fmt: skip
PARALLEL = (
    "tensor parallel", "sequence parallel", "redistributed", "pipeline, GPipe", "pipeline, 1F1B",
    "zero redundancy", "zero redundancy, bucket views", "replicated", "FSDP of the first kind",
    "averaged now and then", "differentiable collective", "functional collective", "compiled collective",
    "reduced by hand", "compressed by hand",
)  # fmt: skip
PROGRAMS: dict[tuple[str, int], tuple[str, ...]] = {
    ("training_ddp.py", 2): DDP,
    ("training_ddp.py", 3): DDP[:6],
    ("training_ddp_hooks.py", 2): HOOKS,
    ("training_fsdp2.py", 2): FSDP2,
    ("training_fsdp2.py", 4): ("plain", "hybrid", "with tensor parallel", "over two groups"),
    ("training_parallel.py", 2): PARALLEL,
    ("training_optimizer.py", 2): ("dense", "accumulated", "halves", "topk", "gtopk"),
}
CASES: list[Case] = [(*program, variant) for program, variants in PROGRAMS.items() for variant in variants]
OPTIMIZER = [case for case in CASES if case[0] == "training_optimizer.py"]

# Whose steps instrument() does not see: calls that torch makes in C++, and DDP without its model.
UNSEEN = ("tensor parallel", "sequence parallel", "replicated", "functional collective")
# Of whose steps it sees less than a timed group does, for these reasons, where torch has no hooks.
PARTLY_SEEN = (
    *UNSEEN, "redistributed", "compiled collective", "built in", "built in, fp16", "clipped",
    "saved and loaded", "with tensor parallel", "copies",
)  # fmt: skip


def has_hooks() -> bool:
    from allreduce_instrumentation.torch_distributed._dispatched_calls import AVAILABLE

    return AVAILABLE


# In whose every step there is none that it sees.
SELDOM = ("averaged now and then", "copies", "saved and loaded", "built in", "built in, fp16")


@functools.cache
def results_of(program: str, ranks: int) -> list[dict[str, Found]]:
    """What each rank found out about each variant, each way."""
    return run_with_torchrun(ranks, program, limit_s=scaled(400))


def found(case: Case) -> list[Found]:
    """What each rank found out; skips what cannot be done here without timing either."""
    program, number, variant = case
    ranks = [rank[variant] for rank in results_of(program, number)]
    errors = [rank["plain"]["error"] for rank in ranks]
    for reason in MAY_BE_REFUSED.get(variant, ()):
        if all(reason in error for error in errors):
            pytest.skip(f"without timing too: {errors[0]}")
    assert errors == [""] * number
    return ranks


def name_of(value: Any) -> str:
    return f"{value[0].removeprefix('training_').removesuffix('.py')}, {value[1]} ranks: {value[2]}"


every_case = pytest.mark.parametrize("case", CASES, ids=name_of)
every_way = pytest.mark.parametrize("way", WAYS)


def operations(rows: Rows, *columns: int) -> Counter[tuple[Any, ...]]:
    """How often each operation stands there; who waits for it in C++ or in a callback may vary."""
    return Counter(tuple(row[c] for c in columns) for row in rows if row[OPERATION] != "WAIT")


@pytest.mark.parametrize(("program", "number"), PROGRAMS)
def test_every_variant_of_a_program_is_looked_at(program: str, number: int) -> None:
    for rank in results_of(program, number):
        assert tuple(rank) == PROGRAMS[program, number]


# -- nothing changes -------------------------------------------------------------------------------


@every_way
@every_case
def test_losses_gradients_and_parameters_are_the_same_bits(case: Case, way: str) -> None:
    for rank in found(case):
        assert rank[way]["error"] == ""
        assert rank[way]["steps"] == rank["plain"]["steps"]
        assert rank[way]["notes"] == rank["plain"]["notes"]


@every_case
def test_what_is_compared_was_trained(case: Case) -> None:
    """Every step of every rank has a loss, gradients and parameters of its own, or something was noted."""
    for rank in found(case):
        steps = rank["plain"]["steps"]
        assert steps or rank["plain"]["notes"]
        for column in (GRADIENTS, PARAMETERS) if case[2] != "optimizer in the hook" else (PARAMETERS,):
            assert len({step[column] for step in steps}) == len(steps)


@pytest.mark.parametrize("case", [case for case in CASES if "ddp" in case[0]], ids=name_of)
def test_ddp_ranks_have_data_of_their_own_and_parameters_in_common(case: Case) -> None:
    apart = ("post-local SGD", "uneven inputs")  # on purpose; and after the first rank's last step
    ranks = found(case)
    for step in zip(*(rank["plain"]["steps"] for rank in ranks), strict=False):
        losses, _, parameters = zip(*step, strict=True)
        assert len(set(losses)) == len(ranks)
        if case[2] not in apart:
            assert len(set(parameters)) == 1


# -- and it was timed ------------------------------------------------------------------------------


@every_case
def test_every_step_was_timed(case: Case) -> None:
    for rank in found(case):
        for way in ("timed",) if case[2] in UNSEEN else WAYS:
            rows = rank[way]["rows"]
            timed = {row[ITERATION] for row in rows}
            assert timed
            if case[2] not in SELDOM:
                assert timed >= set(range(1, 1 + len(rank[way]["steps"])))
            assert {row[STATUS] for row in rows} == {"ok"}


@every_case
def test_without_timing_nothing_is_recorded(case: Case) -> None:
    own_rows = case in OPTIMIZER or case[2] == "compressed by hand"
    for rank in found(case):
        assert bool(rank["plain"]["rows"]) == own_rows


@every_case
def test_existing_groups_give_the_rows_of_timed_ones(case: Case) -> None:
    columns = [ITERATION, OPERATION, BYTES]
    if case[2] != "PowerSGD":  # whose callbacks run inside a backward pass or, in gloo's threads, outside
        columns += [LAYER]
    for rank in found(case):
        seen, timed = (operations(rank[way]["rows"], *columns) for way in WAYS)
        if case[2] in PARTLY_SEEN and not has_hooks():
            assert seen < timed
        else:
            assert seen == timed


@pytest.mark.parametrize("case", [*OPTIMIZER, ("training_parallel.py", 2, "compressed by hand")], ids=name_of)
def test_what_notes_its_own_rows_has_them_once(case: Case) -> None:
    for rank in found(case):
        alone, seen, timed = (
            operations(rank[way]["rows"], ITERATION, OPERATION, BYTES, LAYER) for way in ("plain", *WAYS)
        )
        assert alone
        assert in_base_names(seen) == in_base_names(timed) == in_base_names(alone)


def in_base_names(counted: Counter[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
    """A timed group calls every message a background one, which is what torch makes of it."""
    return Counter({(step, base_operation(name), *rest): n for (step, name, *rest), n in counted.items()})


# -- overlap of communication and backward -----------------------------------------------------------


@pytest.fixture(params=[2, 3])
def overlaps(request: pytest.FixtureRequest) -> list[Found]:
    """The last rank held its first buckets back until all other gradients were computed."""
    return found(("training_ddp.py", request.param, "overlap"))


def steps_of(rank: Found, way: str) -> list[tuple[int, Rows, Rows]]:
    """When the last gradient was computed, and the rows of buckets and waits, of each step but the first.

    There DDP has all in one bucket.
    """
    steps = []
    for number, computed_ns in enumerate(rank[way]["marks"]["all gradients computed"], 1):
        rows = [row for row in rank[way]["rows"] if row[ITERATION] == number]
        buckets = [row for row in rows if row[OPERATION] == "IALLREDUCE"]
        numbers = {row[SEQ] for row in buckets}
        waits = [row for row in rows if row[OPERATION] == "WAIT" and row[SEQ] in numbers]
        steps.append((computed_ns, buckets, waits))
    assert len(steps) == 4
    return steps[1:]


@every_way
def test_the_first_bucket_is_on_its_way_before_backward_ends(overlaps: list[Found], way: str) -> None:
    for rank in overlaps:
        for computed_ns, buckets, _ in steps_of(rank, way):
            assert len(buckets) >= 2
            assert buckets[0][START] < computed_ns < buckets[-1][START]


@every_way
def test_backward_goes_on_while_a_bucket_is_on_its_way(overlaps: list[Found], way: str) -> None:
    for rank in overlaps[:-1]:
        for computed_ns, buckets, _ in steps_of(rank, way):
            assert buckets[0][END] > computed_ns


@every_way
def test_each_bucket_is_waited_for_after_backward(overlaps: list[Found], way: str) -> None:
    for rank in overlaps:
        for computed_ns, buckets, waits in steps_of(rank, way):
            assert sorted(row[SEQ] for row in waits) == sorted(row[SEQ] for row in buckets)
            assert all(row[START] >= computed_ns for row in waits)
