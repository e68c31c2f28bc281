"""The all-reducers, over MPI on one to nine real ranks and over gloo on one to three.

By day on two, over either: more keep every core busy for long, and everything beside them would crawl. What
gtopk does on more is tried on threads by day, in ``test_algorithms_gtopk.py``.
"""

from __future__ import annotations

import functools
from typing import Any

import pytest
from mpi_runner import Run, has_mpiexec, run_on_ranks
from places import ROOT
from processes import run_warm
from slow import slow, slow_and_serial
from torch_runner import run_with_torchrun

from allreduce_instrumentation.compressors import FP16, NoCompression, TopK
from allreduce_instrumentation.sparse import ALL_REDUCERS, check_compressor
from timing_logger.errors import ConfigurationError

Results = list[dict[str, Any]]

LENGTH, PICKS, HEADER = 25, 5, 96  # of the calls whose rows are looked at

# What the last rank passes, see mpi_programs/_refusals.py -> what it raises, and a part of the message.
BAD_HERE = {
    "no tensor": ("ConfigurationError", "tensor 'w' must be a torch tensor, and is a list"),
    "nothing": ("ConfigurationError", "tensor 'w' must be a torch tensor, and is a NoneType"),
    "whole numbers": ("ConfigurationError", "has dtype torch.int64: convert it to one of torch.float16"),
    "complex": ("ConfigurationError", "has dtype torch.complex64"),
    "empty": ("ConfigurationError", "is empty: leave it out on every rank"),
    "not contiguous": ("ConfigurationError", "is not contiguous: pass tensor.contiguous()"),
    "sparse": ("ConfigurationError", "is sparse (torch.sparse_coo): make it dense"),
    "meta": ("ConfigurationError", "is on the meta device and has no data"),
    "NaN": ("ReductionError", "tensor 'w' has entries that are NaN or infinite"),
    "infinite": ("ReductionError", "tensor 'w' has entries that are NaN or infinite"),
    "compressor of the other kind": ("ConfigurationError", "compressor is NoCompression(), and the topk"),
    "no compressor": (
        "ConfigurationError",
        "compressor is None, and the topk all-reduce wants TopK",
    ),
    "failing compressor": ("MemoryError", "no room"),
    "no name": ("ConfigurationError", "name must be a string, and is 7"),
    "length of another": (
        "ConfigurationError",
        "'w' had a tensor of 12 entries with a residual",
    ),
}
# What differs on the last rank -> what rank 0 and the last rank are said to have.
APART = {
    "length": ("12 entries", "16 entries"),
    "dtype": ("dtype torch.float32", "dtype torch.bfloat16"),
    "density": ("density 0.25", "density 0.75"),
    "name": ("name 'w'", "name 'another ä'"),
}
FOR_EVERY_REDUCER = ("NaN", "failing compressor", "length", "dtype")


BY_DAY, OTHERS = (2,), (1, 3, 4, 5, 6, 7, 8, 9)
ALL_DTYPES = "float16,bfloat16,float32,float64"
HALF_OF_THEM = {
    ("mpi", 2): "bfloat16,float32",
    ("gloo", 2): "float16,float64",
}

_SAME = "another number of ranks, on the same path"
EVERY_MPI = [("mpi", number) for number in BY_DAY] + [slow_and_serial(("mpi", n), _SAME) for n in OTHERS]
EVERY_GLOO = [("gloo", 2)] + [slow(("gloo", number), _SAME) for number in (1, 3)]


@functools.cache
def over_both(number: int) -> dict[str, Results]:
    """One start, in which these ranks do the same over MPI and over gloo."""
    mpi, gloo = dtypes("mpi", number), dtypes("gloo", number)
    programs = [f"allreduce.py {mpi} {number}", f"../torch_programs/allreduce_groups.py {gloo}"]
    run = run_on_ranks(number, "several.py", *" + ".join(programs).split())
    over_mpi, over_gloo = run.of_each
    return {"mpi": over_mpi.results_on(number), "gloo": over_gloo.results}


@functools.cache
def over_mpi(numbers: tuple[int, ...]) -> Run:
    """One start, in which these numbers of ranks are tried."""
    return run_on_ranks(max(numbers), "allreduce.py", dtypes("mpi", numbers[0]), *map(str, numbers))


def dtypes(transport: str, number: int) -> str:
    """Between them, make test tries each; the other numbers of ranks try all."""
    return HALF_OF_THEM.get((transport, number), ALL_DTYPES)


@pytest.fixture
def n_dtypes(request: pytest.FixtureRequest) -> int:
    return len(dtypes(*request.node.callspec.params["ranks"]).split(","))


@functools.cache
def results_of(transport: str, number: int) -> Results:
    """What each of so many ranks found out in the program of that transport."""
    if number in BY_DAY and has_mpiexec():
        return over_both(number)[transport]
    if transport == "mpi":
        return over_mpi(BY_DAY if number in BY_DAY else OTHERS).results_on(number)
    return run_with_torchrun(number, "allreduce_groups.py", dtypes("gloo", number))


def name_of(transport_and_number: tuple[str, int]) -> str:
    return "{} on {} ranks".format(*transport_and_number)


@pytest.fixture(params=EVERY_MPI + EVERY_GLOO, ids=name_of)
def ranks(request: pytest.FixtureRequest) -> Results:
    return results_of(*request.param)


@pytest.fixture(params=EVERY_MPI, ids=name_of)
def mpi_ranks(request: pytest.FixtureRequest) -> Results:
    return results_of(*request.param)


@pytest.fixture(params=EVERY_GLOO, ids=name_of)
def gloo_ranks(request: pytest.FixtureRequest) -> Results:
    return results_of(*request.param)


def same_everywhere(results: list[Any]) -> bool:
    return all(result == results[0] for result in results)


# -- results ---------------------------------------------------------------------------------------


def test_where_nothing_is_left_out_the_result_is_the_mean(ranks: Results, n_dtypes: int) -> None:
    for rank in ranks:
        wrong = [case for case, (equal, _) in rank["nothing left out"].items() if not equal]
        assert wrong == []
        assert len(rank["nothing left out"]) >= 5 * n_dtypes * 2


def test_every_rank_holds_the_same_bits(ranks: Results) -> None:
    for check in ("nothing left out", "as in one process"):
        for case in ranks[0][check]:
            assert same_everywhere([rank[check][case][-1] for rank in ranks]), case


def test_topk_and_gtopk_are_those_of_the_reference_bit_for_bit(ranks: Results, n_dtypes: int) -> None:
    for rank in ranks:
        assert len(rank["as in one process"]) == 2 * n_dtypes * 2
        assert [case for case, (result, _, _) in rank["as in one process"].items() if not result] == []


def test_residuals_are_those_of_the_reference_bit_for_bit(ranks: Results) -> None:
    for rank in ranks:
        assert [case for case, (_, residual, _) in rank["as in one process"].items() if not residual] == []


def test_no_gradient_is_lost_or_counted_twice(ranks: Results, n_dtypes: int) -> None:
    for case, (_, received, _) in ranks[0]["gradient"].items():
        given = [sum(entry) for entry in zip(*(rank["gradient"][case][0] for rank in ranks), strict=True)]
        left = [sum(entry) for entry in zip(*(rank["gradient"][case][2] for rank in ranks), strict=True)]
        assert [r + rest for r, rest in zip(received, left, strict=True)] == given, case
        assert any(received)
    assert len(ranks[0]["gradient"]) >= 3 * n_dtypes // 2


def test_what_a_merge_lets_go_is_kept_if_its_index_wins_elsewhere(mpi_ranks: Results) -> None:
    """Picks: 3 at index 0, 10 at 1, 6 and 6 at 0, and 1 at 2 on the other ranks; one may survive."""
    if len(mpi_ranks) < 4:
        assert all(rank["let go"] is None for rank in mpi_ranks)
        return
    left = [rank["let go"][1] for rank in mpi_ranks]
    assert all(rank["let go"][0] == [12.0, *[0.0] * 7] for rank in mpi_ranks)
    assert [sum(entry) for entry in zip(*left, strict=True)] == [3.0, 10.0, len(mpi_ranks) - 4.0, *[0.0] * 5]
    assert left[1] == [0.0, 10.0, *[0.0] * 6]  # its own pick, which lost
    assert left[0][0] == 3.0  # of rank 0, which let it go: nobody else knows that it did not arrive


def test_a_result_is_a_new_tensor_like_the_input_which_does_not_change(ranks: Results) -> None:
    for rank in ranks:
        for case, found in rank["shapes and memory"].items():
            assert found == [True, True, True], case


def test_one_compressor_serves_several_names(ranks: Results) -> None:
    assert all(rank["names"] for rank in ranks)


@pytest.mark.slow("tensors of 2**24 entries")
def test_indices_beyond_what_float32_can_count_survive() -> None:
    common = [2**24 + 1, 2**24 + 3, 2**24 + 99]
    for number, rank in enumerate(run_on_ranks(2, "allreduce_large.py").results):
        expected = [common, [10.0, 11.0, 12.0], [2**24 + 5 + 2 * number]]
        assert rank == dict.fromkeys(("topk", "gtopk", "oktopk"), expected)


def test_a_part_of_the_world_reduces_by_itself(mpi_ranks: Results) -> None:
    for found, expected in (rank["parts"] for rank in mpi_ranks):
        assert found == pytest.approx(expected)


@pytest.mark.slow("three ranks over gloo; parts of the world are quick over MPI")
def test_ranks_of_a_smaller_group_are_its_own(gloo_ranks: Results) -> None:
    assert all(rank["part"] for rank in gloo_ranks)


# -- rows ------------------------------------------------------------------------------------------


def sent(rows: list[list[Any]]) -> list[list[Any]]:
    """Operation, phase and bytes of rows that all went well."""
    assert all(row[-1] == "ok" for row in rows)
    return [row[:3] for row in rows]


def test_rows_of_a_dense_reduction(ranks: Results) -> None:
    block = -(-LENGTH // len(ranks))
    for rank in ranks:
        assert sent(rank["rows"]["dense"]) == [
            ["ALLGATHER", "dense agreement", HEADER],
            ["ALLREDUCE", "dense", 4 * LENGTH],
        ]
        assert sent(rank["rows"]["dense FP16"]) == [
            ["COMPRESS", "dense", 4 * LENGTH],
            ["ALLGATHER", "dense agreement", HEADER],
            ["ALLTOALL", "dense blocks", 2 * block * len(ranks)],
            ["ALLGATHER", "dense means", 2 * block],
            ["DECOMPRESS", "dense", 2 * LENGTH],
        ]


def test_rows_of_a_topk_reduction(ranks: Results) -> None:
    for rank in ranks:
        assert sent(rank["rows"]["topk"]) == [
            ["COMPRESS", "sparse", 4 * LENGTH],
            ["ALLGATHER", "sparse agreement", HEADER],
            ["ALLGATHER", "sparse values", 4 * PICKS],
            ["ALLGATHER", "sparse indices", 4 * PICKS],
            ["DECOMPRESS", "sparse", 8 * PICKS * len(ranks)],
        ]


def tree_rows(rank: int, ranks: int, own: int) -> list[list[Any]]:
    """Messages and merges of gtopk: ``own`` bytes per value that was not added to, 4 per sum."""
    rows: list[list[Any]] = []
    merged = False
    for number in range(ranks.bit_length()):
        step = 2**number
        if step >= ranks:
            break
        if rank % (2 * step) == step:
            bytes_sent = (4 if merged else own) * PICKS
            rows += [["SEND", f"sparse round {number} values", bytes_sent, rank - step]]
            rows += [["SEND", f"sparse round {number} indices", 4 * PICKS, rank - step]]
            break
        if rank + step < ranks:
            sums = step > 1 and rank + step + 1 < ranks
            received = (4 if sums else own) * PICKS
            rows += [["RECV", f"sparse round {number} values", received, rank + step]]
            rows += [["RECV", f"sparse round {number} indices", 4 * PICKS, rank + step]]
            rows += [["MERGE", "sparse", (4 if merged else own) * PICKS + received + 8 * PICKS, None]]
            merged = True
    return rows


def check_gtopk_rows(ranks: Results, case: str, own: int) -> None:
    alone = len(ranks) == 1
    sums = [["BCAST", f"sparse {part}", 4 * PICKS, 0] for part in ("values", "indices")]
    for number, rank in enumerate(ranks):
        assert [[*row[:3], row[4]] for row in rank["rows"][case]] == [
            ["COMPRESS", "sparse", own * LENGTH, None],
            ["ALLGATHER", "sparse agreement", HEADER, None],
            *tree_rows(number, len(ranks), own),
            *([] if alone else sums),
            ["DECOMPRESS", "sparse", (own + 4 if alone else 8) * PICKS, None],
        ]


def test_rows_of_a_gtopk_reduction(ranks: Results) -> None:
    check_gtopk_rows(ranks, "gtopk", 4)


def test_rows_of_a_gtopk_reduction_of_halves(mpi_ranks: Results) -> None:
    check_gtopk_rows(mpi_ranks, "gtopk of halves", 2)


@pytest.mark.slow("what each kind of row has, either transport is asked by day")
@pytest.mark.serial
@pytest.mark.parametrize("number", [1, 2, 3])
def test_messages_over_gloo_are_those_over_mpi(number: int) -> None:
    over_mpi, over_gloo = results_of("mpi", number), results_of("gloo", number)
    for group, comm in zip(over_gloo, over_mpi, strict=True):
        for case in ("dense", "dense FP16", "topk", "gtopk"):
            assert group["rows"][case] == comm["rows"][case]


def test_rows_of_oktopk_are_framed_like_the_others(ranks: Results) -> None:
    for rank in ranks:
        first, second, *_, last = sent(rank["rows"]["oktopk"])
        assert first == ["COMPRESS", "sparse", 4 * LENGTH]
        assert second == ["ALLGATHER", "sparse agreement", HEADER]
        assert last[:2] == ["DECOMPRESS", "sparse"]


def test_collectives_have_the_same_numbers_on_all_ranks(ranks: Results) -> None:
    for case in ("dense", "dense FP16", "topk", "gtopk", "oktopk"):
        collectives = [
            [(op, seq) for op, _, _, seq, _, _ in rank["rows"][case] if op.startswith(("ALL", "BCAST"))]
            for rank in ranks
        ]
        assert same_everywhere(collectives)
        assert [seq for _, seq in collectives[0]] == list(range(len(collectives[0])))


def test_rows_name_the_layer_and_the_communicator(mpi_ranks: Results) -> None:
    for rank in mpi_ranks:
        assert rank["rows"]["elsewhere"] == []
        assert rank["rows"]["durations"]
        assert rank["rows"]["topk, groups"] == [["everyone", len(mpi_ranks)]]


def test_rows_name_the_layer_and_the_process_group(gloo_ranks: Results) -> None:
    for rank in gloo_ranks:
        assert rank["rows"]["topk, layers"] == ["w"]
        assert rank["rows"]["topk, group"] == [["group of topk", len(gloo_ranks)]]


def test_unrecorded_calls_count_in_a_process_group(gloo_ranks: Results) -> None:
    for rank in gloo_ranks:
        for case in ("dense", "dense FP16", "topk", "gtopk", "oktopk"):
            assert rank["rows"][f"{case}, unrecorded calls count"]


OF_COMM, OF_CALL = 0, 1


def test_rows_go_to_the_logger_of_the_call_or_else_of_the_communicator(mpi_ranks: Results) -> None:
    work = {"COMPRESS", "DECOMPRESS", "MERGE"}
    for rank in mpi_ranks:
        for case, communicates, works in (
            ("plain, given", [OF_CALL], [OF_CALL]),
            ("plain, none", [], []),
            ("timed, given", [OF_COMM], [OF_CALL]),
            ("timed, none", [OF_COMM], [OF_COMM]),
        ):
            found = [set(operations) for operations in rank["loggers"][case]]
            assert [logger for logger in (OF_COMM, OF_CALL) if found[logger] - work] == communicates
            assert [logger for logger in (OF_COMM, OF_CALL) if found[logger] & work] == works


def test_without_timing_there_are_no_rows_and_the_same_result(mpi_ranks: Results) -> None:
    assert all(rank["loggers"]["off"] == [True, True] for rank in mpi_ranks)


# -- refusals --------------------------------------------------------------------------------------


def check_raised(ranks: Results, case: str, kind: str, message: str, *, check: str = "refused") -> None:
    """The last rank raised its own error, and the others one that says which rank said what."""
    last = len(ranks) - 1
    for number, rank in enumerate(ranks):
        (raised, text), fine = rank[check][case]
        assert message in text
        assert fine, f"rank {number}: {case}"
        if number == last:
            assert raised == kind
        else:
            assert raised == "ReductionError"
            assert text.startswith(f"nothing was reduced: rank {last} cannot take part: ")


@pytest.mark.parametrize("case", BAD_HERE)
def test_what_one_rank_cannot_reduce_is_refused_on_all_and_leaves_no_trace(ranks: Results, case: str) -> None:
    check_raised(ranks, f"topk, {case}", *BAD_HERE[case])


@pytest.mark.parametrize("reducer", ["gtopk", "oktopk"])
def test_every_reducer_refuses_alike(ranks: Results, reducer: str) -> None:
    for case in FOR_EVERY_REDUCER:
        if case in BAD_HERE:
            check_raised(ranks, f"{reducer}, {case}", *BAD_HERE[case])
        elif len(ranks) > 1:
            assert all(rank["refused"][f"{reducer}, {case}"][0][0] == "ReductionError" for rank in ranks)
            assert all(rank["refused"][f"{reducer}, {case}"][1] for rank in ranks)


def said_by(ranks: Results, first: str, last: str) -> str:
    others = [str(number) for number in range(len(ranks) - 1)]
    return f"{first} on rank{'s' * (len(others) > 1)} {' '.join(others)}, {last} on rank {len(ranks) - 1}"


@pytest.mark.parametrize("case", APART)
def test_ranks_that_do_not_agree_are_told_who_has_what(ranks: Results, case: str) -> None:
    for rank in ranks if len(ranks) > 1 else []:
        (raised, text), fine = rank["refused"][f"topk, {case}"]
        assert raised == "ReductionError"
        assert said_by(ranks, *APART[case]) in text
        assert fine


@pytest.mark.parametrize(
    ("case", "first", "last"),
    [
        ("reducer", "algorithm topk", "algorithm gtopk"),
        ("compressor", "values that travel as torch.float32", "values that travel as torch.float16"),
        ("count", "entries picked: 3", "entries picked: 6"),
    ],
)
def test_calls_of_different_kinds_do_not_meet(ranks: Results, case: str, first: str, last: str) -> None:
    for rank in ranks:
        if len(ranks) == 1:
            assert rank["different calls"][case] == []
        else:
            raised, text = rank["different calls"][case]
            assert raised == "ReductionError"
            assert said_by(ranks, first, last) in text


@pytest.mark.parametrize("case", ["dense", "topk", "gtopk", "oktopk"])
def test_a_sum_too_large_is_an_error_on_every_rank(ranks: Results, case: str) -> None:
    for rank in ranks:
        error, restored = rank["too large"][case]
        assert restored or len(ranks) == 1  # alone, 3e38 is a mean like any other
        if len(ranks) == 1:
            assert error == []
        else:
            assert error[0] == "ReductionError"
            assert "the sum of 'w' over the ranks is too large for torch.float32" in error[1]


def test_halves_are_not_added_as_halves(ranks: Results) -> None:
    assert all(rank["too large"]["dense, halves"] == [[], True] for rank in ranks)


@pytest.mark.parametrize("case", ["dense FP16", "topk", "gtopk", "oktopk"])
def test_one_rank_s_overflow_is_told_to_all_and_its_residual_stays(ranks: Results, case: str) -> None:
    message = "'w' plus its residual has entries beyond"
    check_raised(ranks, f"{case}, on the last rank", "ReductionError", message, check="too large")


def test_unusable_communicators_are_refused_at_once(mpi_ranks: Results) -> None:
    for errors in (rank["unusable communicators"] for rank in mpi_ranks):
        assert {kind for kind, _ in errors.values()} == {"ConfigurationError"}
        for case in ("freed", "freed and timed", "null"):
            assert errors[case][1].startswith("comm is the null communicator")
        for case in ("none", "a number"):
            assert errors[case][1].startswith("comm must be an mpi4py intracommunicator or")
        assert ("intercommunicator" in errors) == (len(mpi_ranks) > 1)


def test_unusable_groups_are_refused_at_once(gloo_ranks: Results) -> None:
    for number, errors in enumerate(rank["unusable groups"] for rank in gloo_ranks):
        assert {kind for kind, _ in errors.values()} == {"ConfigurationError"}
        assert errors["destroyed"][1].startswith("comm is a process group that was destroyed")
        assert ("without this rank" in errors) == (number > 0)


def test_an_error_of_mpi_is_passed_on_and_the_residual_stays(mpi_ranks: Results) -> None:
    for rank in mpi_ranks:
        (raised, text), restored = rank["MPI fails"]
        assert raised == "Exception"
        assert "MPI_ERR_OTHER" in text
        assert restored


# -- compressors and imports -----------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL_REDUCERS)
def test_a_compressor_can_be_checked_before_the_first_call(name: str) -> None:
    right, wrong = ([NoCompression(), FP16()], [TopK(0.1)])
    if name != "dense":
        right, wrong = wrong, right
    for compressor in right:
        check_compressor(name, compressor)
    for unusable in (*wrong, None, "topk", TopK):
        with pytest.raises(ConfigurationError, match=f"the {name} all-reduce wants"):
            check_compressor(name, unusable)


def test_an_unknown_reducer_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"no all-reduce 'tree': use one of \['dense', 'gtopk'"):
        check_compressor("tree", TopK(0.1))


def test_compressors_copies_and_all_reduces_of_a_process_group_need_torch_alone() -> None:
    run = run_warm(
        f"""
        import sys
        sys.path.insert(0, {str(ROOT)!r})
        def says(): print("mpi4py" in sys.modules)
        says()
        import allreduce_instrumentation.compressors, allreduce_instrumentation.copies
        says()
        import torch, torch.distributed as dist
        from allreduce_instrumentation.sparse import ALL_REDUCERS
        from allreduce_instrumentation.compressors import NoCompression, TopK
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        for name, reduce in ALL_REDUCERS.items():
            compressor = NoCompression() if name == "dense" else TopK(0.5)
            reduce(torch.ones(4), comm=dist.group.WORLD, compressor=compressor, name=name)
        says()
        """
    )
    assert run.stdout == "False\nFalse\nFalse\n", run.stderr
