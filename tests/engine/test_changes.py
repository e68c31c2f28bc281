"""What changes in a run in progress is told, once: no state, and nothing that only one look says."""

from __future__ import annotations

import pytest

from timing_logger.analysis import RunEnd, Suspect, Verdict
from timing_logger.engine.changes import Changes, FoundVerdict

HEALTHY = Verdict(verdict="healthy")
SLOW = Verdict(verdict="rank", ranks=(2,), operation="DATA", window="ongoing", first_iteration=70)
HANGS = Verdict(verdict="hang", end=RunEnd(state="hang", culprits=(3,)))


def kinds(*verdicts: Verdict) -> list[str]:
    """Return what is told after each of these verdicts; "" for nothing."""
    changes = Changes()
    told = [changes.after(verdict, float(at)) for at, verdict in enumerate(verdicts)]
    return [one.kind if one else "" for one in told]


def test_what_is_found_is_told_once_when_two_looks_say_it_and_once_when_two_looks_say_it_is_over() -> None:
    found = kinds(HEALTHY, SLOW, SLOW, SLOW, HEALTHY, HEALTHY, HEALTHY)
    assert found == ["", "", "begins", "", "", "ends", ""]


def test_what_one_look_says_and_the_next_does_not_is_not_told() -> None:
    assert kinds(HEALTHY, SLOW, HEALTHY, SLOW, HEALTHY) == [""] * 5
    assert kinds(SLOW, SLOW, HEALTHY, SLOW, HEALTHY, SLOW) == ["", "begins", "", "", "", ""]


@pytest.mark.parametrize(
    ("likelihood", "told"), [(0.9, ["", "begins"]), (0.5, ["", "begins"]), (0.49, ["", ""])]
)
def test_who_was_likely_slow_at_the_look_before_is_told_when_named(
    likelihood: float, told: list[str]
) -> None:
    suspects = (Suspect((2,), "DATA", 1.0, likelihood),)
    assert kinds(Verdict(verdict="suspect", suspects=suspects), SLOW) == told


def test_a_rank_is_not_told_because_another_was_likely_slow_at_the_look_before() -> None:
    suspects = (Suspect((1,), "DATA", 1.0, 0.9),)
    assert kinds(Verdict(verdict="suspect", suspects=suspects), SLOW) == ["", ""]


def test_what_is_over_before_the_last_step_is_over_though_it_is_in_the_window_still() -> None:
    was_slow = Verdict(verdict="rank", ranks=(2,), operation="DATA", window="bounded")
    assert kinds(SLOW, SLOW, was_slow, was_slow) == ["", "begins", "", "ends"]


@pytest.mark.parametrize("kind", ["suspect", "diffuse", "healthy"])
def test_what_is_not_certain_is_not_told(kind: str) -> None:
    verdict = Verdict(verdict=kind, window="ongoing")  # type: ignore[arg-type]
    assert kinds(verdict, verdict, verdict) == [""] * 3


def test_another_rank_is_a_change_and_has_its_own_first_step() -> None:
    other = Verdict(verdict="rank", ranks=(1,), operation="DATA", window="ongoing", first_iteration=200)
    changes = Changes()
    told = [changes.after(verdict, 0.0) for verdict in (SLOW, SLOW, other, other)]
    assert told[3] is not None
    assert (told[3].kind, told[3].verdict.ranks, told[3].first_iteration) == ("changes", (1,), 200)


def test_another_operation_of_the_rank_is_a_change_since_the_step_in_which_it_became_slow() -> None:
    later = Verdict(verdict="rank", ranks=(2,), operation="FORWARD", window="ongoing", first_iteration=150)
    changes = Changes()
    told = [changes.after(verdict, 0.0) for verdict in (SLOW, SLOW, later, later)]
    assert told[3] is not None
    assert (told[3].kind, told[3].verdict.operation, told[3].first_iteration) == ("changes", "FORWARD", 70)


def test_other_figures_are_no_change() -> None:
    costs_more = Verdict(verdict="rank", ranks=(2,), operation="DATA", window="ongoing", cost_ms=9.0)
    assert kinds(SLOW, SLOW, costs_more, costs_more) == ["", "begins", "", ""]


def test_a_hang_is_told_at_once_and_so_is_its_end() -> None:
    assert kinds(HEALTHY, HANGS, HANGS, HEALTHY, HEALTHY) == ["", "begins", "", "ends", ""]


def test_what_ends_is_told_as_it_was_when_it_last_changed() -> None:
    changes = Changes()
    told = [changes.after(verdict, float(at)) for at, verdict in enumerate((SLOW, SLOW, HEALTHY, HEALTHY))]
    assert told[3] is not None
    assert (told[3].verdict, told[3].first_iteration, told[3].unix_s) == (SLOW, 70, 3.0)


def test_what_another_told_is_not_told_again_and_is_seen_to_end() -> None:
    changes = Changes(FoundVerdict("rank", (2,), "DATA", ""))
    assert [changes.after(verdict, 0.0) for verdict in (SLOW, SLOW, HEALTHY)] == [None] * 3
    assert changes.something_stands
    assert changes.after(HEALTHY, 0.0) is None
    assert not changes.something_stands


def test_what_is_found_beside_what_another_told_is_told() -> None:
    changes = Changes(FoundVerdict("rank", (1,), "DATA", ""))
    told = [changes.after(SLOW, 0.0) for _ in range(2)]
    assert told[1] is not None
    assert told[1].kind == "begins"


def test_what_begins_again_after_its_end_begins() -> None:
    found = kinds(SLOW, SLOW, HEALTHY, HEALTHY, SLOW, SLOW)
    assert found == ["", "begins", "", "ends", "", "begins"]


def test_a_change_is_told_with_its_own_time_and_with_that_at_which_the_ranks_were_first_told() -> None:
    later = Verdict(verdict="rank", ranks=(2,), operation="FORWARD", window="ongoing")
    other = Verdict(verdict="rank", ranks=(1,), operation="FORWARD", window="ongoing")
    changes = Changes()
    looks = (SLOW, SLOW, later, later, other, other, HEALTHY, HEALTHY)
    told = [changes.after(verdict, float(at)) for at, verdict in enumerate(looks)]
    times = [(one.kind, one.unix_s, one.began_unix_s) for one in told if one is not None]
    assert times == [("begins", 1.0, 1.0), ("changes", 3.0, 1.0), ("changes", 5.0, 5.0), ("ends", 7.0, 5.0)]


def test_another_owner_of_the_same_operation_is_a_change() -> None:
    first, second = (
        Verdict(verdict="rank", ranks=(2,), operation="DATA", owner=owner, window="ongoing")
        for owner in ("io", "host")
    )
    assert kinds(first, first, second, second) == ["", "begins", "", "changes"]


def test_another_culprit_of_a_hang_is_a_change_at_once() -> None:
    other = Verdict(verdict="hang", end=RunEnd(state="hang", culprits=(4,)))
    assert kinds(HANGS, other) == ["begins", "changes"]
