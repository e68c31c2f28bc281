"""Which process group a collective of a trace names, and the only one of a run."""

from __future__ import annotations

from typing import Any

import pytest

from timing_logger.importing.imported import integer
from timing_logger.importing.kineto_names import Group, group_of, only_group, rank_of
from timing_logger.importing.trace_events import Args
from timing_logger.schema.timing_files import MAX_RANK


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (0, 0), (2**62 - 1, 2**62 - 1), (2**62, None), (-1, None), (True, None), (1.0, None), ("1", None),
        (None, None),
    ],
)  # fmt: skip
def test_a_whole_number_is_one_that_a_row_can_hold(value: Any, found: int | None) -> None:
    assert integer(value) == found


@pytest.mark.parametrize(
    ("value", "rank"), [(0, 0), (MAX_RANK, MAX_RANK), (MAX_RANK + 1, None), (-1, None), ("1", None)]
)
def test_a_rank_is_no_larger_than_ranks_may_be(value: Any, rank: int | None) -> None:
    assert rank_of(value) == rank


def test_a_rank_has_its_place_in_a_group_of_which_the_ranks_are_known() -> None:
    assert [Group("dp 1", 2, (4, 6)).place_of(rank) for rank in (4, 6, 5, "6")] == [0, 1, 5, None]
    assert Group("dp 1", 2).place_of(6) == 6


@pytest.mark.parametrize("name", [None, 7, ["1"]])
def test_without_a_name_there_is_no_group(name: Any) -> None:
    assert group_of(Args(group=name, group_kind="dp", group_size=2)) is None


@pytest.mark.parametrize(
    ("kind", "name", "called"),
    [
        ("dp", "1", "dp 1"), ("dp", "", "dp"), (None, "1", "process group 1"), ("", "1", "process group 1"),
        ("undefined", "1", "process group 1"), ("None", "1", "process group 1"), (7, "1", "process group 1"),
    ],
)  # fmt: skip
def test_a_group_is_called_by_its_kind_and_name(kind: Any, name: str, called: str) -> None:
    assert group_of(Args(group=name, group_kind=kind)) == Group(called, None)


@pytest.mark.parametrize(
    ("stated", "size", "ranks"),
    [
        ([2, 3], 2, (2, 3)), ("[2, 3]", 2, (2, 3)), ([2, 3], None, (2, 3)), ([2, 3], 4, ()),
        ("[2, ...]", 2, ()), ("7", 2, ()), ([2, "3"], 2, ()), ([0, True], 2, ()), (None, 2, ()),
        ("[" * 100_000, 2, ()),
    ],
)  # fmt: skip
def test_the_ranks_of_a_group_are_known_if_all_are_stated(
    stated: Any, size: int | None, ranks: tuple[int, ...]
) -> None:
    found = group_of(Args(group="1", group_kind="dp", group_size=size, group_ranks=stated))
    assert found == Group("dp 1", size or len(ranks), ranks)


def test_a_run_with_one_group_has_an_only_one_and_its_size_is_that_of_the_group_first() -> None:
    config = {"pg_name": "0", "pg_desc": "default_pg", "pg_size": 2, "ranks": [0, 1]}
    assert only_group({"pg_config": [config], "world_size": 4}) == Group("default_pg 0", 2, (0, 1))
    without_size = {"pg_name": "0", "pg_desc": "default_pg"}
    assert only_group({"pg_config": [without_size], "world_size": 4}) == Group("default_pg 0", 4)
    assert only_group({"pg_config": [without_size]}) == Group("default_pg 0", None)


@pytest.mark.parametrize("groups", [None, [], {}, "x", [7], [{"pg_name": "0"}] * 2])
def test_a_run_with_no_or_several_groups_has_no_only_one(groups: Any) -> None:
    assert only_group({"pg_config": groups, "world_size": 4}) is None
