"""oktopk_sparse_allreduce: any data on ranks that are threads; slow tests are on one to nine real ranks."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from mpi_runner import Run, run_on_ranks
from ranks_as_threads import ThreadTransport, on_threads
from slow import examples, slow, slow_and_serial
from torch import Tensor
from torch_runner import run_with_torchrun

from allreduce_instrumentation._selection import entries_to_keep
from allreduce_instrumentation.compressors import ThresholdState, TopK
from allreduce_instrumentation.sparse import _call, oktopk
from timing_logger import TimingLogger
from timing_logger.errors import ReductionError

# -- on threads: any data, any number of ranks -----------------------------------------------------


@st.composite
def streams(draw: st.DrawFn) -> list[list[Tensor]]:
    """Per call and rank, whole numbers in float64: spread out, crowded, alike everywhere, or mostly zeros."""
    ranks, length = draw(st.integers(1, 6)), draw(st.integers(1, 100))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))

    def gradient(rank: int, scale: int, crowded: str, density: float) -> Tensor:
        values = torch.randint(-scale, scale + 1, (length,), generator=generator).double()
        values *= torch.rand(length, generator=generator) < density
        if crowded != "not at all":
            start = rank * length // ranks if crowded == "each elsewhere" else length - length // 4
            values[start : start + 1 + length // 8] *= 1000
        return values

    calls = []
    for _ in range(draw(st.integers(1, 6))):
        scale, part = draw(st.sampled_from([1, 9, 10**6])), draw(st.sampled_from([0.0, 0.1, 1.0]))
        crowded = draw(st.sampled_from(["not at all", "each elsewhere", "all at the end"]))
        gradients = [gradient(rank, scale, crowded, part) for rank in range(ranks)]
        calls.append([gradients[0]] * ranks if draw(st.booleans()) else gradients)
    return calls


def all_reduce(transport: ThreadTransport, compressor: TopK, tensor: Tensor) -> Tensor:
    """Without the frame that checks arguments."""
    payload = oktopk.ALGORITHM.compress(compressor, tensor, "layer")
    oktopk.ALGORITHM.must_agree(compressor, payload, "layer")
    return oktopk.ALGORITHM.reduce(transport, compressor, payload, "layer")


def all_reduced(compressors: list[TopK], tensors: Sequence[Tensor]) -> list[Tensor]:
    """Every rank's result; one compressor and one tensor per rank."""
    return on_threads(len(compressors), lambda t: all_reduce(t, compressors[t.rank], tensors[t.rank]))


@pytest.fixture(scope="module")
def short_periods() -> Iterator[None]:
    with patch.multiple(oktopk, THRESHOLD_PERIOD=3, REGION_PERIOD=4):
        yield


@pytest.mark.usefixtures("short_periods")
@settings(deadline=None, max_examples=examples(100, few=4))
@given(streams(), st.sampled_from([0.01, 0.1, 0.5, 1.0]))
def test_with_any_data_nothing_is_lost_and_the_words_stay_below_the_bound(
    calls: list[list[Tensor]], density: float
) -> None:
    ranks, length = len(calls[0]), calls[0][0].numel()
    k = entries_to_keep(density, length)
    bound = 6 * k * (ranks - 1) / ranks + 4 * ranks
    compressors = [TopK(density) for _ in range(ranks)]
    given_in, came_out = torch.zeros(length, dtype=torch.float64), torch.zeros(length, dtype=torch.float64)

    def program(transport: ThreadTransport) -> tuple[Tensor, int, int]:
        mean = all_reduce(transport, compressors[transport.rank], gradients[transport.rank])
        return mean, transport.sent, transport.received

    for gradients in calls:
        means, sent, received = zip(*on_threads(ranks, program), strict=True)
        assert all(torch.equal(mean, means[0]) for mean in means)
        assert max(sent) <= bound
        assert max(received) <= bound
        assert int(means[0].count_nonzero()) <= k
        given_in += torch.stack(gradients).sum(0)
        came_out += (means[0] * ranks).round()
        left = torch.stack([compressor.residual("layer") for compressor in compressors]).sum(0)
        assert torch.equal(came_out + left, given_in)
        if density == 1.0:
            assert not left.any()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_owners_add_in_the_order_of_the_ranks_and_round_once(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    tensors = torch.randn(7, 100, generator=generator).to(dtype)
    total = torch.zeros(100, dtype=torch.float64 if dtype == torch.float64 else torch.float32)
    for tensor in tensors:
        total += tensor
    means = all_reduced([TopK(1.0) for _ in range(7)], tensors)
    assert all(torch.equal(mean, (total / 7).to(dtype)) for mean in means)


def test_at_density_1_a_threshold_of_earlier_calls_leaves_nothing_out() -> None:
    compressors = [TopK(1.0) for _ in range(2)]
    for entries in ([8.0, 7.0, 6.0, 9.0], [7.0, 8.0, 9.0, 0.5]):  # three of four reach the least of before
        tensor = torch.tensor(entries)
        assert all(torch.equal(mean, tensor) for mean in all_reduced(compressors, [tensor] * 2))


@pytest.mark.slow("200 steps; that no entry is lost, which random data show by day, is why it gets so far")
@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_descent_with_a_tenth_of_the_entries_gets_nearly_as_far_as_with_all(ranks: int) -> None:
    """How far from the lowest point of all ranks' mean 200 steps end, where each rank's own is elsewhere."""
    generator = torch.Generator().manual_seed(0)
    curvatures = torch.linspace(0.5, 1.0, 100, dtype=torch.float64)
    targets = torch.randn(ranks, 100, generator=generator, dtype=torch.float64)
    best = targets.mean(0)

    compressors = [TopK(0.1) for _ in range(ranks)]

    def descent(mean_gradient: Callable[[Tensor], Tensor]) -> Tensor:
        point = torch.zeros(100, dtype=torch.float64)
        for step in range(200):
            point -= 2 / (step + 50) * mean_gradient(point)
        return point

    def program(transport: ThreadTransport) -> Tensor:
        compressor, target = compressors[transport.rank], targets[transport.rank]
        return descent(lambda point: all_reduce(transport, compressor, curvatures * (point - target)))

    def distance(point: Tensor) -> float:
        return float((point - best).norm() / best.norm())

    dense = distance(descent(lambda point: curvatures * (point - best)))
    sparse = distance(on_threads(ranks, program)[0])
    assert dense < 0.15
    assert sparse < 1.25 * dense


@pytest.mark.parametrize("ranks", [1, 3])
def test_when_all_entries_shrink_a_result_still_has_as_many(ranks: int) -> None:
    """On one rank nothing reaches its own old threshold, on several no sum reaches that of the sums."""
    compressors = [TopK(0.1) for _ in range(ranks)]
    tensors = torch.rand(ranks, 400, generator=torch.Generator().manual_seed(0))
    for scale in (1000, 0):  # then residuals are all there is, and what was largest is not among them
        assert int(all_reduced(compressors, scale * tensors)[0].count_nonzero()) == 40


def test_a_rank_without_picks_of_its_own_region_sends_no_more_than_the_bound() -> None:
    """Rank 0 has most to send in both movements: all its picks, and two thirds of the result."""
    regions, ones, largest = (100, 200, 400), 1.0, 1000.0
    picks = {
        0: [(100, 40, ones)],
        1: [(30, 13, ones), (200, 27, ones)],
        2: [(0, 27, largest), (300, 13, largest)],
    }

    def program(transport: ThreadTransport) -> int:
        compressor, tensor = TopK(0.1), torch.zeros(400)
        compressor.set_state("layer", ThresholdState(calls=1, boundaries=regions))
        for start, count, value in picks[transport.rank]:
            tensor[start : start + count] = value
        all_reduce(transport, compressor, tensor)
        return transport.sent

    assert max(on_threads(3, program)) <= 6 * 40 * 2 / 3 + 4 * 3


def test_regions_are_found_anew_once_an_owner_had_to_refuse_picks() -> None:
    compressors = [TopK(0.1) for _ in range(4)]

    def boundaries(start: int) -> tuple[int, ...]:
        """After a call in which all ranks' picks lie from ``start`` on."""
        tensors = torch.rand(4, 400, generator=torch.Generator().manual_seed(0))
        tensors[:, start:] += 1000
        all_reduced(compressors, tensors)
        (found,) = {compressor.state("layer").boundaries for compressor in compressors}
        return found

    first = boundaries(0)
    assert 60 < first[0] < first[1] < first[2] < first[3] == 400
    assert boundaries(0) == first
    assert boundaries(300) == ()
    assert boundaries(300)[0] > 300


# -- on threads: the whole call, with what is common to all all-reducers ---------------------------

OFF = TimingLogger(0, None, enabled=False)


@pytest.fixture
def whole_call(monkeypatch: pytest.MonkeyPatch) -> Callable[[ThreadTransport, TopK, Tensor], Tensor]:
    monkeypatch.setattr(_call, "transport_for", lambda comm, *_, **__: comm)

    def call(transport: Any, compressor: TopK, tensor: Tensor) -> Tensor:
        transport.logger, transport.control_device = OFF, transport.device
        return oktopk.oktopk_sparse_allreduce(tensor, comm=transport, compressor=compressor, name="layer")

    return call


def numbers_of(rank: int, call: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(200, generator=torch.Generator().manual_seed(1000 * call + rank)).to(dtype)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"calls": 7}, "earlier calls: 1 on rank 0, earlier calls: 7 on rank 1"),
        ({"global_threshold": 0.5}, "checksum"),
    ],
)
def test_where_ranks_remember_different_things_all_are_told_so_and_keep_their_residuals(
    whole_call: Callable[..., Tensor], change: dict[str, Any], said: str
) -> None:
    def program(transport: ThreadTransport) -> tuple[str, bool]:
        compressor = TopK(0.1)
        whole_call(transport, compressor, numbers_of(transport.rank, 0))
        if transport.rank == 1:
            compressor.set_state("layer", replace(compressor.state("layer"), **change))
        before = compressor.residual("layer")
        with pytest.raises(ReductionError) as refused:
            whole_call(transport, compressor, numbers_of(transport.rank, 1))
        after = compressor.residual("layer")
        assert before is not None
        assert after is not None
        return str(refused.value), torch.equal(before, after)

    for message, residual_kept in on_threads(2, program):
        assert said in message
        assert residual_kept


@pytest.mark.usefixtures("short_periods")
def test_calls_after_a_checkpoint_give_the_bits_of_calls_in_one_go(whole_call: Callable[..., Tensor]) -> None:
    def program(transport: ThreadTransport) -> list[bool]:
        in_one_go, first, second = TopK(0.1), TopK(0.1), TopK(0.1)
        expected = [whole_call(transport, in_one_go, numbers_of(transport.rank, call)) for call in range(6)]
        found = [whole_call(transport, first, numbers_of(transport.rank, call)) for call in range(3)]
        second.load_state_dict(copy.deepcopy(first.state_dict()))
        found += [whole_call(transport, second, numbers_of(transport.rank, call)) for call in range(3, 6)]
        return list(map(torch.equal, found, expected))

    assert on_threads(2, program) == [[True] * 6] * 2


def test_what_a_half_tensor_does_not_bring_into_a_result_is_in_the_residual_with_all_its_bits(
    whole_call: Callable[..., Tensor],
) -> None:
    def program(transport: ThreadTransport) -> list[bool]:
        compressor, left, kept = TopK(0.1), torch.zeros(200), []
        for call in range(3):
            tensor = numbers_of(transport.rank, call, torch.bfloat16)
            before = tensor.float() + left
            outside = whole_call(transport, compressor, tensor) == 0
            left = compressor.residual("layer")
            kept.append(torch.equal(left[outside], before[outside]))
        return kept

    assert on_threads(2, program) == [[True] * 3] * 2


def test_after_an_error_in_the_middle_residual_and_state_are_as_before(
    whole_call: Callable[..., Tensor],
) -> None:
    def fails(*_: object) -> Any:
        raise OSError("a link is down")

    def program(transport: ThreadTransport) -> list[bool]:
        compressor = TopK(0.1)
        whole_call(transport, compressor, numbers_of(transport.rank, 0))
        before = compressor.state_dict()
        transport.allgatherv = fails  # type: ignore[method-assign]
        with pytest.raises(OSError, match="a link is down"):
            whole_call(transport, compressor, numbers_of(transport.rank, 1))
        after = compressor.state_dict()
        same = torch.equal(before["residuals"]["layer"], after["residuals"]["layer"])
        return [same, before["states"] == after["states"]]

    assert on_threads(2, program) == [[True, True]] * 2


# -- on real ranks --------------------------------------------------------------------------------

Results = list[dict[str, Any]]


Case = tuple[str, int]  # which data, and on how many ranks

FEW = [("by day", 2)]
ALL = [("all", number) for number in range(1, 10)]  # beside nine ranks on two cores all would crawl


@functools.cache
def over_mpi(data: str) -> Run:
    """One start of ``mpi_programs/oktopk.py``, in which all numbers of ranks are tried."""
    numbers = [number for of, number in FEW + ALL if of == data]
    return run_on_ranks(max(numbers), "oktopk.py", data, *map(str, numbers))


def results_of(case: Case) -> Results:
    """What each rank found out."""
    data, number = case
    return over_mpi(data).results_on(number)


def with_cases(few: list[Case], others: list[Case]) -> Any:
    reason = "the same on threads is quick, and so are real ranks in test_sparse.py"
    cases = [*(slow(case, reason) for case in few), *(slow_and_serial(case, reason) for case in others)]
    return pytest.fixture(params=cases, ids=lambda case: f"{case[1]} ranks, data {case[0]}")


@with_cases(FEW, ALL)
def ranks(request: pytest.FixtureRequest) -> Results:
    return results_of(request.param)


@with_cases(FEW, ALL[1:])
def several_ranks(request: pytest.FixtureRequest) -> Results:
    return results_of(request.param)


@with_cases(FEW, ALL[:4])
def few_ranks(request: pytest.FixtureRequest) -> Results:
    """As many as do everything: with more ranks than cores all is slow."""
    return results_of(request.param)


def test_nothing_is_lost_or_made_up_in_any_call(ranks: Results) -> None:
    for rank in ranks:
        for name, found in rank["data"].items():
            assert found["conserved"] == [True] * 9, name


def test_all_ranks_have_the_same_bits_after_every_call(ranks: Results) -> None:
    for name in ranks[0]["data"]:
        assert len({tuple(rank["data"][name]["same"]) for rank in ranks}) == 1, name
    assert len({tuple(rank["halves"]["same"]) for rank in ranks}) == 1


def test_at_density_1_the_result_is_the_mean_of_every_entry(ranks: Results) -> None:
    for rank in ranks:
        assert rank["dense"] == {dtype: [[True, True]] * 4 for dtype in rank["dense"]}
        assert len(rank["dense"]) == 3


def test_what_a_half_tensor_does_not_bring_into_the_result_stays_with_all_its_bits(ranks: Results) -> None:
    for rank in ranks:
        assert rank["halves"]["returned"] == [True] * 9
        assert rank["halves"]["dtype"] == "torch.bfloat16"


def test_words_stay_below_the_bound_in_every_call(ranks: Results) -> None:
    """Where k is large enough, without the words that rounding may add."""
    size = len(ranks)
    for rank in ranks:
        for name, found in rank["data"].items():
            rounding = 0 if found["k"] >= 100 else 4 * size
            bound = 6 * found["k"] * (size - 1) / size + rounding
            assert max(max(travelled) for travelled in found["travelled"]) <= bound, name


def test_results_hold_about_k_entries(few_ranks: Results) -> None:
    for found in (few_ranks[0]["data"][name] for name in ("ordinary", "many entries", "all equal")):
        assert all(0.7 * found["k"] <= count <= found["k"] for count in found["in_result"])
    assert set(few_ranks[0]["data"]["all zeros"]["in_result"]) == {0}
    assert set(few_ranks[0]["data"]["all zeros"]["travelled"][0]) == {0}


def test_a_resumed_run_gives_the_bits_of_one_in_one_go(few_ranks: Results) -> None:
    for rank in (rank["resumed"] for rank in few_ranks):
        assert rank["resumed"] == rank["in_one_go"]


def test_ranks_that_remember_different_things_are_all_told_so(several_ranks: Results) -> None:
    last = f"on rank {len(several_ranks) - 1}."
    for kind, said in {
        "calls": ("earlier calls: 1 on", "earlier calls: 7 "),
        "thresholds": ("checksum",),
    }.items():
        for rank in several_ranks:
            error, message, _, residual_kept, afterwards = rank["apart"][kind]
            assert error == "ReductionError"
            assert residual_kept
            assert all(part in message for part in (*said, last))
            assert afterwards == several_ranks[0]["apart"]["calls"][-1]


def test_after_an_error_of_mpi_residual_and_state_are_as_before(few_ranks: Results) -> None:
    for rank in few_ranks:
        assert rank["lost in the middle"] == {"error": ["Exception"], "residual": True, "state": True}


@pytest.mark.serial
@pytest.mark.slow("three ranks of torch; both transports have the methods that test_sparse.py tries")
def test_gloo_gives_the_bits_that_mpi_gives() -> None:
    over_mpi = {name: found["same"] for name, found in results_of(("all", 3))[0]["data"].items()}
    assert run_with_torchrun(3, "oktopk_groups.py") == [{"same": over_mpi, "mpi4py": False}] * 3
