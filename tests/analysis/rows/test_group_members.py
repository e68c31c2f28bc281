"""Which ranks are in a group, in the order of their numbers, and when that cannot be told."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from timing_logger.analysis.rows.group_members import (
    NONE,
    all_members,
    members_of,
    own_numbers,
    ranks_by_number,
)
from timing_logger.analysis.rows.tables import opened

UNKNOWN = math.nan
A_MILLION = 10**6


@pytest.mark.parametrize(
    ("name", "size", "seen", "world_size", "members"),
    [
        ("layers", UNKNOWN, [0, 1, 2], 3, [0, 1, 2]),
        ("layers", UNKNOWN, [0, 1, 2], 4, []),
        ("layers", UNKNOWN, [0, 1, 2], None, []),
        ("layers", 3, [0, 2, 5], 8, [0, 2, 5]),
        ("layers", 4, [0, 2, 5], 8, []),
        ("layers", 4, [0, 2], 4, [0, 1, 2, 3]),
        ("layers", 4, [0, 2], None, []),
        ("layers", 4, [0, 4], 4, []),
        ("layers", A_MILLION + 1, [0], A_MILLION + 1, []),
        ("ranks 3,1,0", 3, [0, 3], 8, [3, 1, 0]),
        ("ranks 4-6,1 #2", 4, [5], 8, [4, 5, 6, 1]),
        ("ranks 3,1,0", 3, [0, 2], 8, []),
        ("ranks 3,1,0", 2, [0, 3], 8, [0, 3]),
        ("ranks 3,3", 2, [1, 3], 8, [1, 3]),
        ("ranks 0,1|2,3", 4, [0, 1, 2, 3], 4, []),
    ],
    ids=str,
)  # fmt: skip
def test_members_are_told_only_where_all_of_them_are_known(
    name: str, size: float, seen: list[int], world_size: int | None, members: list[int]
) -> None:
    assert members_of(name, size, np.array(seen), world_size).tolist() == members


def test_all_ranks_of_a_job_of_a_million_are_told() -> None:
    assert len(members_of("world", A_MILLION, np.array([0]), A_MILLION)) == A_MILLION


@pytest.mark.parametrize(
    ("name", "size", "seen", "members"),
    [
        ("ranks 3,1,0", 3, [0, 3], [0, 1, 3]),
        ("ranks 4,1|0,2", 4, [0, 4], [0, 1, 2, 4]),
        ("ranks 4,1|0,2", 3, [0, 4], []),
        ("ranks 4,1|0,2", 4, [0, 3], []),
        ("left|right", 2, [0, 1], []),
        ("layers", 2, [], []),
    ],
)
def test_all_members_of_a_group_or_intercommunicator_are_told_ascending(
    name: str, size: float, seen: list[int], members: list[int]
) -> None:
    assert all_members(name, size, np.array(seen, np.int64), None).tolist() == members


def test_the_number_of_a_rank_is_its_place_in_the_list_that_names_the_group() -> None:
    group = np.array([0, 0, 0, 1, 1]), ["ranks 3,1,0", "ranks 2,5"]
    rank, place = np.array([0, 1, 3, 2, 5]), np.array([0, 1, 2, 0, 1])
    assert own_numbers(group, rank, place).tolist() == [2, 1, 0, 0, 1]


def test_a_rank_that_the_list_does_not_have_keeps_its_place() -> None:
    rank, place = np.array([0, 1, 4, 6]), np.array([0, 1, 2, 3])
    assert own_numbers((np.zeros(4, np.int64), ["ranks 3,1,0"]), rank, place).tolist() == [2, 1, 2, 3]


@pytest.mark.parametrize("world_size", [8, 2, None])
def test_numbers_are_of_the_members_and_without_a_group_of_the_world(world_size: int | None) -> None:
    groups = ["", "", "ranks 4,2", "ranks 4,2", "ranks 4,2", "layers"]
    size = [math.nan, math.nan, 2.0, 2.0, 2.0, 3.0]
    rank = [0, 7, 2, 4, 4, 1]
    frame = opened(pd.DataFrame({"rank": rank, "group": groups, "group_size": size}), ())
    number = np.array([1, math.nan, 0, 1, 2, 0])
    communicator = np.array([0, 0, 1, 1, 1, 2])
    found = ranks_by_number(frame, number, communicator, world_size)
    assert found.tolist() == [1, NONE, 4, 2, NONE, NONE]
