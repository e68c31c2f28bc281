"""Compressors and the selection under them: what is picked and what stays add up, bit for bit."""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from slow import examples
from torch import Tensor

from allreduce_instrumentation._selection import (
    at_least,
    contained,
    entries_to_keep,
    index_dtype,
    largest,
    sum_by_index,
)
from allreduce_instrumentation.compressors import (
    FP16,
    Compressor,
    DensePayload,
    NoCompression,
    SparseCompressor,
    SparsePayload,
    ThresholdState,
    TopK,
)
from timing_logger.errors import ConfigurationError, ReductionError

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
# The largest magnitudes tried: a few of them together are still finite, and so are tensor plus residual.
_LIMITS = {
    torch.float16: 4096.0,
    torch.bfloat16: 2.0**120,
    torch.float32: 2.0**120,
    torch.float64: 2.0**1000,
}
in_its_own_time = settings(deadline=None, max_examples=examples(100, few=8))  # the machine may be busy

_INTEGERS = {2: torch.int16, 4: torch.int32, 8: torch.int64}


def bits(tensor: Tensor) -> list[int]:
    found: list[int] = tensor.contiguous().view(_INTEGERS[tensor.element_size()]).tolist()
    return found


def numbers(dtype: torch.dtype) -> st.SearchStrategy[float]:
    """Any finite values with many ties, zeros of both signs and subnormal ones among them."""
    limit, width = _LIMITS[dtype], 64 if dtype == torch.float64 else 32
    some = st.floats(-limit, limit, width=width) if dtype != torch.float16 else st.floats(-limit, limit)
    return st.one_of(st.sampled_from([0.0, -0.0, 1.0, -1.0, 3.0]), some)


@st.composite
def vectors(draw: st.DrawFn, count: int = 1, min_size: int = 1) -> list[Tensor]:
    """``count`` tensors of one length and dtype."""
    dtype = draw(st.sampled_from(DTYPES))
    length = draw(st.integers(min_size, 40))
    lists = [draw(st.lists(numbers(dtype), min_size=length, max_size=length)) for _ in range(count)]
    return [torch.tensor(values, dtype=torch.float64).to(dtype) for values in lists]


def wide(tensor: Tensor) -> Tensor:
    """As it is added up."""
    return tensor.to(torch.float64 if tensor.dtype == torch.float64 else torch.float32)


# -- selection -------------------------------------------------------------------------------------


@in_its_own_time
@given(vectors(), st.data())
def test_the_largest_entries_are_those_of_a_stable_sort(tensors: list[Tensor], data: st.DataObject) -> None:
    values = tensors[0]
    k = data.draw(st.integers(0, values.numel()))
    magnitudes = [abs(x) for x in values.tolist()]
    expected = sorted(sorted(range(len(magnitudes)), key=lambda i: (-magnitudes[i], i))[:k])
    found = largest(values, k)
    assert found.dtype == torch.int64
    assert found.tolist() == expected


@pytest.mark.parametrize("dtype", DTYPES)
def test_of_equal_magnitudes_the_lowest_positions_are_picked(dtype: torch.dtype) -> None:
    values = torch.tensor([1.0, -2.0, 2.0, -1.0, 2.0, 1.0, -2.0] * 100, dtype=dtype)
    assert largest(values, 3).tolist() == [1, 2, 4]
    assert largest(values, 401).tolist() == sorted([0, *(values.abs() == 2).nonzero().squeeze(1).tolist()])
    assert largest(torch.zeros(1000, dtype=dtype), 3).tolist() == [0, 1, 2]


def test_infinite_entries_are_the_largest() -> None:
    assert largest(torch.tensor([1.0, -math.inf, 3.0, math.inf, math.inf]), 2).tolist() == [1, 3]


@in_its_own_time
@given(vectors(), st.sampled_from([0.0, 0.5, 1.0, 3.0, math.inf]))
def test_a_threshold_picks_what_reaches_it(tensors: list[Tensor], threshold: float) -> None:
    expected = [i for i, x in enumerate(tensors[0].tolist()) if abs(x) >= threshold]
    assert at_least(tensors[0], threshold).tolist() == expected


@in_its_own_time
@given(st.sets(st.integers(0, 60)), st.sets(st.integers(0, 60)), st.sampled_from([torch.int32, torch.int64]))
def test_membership_is_that_of_sets(indices: set[int], others: set[int], dtype: torch.dtype) -> None:
    some, table = (torch.tensor(sorted(s), dtype=dtype) for s in (indices, others))
    assert contained(some, table).tolist() == [i in others for i in sorted(indices)]


@in_its_own_time
@given(vectors(count=3), st.data())
def test_sparse_sums_are_those_of_a_dictionary(tensors: list[Tensor], data: st.DataObject) -> None:
    places = st.sets(st.integers(0, tensors[0].numel() - 1))
    parts = []
    expected: dict[int, Tensor] = {}
    for tensor in tensors:
        indices = sorted(data.draw(places))
        parts.append((tensor[indices], torch.tensor(indices, dtype=torch.int32)))
        for i in indices:
            expected[i] = expected.get(i, torch.zeros(()).to(wide(tensor))) + wide(tensor[i])
    values, union = sum_by_index(parts, wide(tensors[0]).dtype)
    assert union.tolist() == sorted(expected)
    assert bits(values) == [bits(expected[i]) for i in sorted(expected)]


@pytest.mark.parametrize(
    ("density", "length", "kept"),
    [(0.01, 1, 1), (0.01, 100, 1), (0.01, 101, 2), (0.5, 3, 2), (1.0, 7, 7), (1e-9, 5, 1), (0.999999, 3, 3)],
)
def test_density_is_rounded_up(density: float, length: int, kept: int) -> None:
    assert entries_to_keep(density, length) == kept


def test_indices_are_as_narrow_as_the_length_allows() -> None:
    assert index_dtype(2**31 - 1) == torch.int32
    assert index_dtype(2**31) == torch.int64


# -- TopK ------------------------------------------------------------------------------------------


def check_adds_up(exact: Tensor, payload: SparsePayload, residual: Tensor | None) -> None:
    """The payload's values, as they travel, and the residual are ``exact``, bit for bit."""
    assert residual is not None
    rebuilt = residual.clone()
    rebuilt[payload.indices.long()] += payload.values.to(residual.dtype)
    assert rebuilt.dtype == exact.dtype
    assert bits(rebuilt) == bits(exact)


@in_its_own_time
@given(vectors(count=4), st.floats(0.01, 1.0))
def test_picks_and_residual_are_tensor_and_old_residual(tensors: list[Tensor], density: float) -> None:
    compressor = TopK(density)
    residual = torch.zeros_like(wide(tensors[0]))
    for tensor in tensors:
        before = bits(tensor)
        payload = compressor.compress(tensor, "w")
        exact = wide(tensor) + residual
        check_adds_up(exact, payload, compressor.residual("w"))
        assert payload.values.dtype == tensor.dtype
        assert payload.indices.dtype == torch.int32
        assert payload.indices.tolist() == largest(exact, entries_to_keep(density, tensor.numel())).tolist()
        assert bits(tensor) == before
        kept = compressor.residual("w")
        assert kept is not None
        residual = kept


@in_its_own_time
@given(vectors(count=3), st.sampled_from([0.0, 1.0, 2.5, 1e300]))
def test_picks_above_a_threshold_and_residual_add_up(tensors: list[Tensor], threshold: float) -> None:
    compressor = TopK(0.5)
    residual = torch.zeros_like(wide(tensors[0]))
    for tensor in tensors:
        payload = compressor.compress_above(tensor, "w", threshold)
        exact = wide(tensor) + residual
        check_adds_up(exact, payload, compressor.residual("w"))
        assert payload.indices.tolist() == [i for i, x in enumerate(exact.tolist()) if abs(x) >= threshold]
        kept = compressor.residual("w")
        assert kept is not None
        residual = kept


@in_its_own_time
@given(vectors(), st.floats(0.01, 1.0))
def test_what_is_given_back_was_never_picked(tensors: list[Tensor], density: float) -> None:
    compressor = TopK(density)
    payload = compressor.compress(tensors[0], "w")
    compressor.give_back("w", payload.indices, payload.values)
    residual = compressor.residual("w")
    assert residual is not None
    assert bits(residual) == bits(wide(tensors[0]) + 0.0)


@in_its_own_time
@given(vectors(count=3), st.integers(0, 50))
def test_a_merge_keeps_the_largest_of_the_sum_and_drops_the_rest(tensors: list[Tensor], keep: int) -> None:
    payloads = [TopK(0.3).compress(tensor, "w") for tensor in tensors]
    kept, dropped = TopK(0.3).merge(payloads, keep)
    everything, nothing = TopK(0.3).merge(payloads, None)
    assert nothing.count == 0
    assert kept.count == min(keep, everything.count)
    assert sorted([*kept.indices.tolist(), *dropped.indices.tolist()]) == everything.indices.tolist()
    positions = largest(everything.values, kept.count)
    assert kept.indices.tolist() == everything.indices[positions].tolist()
    assert bits(kept.values) == bits(everything.values[positions])
    dense = TopK(0.3).decompress_mean([kept, dropped], 1)
    assert bits(dense) == bits(TopK(0.3).decompress_mean(payloads, 1))


@in_its_own_time
@given(vectors(count=3), st.integers(1, 9))
def test_the_mean_is_rounded_once(tensors: list[Tensor], ranks: int) -> None:
    payloads = [TopK(1.0).compress(tensor, "w") for tensor in tensors]
    total = wide(tensors[0]) + wide(tensors[1]) + wide(tensors[2])
    mean = TopK(1.0).decompress_mean(payloads, ranks)
    assert mean.dtype == tensors[0].dtype
    assert torch.equal(mean, (total / ranks).to(tensors[0].dtype))


def test_decompressing_puts_values_where_they_stood() -> None:
    tensor = torch.tensor([0.5, -3.0, 1.0, 2.0], dtype=torch.bfloat16)
    dense = TopK(0.5).decompress(TopK(0.5).compress(tensor.view(2, 2), "w"))
    assert dense.tolist() == [0.0, -3.0, 0.0, 2.0]
    assert dense.dtype == torch.bfloat16


def test_names_have_residuals_of_their_own() -> None:
    compressor = TopK(0.5)
    compressor.compress(torch.tensor([1.0, 2.0]), "a")
    compressor.compress(torch.tensor([3.0, 4.0, 5.0, 6.0]), "b")
    assert compressor.residual("never") is None
    for name, left in (("a", [1.0, 0.0]), ("b", [3.0, 4.0, 0.0, 0.0])):
        residual = compressor.residual(name)
        assert residual is not None
        assert residual.tolist() == left


@pytest.mark.parametrize("make", [lambda: TopK(0.5), FP16])
def test_another_length_or_precision_under_a_name_is_an_error(make: Callable[[], Any]) -> None:
    compressor = make()
    compressor.compress(torch.ones(4), "w")
    with pytest.raises(ConfigurationError, match=r"name 'w' had a tensor of 4 entries .* one of 5 entries"):
        compressor.compress(torch.ones(5), "w")
    with pytest.raises(ConfigurationError, match=r"torch\.float32, and now .* needs torch\.float64"):
        compressor.compress(torch.ones(4).double(), "w")
    compressor.compress(torch.ones(4), "w")


@pytest.mark.parametrize("density", [0, 0.0, -0.1, 1.0001, math.nan, math.inf, "0.1", None, True])
def test_a_density_out_of_range_is_an_error(density: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"density must be a number in \(0, 1\], and is"):
        TopK(density)


@pytest.mark.parametrize(
    ("compressor", "dtype", "large"),
    [
        (TopK(0.5), torch.float16, 40000.0),
        (TopK(0.5), torch.bfloat16, 3e38),
        (TopK(0.5), torch.float32, 3e38),
        (TopK(0.5), torch.float64, 1.7e308),
        (FP16(), torch.float32, 65520.0),
        (FP16(), torch.bfloat16, 1e9),
    ],
)
def test_a_value_too_large_to_travel_is_an_error_and_nothing_is_forgotten(
    compressor: Any, dtype: torch.dtype, large: float
) -> None:
    small = torch.full((2,), large / 2, dtype=dtype)
    if isinstance(compressor, TopK):  # the second entry stays behind, and comes on top of the next one
        small[:] = large
    else:
        small[:] = 0.1
    compressor.compress(small, "w")
    before = compressor.residual("w")
    with pytest.raises(ReductionError, match=f"'w' plus its residual has entries beyond .* {dtype}|float16"):
        compressor.compress(torch.full((2,), large, dtype=dtype), "w")
    assert torch.equal(compressor.residual("w"), before)


def test_only_what_was_compressed_can_be_given_back() -> None:
    with pytest.raises(ConfigurationError, match="nothing was compressed under name 'w'"):
        TopK(0.5).give_back("w", torch.tensor([0]), torch.tensor([1.0]))


def test_a_snapshot_goes_back_to_before_picks_gifts_and_states() -> None:
    compressor = TopK(0.5)
    new = compressor.snapshot("w")
    payload = compressor.compress(torch.tensor([1.0, 2.0]), "w")
    compressor.set_state("w", ThresholdState(calls=1))
    used = compressor.snapshot("w")
    compressor.compress(torch.tensor([5.0, 7.0]), "w")
    compressor.give_back("w", payload.indices, payload.values)
    compressor.set_state("w", ThresholdState(calls=2))
    compressor.restore("w", used)
    residual = compressor.residual("w")
    assert residual is not None
    assert residual.tolist() == [1.0, 0.0]
    assert compressor.state("w").calls == 1
    compressor.restore("w", new)
    assert compressor.residual("w") is None
    assert compressor.state("w") == ThresholdState()


# -- dense compressors -----------------------------------------------------------------------------


@in_its_own_time
@given(vectors(count=3))
def test_rounding_to_float16_leaves_the_rest_in_the_residual(tensors: list[Tensor]) -> None:
    compressor = FP16()
    scaled = [(t.double() / max(1.0, float(t.abs().max()) / 1000)).to(t.dtype) for t in tensors]
    residual = torch.zeros_like(wide(scaled[0]))
    for tensor in scaled:
        payload = compressor.compress(tensor, "w")
        assert payload.values.dtype == torch.float16
        kept = compressor.residual("w")
        if tensor.dtype == torch.float16:
            assert kept is None
            assert bits(payload.values) == bits(tensor)
            continue
        assert kept is not None
        assert bits(payload.values.to(kept.dtype) + kept) == bits(wide(tensor) + residual)
        residual = kept


def test_float16_comes_back_in_the_tensor_s_dtype() -> None:
    for dtype in DTYPES:
        dense = FP16().decompress(FP16().compress(torch.tensor([[0.1, 2.0]], dtype=dtype), "w"))
        assert dense.dtype == dtype
        assert dense.tolist() == torch.tensor([0.1, 2.0], dtype=dtype).half().to(dtype).tolist()


def test_no_compression_passes_everything_on() -> None:
    tensor = torch.arange(6.0).view(2, 3)
    payload = NoCompression().compress(tensor, "w")
    assert (payload.length, payload.dtype, payload.nbytes) == (6, torch.float32, 24)
    assert NoCompression().decompress(payload).tolist() == tensor.view(-1).tolist()


def test_payloads_of_the_other_kind_are_refused() -> None:
    sparse, dense = TopK(0.5).compress(torch.ones(2), "w"), NoCompression().compress(torch.ones(2), "w")
    with pytest.raises(ConfigurationError, match="payload must be a SparsePayload, and is a DensePayload"):
        TopK(0.5).decompress(dense)
    for compressor in (NoCompression(), FP16()):
        with pytest.raises(ConfigurationError, match="must be a DensePayload, and is a SparsePayload"):
            compressor.decompress(sparse)


def test_compressors_are_what_the_protocols_ask_for() -> None:
    assert all(isinstance(c, Compressor) for c in (NoCompression(), FP16(), TopK(0.5)))
    assert isinstance(TopK(0.5), SparseCompressor)
    assert not any(isinstance(c, SparseCompressor) for c in (NoCompression(), FP16()))


def test_payloads_know_their_size() -> None:
    payload = TopK(0.5).compress(torch.ones(4, dtype=torch.bfloat16), "w")
    assert (payload.count, payload.nbytes) == (2, 2 * 2 + 2 * 4)
    assert DensePayload(torch.ones(3), 3, torch.float32).nbytes == 12


# -- states ----------------------------------------------------------------------------------------


def saved_and_loaded(state: dict[str, Any]) -> Any:
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


@in_its_own_time
@given(vectors(count=3), st.sampled_from(["w", "", "a name, with ä and\n"]))
def test_a_loaded_state_goes_on_as_the_saved_one(tensors: list[Tensor], name: str) -> None:
    tensors = [(t.double() / max(1.0, float(t.abs().max()) / 1000)).to(t.dtype) for t in tensors]
    for make in (lambda: TopK(0.3), FP16, NoCompression):
        original: Any = make()
        original.compress(tensors[0], name)
        original.compress(tensors[1], "other")
        if isinstance(original, TopK):
            original.set_state(name, ThresholdState(3, 0.5, 0.25, (1, 2, 7)))
            original.set_state("only a state", ThresholdState(boundaries=(4,)))
        copy: Any = make()
        copy.compress(tensors[2], "forgotten")
        copy.load_state_dict(saved_and_loaded(original.state_dict()))
        payloads = [compressor.compress(tensors[2], name) for compressor in (copy, original)]
        assert bits(payloads[0].values) == bits(payloads[1].values)
        if isinstance(original, TopK):
            assert copy.residual("forgotten") is None
            assert copy.state(name) == ThresholdState(3, 0.5, 0.25, (1, 2, 7))
            assert copy.state("only a state") == ThresholdState(boundaries=(4,))


def test_a_saved_state_does_not_change_with_the_compressor() -> None:
    compressor = TopK(0.5)
    compressor.compress(torch.tensor([1.0, 2.0]), "w")
    state = compressor.state_dict()
    compressor.give_back("w", torch.tensor([0]), torch.tensor([9.0]))
    assert state["residuals"]["w"].tolist() == [1.0, 0.0]
    compressor.load_state_dict(state)
    compressor.give_back("w", torch.tensor([0]), torch.tensor([9.0]))
    assert state["residuals"]["w"].tolist() == [1.0, 0.0]


GOOD = {"density": 0.5, "residuals": {}, "states": {}}


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (None, "state must be what TopK.state_dict"),
        ({}, "state must be what TopK.state_dict"),
        ({**GOOD, "more": 1}, "state must be what TopK.state_dict"),
        ({**GOOD, "residuals": []}, "state must be what TopK.state_dict"),
        (
            {**GOOD, "density": 0.25},
            r"of density 0.25, and this compressor's is 0.5: make a TopK\(0.25\)",
        ),
        ({**GOOD, "residuals": {"w": torch.ones(2, 2)}}, "a residual of 'w' that is no vector of floats"),
        ({**GOOD, "residuals": {"w": torch.ones(2).half()}}, "a residual of 'w' that is no vector of floats"),
        ({**GOOD, "states": {"w": {"calls": 1}}}, "something unknown of 'w'"),
        ({**GOOD, "states": {"w": {"colour": 1, "boundaries": ()}}}, "something unknown of 'w'"),
    ],
)
def test_a_state_of_something_else_is_refused_and_changes_nothing(state: Any, message: str) -> None:
    compressor = TopK(0.5)
    compressor.compress(torch.tensor([1.0, 2.0]), "w")
    with pytest.raises(ConfigurationError, match=message):
        compressor.load_state_dict(state)
    residual = compressor.residual("w")
    assert residual is not None
    assert residual.tolist() == [1.0, 0.0]


@pytest.mark.parametrize("compressor", [NoCompression(), FP16()])
def test_dense_compressors_refuse_the_state_of_another(compressor: Any) -> None:
    with pytest.raises(ConfigurationError, match=rf"what {type(compressor).__name__}\.state_dict"):
        compressor.load_state_dict(TopK(0.5).state_dict())
