"""Sends and receives are matched, and who waited for whom is told: Scalasca's late sender and receiver."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
from message_rows import one_message, receive, send
from rank_tables import aligned, as_polars, only
from rank_tables import quick_table as table
from slow import slow
from timing_files import record

from timing_logger.analysis import message_waits, summarize_messages
from timing_logger.analysis.collectives.messages import messages_and_groups
from timing_logger.schema.record import Record


def test_a_receiver_waits_for_a_late_sender() -> None:
    found = only(message_waits(one_message(send(5.0, 2.0), receive(0.0, 7.0))))
    assert (found["sender"], found["receiver"]) == (0, 1)
    assert found["late_sender_ms"] == pytest.approx(5.0)
    assert found["late_receiver_ms"] == 0
    assert (found["send_ms"], found["receive_ms"]) == pytest.approx((2.0, 7.0))
    assert (found["send_row"], found["receive_row"]) == (0, 1)


def test_a_sender_waits_for_a_late_receiver() -> None:
    found = only(message_waits(one_message(send(0.0, 7.0), receive(5.0, 2.0))))
    assert found["late_sender_ms"] == 0
    assert found["late_receiver_ms"] == pytest.approx(5.0)


def test_waits_are_as_long_whatever_the_uncertainty_of_the_clocks() -> None:
    sender_late = only(message_waits(one_message(send(5.0, 2.0), receive(0.0, 7.0), uncertainty_s=0.001)))
    receiver_late = only(message_waits(one_message(send(0.0, 7.0), receive(5.0, 2.0), uncertainty_s=0.001)))
    assert (sender_late["late_sender_ms"], sender_late["late_receiver_ms"]) == pytest.approx((5.0, 0.0))
    assert (receiver_late["late_sender_ms"], receiver_late["late_receiver_ms"]) == pytest.approx((0.0, 5.0))


@pytest.mark.slow("a bound of the wait, which is quick")
def test_nobody_waits_longer_than_the_call_takes() -> None:
    """A buffered send returns before the receiver comes."""
    found = only(message_waits(one_message(send(0.0, 0.1), receive(5.0, 1.0))))
    assert found["late_receiver_ms"] == pytest.approx(0.1)


def test_a_receive_that_ended_before_the_send_began_contradicts_the_clocks() -> None:
    early = one_message(send(5.0), receive(0.0, 1.0), uncertainty_s=0.001)
    assert only(message_waits(early))["clock_violation"]
    assert only(message_waits(early))["uncertainty_ms"] == pytest.approx(2.0)
    assert not only(message_waits(early.assign(clock_uncertainty_s=0.003)))["clock_violation"]


def test_a_receive_that_ends_when_the_send_begins_does_not_contradict_the_clocks() -> None:
    assert not only(message_waits(one_message(send(1.0), receive(0.0, 1.0))))["clock_violation"]


def test_without_aligned_clocks_messages_are_matched_and_waits_are_unknown() -> None:
    found = only(message_waits(one_message(send(5.0), receive(0.0, 7.0), float("nan"))))
    assert pd.isna(found["late_sender_ms"])
    assert pd.isna(found["late_receiver_ms"])
    assert not found["clock_violation"]


def test_nobody_waits_in_what_goes_on_in_the_background() -> None:
    found = only(message_waits(one_message(send(5.0, 2.0, "ISEND"), receive(0.0, 7.0, "IRECV"))))
    assert pd.isna(found["late_sender_ms"])
    assert pd.isna(found["late_receiver_ms"])


def test_messages_of_both_directions_and_of_several_pairs_are_told_apart() -> None:
    ranks = [
        [send(0, peer=1), receive(0, peer=1), send(2, peer=2, seq=0), send(4, peer=2, seq=1)],
        [receive(0, peer=0), send(0, peer=0)],
        [receive(2, peer=0, seq=0), receive(4, peer=0, seq=1)],
    ]
    timings = aligned(table(*([row._replace(group_size=3) for row in rows] for rows in ranks)))
    found = message_waits(timings)
    assert list(zip(found["sender"], found["receiver"], found["seq"], strict=True)) == [
        (0, 1, 0), (0, 2, 0), (0, 2, 1), (1, 0, 0),
    ]  # fmt: skip


def test_messages_are_in_order_of_group_then_sender_then_receiver_then_number() -> None:
    links = [("a", 0, 1, 0), ("a", 0, 1, 1), ("a", 0, 2, 0), ("a", 2, 0, 0), ("b", 0, 2, 0), ("b", 1, 0, 0)]
    rows: list[list[Record]] = [[], [], []]
    for at, (group, sender, receiver, seq) in enumerate(reversed(links)):
        common = {"group": group, "seq": seq, "group_size": 3}
        rows[sender].append(send(10 * at, peer=receiver, **common))
        rows[receiver].append(receive(10 * at, peer=sender, **common))
    found = message_waits(aligned(table(*rows)))
    columns = [found[name].tolist() for name in ("group", "sender", "receiver", "seq")]
    assert list(zip(*columns, strict=True)) == links


@pytest.mark.parametrize(
    "rows",
    [
        ([send(0, peer=1)], [receive(0, peer=0, seq=1)]),
        ([send(0, peer=1), send(1, peer=1)], [receive(0, peer=0)]),
        slow(([send(0, peer=1)], [receive(0, peer=0, group="another")]), "as another number"),
        ([send(0, peer=1)], [receive(0, peer=0, seq=None)]),
        slow(([send(0, peer=1)], []), "as another number"),
    ],
    ids=["other number", "number twice", "other group", "no number", "one side"],
)
def test_what_has_no_other_side_is_no_message(rows: tuple[list[Record], list[Record]]) -> None:
    assert len(message_waits(aligned(table(*rows)))) == 0


# -- what is sent and received in one call --------------------------------------------------------------


def exchange(at_ms: float, elapsed_ms: float, to: int | None, seq: int | None, **fields: Any) -> Record:
    return send(at_ms, elapsed_ms, "SENDRECV", peer=to, seq=seq, **fields)


def links(*ranks: list[Record], uncertainty_s: float = 0.0) -> list[tuple[int, ...]]:
    """Sender, receiver, number, and the places of the rows of each message among those of their ranks."""
    rows = [[row._replace(group_size=len(ranks)) for row in records] for records in ranks]
    found = message_waits(aligned(table(*rows), uncertainty_s))
    first = np.cumsum([0, *map(len, rows)])
    columns = [found[name].tolist() for name in ("sender", "receiver", "seq", "send_row", "receive_row")]
    return [
        (sender, receiver, seq, send_row - int(first[sender]), receive_row - int(first[receiver]))
        for sender, receiver, seq, send_row, receive_row in zip(*columns, strict=True)
    ]


def test_two_ranks_that_exchange_send_each_other_a_message_and_the_early_one_waits() -> None:
    early, late = exchange(0, 7, 1, 0), exchange(5, 2, 0, 0)
    found = message_waits(aligned(table([early], [late])))
    assert list(zip(found["sender"], found["receiver"], strict=True)) == [(0, 1), (1, 0)]
    assert found["late_sender_ms"].tolist() == pytest.approx([0, 5])
    assert found["late_receiver_ms"].tolist() == pytest.approx([5, 0])
    assert found["send_ms"].tolist() == pytest.approx([7, 2])


def test_ranks_may_exchange_with_another_in_each_round() -> None:
    """0 with 1 and 2 with 3, then 0 with 2 and 1 with 3; messages are numbered for each two ranks."""
    ranks = [
        [
            exchange(20 * step + 10 * i + rank / 9, 5, rank ^ bit, step)
            for step in range(3)
            for i, bit in enumerate((1, 2))
        ]
        for rank in range(4)
    ]
    found = links(*ranks)
    assert len(found) == 4 * 6
    assert all((place, receiver) == (other, sender ^ bit) for sender, receiver, _, place, other in found
               for bit in [(1, 2)[place % 2]])  # fmt: skip


@pytest.mark.parametrize(("uncertainty_s", "n_links"), [(0.0006, 4), (0.0004, 2)])
def test_two_calls_are_a_pair_if_they_may_have_overlapped_as_far_as_clocks_tell(
    uncertainty_s: float, n_links: int
) -> None:
    """Rank 0 exchanges with 1, then with 2, whose calls begin 1 ms after the end of its own."""
    ranks = [[exchange(0, 5, 1, 0), exchange(20, 5, 2, 0)], [exchange(6, 5, 0, 0)], [exchange(26, 5, 0, 0)]]
    assert len(links(*ranks, uncertainty_s=uncertainty_s)) == n_links


def test_around_a_ring_each_rank_receives_of_the_one_before_it() -> None:
    ranks = [
        [exchange(10 * step + rank / 9, 5, (rank + 1) % 3, step) for step in range(4)] for rank in range(3)
    ]
    assert sorted(links(*ranks)) == sorted(
        (rank, (rank + 1) % 3, step, step, step) for rank in range(3) for step in range(4)
    )


@pytest.mark.parametrize("periodic", [True, slow(False, "without the ends of the ring")])
def test_of_whom_one_received_who_shifts_to_both_sides_is_not_said(periodic: bool) -> None:
    """In the first half of a step to the right, in the second to the left: 1 received of 0, and then of 2."""
    n = 4
    ranks: list[list[Record]] = []
    for rank in range(n):
        rows = []
        for half in range(6):
            to = rank + (1, -1)[half % 2]
            is_one = periodic or 0 <= to < n
            seq = half // 2 if is_one else None
            rows.append(exchange(10 * half + rank / 9, 6, to % n if is_one else None, seq))
        ranks.append(rows)
    assert links(*ranks) == []


@pytest.mark.slow("two such calls are quick")
def test_what_one_call_sends_may_be_received_by_another_kind_and_what_it_receives_be_sent_by_another() -> (
    None
):
    ranks = [[exchange(0, 5, 1, 0)], [receive(1, peer=0), send(2, peer=0)]]
    assert links(*ranks) == [(0, 1, 0, 0, 0), (1, 0, 0, 1, 0)]


@pytest.mark.slow("a rarer run; without aligned clocks plain messages are quick")
def test_without_aligned_clocks_only_the_messages_of_one_sender_are_found() -> None:
    three = [[exchange(10 * i, 5, (rank + 1 + i) % 3, 0) for i in range(2)] for rank in range(3)]
    assert links(*three, uncertainty_s=float("nan")) == []
    two = [[exchange(0, 5, 1, 0)], [exchange(0, 5, 0, 0)]]
    assert links(*two, uncertainty_s=float("nan")) == [(0, 1, 0, 0, 0), (1, 0, 0, 0, 0)]


def test_a_call_that_did_not_end_keeps_no_other_from_being_matched() -> None:
    ranks = [[exchange(0, 5, 1, 0), exchange(10, 5, 1, 1)], [exchange(0, 5, 0, 0)]]
    ranks[0][1] = ranks[0][1]._replace(end_ns=None, status="inflight")
    assert links(*ranks) == [(0, 1, 0, 0, 0), (1, 0, 0, 0, 0)]


# -- in the background, with its WAIT -------------------------------------------------------------------


def test_who_waits_for_what_goes_on_in_the_background_waits_in_its_wait() -> None:
    issued = receive(0.0, 9.0, "IRECV", peer=1)
    wait = record("WAIT", 1.004, 5.0, peer=1, seq=0, group_size=2)
    found = only(message_waits(aligned(table([issued, wait], [send(7.0, 2.0, peer=0)]))))
    assert found["late_sender_ms"] == pytest.approx(3.0)
    assert found["late_receiver_ms"] == 0


def test_a_wait_is_for_the_operation_that_ends_with_it() -> None:
    """A send to a rank and a receive of it have the same number and peer."""
    rows = [
        send(0.0, 3.0, "ISEND", peer=1), receive(0.0, 9.0, "IRECV", peer=1),
        record("WAIT", 1.002, 1.0, peer=1, seq=0, group_size=2),
        record("WAIT", 1.004, 5.0, peer=1, seq=0, group_size=2),
    ]  # fmt: skip
    others = [send(7.0, 2.0, peer=0), receive(2.5, 0.5, peer=0)]
    found = message_waits(aligned(table(rows, others)))
    assert found["late_receiver_ms"].tolist() == pytest.approx([0.5, 0])
    assert found["late_sender_ms"].tolist() == pytest.approx([0, 3.0])


@pytest.mark.parametrize("lacking", [0, 1, 2])
def test_where_one_of_several_waits_is_lacking_the_other_messages_have_theirs(lacking: int) -> None:
    issued = [receive(10 * at, 9.0, "IRECV", peer=1, seq=at) for at in range(3)]
    waits = [
        record("WAIT", 1.004 + at / 100, 5.0, peer=1, seq=at, group_size=2)
        for at in range(3)
        if at != lacking
    ]
    sent = [send(10 * at + 7.0, 2.0, peer=0, seq=at) for at in range(3)]
    found = message_waits(aligned(table([*issued, *waits], sent)))["late_sender_ms"]
    assert found.tolist() == pytest.approx([np.nan if at == lacking else 3.0 for at in range(3)], nan_ok=True)


def test_a_wait_for_another_message_that_ends_with_it_is_not_for_this_one() -> None:
    waits = [(0, 4.0, 5.2), (0, 2.0, 3.2), (1, 1.0, 8.0)]  # for which message, from when, how long
    rows = [
        send(0.0, 5.0, "ISEND", peer=1), receive(0.0, 9.0, "IRECV", peer=1),
        receive(0.0, 9.0, "IRECV", peer=1, seq=1),
        *(record("WAIT", 1 + at / 1e3, ms, peer=1, seq=seq, group_size=2) for seq, at, ms in waits),
    ]  # fmt: skip
    others = [send(7.0, 2.0, peer=0), receive(4.5, 0.5, peer=0), send(8.0, 1.0, peer=0, seq=1)]
    found = message_waits(aligned(table(rows, others)))
    assert found["late_receiver_ms"].tolist() == pytest.approx([2.5, 0, 0])
    assert found["late_sender_ms"].tolist() == pytest.approx([0, 3.0, 7.0])


# -- which rank a number of a group is ------------------------------------------------------------------


def folder_of(
    members: Sequence[int], *, without: Sequence[int], world_size: int | None = None, **fields: Any
) -> pd.DataFrame:
    """A ring and its reverse among the members of a group, as each of them states it; some files are lost."""
    size = len(members)
    stated = {"group_size": size, "group": "stage", **fields}
    rows: dict[int, list[Record]] = {rank: [] for rank in range(max(members) + 1)}
    for number, rank in enumerate(members):
        for step in {1, size - 1}:
            rows[rank].append(send(0, peer=(number + step) % size, seq=0, **stated))
            rows[rank].append(receive(0, peer=(number - step) % size, seq=0, **stated))
    timings = aligned(table(*rows.values()))
    timings = timings[~timings["rank"].isin(list(without))].reset_index(drop=True)
    left = timings["rank"].unique().tolist()
    timings.attrs["files"] = [{"rank": rank, "sidecar": {"world_size": world_size}} for rank in left]
    return timings


def pairs(timings: pd.DataFrame) -> list[tuple[int, int]]:
    found = message_waits(timings)
    return list(zip(found["sender"].tolist(), found["receiver"].tolist(), strict=True))


@pytest.mark.parametrize("lost", [2, *(slow(other, "another of the three") for other in (0, 4))])
@pytest.mark.parametrize(
    "world_size", [5, slow(None, "as a larger one"), slow(6, "larger still than the group")]
)
def test_of_a_group_that_lacks_a_member_nobody_knows_which_rank_a_number_is(
    lost: int, world_size: int | None
) -> None:
    """0's send to 4, number 2 of the group, is not what 2 received."""
    assert pairs(folder_of([0, 2, 4], without=[lost], world_size=world_size)) == []


def test_of_a_group_of_unknown_size_nobody_knows_whether_a_member_is_lacking() -> None:
    unsized = folder_of([0, 2, 4], without=[2], group_size=None)
    assert pairs(unsized) == []
    assert pairs(folder_of([0, 2, 4], without=[], group_size=None)) == []


def test_a_group_in_which_all_ranks_of_the_world_have_rows_lacks_none() -> None:
    assert len(pairs(folder_of([0, 1, 2], without=[], world_size=3, group_size=None))) == 6


def test_the_group_of_the_whole_world_is_known_from_some_of_its_ranks() -> None:
    assert pairs(folder_of([0, 1, 2], without=[1], world_size=3)) == [(0, 2), (2, 0)]
    assert pairs(folder_of([0, 1, 2], without=[1], world_size=8)) == []
    assert pairs(folder_of([0, 1, 2], without=[1])) == []


def test_without_any_group_a_peer_is_a_rank() -> None:
    rows = table(
        [send(0, peer=2, group="", group_size=None)], [], [receive(0, peer=0, group="", group_size=None)]
    )
    assert pairs(aligned(rows)) == [(0, 2)]


def test_groups_that_share_a_name_do_not_tell_whose_number_it_is() -> None:
    rows = [[send(0, peer=1 - rank % 2, group="dp", group_size=2)] for rank in range(4)]
    shared = aligned(table(*rows))
    shared.attrs["files"] = [{"rank": rank, "sidecar": {"world_size": 4}} for rank in range(4)]
    received = shared.assign(operation="RECV")
    both = pd.concat([shared, received], ignore_index=True)
    both.attrs = shared.attrs
    assert pairs(both) == []


@pytest.mark.slow("a rarer run; plain ones are quick")
def test_ranks_that_were_started_unequally_often_are_matched_by_their_latest_runs() -> None:
    rows = [send(0, peer=1, group_size=2)], [receive(0, peer=0, group_size=2)]
    assert pairs(aligned(table(*rows, incarnations=[2, 1]))) == [(0, 1)]


@pytest.mark.slow("a rarer run; an unknown world is quick")
def test_sidecars_that_disagree_on_the_world_do_not_tell_it() -> None:
    timings = folder_of([0, 1, 2], without=[1], world_size=3)
    timings.attrs["files"][0]["sidecar"]["world_size"] = 4
    assert pairs(timings) == []


OF_NAMES = "test_group_members.py holds what such names list"


@pytest.mark.parametrize("group", ["ranks 0,2,4", slow("ranks 0,2,4 #3", OF_NAMES)])
def test_a_name_that_lists_its_ranks_says_which_they_are(group: str) -> None:
    assert pairs(folder_of([0, 2, 4], without=[2], group=group)) == [(0, 4), (4, 0)]


@pytest.mark.slow("test_group_members.py holds what such names list")
def test_a_name_that_lists_its_ranks_says_in_which_order_they_are_numbered() -> None:
    turned = folder_of([3, 1, 0], without=[], group="ranks 3,1,0")
    assert pairs(turned) == [(0, 1), (0, 3), (1, 0), (1, 3), (3, 0), (3, 1)]


@pytest.mark.parametrize(
    "group",
    [
        "ranks 0,1,5",
        *(slow(f"ranks {other}", OF_NAMES) for other in ("0,?,4", "0-1", "0,0,4", "0-99999999999")),
    ],
)
def test_a_name_that_lists_other_ranks_than_have_rows_says_nothing(group: str) -> None:
    assert pairs(folder_of([0, 2, 4], without=[2], group=group)) == []
    assert len(pairs(folder_of([0, 2, 4], without=[], group=group))) == 6


@pytest.mark.slow("a rarer name; that sizes tell groups apart is quick, of collectives")
def test_groups_of_one_name_and_other_sizes_are_others() -> None:
    one, other = folder_of([0, 1], without=[]), folder_of([0, 1, 2], without=[1])
    assert pairs(pd.concat([one, other], ignore_index=True)) == [(0, 1), (1, 0)]


def test_messages_of_a_pair_are_added_up() -> None:
    sends = [send(10 * i, 2.0, peer=1, seq=i, message_size_bytes=100) for i in range(3)]
    receives = [receive(10 * i - 4, 6.0, peer=0, seq=i) for i in range(3)]
    found = only(summarize_messages(message_waits(aligned(table(sends, receives)))))
    assert (found["sender"], found["receiver"], found["count"], found["bytes"]) == (0, 1, 3, 300)
    assert found["late_sender_ms"] == pytest.approx(12.0)
    assert found["late_receiver_ms"] == 0


def test_of_times_the_median_is_told_and_of_uncertainties_the_largest() -> None:
    sends = [send(10 * at, ms, peer=1, seq=at) for at, ms in enumerate((1.0, 9.0, 2.0))]
    receives = [receive(10 * at, ms, peer=0, seq=at) for at, ms in enumerate((4.0, 3.0, 8.0))]
    timings = aligned(table(sends, receives)).assign(clock_uncertainty_s=[1e-3, 2e-3, 3e-3, 1e-3, 1e-3, 0.0])
    found = only(summarize_messages(message_waits(timings)))
    assert (found["send_ms"], found["receive_ms"]) == pytest.approx((2.0, 4.0))
    assert found["uncertainty_ms"] == pytest.approx(3.0)


def test_messages_that_contradict_the_clocks_are_counted() -> None:
    sends = [send(10 * at + 5.0, peer=1, seq=at) for at in range(3)]
    receives = [receive(10 * at, 9.0 if at else 1.0, peer=0, seq=at) for at in range(3)]
    assert only(summarize_messages(message_waits(aligned(table(sends, receives)))))["clock_violations"] == 1


def test_rows_of_messages_are_kept_of_a_part_and_what_tells_its_groups() -> None:
    of_group = record(group="dp", group_size=4)
    messages = [
        send(0, operation=name, peer=1) for name in ("SEND", "RECV", "ISEND_INDEX", "SENDRECV", "WAIT")
    ]
    others = [
        send(0, operation="WAIT"),
        send(0, operation="WAIT", seq=None, peer=1),
        send(0, operation="FORWARD"),
    ]
    rows = [of_group, of_group, *messages, *others]
    timings = table(rows)
    timings.attrs["files"] = [{"rank": 0}]
    found = messages_and_groups(timings)
    assert found["operation"].tolist() == ["ALLREDUCE", *(row.operation for row in messages)]
    assert found.attrs == {"files": [{"rank": 0}]}


def test_polars_gets_polars() -> None:
    timings = one_message(send(5.0, 2.0), receive(0.0, 7.0))
    found = message_waits(as_polars(timings))
    assert found["late_sender_ms"].to_list() == message_waits(timings)["late_sender_ms"].to_list()
    assert summarize_messages(found)["count"].to_list() == [1]
