"""Which single repairs are tried of a run that is made by hand, and which of them are told."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hand_made_cases import case_of

from timing_logger.analysis.counterfactual.repaired import Repairing
from timing_logger.analysis.counterfactual.what_if import _single, _slow_hosts, best_table
from timing_logger.analysis.rows.arrays import Floats
from timing_logger.analysis.rows.tables import of_pandas
from timing_logger.analysis.step_times.workload import Workload
from timing_logger.analysis.verdict.case import Case

USUAL_MS = np.full((20, 13), 10.0)


def later_by(*ms: float) -> Floats:
    """Return the times of 13 ranks, of which each of the first takes so much longer, in a step of its own."""
    its_ms = USUAL_MS.copy()
    for place, more_ms in enumerate(ms):
        its_ms[place, place] += more_ms
    return its_ms


def table_of(case: Case) -> pd.DataFrame:
    judgement: Any = SimpleNamespace(case=case, verdict=SimpleNamespace(cause=None), slow={})
    found: pd.DataFrame = best_table(judgement, of_pandas())
    return found


def tried(case: Case, cause: Any = None) -> list[str]:
    judgement: Any = SimpleNamespace(case=case, verdict=SimpleNamespace(cause=cause), slow={})
    return [str(fix) for fix in _single(judgement, Repairing(judgement))]


# -- which are told ----------------------------------------------------------------------------------------


def test_of_many_repairs_the_ten_that_gain_most_are_told_the_best_first() -> None:
    found = table_of(case_of(later_by(*range(20, 32))))
    assert found["fix"].tolist() == [f"rank={rank}" for rank in range(11, 1, -1)]
    assert found["gain_ms"].tolist() == pytest.approx(list(range(31, 21, -1)))
    assert found["share"].tolist() == pytest.approx([ms / 1000 for ms in range(31, 21, -1)])


@pytest.mark.parametrize(("ms", "is_told"), [(10.01, True), (9.99, False)])
def test_a_repair_is_told_that_gains_a_hundredth_of_the_run(ms: float, is_told: bool) -> None:
    case = case_of(later_by(ms))
    assert table_of(case)["fix"].tolist() == (["rank=0"] if is_told else [])


def test_each_gain_is_told_as_a_part_of_what_all_of_them_gain() -> None:
    found = table_of(case_of(later_by(30.0, 20.0)))
    assert found["of_all"].tolist() == pytest.approx([0.6, 0.4])


def test_a_run_that_took_no_time_has_no_repairs() -> None:
    assert table_of(case_of(np.zeros((5, 3)), wall_ms=0.0)).empty


# -- which are tried ---------------------------------------------------------------------------------------


def test_where_nothing_is_late_nothing_is_tried() -> None:
    assert tried(case_of(USUAL_MS)) == []
    assert tried(case_of(USUAL_MS, hosts=["a"] * 6 + ["b"] * 7)) == []


def test_the_ranks_with_most_beyond_their_peers_are_tried_first_and_then_their_hosts() -> None:
    case = case_of(later_by(5.0, 0.0, 9.0), hosts=["a", "a", "b", "c", *["c"] * 9])
    assert tried(case) == ["rank=2", "rank=0", "host=b", "host=a"]


def test_a_host_on_which_all_ranks_run_is_not_tried() -> None:
    assert tried(case_of(later_by(5.0), hosts=["a"] * 13)) == ["rank=0"]


def test_a_host_comes_by_the_one_of_its_ranks_that_has_most_beyond_its_peers() -> None:
    hosts = ["b", "a", "b", "a", *["c"] * 9]
    assert _slow_hosts(case_of(later_by(5.0, 6.0, 7.0, 4.0), hosts=hosts)) == ["b", "a"]


def test_16_ranks_and_hosts_at_most_are_tried() -> None:
    its_ms = np.full((20, 41), 10.0)
    its_ms[np.arange(20), np.arange(20)] += 5.0
    case = case_of(its_ms, hosts=[f"node{rank}" for rank in range(41)])
    assert tried(case) == [f"rank={rank}" for rank in range(16)] + [f"host=node{rank}" for rank in range(16)]


def test_a_pause_is_tried_as_a_cause_and_not_as_an_operation() -> None:
    late_ms = USUAL_MS.copy()
    late_ms[:, 0] += 10.0
    both = {"GC": late_ms / 2, "FORWARD": late_ms / 2}
    case = case_of(
        late_ms, operations=list(both), operation_ms=np.stack(list(both.values())), in_gaps_ms=both
    )
    assert tried(case) == ["rank=0", "operation=FORWARD", "cause=GC"]


@pytest.mark.parametrize(("ranks", "causes"), [((3,), ["cause=processor-wait"]), ((), [])])
def test_a_cause_is_tried_if_it_is_one_of_some_ranks(ranks: tuple[int, ...], causes: list[str]) -> None:
    assert tried(case_of(USUAL_MS), SimpleNamespace(name="processor-wait", ranks=ranks)) == causes


def test_even_work_is_tried_where_rows_state_how_much_there_was() -> None:
    workload = Workload({"FORWARD": np.ones(USUAL_MS.shape)}, None, {})
    assert tried(case_of(USUAL_MS, workload=workload)) == ["work=even"]
