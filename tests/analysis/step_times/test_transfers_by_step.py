"""Transfers of a run by step and link: the same operation between the same ranks with messages as large."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from message_rows import receive, send
from rank_tables import aligned
from rank_tables import quick_table as table
from timing_files import record

from timing_logger.analysis.step_times.step_times import step_times
from timing_logger.analysis.step_times.transfers import Link, Transfers
from timing_logger.schema.record import Record

NAN = math.nan


def together(seq: int, starts_ms: Sequence[float], ms: float, **fields: Any) -> list[list[Record]]:
    """Return the row of each rank of an allreduce of 4096 bytes that takes so long once all have come."""
    its = {"group_size": len(starts_ms), "iteration": seq // 2, "seq": seq, **fields}
    end_ms = max(starts_ms) + ms
    return [[record("ALLREDUCE", 1 + at_ms / 1e3, end_ms - at_ms, **its)] for at_ms in starts_ms]


def transfers_of(*meetings: list[list[Record]]) -> Transfers:
    ranks: list[list[Record]] = [[], []]
    for meeting in meetings:
        for rank, its in zip(ranks, meeting, strict=True):
            rank += its
    return step_times(aligned(table(*ranks))).transfers


def message(seq: int, at_ms: float, ms: float, **fields: Any) -> list[list[Record]]:
    its: dict[str, Any] = {"seq": seq, "iteration": 1, "message_size_bytes": 64, **fields}
    return [[send(at_ms, 0.1, peer=1, **its)], [receive(at_ms - 1, ms + 1, peer=0, **its)]]


def test_transfers_of_the_same_between_the_same_ranks_are_of_one_link() -> None:
    found = transfers_of(
        together(0, [10, 12], 3), together(1, [20, 20], 5), together(2, [30, 39], 2),
        together(3, [50, 50], 7, message_size_bytes=100_000), message(9, 70, 0.5),
    )  # fmt: skip
    assert [(link.operation, link.size_class_bytes, link.columns) for link in found.links] == [
        ("SEND", 64, (0, 1)), ("ALLREDUCE", 4096, (0, 1)), ("ALLREDUCE", 131_072, (0, 1)),
    ]  # fmt: skip
    assert found.mean_ms == pytest.approx(np.array([[NAN, 4, NAN], [0.5, 2, 7]]), nan_ok=True)
    assert found.n.tolist() == [[0, 2, 0], [1, 1, 1]]
    assert found.mean_bytes == pytest.approx(np.array([[NAN, 4096, NAN], [64, 4096, 100_000]]), nan_ok=True)


def test_each_meeting_tells_its_link_and_step_and_those_of_who_is_held_have_none() -> None:
    found = transfers_of(together(0, [10, 12], 3), together(3, [20, 20], 5), message(9, 70, 0.5))
    names = [found.links[link].operation if link >= 0 else "" for link in found.link]
    assert names == ["ALLREDUCE", "ALLREDUCE", "SEND", "", ""]
    assert found.step.tolist() == [0, 1, 1, 0, 0]


def test_of_messages_of_no_bytes_and_outside_of_any_step_nothing_is_told() -> None:
    found = transfers_of(
        together(0, [10, 12], 3), together(1, [20, 20], 2, group="other"),
        message(8, 50, 0.5, message_size_bytes=0), message(9, 70, 0.5, iteration=None),
    )  # fmt: skip
    assert [link.operation for link in found.links] == ["ALLREDUCE"] * 2
    assert sorted(found.link[:2].tolist()) == [0, 1]
    assert found.link[2:].tolist() == [-1] * 4
    assert found.step.tolist() == [0] * 6
    assert found.n.tolist() == [[1, 1], [0, 0]]


def test_transfers_that_took_no_time_are_counted_but_their_time_is_not_known() -> None:
    found = transfers_of(together(0, [10, 12], 0), together(1, [20, 20], 2))
    assert found.mean_ms == pytest.approx(np.array([[2.0]]))
    assert found.n.tolist() == [[2]]
    alone = transfers_of(together(0, [10, 12], 0))
    assert (alone.links, alone.link.tolist()) == ([], [-1, -1])


def test_messages_of_each_pair_of_ranks_and_way_are_of_a_link_of_their_own() -> None:
    took_ms = {(0, 1): 1.0, (1, 0): 2.0, (0, 2): 3.0, (2, 0): 4.0, (1, 2): 5.0, (2, 1): 6.0}
    ranks: list[list[Record]] = [[], [], []]
    for i, ((sender, receiver), ms) in enumerate(took_ms.items()):
        ((sent,),), ((received,),) = ([side] for side in message(i, 20.0 * i, ms, group_size=3))
        ranks[sender].append(sent._replace(peer=receiver))
        ranks[receiver].append(received._replace(peer=sender))
    found = step_times(aligned(table(*ranks))).transfers
    of_link = {link.columns: ms for link, ms in zip(found.links, found.mean_ms[0].tolist(), strict=True)}
    assert of_link == pytest.approx(took_ms)


def test_links_are_those_of_each_group_and_size_that_may_be_unknown() -> None:
    found = transfers_of(
        together(0, [10, 10], 1), together(0, [20, 20], 2, group="other"),
        together(1, [30, 30], 3, message_size_bytes=None),
    )  # fmt: skip
    mean_ms = dict(
        zip(((link.group, link.size_class_bytes) for link in found.links), found.mean_ms[0], strict=True)
    )
    assert mean_ms == pytest.approx({("world", 4096): 1.0, ("other", 4096): 2.0, ("world", -1): 3.0})


def test_the_ranks_that_take_part_in_a_link_are_told() -> None:
    links = [Link("SEND", "world", 64, (2, 0)), Link("ALLREDUCE", "world", 64, (1, 2))]
    none = np.zeros((0, 2))
    found = Transfers(links, none, none.astype(np.int64), none, np.zeros(0, np.int64), np.zeros(0, np.int64))
    assert found.takes_part(3).tolist() == [[True, False, True], [False, True, True]]


def test_of_a_collective_that_lacks_a_rank_no_transfer_is_known() -> None:
    lacking = together(1, [20, 20], 5, group="of three", group_size=3)
    found = transfers_of(together(0, [10, 12], 3), lacking)
    assert [link.group for link in found.links] == [transfers_of(together(0, [10, 12], 3)).links[0].group]


def test_where_clocks_cannot_be_compared_a_message_took_as_long_as_the_side_that_came_last() -> None:
    ranks = message(0, 10, 0.5, iteration=0)
    found = step_times(table(*ranks)).transfers
    assert found.mean_ms == pytest.approx(np.array([[0.1]]))
