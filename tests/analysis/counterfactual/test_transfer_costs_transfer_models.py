"""How long transfers take by their size: a latency, and a time for each byte."""

from __future__ import annotations

import numpy as np
import pytest
from hand_made_cases import case_of, transfers_of

from timing_logger.analysis.counterfactual.transfer_costs import (
    Family,
    TransferModel,
    _fitted,
    _least_squares,
    family_of,
    models_of,
)

FAMILY = Family("ALLREDUCE", 4, 1)
SIZES = np.array([1e3, 1e4, 1e5, 1e6])


def fitted(took_ms: list[float], sizes: list[float]) -> TransferModel | None:
    return _fitted(FAMILY, np.array(took_ms), np.array(sizes), np.full(len(sizes), 3))


def test_latency_and_time_per_byte_are_found_again() -> None:
    assert _least_squares(SIZES, 0.05 + 2e-6 * SIZES) == pytest.approx((0.05, 2e-6))


def test_times_that_grow_faster_than_sizes_have_no_latency_below_0() -> None:
    latency_ms, ms_per_byte = _least_squares(np.array([1.0, 2.0]), np.array([1.0, 4.0]))
    assert (latency_ms, ms_per_byte) == (0.0, pytest.approx(1.2))  # (1 + 1/2) / (1 + 1/4)


def test_times_that_fall_with_sizes_have_no_time_per_byte_below_0() -> None:
    latency_ms, ms_per_byte = _least_squares(np.array([1.0, 2.0]), np.array([4.0, 1.0]))
    assert (latency_ms, ms_per_byte) == (pytest.approx(20 / 17), 0.0)  # (1/4 + 1) / (1/16 + 1)


def test_a_model_takes_the_medians_of_two_classes_of_sizes_or_more() -> None:
    model = fitted([1.0, 1.0, 9.0, 3.0, 3.0], [900, 1000, 1000, 3000, 3000])
    assert model is not None
    assert model.ms(np.array([1000.0, 3000.0])) == pytest.approx([1.0, 3.0])
    assert (model.least_bytes, model.most_bytes, model.n) == (900, 3000, 15)
    assert model.error == pytest.approx(0.0, abs=1e-9)


def test_of_one_class_of_sizes_there_is_no_model() -> None:
    assert fitted([1.0, 2.0], [900, 1000]) is None


def test_the_error_is_how_far_medians_are_from_the_model_as_a_fraction_of_them() -> None:
    model = fitted([1.0, 4.0], [1.0, 2.0])
    assert model is not None
    assert model.error == pytest.approx(np.sqrt((0.2**2 + 0.4**2) / 2))


def test_transfers_of_unknown_size_or_that_took_no_time_are_in_no_model() -> None:
    mean_ms = np.array([[1.0, 3.0], [1.0, 3.0], [0.0, 3.0], [np.nan, 3.0]])
    sizes = np.array([[1000.0, 4000.0], [1000.0, 4000.0], [1000.0, np.nan], [1000.0, 0.0]])
    its = transfers_of([(0, 1), (0, 1)], mean_ms, mean_bytes=sizes)
    (model,) = models_of(case_of(np.ones((4, 2)), transfers=its)).values()
    assert (model.family, model.n) == (Family("ALLREDUCE", 2, 0), 4)
    assert (model.least_bytes, model.most_bytes) == (1000, 4000)
    assert model.ms(np.array([1000.0, 4000.0])) == pytest.approx([1.0, 3.0])


@pytest.mark.parametrize(("hosts", "n_hosts"), [(("a", "a"), 1), (("a", "b"), 2), (("a", ""), 0), ((), 0)])
def test_transfers_on_as_many_known_hosts_are_alike(hosts: tuple[str, ...], n_hosts: int) -> None:
    its = transfers_of([(0, 1)], np.ones((1, 1)))
    case = case_of(np.ones((1, 2)), hosts=hosts, transfers=its)
    assert family_of(case, its.links[0]) == Family("ALLREDUCE", 2, n_hosts)


@pytest.mark.parametrize(
    ("sizes", "was_measured"),
    [
        ([1000.0, 3000.0], True),
        ([999.9994, 3000.0018], True),
        ([999.9985, 2000.0], False),
        ([2000.0, 3000.0045], False),
        ([999.0, 2000.0], False),
        ([2000.0, 3001.0], False),
    ],
)
def test_sizes_were_measured_if_all_lie_among_those_that_were(sizes: list[float], was_measured: bool) -> None:
    model = TransferModel(FAMILY, 0.0, 1.0, 1000, 3000, 1, 0.0)
    assert model.was_measured_at(np.array(sizes)) is was_measured
