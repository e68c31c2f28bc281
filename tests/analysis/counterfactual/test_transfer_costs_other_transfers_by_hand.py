"""How much longer other transfers would take, by hand, and what is said where that is not known."""

from __future__ import annotations

import numpy as np
import pytest
from hand_made_cases import case_of, transfers_of

from timing_logger.analysis.counterfactual.transfer_costs import (
    Family,
    TransferModel,
    _from_to,
    _longer,
    _said,
    longer_with,
)
from timing_logger.analysis.rows.arrays import Floats
from timing_logger.errors import FixError
from timing_logger.results.what_if import Fix

FOUR = Family("ALLREDUCE", 4, 1)
SIZES = np.array([1000.0, 3000.0])


def model(n_ranks: int, latency_ms: float = 1.0, error: float = 0.0) -> TransferModel:
    return TransferModel(FOUR._replace(n_ranks=n_ranks), latency_ms, 0.001, 500.0, 4000.0, 9, error)


def longer(fix: Fix, *models: TransferModel) -> Floats | str:
    return _longer(fix, FOUR, {one.family: one for one in models}, SIZES)


def test_transfers_take_what_their_model_says_of_other_sizes_numbers_and_groups() -> None:
    assert longer(Fix("bytes", "0.5"), model(4)) == pytest.approx([1.5 / 2, 2.5 / 4])
    assert longer(Fix("bucket", "2kB"), model(4)) == pytest.approx([0.5 * 3 / 2, 1.5 * 3 / 4])
    assert longer(Fix("group", "2"), model(4), model(2, 3.0)) == pytest.approx([4 / 2, 6 / 4])


@pytest.mark.parametrize("errors", [(0.16, 0.0), (0.0, 0.16)])
def test_neither_model_may_be_off_by_more_than_fifteen_percent(errors: tuple[float, float]) -> None:
    said = longer(Fix("group", "2"), model(4, error=errors[0]), model(2, error=errors[1]))
    assert isinstance(said, str)
    assert said.endswith("what ALLREDUCE among 2 ranks on 1 host takes: they are off by 16%")
    just = longer(Fix("group", "2"), model(4, error=0.15), model(2, error=0.15))
    assert not isinstance(just, str)


def test_it_is_said_among_how_many_ranks_transfers_were_measured() -> None:
    said = longer(Fix("group", "3"), model(8), model(4), model(2))
    assert said == "ALLREDUCE among 4 ranks on 1 host was measured among 2 and 4 and 8 ranks only"


@pytest.mark.parametrize(("n_hosts", "said"), [(0, ""), (1, " on 1 host"), (2, " on 2 hosts")])
def test_hosts_are_told_where_they_are_known(n_hosts: int, said: str) -> None:
    assert _said(FOUR._replace(n_hosts=n_hosts)) == f"ALLREDUCE among 4 ranks{said}"


def test_sizes_that_read_alike_are_told_once() -> None:
    assert _from_to(1000.2, 1000.4) == "1,000 bytes"
    assert _from_to(1000.0, 2000.0) == "1,000 to 2,000 bytes"


@pytest.mark.parametrize(("ms", "is_refused"), [(0.5, False), (0.6, True)])
def test_transfers_of_a_hundredth_of_the_time_stay_as_they_are_if_nothing_is_known_of_them(
    ms: float, is_refused: bool
) -> None:
    sizes = np.array([[1000.0, 1000.0], [4000.0, 1000.0]])
    its = transfers_of([(0, 1, 2, 3), (0, 1)], np.array([[49.5, ms], [49.5, ms]]), mean_bytes=sizes)
    case = case_of(np.ones((2, 4)), transfers=its)
    if is_refused:
        with pytest.raises(FixError, match="ALLREDUCE among 2 ranks was measured at one size only"):
            longer_with(case, Fix("bytes", "1"))
    else:
        assert longer_with(case, Fix("bytes", "1")).tolist() == [[1.0, 1.0], [1.0, 1.0]]
