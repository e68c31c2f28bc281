"""Which rows are one collective: by number, by order; and what is said where they are not."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rank_tables import aligned, as_polars, collective
from rank_tables import quick_table as table
from seeds import few_examples
from slow import slow
from timing_files import record

from timing_logger.analysis import match_collectives
from timing_logger.analysis.rows.operations import base_operation, goes_on
from timing_logger.reading.csv_lines import BARE_COLUMNS
from timing_logger.schema.record import Record

RANKS = 4


def numbered(*seqs: int, **fields: Any) -> list[Record]:
    """One row for each of ``seqs``, in this order."""
    return [record(start_s=1 + i, seq=seq, **fields) for i, seq in enumerate(seqs)]


def parts(matched: pd.DataFrame) -> list[tuple[int, list[int]]]:
    """Each instance's number and the positions of its rows."""
    return [(int(number), rows["row"].tolist()) for number, rows in matched.groupby("instance")]


def states(matched: pd.DataFrame) -> list[tuple[str, str]]:
    """Each instance's state and why."""
    return list(matched.groupby("instance")[["state", "why"]].first().itertuples(index=False, name=None))


# -- by number ---------------------------------------------------------------------------------------


def test_rows_with_one_group_and_number_are_one_collective() -> None:
    matched = match_collectives(table(*[numbered(0, 1)] * RANKS))
    assert parts(matched) == [(0, [0, 2, 4, 6]), (1, [1, 3, 5, 7])]
    assert states(matched) == [("complete", "")] * 2
    assert set(matched["matched_by"]) == {"seq"}


def test_a_rank_that_lacks_a_row_shifts_nothing() -> None:
    matched = match_collectives(table(*[numbered(0, 1, 2)] * 2, numbered(1, 2), numbered(0, 1, 2)))
    assert states(matched) == [("incomplete", "rank 2 missing"), ("complete", ""), ("complete", "")]


@pytest.mark.slow("one missing rank is quick, and several beside other troubles")
def test_several_missing_ranks_are_all_named() -> None:
    matched = match_collectives(table(*[numbered(0, 1)] * 2, *[numbered(0)] * 2))
    assert states(matched)[1] == ("incomplete", "ranks 2 and 3 missing")


def test_ranks_without_any_row_cannot_be_named() -> None:
    matched = match_collectives(table(*[numbered(0)] * 3))
    assert states(matched) == [("incomplete", "no rows of 1 of the group's ranks")]


def test_without_a_size_the_group_is_the_ranks_that_were_seen_in_it() -> None:
    matched = match_collectives(table(*[numbered(0, 1, group_size=None)] * 2, numbered(0, group_size=None)))
    assert states(matched) == [("complete", ""), ("incomplete", "rank 2 missing")]


def test_groups_are_numbered_one_after_the_other() -> None:
    rows = [*numbered(0, 1, group="b", group_size=2), *numbered(0, 1, group="a", group_size=2)]
    matched = match_collectives(table(rows, rows))
    assert matched["group"].tolist() == ["a"] * 4 + ["b"] * 4
    assert matched["instance"].tolist() == [0, 0, 1, 1, 2, 2, 3, 3]


def test_the_order_of_the_rows_in_the_file_does_not_matter() -> None:
    matched = match_collectives(table(*[numbered(0, 1), numbered(1, 0)], numbered(0, 1), numbered(1, 0)))
    assert parts(matched) == [(0, [0, 3, 4, 7]), (1, [1, 2, 5, 6])]


@pytest.mark.slow("an exchange with one in the background is quick")
def test_the_background_form_matches_the_one_that_waits() -> None:
    matched = match_collectives(
        table(numbered(0, operation="IALLREDUCE", group_size=2), numbered(0, group_size=2))
    )
    assert states(matched) == [("complete", "")]
    assert set(matched["operation"]) == {"ALLREDUCE"}


def test_waits_and_messages_are_no_collectives() -> None:
    rows = [row._replace(seq=0) for row in map(record, ("WAIT", "SEND", "IRECV", "H2D", "FORWARD"))]
    assert len(match_collectives(table(rows, rows))) == 0


def test_an_exchange_of_uneven_pieces_matches_that_of_even_ones() -> None:
    even, uneven = (
        numbered(0, operation="ALLTOALL"),
        numbered(0, operation="IALLTOALLV", message_size_bytes=9),
    )
    matched = match_collectives(table(even, uneven, even, even))
    assert states(matched) == [("complete", "")]
    assert set(matched["operation"]) == {"ALLTOALLV"}


def test_an_exchange_of_even_pieces_stays_one_beside_an_uneven_one() -> None:
    even, uneven = numbered(0, 1, operation="ALLTOALL"), numbered(0, operation="ALLTOALLV")
    matched = match_collectives(table(even, [*uneven, even[1]], even, even))
    assert matched["operation"].tolist() == ["ALLTOALLV"] * RANKS + ["ALLTOALL"] * RANKS


def test_a_group_made_anew_under_its_old_name_begins_after_the_first() -> None:
    matched = match_collectives(table(*[numbered(0, 1, 0, 1, 2)] * RANKS))
    assert [rows[0] for _, rows in parts(matched)] == [0, 1, 2, 3, 4]
    assert states(matched) == [("complete", "")] * 5


# -- what cannot be one collective ---------------------------------------------------------------------


def test_different_operations_are_a_mismatch() -> None:
    matched = match_collectives(table(*[numbered(0)] * 3, numbered(0, operation="BCAST")))
    assert states(matched) == [("mismatched", "operations ALLREDUCE, BCAST")]


def test_different_sizes_are_a_mismatch_where_all_ranks_must_bring_as_many_bytes() -> None:
    matched = match_collectives(table(*[numbered(0)] * 3, numbered(0, message_size_bytes=8)))
    assert states(matched) == [("mismatched", "sizes differ")]


OF_LIST = "one of a list, of which others are quick"


@pytest.mark.parametrize(
    "operation",
    [
        "ALLGATHERV",
        *(slow(other, OF_LIST) for other in ("BCAST", "ALLTOALLV", "ALLTOALL", "GATHER", "SCATTER")),
    ],
)
def test_where_ranks_may_bring_different_bytes_they_do(operation: str) -> None:
    rows = [numbered(0, operation=operation, message_size_bytes=8 * rank) for rank in range(RANKS)]
    assert states(match_collectives(table(*rows))) == [("complete", "")]


@pytest.mark.slow("different sizes are quick")
def test_an_unknown_size_agrees_with_all() -> None:
    matched = match_collectives(table(*[numbered(0)] * 3, numbered(0, message_size_bytes=None)))
    assert states(matched) == [("complete", "")]


def test_different_roots_are_a_mismatch() -> None:
    rows = [numbered(0, operation="BCAST", peer=rank // 3) for rank in range(RANKS)]
    assert states(match_collectives(table(*rows))) == [("mismatched", "roots differ")]


def test_groups_that_share_a_name_are_not_mixed() -> None:
    matched = match_collectives(table(*[numbered(0, group="dp", group_size=2)] * RANKS))
    assert states(matched) == [
        ("mismatched", "4 ranks share the name of a group of 2: give each group a name of its own")
    ]


def test_groups_of_one_name_and_different_sizes_are_told_apart() -> None:
    sizes = [2, 2, 3, 3, 3]
    matched = match_collectives(table(*(numbered(0, group="dp", group_size=size) for size in sizes)))
    assert parts(matched) == [(0, [0, 1]), (1, [2, 3, 4])]
    assert states(matched) == [("complete", "")] * 2


@pytest.mark.slow("groups that are told apart by their sizes are quick")
def test_groups_with_names_of_their_own_are_kept_apart() -> None:
    rows = [numbered(0, group=f"dp {rank // 2}", group_size=2) for rank in range(RANKS)]
    assert parts(match_collectives(table(*rows))) == [(0, [0, 1]), (1, [2, 3])]


@pytest.mark.slow("one of several reasons, which are told together in a quick test")
@pytest.mark.parametrize("status", ["unresolved", slow("inflight", OF_LIST)])
def test_a_part_that_did_not_finish_makes_it_incomplete(status: str) -> None:
    rows = [numbered(0)] * 2 + [numbered(0, status=status)] + [numbered(0)]
    assert states(match_collectives(table(*rows))) == [("incomplete", "rank 2 did not finish")]


def test_a_part_that_raised_makes_it_incomplete() -> None:
    rows = [numbered(0, status="error:RuntimeError")] * 2 + [numbered(0)] * 2
    assert states(match_collectives(table(*rows))) == [("incomplete", "ranks 0 and 1 failed")]


def test_a_part_with_a_value_that_could_not_be_written_is_there() -> None:
    rows = [numbered(0)] * 3 + [numbered(0, status="error:InvalidValue")]
    assert states(match_collectives(table(*rows))) == [("complete", "")]


def test_all_that_is_wrong_is_said() -> None:
    rows = [numbered(0, 1, status="unresolved"), numbered(0, 1, operation="BARRIER"), numbered(0)]
    matched = match_collectives(table(*rows, numbered(0)))
    assert states(matched)[1] == (
        "mismatched", "operations ALLREDUCE, BARRIER; ranks 2 and 3 missing; rank 0 did not finish"
    )  # fmt: skip


@pytest.mark.slow("each of the reasons is quick")
def test_instances_with_other_troubles_have_other_reasons() -> None:
    rows = [numbered(0, 1, 2, 3), numbered(0, 3), numbered(0, 1, 3), numbered(0, 2, 3)]
    assert [why for _, why in states(match_collectives(table(*rows)))] == [
        "", "ranks 1 and 3 missing", "ranks 1 and 2 missing", "",
    ]  # fmt: skip


TWO_LIVES = [record(start_s=1 + i, seq=i % 50, iteration=i, group_size=3) for i in range(100)]


@pytest.mark.parametrize(
    "lost",
    [
        slice(20, 80),
        *(slow(slice(*other), "as this") for other in ((0, 50), (0, 70), (0, 30), (20, 50))),
    ],
)
def test_a_group_made_anew_is_matched_by_iteration_where_a_rank_lacks_rows(lost: slice) -> None:
    kept = [*TWO_LIVES[: lost.start], *TWO_LIVES[lost.stop :]]
    matched = match_collectives(table(TWO_LIVES, TWO_LIVES, kept))
    assert matched.groupby("instance")["iteration"].nunique().max() == 1
    lacking = [("incomplete", "rank 2 missing")] * (lost.stop - lost.start)
    assert sorted(states(matched)) == sorted([("complete", "")] * (100 - len(lacking)) + lacking)


def test_different_lives_of_a_group_are_a_mismatch_where_no_rank_tells_them_apart() -> None:
    matched = match_collectives(table(TWO_LIVES[:50], TWO_LIVES[:50], TWO_LIVES[50:]))
    why = "ranks are 50 iterations apart: these are probably rows of different runs, or of a group that was "
    assert states(matched) == [("mismatched", why + "created again")] * 50


def test_ranks_may_be_an_iteration_apart_or_not_say_in_which_they_were() -> None:
    iterations = [4, 5, None, 5]
    matched = match_collectives(table(*(numbered(0, iteration=i) for i in iterations)))
    assert states(matched) == [("complete", "")]


@pytest.mark.parametrize(
    "epochs", [slow([0, 1], "counted ones are quick"), [None, None]], ids=["recorded", "counted"]
)
def test_a_rank_that_counts_anew_in_each_epoch_meets_one_that_counts_on(epochs: list[int | None]) -> None:
    rows = [record(start_s=1 + i, seq=i, iteration=i, epoch=epochs[0], group_size=2) for i in range(20)]
    anew = [row._replace(iteration=i % 10, epoch=epochs[i // 10]) for i, row in enumerate(rows)]
    assert set(states(match_collectives(table(rows, anew)))) == {("complete", "")}
    on = [row._replace(epoch=epochs[i // 10]) for i, row in enumerate(rows)]
    assert set(states(match_collectives(table(on, anew)))) == {("complete", "")}


# -- runs of a rank ------------------------------------------------------------------------------------


def test_the_first_run_of_a_rank_matches_the_first_of_the_others() -> None:
    rows = [numbered(0, 1, group_size=2)] * 4
    matched = match_collectives(table(*rows, incarnations=[1, 2, 3, 5]).assign(rank=[0] * 4 + [1] * 4))
    assert matched.groupby("instance")["incarnation"].apply(list).tolist() == [[1, 3], [1, 3], [2, 5], [2, 5]]
    assert states(matched) == [("complete", "")] * 4


def test_a_rank_of_which_the_first_file_is_lost_matches_the_others_second() -> None:
    rows = [numbered(0, 1, group_size=3)] * 5
    timings = table(*rows, incarnations=[1, 2, 1, 2, 2]).assign(rank=[0] * 4 + [1] * 4 + [2] * 2)
    matched = match_collectives(timings)
    assert matched.groupby("instance")["incarnation"].apply(list).tolist() == [[1, 1]] * 2 + [[2, 2, 2]] * 2
    missing = ("incomplete", "no rows of 1 of the group's ranks")
    assert states(matched) == [missing] * 2 + [("complete", "")] * 2


# -- by order --------------------------------------------------------------------------------------------


def unnumbered(*iterations: int | None, **fields: Any) -> list[Record]:
    return [record(start_s=1 + i, iteration=it, group_size=None, **fields) for i, it in enumerate(iterations)]


def test_without_numbers_the_order_in_an_iteration_counts() -> None:
    matched = match_collectives(table(*[unnumbered(0, 0, 1)] * 2))
    assert parts(matched) == [(0, [0, 3]), (1, [1, 4]), (2, [2, 5])]
    assert set(matched["matched_by"]) == {"ordinal"}


def test_the_order_is_that_of_the_starts_not_of_the_rows() -> None:
    late_first = [record(start_s=start, group_size=None) for start in (3.0, 2.0)]
    matched = match_collectives(table(unnumbered(0, 0), late_first))
    assert parts(matched) == [(0, [0, 3]), (1, [1, 2])]


def test_what_has_no_number_begins_no_other_generation_of_those_that_have_one() -> None:
    numberless, with_number = record(start_s=2.0, group_size=2), [record(start_s=1.0, group_size=2, seq=0)]
    before = [numberless, record(start_s=3.0, group_size=2, seq=0)]
    matched = match_collectives(table([*with_number, numberless], before))
    assert parts(matched) == [(0, [0, 3]), (1, [1, 2])]
    assert states(matched) == [("complete", "")] * 2


def test_a_lost_row_costs_its_iteration_only() -> None:
    matched = match_collectives(table(unnumbered(0, 0, 1, 1), unnumbered(0, 1, 1)))
    why = "no seq, and ranks have unequally many collectives in this iteration"
    assert [state for state, _ in states(matched)] == ["mismatched", "mismatched", "complete", "complete"]
    assert states(matched)[0] == ("mismatched", why)
    assert states(matched)[1] == ("mismatched", f"{why}; rank 1 missing")


@pytest.mark.slow("a rank that lacks a row is quick")
def test_a_rank_without_any_row_in_an_iteration_is_missing_there() -> None:
    matched = match_collectives(table(unnumbered(0, 1), unnumbered(0, 1), unnumbered(1)))
    assert states(matched) == [("incomplete", "rank 2 missing"), ("complete", "")]


@pytest.mark.slow("the order alone; what is matched by order is quick")
def test_rows_outside_of_any_iteration_are_matched_first() -> None:
    matched = match_collectives(table(*[unnumbered(0, None)] * 2))
    assert matched["iteration"].isna().tolist() == [True, True, False, False]


# -- tables ----------------------------------------------------------------------------------------------


def test_every_column_is_that_of_the_row() -> None:
    df = aligned(table(*[numbered(0, 1, phase="sparse")] * RANKS), 1e-6)
    matched = match_collectives(df)
    for name in ("group", "group_size", "seq", "iteration", "layer_name", "phase", "rank", "incarnation",
                 "elapsed_ms", "message_size_bytes", "start_s", "end_s", "clock_uncertainty_s"):  # fmt: skip
        expected = df[name].iloc[matched["row"]].reset_index(drop=True)
        pd.testing.assert_series_equal(matched[name], expected)


@pytest.mark.slow("that waits are unknown there is quick")
def test_without_a_common_axis_the_counters_stand_in_and_their_uncertainty_is_unknown() -> None:
    matched = match_collectives(table(*[numbered(0)] * RANKS))
    assert matched["start_s"].tolist() == [1.0] * RANKS
    assert matched["clock_uncertainty_s"].isna().all()


def test_ten_columns_are_enough() -> None:
    bare = table(*[unnumbered(0, 0, 1)] * 2)[[*BARE_COLUMNS, "rank"]]
    matched = match_collectives(bare)
    assert states(matched) == [("complete", "")] * 3
    assert matched["group"].tolist() == [""] * 6


@pytest.mark.parametrize("rows", [slow([], "no rows at all"), [record("FORWARD")]])
def test_no_collectives_give_no_rows_of_the_same_types(rows: list[Record]) -> None:
    matched = match_collectives(table(rows))
    assert len(matched) == 0
    assert matched.dtypes.to_dict() == match_collectives(table(*[numbered(0)] * RANKS)).dtypes.to_dict()


def test_polars_gives_what_pandas_gives() -> None:
    pytest.importorskip("polars")
    df = aligned(table(numbered(0, 1), numbered(1, iteration=None), unnumbered(0), numbered(0)))
    expected = match_collectives(df).to_dict("records")
    for row, other in zip(match_collectives(as_polars(df)).to_dicts(), expected, strict=True):
        assert {k: v for k, v in row.items() if not pd.isna(v)} == {
            k: v for k, v in other.items() if not pd.isna(v)
        }


@few_examples(2)
@given(st.lists(st.sets(st.integers(0, 6)), min_size=1, max_size=5))
def test_an_instance_has_the_rows_of_its_number_and_no_others(seqs_of_ranks: list[set[int]]) -> None:
    ranks = len(seqs_of_ranks)
    df = table(*(numbered(*sorted(seqs, reverse=True), group_size=ranks) for seqs in seqs_of_ranks))
    matched = match_collectives(df)
    assert sorted(matched["row"]) == list(range(len(df)))
    for _, rows in matched.groupby("instance"):
        (seq,) = set(rows["seq"])
        who = {rank for rank, seqs in enumerate(seqs_of_ranks) if seq in seqs}
        assert set(rows["rank"]) == who
        assert set(rows["state"]) == {"complete" if len(who) == ranks else "incomplete"}


def test_reasons_of_many_kinds_of_instances_are_told_apart() -> None:
    rows = [numbered(*range(rank, 40, rank + 1)) for rank in range(RANKS)]
    matched = match_collectives(table(*rows))
    for _, instance in matched.groupby("instance"):
        missing = sorted(set(range(RANKS)) - set(instance["rank"]))
        named = " and ".join(filter(None, [", ".join(map(str, missing[:-1])), *map(str, missing[-1:])]))
        why = f"rank{'s' if len(missing) > 1 else ''} {named} missing"
        assert set(instance["why"]) == {why if missing else ""}


@pytest.mark.parametrize(
    "name",
    [
        slow(" ALLREDUCE", "as the others"),
        slow("ALLREDUCE_DENSE ", "as the others"),
        "\tIALLREDUCE",
        " allreduce",
    ],
)
def test_blanks_around_a_name_make_no_other_operation_of_it(name: str) -> None:
    """Though the name is read as it was recorded."""
    ranks = collective([0, 1], 2, operation="X")
    timings = table(*ranks).assign(operation=name)
    matched = match_collectives(timings)
    assert matched["state"].tolist() == ["complete"] * 2
    assert {"ALLREDUCE"} == {base_operation(found) for found in matched["operation"]}
    assert (base_operation(name), goes_on(name)) == ("ALLREDUCE", "I" in name)


def test_a_name_with_blanks_that_is_no_operation_stays_as_it_is() -> None:
    assert (base_operation(" INDEX "), goes_on(" INDEX ")) == (" INDEX ", False)
