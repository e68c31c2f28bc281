"""Which ranks are inside, missing or at odds in a collective, of rows and counts that are made by hand."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import pytest
from endings import END_S, WORLD, counts, ended, ending, ns, row, words

from timing_logger.analysis.hangs import stuck_groups as module
from timing_logger.analysis.hangs.open_calls import Ending
from timing_logger.analysis.hangs.stuck_groups import stuck_groups
from timing_logger.results.run_end import StuckGroup


def only(of: Ending) -> StuckGroup:
    (found,) = stuck_groups(of, 4)
    return found


# -- by rows ---------------------------------------------------------------------------------------------


def test_without_rows_or_open_calls_nothing_is_stuck() -> None:
    assert stuck_groups(ending(), 4) == []
    assert stuck_groups(ending(*(ended(rank) for rank in range(4))), 4) == []


def test_where_no_row_is_of_a_collective_none_is_stuck() -> None:
    assert stuck_groups(ending(row(0, "RECV", peer=1.0), ended(1, "FORWARD")), 4) == []


def test_ranks_are_inside_missing_or_unread() -> None:
    found = only(ending(row(0, began_s=110.0), row(2, layer_name="first"), n_ranks=3))
    assert found == StuckGroup(
        group=WORLD, group_size=4, seq=10, operation="ALLREDUCE", iteration=5, layer_name="first",
        inside=(0, 2), inside_s={0: 90.0, 2: 100.0}, missing=(1,), unread=(3,), since_s=100.0,
    )  # fmt: skip


def test_those_that_hang_come_first_and_of_these_the_longest() -> None:
    of_pairs = [
        row(rank, group=f"ranks {rank}-{rank + 1}", group_size=2.0, began_s=began_s)
        for rank, began_s in ((0, 150.0), (1, 120.0), (2, 110.0))
    ]
    young = {"group": "of two", "group_size": 2.0, "began_s": 190.0}
    at_odds = row(0, **young), row(1, "BARRIER", **young)
    found = stuck_groups(ending(*of_pairs, *at_odds), 4)
    assert [(one.since_s, one.hangs) for one in found] == [
        (90.0, True), (80.0, True), (10.0, True), (50.0, False)
    ]  # fmt: skip


def test_of_a_group_of_unknown_members_those_are_told_that_were_seen_in_it() -> None:
    (found,) = stuck_groups(ending(row(0), row(2), n_ranks=3), None)
    assert (found.missing, found.unread, found.unknown_ranks) == ((), (), 2)


@pytest.mark.parametrize(("n_inside", "missing"), [(2, ()), (3, (3,))])
def test_a_group_without_name_and_size_is_of_all_ranks_if_more_than_half_are_seen_in_it(
    n_inside: int, missing: tuple[int, ...]
) -> None:
    inside = [row(rank, group="", group_size=math.nan) for rank in range(n_inside)]
    assert only(ending(*inside, n_ranks=4)).missing == missing


def test_no_further_ranks_are_unknown_of_a_group_in_which_more_were_seen_than_it_has() -> None:
    found = stuck_groups(ending(*(row(rank, group_size=2.0) for rank in range(3)), n_ranks=3), None)
    assert [one.unknown_ranks for one in found] == [0] * len(found)
    assert found


@pytest.mark.parametrize(
    "columns", [{"seq": math.nan}, {"group_size": 2.0}], ids=["no number", "a shared name"]
)
def test_calls_that_may_not_be_of_one_collective_do_not_hang_at_once(columns: dict[str, float]) -> None:
    operations = ("ALLREDUCE", "ALLREDUCE", "BARRIER", "BARRIER")
    rows = [row(rank, name, 190.0, **columns) for rank, name in enumerate(operations)]
    found = stuck_groups(ending(*rows), 4)
    assert found
    assert not any(one.hangs for one in found)


@pytest.mark.parametrize(("seq", "missing"), [(9.0, (1,)), (11.0, ())])
def test_a_rank_that_is_in_a_later_collective_has_passed(seq: float, missing: tuple[int, ...]) -> None:
    found = stuck_groups(ending(row(0), ended(1, seq=seq), n_ranks=2), 2)
    at_10 = [one for one in found if one.seq == 10]
    assert [one.missing for one in at_10] == [(1,)] if missing else all(1 not in one.missing for one in at_10)


@pytest.mark.parametrize(
    ("issued", "missing"),
    [(10, (1,)), (11, ())],
)
def test_a_rank_whose_counts_are_past_the_collective_is_not_missing(
    issued: int, missing: tuple[int, ...]
) -> None:
    said = (words(0), words(1, **counts(issued, issued)), words(2), words(3))
    assert only(ending(row(0), row(2), row(3), said=said)).missing == missing


@pytest.mark.parametrize(
    ("seen_s", "silent"),
    [
        (99.0, (1,)),
        (100.0, ()),
        pytest.param(150.0, (), marks=pytest.mark.slow("a rank that closed is quick")),
    ],
)
def test_a_missing_rank_is_silent_that_left_no_sign_since_the_others_entered(
    seen_s: float, silent: tuple[int, ...]
) -> None:
    said = (words(0), words(1, updated_ns=ns(seen_s)), words(2), words(3))
    found = only(ending(row(0), row(2), row(3), said=said))
    assert (found.missing, found.silent) == ((1,), silent)
    closed = (words(0), words(1, updated_ns=ns(seen_s), closed=True), words(2), words(3))
    assert only(ending(row(0), row(2), row(3), said=closed)).silent == ()


def failed(rank: int) -> dict[str, Any]:
    return row(rank, end_counter=120.0, status="error:E")


def test_a_failure_hangs_only_where_a_rank_was_missing_or_ranks_disagreed() -> None:
    all_failed = only(ending(*map(failed, range(4))))
    assert (all_failed.hangs, all_failed.failed) == (False, dict.fromkeys(range(4), "error:E"))
    assert only(ending(*map(failed, range(3)))).hangs
    assert only(ending(*map(failed, range(3)), {**failed(3), "message_size_bytes": 8.0})).hangs


@pytest.mark.parametrize(("began_s", "n_found"), [(120.0, 1), (120.1, 0)])
def test_a_failure_after_which_its_group_met_again_is_over(began_s: float, n_found: int) -> None:
    later = [ended(rank, began_s=began_s, seq=11.0) for rank in range(4)]
    assert len(stuck_groups(ending(*map(failed, range(4)), *later), 4)) == n_found


def test_a_failure_is_not_over_while_its_group_is_still_in_a_later_call() -> None:
    later = row(0, began_s=130.0, seq=11.0)
    assert 10 in {one.seq for one in stuck_groups(ending(*map(failed, range(4)), later), 4)}


# -- what they disagree in -------------------------------------------------------------------------------


def test_different_collectives_under_one_number_hang_at_once() -> None:
    young = [row(rank, began_s=190.0) for rank in range(3)]
    found = only(ending(*young, row(3, "BARRIER", 190.0)))
    assert (found.operation, found.odd, found.hangs) == ("ALLREDUCE, BARRIER", (3,), True)
    assert found.mismatch == "operations differ: ALLREDUCE on ranks 0, 1 and 2, BARRIER on rank 3"
    assert not only(ending(*young, row(3, began_s=190.0))).hangs


def test_different_sizes_are_told_in_bytes_and_without_a_majority_nobody_is_odd() -> None:
    sizes = (64.0, 64.0, 8.0, 8.0)
    found = only(ending(*(row(rank, message_size_bytes=size) for rank, size in enumerate(sizes))))
    assert (found.mismatch, found.odd) == (
        "sizes differ: 8 bytes on ranks 2 and 3, 64 bytes on ranks 0 and 1", ()
    )  # fmt: skip


@pytest.mark.parametrize(
    ("values", "odd"),
    [([1, 1, 2], (2,)), ([1, 1, 2, 2], ()), ([1, 2, 3, 1], ()), ([1, 1, 1, math.nan, 2], (4,))],
)
def test_those_are_odd_who_are_not_of_more_than_half(values: list[float], odd: tuple[int, ...]) -> None:
    parts = pd.DataFrame({"rank": range(len(values))})
    assert module._odd(parts, pd.Series(values)) == odd


@pytest.mark.parametrize(("n", "more"), [(4, ""), (5, " and 1 more"), (6, " and 2 more")])
def test_four_kinds_are_told_and_the_others_counted(n: int, more: str) -> None:
    parts = pd.DataFrame({"rank": range(n)})
    told = ", ".join(f"{kind} bytes on rank {kind}" for kind in range(4))
    assert module._by_kind(parts, pd.Series([float(kind) for kind in range(n)]), " bytes") == told + more


# -- in the background -----------------------------------------------------------------------------------


def test_who_has_it_under_way_without_being_blocked_is_told_where_others_are() -> None:
    others = [row(rank) for rank in (0, 1, 2)]
    found = only(ending(*others, row(3, "IALLREDUCE")))
    assert (found.unblocked, found.pending) == ((3,), (3,))
    elsewhere = only(ending(*others, row(3, "IALLREDUCE"), row(3, "WAIT", seq=4.0)))
    assert (elsewhere.unblocked, elsewhere.pending) == ((), (3,))


@pytest.mark.slow("who is not blocked in it is quick, where another waits elsewhere, too")
def test_who_waits_for_it_is_blocked_and_where_nobody_is_or_on_a_device_nobody_is_told() -> None:
    others = [row(rank) for rank in (0, 1, 2)]
    waited = only(ending(*others, row(3, "IALLREDUCE"), row(3, "WAIT")))
    assert (waited.unblocked, waited.pending) == ((), ())
    nobody = only(ending(*(row(rank, "IALLREDUCE") for rank in range(4))))
    assert (nobody.unblocked, nobody.pending) == ((), (0, 1, 2, 3))
    on_device = only(ending(*others, row(3, "IALLREDUCE", clock="device")))
    assert on_device.pending == ()


# -- by counts -------------------------------------------------------------------------------------------


def counted(*of: tuple[int, int], **fields: Any) -> list[StuckGroup]:
    """Return what is stuck by these counts of ranks, begun and over, without any rows."""
    said = tuple(words(rank, **counts(*one), **fields) for rank, one in enumerate(of))
    return stuck_groups(ending(said=said), 4)


def test_counts_tell_who_is_inside_and_who_never_entered() -> None:
    assert counted((11, 10), (11, 10), (10, 10), (11, 11)) == [
        StuckGroup(
            group=WORLD, group_size=4, seq=10, operation="", inside=(0, 1), inside_s={0: 100.0, 1: 100.0},
            missing=(2,), since_s=100.0,
        )
    ]  # fmt: skip
    assert counted((11, 11), (11, 11), (10, 10), (11, 11)) == []


def test_counts_tell_of_the_newest_that_any_rank_is_in() -> None:
    (found,) = counted((11, 10), (10, 9), (11, 11), (11, 11))
    assert (found.seq, found.inside, found.missing) == (10, (0,), (1,))


def test_counts_tell_who_is_inside_though_an_earlier_call_of_the_group_had_failed() -> None:
    said = tuple(words(rank, **counts(11, 10)) for rank in range(4))
    found = stuck_groups(ending({**failed(0), "seq": 9.0}, said=said), 4)
    assert {one.seq: one.inside for one in found} == {9: (), 10: (0, 1, 2, 3)}


def test_a_single_row_of_a_counted_group_tells_its_operation() -> None:
    said = tuple(
        words(rank, **counts(*one)) for rank, one in enumerate([(11, 10), (11, 10), (10, 10), (11, 11)])
    )
    (found,) = stuck_groups(ending(ended(3, "ALLGATHER", seq=9.0), said=said), 4)
    assert (found.operation, found.missing) == ("ALLGATHER", (2,))


@pytest.mark.parametrize(
    ("idle_s", "hang_after_s", "hangs"),
    [(10.0, 60.0, False), (9.9, 60.0, None), (60.0, 60.0, True), (2.0, 2.0, True),
     *(pytest.param(*other, marks=pytest.mark.slow("of another time, or as one of these"))
       for other in ((59.9, 60.0, False), (1.9, 2.0, None)))],
)  # fmt: skip
def test_counts_are_final_after_ten_seconds_and_hang_after_their_time(
    idle_s: float, hang_after_s: float, hangs: bool | None
) -> None:
    progressed_ns = ns(END_S - idle_s)
    found = counted(*[(11, 10)] * 4, progressed_counter_ns=progressed_ns, hang_after_s=hang_after_s)
    assert [one.hangs for one in found] == ([] if hangs is None else [hangs])


def test_counts_of_who_closed_or_was_never_idle_tell_nobody_is_inside() -> None:
    assert counted(*[(11, 10)] * 4, closed=True) == []
    assert counted(*[(11, 10)] * 4, progressed_counter_ns=None) == []


@pytest.mark.parametrize(("seq", "n_found"), [(10.0, 1), (11.0, 0)])
def test_who_ended_a_later_collective_never_waited_for_what_is_open(seq: float, n_found: int) -> None:
    said = tuple(words(rank, **counts(12, 10)) for rank in range(4))
    of_all = [ended(rank, seq=seq) for rank in range(4)]
    found = stuck_groups(ending(*of_all, said=said), 4)
    assert len(found) == n_found
    assert all(one.operation == "ALLREDUCE" for one in found)
