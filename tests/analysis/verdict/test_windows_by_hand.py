"""Windows and scores of times that are made by hand: their order, what they cost, and who is flagged."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest
from hand_made_cases import case_of

from timing_logger.analysis.rows.arrays import Floats
from timing_logger.analysis.rows.tables import of_pandas
from timing_logger.analysis.verdict.case import Judgement
from timing_logger.analysis.verdict.windows import (
    individual_score,
    operations_of,
    scores_of,
    verdict_and_windows,
)
from timing_logger.results.verdict import Verdict


def judged(self_ms: Floats, *, are_comparable: bool = True) -> Judgement:
    return Judgement(case_of(self_ms), Verdict(verdict="healthy"), are_comparable)


def windows_of(self_ms: Floats, *, are_comparable: bool = True) -> pd.DataFrame:
    found: pd.DataFrame = verdict_and_windows(
        judged(self_ms, are_comparable=are_comparable), of_pandas()
    ).windows
    return found


def scores(self_ms: Floats, *, are_comparable: bool = True) -> pd.DataFrame:
    """Return the scores of all operations together."""
    found = scores_of(judged(self_ms, are_comparable=are_comparable), of_pandas())
    return found[found["operation"] == "SELF_TIME"]


def two_slow() -> Floats:
    self_ms = np.full((60, 5), 10.0)
    self_ms[:, 1], self_ms[:, 3] = 20.0, 40.0
    return self_ms


# -- windows -----------------------------------------------------------------------------------------------


def test_windows_come_by_their_excess_and_those_of_as_much_by_rank_and_operation() -> None:
    found = windows_of(two_slow())
    assert list(zip(found["rank"], found["operation"], found["excess_ms"], strict=True)) == [
        (3, "FORWARD", 1800.0), (3, "SELF_TIME", 1800.0), (1, "FORWARD", 600.0), (1, "SELF_TIME", 600.0)
    ]  # fmt: skip
    assert found["ratio"].tolist() == pytest.approx([4.0, 4.0, 2.0, 2.0])
    assert set(found["iterations"]) == {60}
    assert "first_epoch" not in found


def test_a_slow_step_in_which_the_rank_is_quicker_than_its_peers_takes_nothing_off_the_excess() -> None:
    self_ms = two_slow()
    self_ms[30, 3] = 5.0
    assert windows_of(self_ms)["excess_ms"].max() == 1770.0


def test_ranks_of_different_runs_have_no_windows() -> None:
    assert windows_of(two_slow(), are_comparable=False).empty


def test_all_operations_together_come_before_each() -> None:
    times = case_of(two_slow()).times
    assert [name for name, _ in operations_of(times)] == ["SELF_TIME", "FORWARD"]


# -- scores ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ms", "flagged"), [(4.0, False), (4.04, True)])
def test_a_rank_is_flagged_below_three_quarters_of_the_quickest(ms: float, flagged: bool) -> None:
    self_ms = np.full((10, 2), 3.0)
    self_ms[:, 1] = ms
    found = scores(self_ms)
    assert found["flagged"].tolist() == [False, flagged]
    assert found["score"].tolist() == [1.0, 3.0 / ms]
    assert found["individual_score"].isna().all()


@pytest.mark.parametrize(("ms", "flagged"), [(4.0, False), (4.04, True)])
def test_a_rank_is_flagged_below_three_quarters_of_its_own_past(ms: float, flagged: bool) -> None:
    self_ms = np.full((40, 2), 3.0)
    self_ms[20:] = ms
    found = scores(self_ms)
    assert found["flagged"].tolist() == [flagged] * 2
    assert found["individual_score"].tolist() == [3.0 / ms] * 2


def test_steps_of_unknown_time_do_not_count() -> None:
    self_ms = np.full((40, 2), 3.0)
    self_ms[5:8, 1] = math.nan
    found = scores(self_ms)
    assert found["steps"].tolist() == [40, 37]
    assert found["median_ms"].tolist() == [3.0, 3.0]
    assert found["individual_score"].isna().tolist() == [False, True]


def test_ranks_of_different_runs_are_held_against_their_own_past_only() -> None:
    found = scores(two_slow(), are_comparable=False)
    assert found["score"].isna().all()
    assert found["individual_score"].tolist() == [1.0] * 5


@pytest.mark.parametrize(
    ("own_ms", "score"),
    [
        ([1.0, 8.0, 8.0, 4.0, 4.0], 2.0),
        ([6.0, 6.0, 8.0, 8.0, 4.0, 4.0], 1.5),
        ([8.0, 8.0, 4.0], math.nan),
        ([8.0, 8.0, 0.0, 0.0], math.nan),
    ],
)
def test_a_past_is_of_whole_blocks_up_to_the_last_and_a_present_of_no_time_has_no_score(
    own_ms: Sequence[float], score: float
) -> None:
    assert individual_score(np.array(own_ms), 2) == pytest.approx(score, nan_ok=True)
