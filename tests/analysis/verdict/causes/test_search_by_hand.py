"""Of which verdicts a cause is looked for, and in which steps, by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hand_made_cases import case_of

from timing_logger.analysis.rows.steps import Numbering
from timing_logger.analysis.verdict.case import Judgement
from timing_logger.analysis.verdict.causes.search import (
    _answer,
    _is_asked,
    _steps_of,
    given,
    with_cause,
)
from timing_logger.results.verdict import Verdict


def found(verdict: Any, *, are_comparable: bool = True, **changed: Any) -> Judgement:
    case = case_of(np.ones((6, 3)), **{"iterations": np.arange(10, 16), **changed})
    return Judgement(case, verdict, are_comparable)


@pytest.mark.parametrize(
    ("its", "is_asked"),
    [
        ({"verdict": "rank", "owner": "machine"}, True),
        ({"verdict": "suspect", "owner": "unknown"}, True),
        ({"verdict": "rank", "owner": "work"}, False),
        ({"verdict": "rank", "owner": ""}, False),
        ({"verdict": "diffuse"}, True),
        ({"verdict": "diffuse", "owner": "work"}, False),
        ({"verdict": "diffuse", "judged": False}, False),
        ({"verdict": "healthy"}, False),
        ({"verdict": "healthy", "lost_in_turn": 0.05}, True),
        ({"verdict": "healthy", "not_explained": 0.05}, True),
        ({"verdict": "healthy", "recurring": 0.05}, True),
        ({"verdict": "healthy", "recurring": 0.049}, False),
    ],
)
def test_a_cause_is_looked_for_where_time_is_lost_of_which_it_is_not_known_why(
    its: Any, is_asked: bool
) -> None:
    assert _is_asked(found(Verdict(**its))) is is_asked


def test_counters_are_read_only_where_a_cause_is_looked_for() -> None:
    read: list[str] = []

    def host() -> pd.DataFrame:
        read.append("read")
        return pd.DataFrame()

    for judgement in (
        found(Verdict(verdict="healthy")), found(Verdict(verdict="diffuse"), are_comparable=False)
    ):  # fmt: skip
        assert with_cause(judgement, host) is judgement
    assert read == []
    asked = found(Verdict(verdict="diffuse"))
    assert with_cause(asked, None) is asked
    assert with_cause(asked, host) is asked
    assert with_cause(asked, lambda: None) is asked
    assert read == ["read"]
    assert given(None) is None


def test_of_a_suspect_without_slow_steps_no_cause_is_known() -> None:
    assert _answer(found(Verdict(verdict="rank", ranks=(1,))), pd.DataFrame()) == (None, None)


def test_ranks_that_became_slower_are_slow_from_the_first_step_to_the_last() -> None:
    verdict = Verdict(verdict="group-wide", first_iteration=12, last_iteration=14)
    assert _steps_of(found(verdict)).tolist() == [2, 3, 4]


def test_where_iterations_restart_the_epoch_tells_which_step_it_is() -> None:
    verdict = Verdict(verdict="group-wide", first_iteration=1, first_epoch=0, last_iteration=1, last_epoch=1)
    its = found(verdict, iterations=np.arange(6), numbering=Numbering(np.array([0.0, 1.0]), 0, 3))
    assert _steps_of(its).tolist() == [1, 2, 3, 4]
