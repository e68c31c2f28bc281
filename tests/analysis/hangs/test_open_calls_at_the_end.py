"""Which calls were open at the end of a run, and since when, of rows that are made by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest
from endings import END_S, WORLD, call, ended, ending, ns, row, words
from slow import slow

from timing_logger.analysis.hangs.open_calls import Ending, integer_or_none, rows_by_rank
from timing_logger.analysis.hangs.sidecar_state import LastWords
from timing_logger.analysis.rows.analysis import EARLIER_IN_STEP


def hangs(*of: dict[str, Any], **of_rank: Any) -> list[bool]:
    """Tell of each row of rank 0 whether it hangs."""
    found: list[bool] = ending(*of, said=(words(0, **of_rank),)).rows["hangs"].tolist()
    return found


def failed(*of: dict[str, Any], said: tuple[LastWords, ...]) -> list[bool]:
    found: list[bool] = ending(*of, said=said).rows["failed"].tolist()
    return found


# -- small ones ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "found"), [(None, None), (math.nan, None), (0.0, 0), (7.0, 7)])
def test_a_number_of_a_row_is_an_integer_or_unknown(value: float | None, found: int | None) -> None:
    assert integer_or_none(value) == found


def test_the_time_before_the_end_is_at_least_0_and_unknown_of_an_unknown_instant() -> None:
    end = ending(row(0))
    assert end.before_the_end_s(END_S - 5) == 5
    assert end.before_the_end_s(END_S + 5) == 0
    assert end.before_the_end_s(math.nan) is None
    assert end.before_the_end_s(-math.inf) is None


def test_rows_of_each_rank_keep_their_index() -> None:
    found = rows_by_rank(ending(row(1), row(0), row(1, seq=11.0)).rows)
    assert {rank: of_rank.index.tolist() for rank, of_rank in found.items()} == {0: [1], 1: [0, 2]}


# -- which rows ------------------------------------------------------------------------------------------


def test_rows_of_earlier_processes_are_left_out() -> None:
    assert ending(row(0), row(0, incarnation=2), row(1), said=()).rows["incarnation"].tolist() == [2, 1]
    stated = (words(0, incarnation=2),)
    assert ending(row(0), row(0, incarnation=2), said=stated).rows["incarnation"].tolist() == [2]
    assert ending(row(0), row(1), said=(words(0, incarnation=2),)).rows["rank"].tolist() == [1]


@pytest.mark.parametrize(("fell_to", "n_left"), [(8, 2), (7, 1)])
def test_a_group_was_made_anew_where_its_numbers_fell_by_more_than_32(fell_to: int, n_left: int) -> None:
    found = ending(ended(0, began_s=10.0, seq=40.0), ended(0, began_s=20.0, seq=float(fell_to)))
    assert len(found.rows) == n_left


def test_a_group_was_made_anew_where_a_number_came_again_and_none_had_risen() -> None:
    again = ending(ended(0, began_s=10.0, seq=3.0), ended(0, began_s=20.0, seq=3.0))
    assert again.rows["start_counter"].tolist() == [20.0]
    other = ending(ended(0, began_s=10.0, seq=3.0), ended(0, began_s=20.0, seq=2.0))
    assert len(other.rows) == 2


@pytest.mark.parametrize(
    "fields",
    [
        {"group": "pair"},
        {"operation": "SEND"},
        *(
            slow(other, "as of another group")
            for other in ({"group_size": 2.0}, {"rank": 1}, {"seq": math.nan})
        ),
    ],
)
def test_only_collectives_of_one_rank_and_group_are_of_one_life(fields: dict[str, Any]) -> None:
    found = ending({**ended(0, began_s=10.0, seq=3.0), **fields}, ended(0, began_s=20.0, seq=3.0))
    assert len(found.rows) == 2


# -- calls that only the sidecar tells of ----------------------------------------------------------------


def told(*of: dict[str, Any], **fields: Any) -> list[Any]:
    """Return the rows that a call adds which the sidecar of rank 0 tells of."""
    found = ending(*of, said=(words(0, open_calls=(call(**fields),)),)).rows
    return found.to_dict("records")[len(of) :]


def test_a_call_that_the_sidecar_alone_tells_of_becomes_an_open_row() -> None:
    (found,) = told(row(1), peer=2, seq=None)
    expected = {
        **row(0), "peer": 2.0, "began_s": 100.0, "is_open": True, "is_collective": True, "failed": False,
        "hangs": True,
    }  # fmt: skip
    assert {name: value for name, value in found.items() if value == value} == {
        name: value for name, value in expected.items() if value == value and name != "seq"
    }
    assert found.keys() == {*expected, "ended_s"}


def test_a_call_without_a_start_began_at_an_unknown_time() -> None:
    (found,) = told(row(1), began_s=None)
    assert math.isnan(found["start_counter"])


@pytest.mark.parametrize(
    ("seq", "start_s", "n_added"),
    [(None, 100.0 + 5e-7, 0), (None, 100.0 - 2e-6, 1), (10, 150.0, 0), (10, None, 0), (11, 150.0, 1),
     *(pytest.param(*other, marks=pytest.mark.slow("as one of these"))
       for other in [(None, 100.0, 0), (None, 100.0 - 5e-7, 0), (None, 100.0 + 2e-6, 1), (None, None, 1)])],
)  # fmt: skip
def test_a_call_has_its_row_by_start_or_number(seq: int | None, start_s: float | None, n_added: int) -> None:
    assert len(told(row(0), seq=seq, began_s=start_s)) == n_added


@pytest.mark.parametrize(
    "fields", [{"operation": "BCAST"}, slow({"group": "pair"}, "as of another operation")]
)
def test_a_row_of_another_operation_or_group_is_not_of_the_call(fields: dict[str, Any]) -> None:
    assert len(told({**row(0), **fields})) == 1


@pytest.mark.parametrize(
    ("of_row", "of_call", "n_added"),
    [
        (2.0, None, 1),
        (2.0, 2, 0),
        *(
            pytest.param(*other, marks=pytest.mark.slow("as where the row has a peer"))
            for other in ((math.nan, None, 0), (math.nan, 2, 1))
        ),
    ],
)
def test_calls_of_one_number_are_told_apart_by_their_peers(
    of_row: float, of_call: int | None, n_added: int
) -> None:
    assert len(told(row(0, peer=of_row), peer=of_call, began_s=None)) == n_added


def test_a_call_without_a_number_comes_after_those_of_its_group_in_its_step() -> None:
    mine = ended(0, **{"seq": math.nan, EARLIER_IN_STEP: 2})
    (found,) = told(mine, seq=None)
    assert found[EARLIER_IN_STEP] == 3
    (found,) = told({**mine, "iteration": 4.0}, seq=None)
    assert found[EARLIER_IN_STEP] == 0
    (found,) = told(mine, seq=12)
    assert found[EARLIER_IN_STEP] == 0


@pytest.mark.slow("a call of another step, or with a number, is quick")
def test_a_call_of_another_group_kind_or_unknown_step_comes_after_none_of_these() -> None:
    mine = ended(0, **{"seq": math.nan, EARLIER_IN_STEP: 2})
    for other in ({"epoch": 1.0}, {"group_size": 2.0}, {"group": "pair"}, {"seq": 1.0}):
        (found,) = told({**mine, **other}, seq=None)
        assert found[EARLIER_IN_STEP] == 0
    (found,) = told({**mine, "operation": "SEND"}, seq=None, operation="SEND")
    assert found[EARLIER_IN_STEP] == 0
    (found,) = told({**mine, "iteration": math.nan}, seq=None, iteration=None)
    assert found[EARLIER_IN_STEP] == 3
    (found,) = told(mine, seq=None, iteration=None)
    assert found[EARLIER_IN_STEP] == 0


# -- when ------------------------------------------------------------------------------------------------


def test_a_rank_without_a_clock_has_the_median_offset_of_the_others() -> None:
    offsets = {0: ns(10), 1: ns(30), 2: ns(20), 3: None}
    said = tuple(words(rank, offset_ns=offset, updated_ns=None) for rank, offset in offsets.items())
    found = ending(*(ended(rank) for rank in range(4)), said=said)
    assert found.rows["began_s"].tolist() == [100.0, 120.0, 110.0, 110.0]
    assert found.rows["ended_s"].tolist() == [101.0, 121.0, 111.0, 111.0]
    assert found.seen_s == {0: 101.0, 1: 121.0, 2: 111.0, 3: 111.0}


def test_where_no_clock_is_known_the_times_of_sidecars_do_not_count() -> None:
    found = ending(ended(0), said=(words(0, offset_ns=None),))
    assert (found.rows["began_s"].tolist(), found.last_sign_s) == ([90.0], 91.0)


def test_the_last_sign_of_life_is_the_latest_of_rows_and_sidecars() -> None:
    said = (
        words(0, updated_ns=ns(50)),
        words(1, updated_ns=None),
        words(2, not_told=frozenset({"instants"})),
    )
    found = ending(ended(0), row(1), ended(2, began_s=300.0), said=said)
    assert (found.seen_s, found.last_sign_s) == ({0: 91.0, 1: 100.0, 2: 200.0}, 200.0)
    alive = ending(ended(0), said=(words(0, alive_ns=ns(250)),))
    assert (alive.seen_s, alive.last_sign_s) == ({0: 200.0}, 250.0)


def test_of_a_run_without_any_time_the_last_sign_is_unknown() -> None:
    found = ending(row(0, began_s=math.nan), said=(words(0, updated_ns=None),))
    assert (found.seen_s, math.isnan(found.last_sign_s)) == ({}, True)


def test_a_call_of_a_process_that_closed_is_not_open_any_more() -> None:
    def of(closed: bool | None) -> tuple[list[str], list[bool]]:
        found: Ending = ending(row(0), said=(words(0, closed=closed),))
        return found.rows["status"].tolist(), found.rows["is_open"].tolist()

    assert of(True) == (["unresolved"], [False])
    assert of(False) == of(None) == (["inflight"], [True])


# -- which hang ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("began_s", "found"),
    [pytest.param(139.9, True, marks=pytest.mark.slow("as at 140")), (140.0, True), (140.1, False)],
)
def test_a_call_hangs_that_was_open_for_60_s(began_s: float, found: bool) -> None:
    assert hangs(row(0, began_s=began_s)) == [found]
    assert hangs(row(0, began_s=began_s - 40), hang_after_s=100.0) == [found]


@pytest.mark.parametrize(
    ("other", "goes_on"),
    [
        (ended(0, began_s=170.0), True),
        (ended(0, began_s=159.1), True),  # ends after the 160 s at which the call is long open
        (ended(0, began_s=159.0), False),
        (ended(0, "FORWARD", 170.0), False),
        (ended(0, "FORWARD", 170.0, iteration=6.0), True),
        *(
            pytest.param(other, False, marks=pytest.mark.slow("a rarer row beside it"))
            for other in (
                ended(0, "FORWARD", 170.0, iteration=4.0),
                row(0, "FORWARD", 170.0, iteration=6.0),
                ended(0, began_s=100.0, end_counter=170.0),
            )
        ),
    ],
)
def test_a_call_beside_which_the_training_goes_on_is_no_hang(other: dict[str, Any], goes_on: bool) -> None:
    assert hangs(row(0, "RECV"), other)[0] is not goes_on


def test_what_ended_long_ago_tells_of_no_training_that_goes_on() -> None:
    control = row(0, "RECV", began_s=10.0)
    assert hangs(control, ended(0, began_s=138.0)) == [True, False]
    assert hangs(control, ended(0, began_s=139.5)) == [False, False]


@pytest.mark.parametrize(
    ("progressed_s", "found"),
    [
        (160.0, True),
        (160.1, False),
        *(
            pytest.param(*other, marks=pytest.mark.slow("farther from the same bound"))
            for other in ((100.0, True), (199.0, False))
        ),
    ],
)
def test_where_rows_say_nothing_the_last_progress_tells_whether_training_goes_on(
    progressed_s: float, found: bool
) -> None:
    assert hangs(row(0), progressed_counter_ns=ns(progressed_s)) == [found]


@pytest.mark.parametrize(("progressed_s", "found"), [(139.9, True), (140.1, False)])
def test_progress_counts_that_was_made_not_long_before_the_end(progressed_s: float, found: bool) -> None:
    assert hangs(row(0, began_s=10.0), progressed_counter_ns=ns(progressed_s)) == [found]


def test_of_unknown_progress_a_call_is_taken_to_hang() -> None:
    assert hangs(row(0), progressed_counter_ns=None) == [True]


# -- which failed ----------------------------------------------------------------------------------------


def broke(rank: int = 0, status: str = "error:E", ended_s: float = 102.0) -> dict[str, Any]:
    return row(rank, end_counter=ended_s, status=status)


@pytest.mark.parametrize(
    ("status", "ended_s", "found"),
    [
        ("error:E", 102.0, True),
        ("error:InvalidValue", 190.0, False),
        ("ok", 190.0, False),
        ("error:KeyboardInterrupt", 159.9, False),
        ("error:KeyboardInterrupt", 160.0, True),
        ("error:SystemExit", 159.9, False),
    ],
)
def test_a_call_failed_that_raised_and_an_interrupted_one_only_after_a_hang(
    status: str, ended_s: float, found: bool
) -> None:
    assert failed(broke(status=status, ended_s=ended_s), said=(words(0),)) == [found]


@pytest.mark.parametrize(("ended_s", "found"), [(100.4, True), (100.6, False), (170.0, True)])
@pytest.mark.parametrize(
    "how",
    [
        {"closed": True, "signal": "SIGTERM"},
        slow(
            {"closed": True, "ended_by": "KeyboardInterrupt"},
            "which signals do, test_diagnosis_fates_by_hand.py holds",
        ),
    ],
)
def test_what_fails_from_two_seconds_before_another_rank_was_interrupted_is_its_doing(
    how: dict[str, Any], ended_s: float, found: bool
) -> None:
    other = words(1, updated_ns=ns(102.5), **how)
    assert failed(broke(ended_s=ended_s), said=(words(0), other)) == [found]


KILLED = {"killed": True, "has_ring": True, "open_calls": (call("RECV", seq=0),)}


@pytest.mark.parametrize(("ended_s", "found"), [(102.4, True), (102.5, False)])
def test_what_fails_after_another_rank_was_killed_in_a_call_is_its_doing(ended_s: float, found: bool) -> None:
    assert (
        failed(broke(ended_s=ended_s), said=(words(0), words(1, updated_ns=ns(102.5), **KILLED)))[0] is found
    )


@pytest.mark.parametrize(
    "fields",
    [
        {**KILLED, "has_ring": False}, {**KILLED, "open_calls": ()},
        {"closed": True, "ended_by": "ValueError"},
        slow({**KILLED, "killed": False}, "as a plain end"), slow({"closed": True}, "as a plain end"),
        slow({"closed": False, "signal": "SIGTERM"}, "test_diagnosis_fates_by_hand.py holds it"),
    ],
)  # fmt: skip
def test_what_fails_after_another_rank_ended_otherwise_failed_of_itself(fields: dict[str, Any]) -> None:
    other = words(1, **{"updated_ns": ns(100.5), **fields})
    assert failed(broke(), said=(words(0), other))[0] is True


def test_a_failure_of_the_interrupted_rank_itself_is_its_own() -> None:
    assert failed(broke(), said=(words(0, closed=True, signal="SIGTERM", updated_ns=ns(100.5)),)) == [True]


def test_a_rank_with_rows_alone_has_the_last_words_of_which_nothing_is_known() -> None:
    found = ending(row(2, group=WORLD), row(0), said=(words(1),))
    assert list(found.words) == [0, 1, 2]
    assert found.words[2] == LastWords(2, 1)
