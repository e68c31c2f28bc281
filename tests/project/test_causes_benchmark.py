"""The benchmark of causes: none is stated by chance, and the true one mostly is."""

from __future__ import annotations

import pytest
from causes_by_chance import KINDS, Kind, Outcome, line, outcome

_IN_SHORT = 12


@pytest.mark.parametrize("kind", [kind for kind in KINDS if not kind.planted], ids=str)
def test_counters_that_have_nothing_to_do_with_it_are_no_cause(kind: Kind) -> None:
    assert [one.stated for one in (outcome(kind, seed) for seed in range(_IN_SHORT))] == [""] * _IN_SHORT


def test_the_true_cause_of_a_slow_rank_is_mostly_stated_and_no_other() -> None:
    kind = next(kind for kind in KINDS if kind.planted)
    found = [one for one in (outcome(kind, seed) for seed in range(_IN_SHORT)) if one.verdict == "rank"]
    stated = [one.stated == one.true for one in found if one.stated]
    assert stated == [True] * len(stated)
    assert len(stated) >= 0.75 * len(found) > 0


def test_the_shares_are_of_the_runs_in_which_time_was_found_to_be_lost() -> None:
    found = [
        Outcome("rank", "a", "a", "", ""),
        Outcome("rank", "b", "a", "", ""),
        Outcome("healthy", "a", "a", "", ""),
    ]
    assert line(KINDS[0], found).endswith("true cause 50.0%, another 50.0%, none 0.0%")
