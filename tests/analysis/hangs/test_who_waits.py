"""Who waits for whom when a run hangs, and who is at the end of the chains."""

from __future__ import annotations

from typing import Any

import pytest

from timing_logger.analysis.hangs.who_waits import Causes, blocked, causes, who_waits, why_it_hangs
from timing_logger.results.run_end import StuckGroup, StuckMessage


def group(*inside: int, **fields: Any) -> StuckGroup:
    return StuckGroup(group="world", group_size=4, seq=7, operation="ALLREDUCE", inside=inside, **fields)


def message(rank: int, peer: int | None, *, in_background: bool = False) -> StuckMessage:
    return StuckMessage(
        rank=rank, operation="RECV", group="world", seq=0, thread="MainThread", iteration=None, peer=peer,
        has_partner=False, since_s=None, hangs=True, in_background=in_background,
    )  # fmt: skip


def waits(*groups: StuckGroup, messages: tuple[StuckMessage, ...] = (), gone: tuple[int, ...] = ()) -> Any:
    return {rank: set(awaited) for rank, awaited in who_waits(groups, messages, gone).items()}


# -- who waits -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stuck", "gone", "found"),
    [
        (group(0, 1, missing=(2, 3), odd=(1,)), (), {0: {2, 3}, 1: {2, 3}}),
        (group(0, missing=(2,), failed={1: "error:E"}), (), {0: {2}, 1: {2}}),
        (group(0, 1, 2, odd=(2,), unblocked=(1,)), (2,), {0: {2}, 1: {2}}),
        (group(0, 1, 2, unblocked=(1,)), (2,), {0: {2}, 1: {2}}),
        (group(0, 1, 2, unblocked=(1,)), (), {0: {1}, 2: {1}}),
        (group(0, 1, 2), (), {}),
        (group(0, 1, missing=(2,)), (1,), {0: {2}}),
    ],
    ids=["missing", "failed", "odd", "gone", "unblocked", "all are inside", "the gone wait for nobody"],
)  # fmt: skip
def test_in_a_collective_they_wait_for_who_is_missing_or_odd_or_gone_or_not_blocked(
    stuck: StuckGroup, gone: tuple[int, ...], found: dict[int, set[int]]
) -> None:
    assert waits(stuck, gone=gone) == found


def test_in_a_message_a_rank_waits_for_the_other_side_unless_that_is_itself_or_unknown() -> None:
    sent = (message(0, 3), message(1, None), message(2, 2))
    assert waits(messages=sent) == {0: {3}}
    assert waits(group(0, missing=(1,)), messages=sent) == {0: {1, 3}}


def test_blocked_are_those_in_a_call_who_are_neither_odd_nor_gone() -> None:
    stuck = group(0, 1, 2, 3, unblocked=(1,), odd=(2,))
    messages = [message(4, None), message(5, 0, in_background=True)]
    assert blocked([stuck], messages, gone=[3]) == {0, 4}


# -- causes ----------------------------------------------------------------------------------------------


def of(found: dict[int, set[int]], blocked_ranks: tuple[int, ...] = ()) -> Causes:
    return causes({rank: frozenset(awaited) for rank, awaited in found.items()}, blocked_ranks)


def test_the_culprit_is_at_the_end_of_the_chain() -> None:
    assert of({0: {1}, 1: {2}, 3: {1}}) == Causes((2,), ())


def test_of_several_culprits_the_one_that_most_ranks_wait_for_comes_first() -> None:
    assert of({0: {5}, 1: {4}, 2: {4}, 3: {6}}) == Causes((4, 5, 6), ())


def test_who_is_in_a_call_itself_is_no_culprit() -> None:
    assert of({0: {1, 2}}, blocked_ranks=(1,)) == Causes((2,), ())


def test_a_circle_is_told_without_the_ranks_that_only_lead_to_it() -> None:
    assert of({0: {1}, 1: {2}, 2: {3}, 3: {1}}) == Causes((), (1, 2, 3))


def test_a_circle_from_which_all_chains_lead_to_a_rank_that_waits_for_nobody_is_none() -> None:
    assert of({0: {1}, 1: {0, 2}}) == Causes((2,), ())


def test_a_circle_is_told_beside_the_culprit_of_other_ranks() -> None:
    assert of({0: {5}, 1: {2}, 2: {1}}) == Causes((5,), (1, 2))


# -- in the background -----------------------------------------------------------------------------------


def test_what_is_in_the_background_tells_nothing_where_some_rank_is_blocked() -> None:
    posted = message(3, 0, in_background=True)
    assert why_it_hangs([group(0, missing=(3,))], [posted], gone=()) == Causes((3,), ())
    assert why_it_hangs([group(0, 1, pending=(1,), missing=(3,))], [posted], gone=()) == Causes((3,), ())


def test_what_is_in_the_background_tells_who_waits_where_no_rank_is_blocked() -> None:
    assert why_it_hangs([], [message(3, 0, in_background=True)], gone=()) == Causes((0,), ())
    assert why_it_hangs([group(0, 1, pending=(0, 1), missing=(3,))], [], gone=()) == Causes((3,), ())
