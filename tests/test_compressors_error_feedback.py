"""What is left out of one tensor is added to the next of its name, and to no other."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from allreduce_instrumentation.compressors import (  # noqa: E402
    ErrorFeedback,
    Memory,
    ThresholdState,
    check_state,
    checked_residuals,
)
from timing_logger.errors import ConfigurationError  # noqa: E402

ONES = torch.ones(2)


def remembering(**residuals: Any) -> ErrorFeedback:
    feedback = ErrorFeedback()
    for name, residual in residuals.items():
        feedback._keep(name, residual)
    return feedback


def test_a_residual_is_added_to_the_next_tensor_of_its_name_alone() -> None:
    feedback = remembering(a=torch.tensor([0.5, -0.5]))
    assert feedback._plus_residual(ONES, "a").tolist() == [1.5, 0.5]
    assert feedback._plus_residual(ONES, "b").tolist() == [1.0, 1.0]


def test_the_first_tensor_of_a_name_is_copied_without_negative_zeros() -> None:
    tensor = torch.tensor([[-0.0, 1.0]])
    first = ErrorFeedback()._plus_residual(tensor, "a")
    assert first.shape == (2,)
    assert not torch.signbit(first).any()
    first += 1
    assert tensor.tolist() == [[0.0, 1.0]]


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [(torch.float64, torch.float64), (torch.float32, torch.float32), (torch.float16, torch.float32)],
)
def test_the_sum_is_in_the_dtype_in_which_values_are_added(dtype: Any, expected: Any) -> None:
    feedback = remembering(a=torch.zeros(2, dtype=expected))
    for name in ("a", "b"):
        assert feedback._plus_residual(ONES.to(dtype), name).dtype is expected


@pytest.mark.parametrize("tensor", [torch.ones(3), torch.ones(2, dtype=torch.float64)])
def test_a_tensor_that_does_not_fit_the_residual_is_refused(tensor: Any) -> None:
    with pytest.raises(ConfigurationError, match="give each tensor a name of its own"):
        remembering(a=ONES)._plus_residual(tensor, "a")


def test_a_residual_is_handed_out_as_a_copy() -> None:
    feedback = remembering(a=torch.ones(2))
    copy = feedback.residual("a")
    assert copy is not None
    copy += 1
    assert torch.equal(feedback._plus_residual(ONES, "a"), torch.full((2,), 2.0))
    assert feedback.residual("b") is None


def test_a_snapshot_is_what_is_remembered_itself_and_none_of_a_new_name() -> None:
    feedback = remembering(a=ONES)
    assert feedback.snapshot("a") is feedback._memories["a"]
    assert feedback.snapshot("b") is None


def test_what_is_restored_is_remembered_again_and_none_forgets_the_name() -> None:
    feedback = remembering(a=ONES)
    before = feedback.snapshot("a")
    feedback._keep("a", torch.zeros(2))
    feedback.restore("a", before)
    assert feedback.snapshot("a") is before
    feedback.restore("a", None)
    feedback.restore("never there", None)
    assert feedback.residual("a") is None


def test_a_new_residual_leaves_the_state_of_its_name() -> None:
    feedback = ErrorFeedback()
    feedback.restore("a", Memory(ONES, ThresholdState(calls=3)))
    feedback._keep("a", torch.zeros(2))
    assert feedback._memory("a").state == ThresholdState(calls=3)
    assert feedback._memory("new") == Memory()


def test_only_names_with_a_residual_are_in_the_residuals() -> None:
    feedback = remembering(a=ONES)
    feedback.restore("b", Memory())
    assert list(feedback._residuals()) == ["a"]


# -- states ----------------------------------------------------------------------------------------------


def test_a_state_with_all_its_parts_is_taken() -> None:
    check_state({"residuals": {}, "density": 0.5}, "TopK", {"residuals": dict, "density": float})
    check_state({}, "NoCompression", {})


@pytest.mark.parametrize(
    ("state", "found"),
    [
        ({}, r"and is \[\]"),
        ({"residuals": []}, r"and is \['residuals'\]"),
        ({"residuals": {}, "more": 1}, r"and is \['more', 'residuals'\]"),
        ([], "and is list"),
        (None, "and is NoneType"),
    ],
)
def test_a_state_of_other_parts_is_refused_and_they_are_named(state: object, found: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"a dict of \['residuals'\], {found}"):
        check_state(state, "FP16", {"residuals": dict})


def test_where_no_parts_are_wanted_the_message_says_so() -> None:
    with pytest.raises(ConfigurationError, match=r"a dict of nothing, and is \['more'\]"):
        check_state({"more": 1}, "NoCompression", {})


def test_residuals_of_a_state_are_copied() -> None:
    of_state = {"a": torch.ones(2), "b": torch.ones(2, dtype=torch.float64)}
    copies = checked_residuals(of_state)
    assert copies["b"].dtype is torch.float64
    copies["a"] += 1
    assert of_state["a"].tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    ("name", "residual"),
    [
        (1, ONES),
        ("a", [1.0]),
        ("a", torch.ones(1, 1)),
        ("a", torch.tensor(1.0)),
        ("a", ONES.half()),
        ("a", torch.ones(2, dtype=torch.int64)),
    ],
)
def test_a_residual_that_is_no_vector_of_floats_is_refused(name: Any, residual: Any) -> None:
    with pytest.raises(ConfigurationError, match="that is no vector of floats"):
        checked_residuals({name: residual})


@pytest.mark.parametrize("state", [None, [1], 7])
def test_what_is_no_mapping_is_refused_even_where_a_state_has_no_parts(state: object) -> None:
    with pytest.raises(ConfigurationError, match=f"a dict of nothing, and is {type(state).__name__}"):
        check_state(state, "NoCompression", {})
