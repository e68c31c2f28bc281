"""What is wrong with a collective: which iterations of its parts are compared, and what is said of each."""

from __future__ import annotations

import pandas as pd
import pytest
from rank_tables import quick_table as table
from timing_files import record

from timing_logger.analysis import match_collectives
from timing_logger.schema.record import Record

N = 20
APART = "iterations apart: these are probably rows of different runs, or of a group that was created again"


def rows(**fields: object) -> list[Record]:
    return [
        record(start_s=1 + i, seq=i, iteration=i, epoch=0, group_size=2)._replace(**fields) for i in range(N)
    ]


def in_epochs(shift: int = 0) -> list[Record]:
    """Rows whose iterations restart in the second epoch, all of them by ``shift`` too great."""
    return [row._replace(iteration=i % 10 + shift, epoch=i // 10) for i, row in enumerate(rows())]


def states(matched: pd.DataFrame) -> list[tuple[str, str]]:
    return list(matched.groupby("instance")[["state", "why"]].first().itertuples(index=False, name=None))


@pytest.mark.parametrize(("shift", "are_one"), [(0, True), (1, True), (3, False)])
def test_iterations_that_restart_are_compared_within_an_epoch(shift: int, are_one: bool) -> None:
    found = states(match_collectives(table(in_epochs(), in_epochs(shift))))
    assert found == [("complete", "") if are_one else ("mismatched", f"ranks are {shift} {APART}")] * N


def test_iterations_that_restart_are_not_compared_with_those_that_go_on() -> None:
    on = [row._replace(iteration=100 + i) for i, row in enumerate(rows())]
    assert states(match_collectives(table(on, in_epochs()))) == [("complete", "")] * N


def test_who_restarts_is_compared_with_the_others_that_do() -> None:
    three = [[row._replace(group_size=3) for row in its] for its in (rows(), in_epochs(), in_epochs(4))]
    assert states(match_collectives(table(*three))) == [("mismatched", f"ranks are 4 {APART}")] * N


def test_by_how_much_iterations_are_apart_is_said_of_each_collective() -> None:
    ahead = [row._replace(iteration=i + (2 if i < 5 else 9)) for i, row in enumerate(rows())]
    found = states(match_collectives(table(rows(), ahead)))
    assert found == [("mismatched", f"ranks are {2 if i < 5 else 9} {APART}") for i in range(N)]


def test_troubles_of_one_kind_in_groups_of_other_names_and_sizes_are_said_of_each() -> None:
    def part(group: str, size: int, seq: int = 0) -> Record:
        return record(seq=seq, group=group, group_size=size)

    matched = match_collectives(table([part("a", 2), part("b", 4)], [part("b", 4)]))
    assert states(matched) == [
        ("incomplete", "no rows of 1 of the group's ranks"),
        ("incomplete", "no rows of 2 of the group's ranks"),
    ]


def test_a_collective_may_lack_known_ranks_and_unknown_ones() -> None:
    ranks = [record(seq=seq, group_size=4) for seq in range(2)]
    matched = match_collectives(table(ranks, ranks, ranks[:1]))
    assert states(matched) == [
        ("incomplete", "no rows of 1 of the group's ranks"),
        ("incomplete", "rank 2 missing; no rows of 1 of the group's ranks"),
    ]


def test_parts_that_failed_are_told_from_those_that_did_not_finish() -> None:
    of = [record(seq=0, group_size=3, status=status) for status in ("inflight", "error:RuntimeError", "ok")]
    assert states(match_collectives(table(*([row] for row in of)))) == [
        ("incomplete", "rank 0 did not finish; rank 1 failed")
    ]


def test_roots_differ_only_where_there_are_roots() -> None:
    def states_of(operation: str) -> list[tuple[str, str]]:
        ranks = [[record(operation, seq=0, group_size=2, peer=rank)] for rank in range(2)]
        return states(match_collectives(table(*ranks)))

    assert states_of("REDUCE") == [("mismatched", "roots differ")]
    assert states_of("ALLREDUCE") == [("complete", "")]
