"""What a bucket carries: gradients, which parameters have one, and which ranks failed."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from allreduce_instrumentation.sparse._buckets import Bucket, make_buckets  # noqa: E402
from timing_logger.errors import ReductionError  # noqa: E402


def parameter(*values: float, grad: list[float] | None = None, dtype: Any = torch.float32) -> torch.Tensor:
    made = torch.tensor(values, dtype=dtype, requires_grad=True)
    if grad is not None:
        made.grad = torch.tensor(grad, dtype=dtype)
    return made


def bucket_of(*parameters: torch.Tensor) -> Bucket:
    """Return a bucket of parameters that are named ``p0``, ``p1`` and so on."""
    return Bucket([(f"p{number}", one) for number, one in enumerate(parameters)])


def loaded() -> Bucket:
    """Return a bucket with two gradients of three parameters."""
    bucket = bucket_of(parameter(0, 0, grad=[1, 2]), parameter(0), parameter(0, grad=[3]))
    bucket.load()
    return bucket


@pytest.mark.parametrize(("count", "name"), [(1, "p0"), (2, "p0 (+1 more)"), (4, "p0 (+3 more)")])
def test_a_bucket_is_named_after_its_first_parameter_and_how_many_more_there_are(
    count: int, name: str
) -> None:
    assert bucket_of(*[parameter(0)] * count).name == name


@pytest.mark.parametrize(
    ("dtype", "wire"),
    [
        (torch.float16, torch.float32),
        (torch.float32, torch.float32),
        (torch.complex64, torch.float32),
        (torch.float64, torch.float64),
        (torch.complex128, torch.float64),
    ],
)
def test_gradients_travel_in_single_precision_at_least(dtype: Any, wire: Any) -> None:
    bucket = bucket_of(parameter(0, 0, dtype=dtype))
    assert bucket.buffer.dtype is wire
    assert bucket.buffer.numel() == (4 if dtype.is_complex else 2) + 1 + 2


def test_on_the_host_there_is_one_buffer_and_nothing_to_wait_for() -> None:
    bucket = bucket_of(parameter(0))
    assert (bucket.on_device, bucket.ready) == (None, None)
    assert bucket.values.data_ptr() == bucket.summed.data_ptr() == bucket.buffer.data_ptr()
    bucket.settle()


def test_the_buffer_holds_gradients_then_flags_then_failures() -> None:
    bucket = loaded()
    bucket.flags.fill_(9)
    bucket.set_flags()
    assert bucket.buffer.tolist() == [1, 2, 0, 3, 1, 0, 1, 0, 0]
    assert bucket.summed.tolist() == [1, 2, 0, 3]
    assert bucket.flags.tolist() == [1, 0, 1, 0, 0]


def test_a_gradient_that_is_gone_counts_as_zeros_and_unused_at_the_next_load() -> None:
    bucket = loaded()
    bucket.parameters[0].grad = None
    bucket.load()
    bucket.set_flags()
    assert bucket.buffer.tolist() == [0, 0, 0, 3, 0, 0, 1, 0, 0]


def test_a_complex_gradient_travels_as_real_and_imaginary_part() -> None:
    one = torch.zeros(1, dtype=torch.complex64, requires_grad=True)
    one.grad = torch.tensor([1 + 2j])
    bucket = bucket_of(one)
    bucket.load()
    bucket.set_flags()
    assert bucket.buffer.tolist() == [1, 2, 1, 0, 0]
    bucket.buffer.copy_(torch.tensor([3.0, 4.0, 1, 0, 0]))
    bucket.read_flags()
    bucket.store()
    assert one.grad.tolist() == [3 + 4j]


def test_a_sparse_gradient_is_refused_by_the_name_of_its_parameter() -> None:
    one = parameter(0, 0)
    one.grad = torch.sparse_coo_tensor([[0]], [1.0], (2,), check_invariants=True)
    with pytest.raises(ReductionError, match="the gradient of 'p1' is sparse"):
        bucket_of(parameter(0), one).load()


def test_a_rank_that_failed_sends_zeros_and_its_number() -> None:
    bucket = loaded()
    bucket.set_flags()
    bucket.set_failed(2)
    assert bucket.buffer.tolist() == [0, 0, 0, 0, 0, 0, 0, 1, 3]
    assert bucket.read_flags() == (1, 3)


# -- changes since the load ------------------------------------------------------------------------------


def test_right_after_the_load_nothing_has_changed() -> None:
    assert loaded().changed_since_load() is None


def test_a_gradient_that_was_changed_in_place_is_named() -> None:
    bucket = loaded()
    gradient = bucket.parameters[2].grad
    assert gradient is not None
    gradient.add_(1)
    assert bucket.changed_since_load() == "p2"


def test_a_gradient_that_was_replaced_is_named() -> None:
    bucket = loaded()
    bucket.parameters[0].grad = torch.ones(2)
    assert bucket.changed_since_load() == "p0"


def test_a_gradient_that_came_or_went_is_named() -> None:
    bucket = loaded()
    bucket.parameters[1].grad = torch.ones(1)
    assert bucket.changed_since_load() == "p1"
    bucket.parameters[0].grad = None
    assert bucket.changed_since_load() == "p0"


# -- the means ------------------------------------------------------------------------------------------


def test_means_are_written_into_gradients_that_some_rank_has() -> None:
    bucket = loaded()
    bucket.buffer.copy_(torch.tensor([5.0, 6, 7, 8, 2, 1, 0, 0, 0]))
    assert bucket.read_flags() == (0, 0)
    bucket.store()
    gradients = [one.grad for one in bucket.parameters]
    assert [one.tolist() for one in gradients if one is not None] == [[5, 6], [7], [3]]


def test_a_gradient_that_no_rank_has_stays_away() -> None:
    bucket = bucket_of(parameter(0))
    bucket.load()
    bucket.set_flags()
    bucket.read_flags()
    bucket.store()
    assert bucket.parameters[0].grad is None


def test_after_the_means_are_stored_the_bucket_keeps_no_gradient() -> None:
    bucket = loaded()
    bucket.set_flags()
    bucket.read_flags()
    bucket.store()
    assert bucket._loaded == [None, None, None]


# -- which parameters are in one -------------------------------------------------------------------------


def test_full_buckets_come_before_those_that_are_left_and_dtypes_travel_apart() -> None:
    named = [
        ("a", parameter(0)),
        ("b", parameter(0, dtype=torch.float64)),
        ("c", parameter(0)),
        ("d", parameter(0)),
    ]
    buckets = make_buckets(named, 8, lambda device: device.type == "cpu")
    assert [bucket.names for bucket in buckets] == [("d", "c"), ("a",), ("b",)]
