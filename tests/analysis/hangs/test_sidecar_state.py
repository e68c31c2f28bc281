"""What the sidecars tell of each process, whatever they lack."""

from __future__ import annotations

from typing import Any

import pytest

from timing_logger.analysis.hangs.sidecar_state import LastWords, Progress, Standstill, last_words
from timing_logger.schema.record import NS_PER_S
from timing_logger.schema.sidecar import OpenCallInfo

UNIX_S = 1_770_000_000
UNIX_NS = UNIX_S * NS_PER_S
MAPPED = {"clock_anchors": [{"perf_counter_ns": 0, "unix_ns": UNIX_NS, "uncertainty_ns": 0}]}


def words(rank: int = 0, incarnation: int = 1, **sidecar: Any) -> LastWords:
    file: Any = {"rank": rank, "incarnation": incarnation, "sidecar": sidecar}
    return last_words([file])[rank]


def at(counter_s: float) -> int:
    """Return the Unix time in ns at which ``perf_counter`` was this many seconds."""
    return UNIX_NS + round(counter_s * NS_PER_S)


# -- which process ---------------------------------------------------------------------------------------


def test_the_newest_process_of_each_rank_counts_whatever_the_order_of_files() -> None:
    files: Any = [
        {"rank": rank, "incarnation": incarnation, "sidecar": {"host": f"{rank}.{incarnation}"}}
        for rank, incarnation in ((2, 1), (0, 3), (2, 2), (0, 1), (1, 1))
    ]
    found = last_words(files)
    assert [(rank, one.rank, one.incarnation, one.host) for rank, one in found.items()] == [
        (0, 0, 3, "0.3"), (1, 1, 1, "1.1"), (2, 2, 2, "2.2"),
    ]  # fmt: skip


def test_of_files_of_one_process_the_first_counts() -> None:
    files: Any = [{"rank": 0, "incarnation": 1, "sidecar": {"host": host}} for host in ("a", "b")]
    assert last_words(files)[0].host == "a"


def test_a_file_without_a_sidecar_tells_its_rank_alone() -> None:
    files: Any = [{"rank": 4}]
    assert last_words(files) == {4: LastWords(4, 1)}
    assert words() == LastWords(0, 1)


# -- what it tells ---------------------------------------------------------------------------------------


def test_all_that_a_sidecar_states_is_told() -> None:
    told = words(
        3, 2, **MAPPED, closed=False, killed=True, updated_unix_ns=at(9), alive_unix_ns=at(10),
        options={"hang_after": 5}, signal="SIGTERM", ended_by="ValueError", ring_path="/dev/shm/a.ring",
        open_calls=[], groups=[], last_progress_counter_ns=7, idle_stack=["a", "b"], host="node0",
        imported={"not_told": ["end"], "goes_on": True}, n_groups=9,
    )  # fmt: skip
    assert told == LastWords(
        3, 2, closed=False, killed=True, updated_ns=at(9), alive_ns=at(10), has_heartbeat=True,
        offset_ns=UNIX_NS, hang_after_s=5.0, signal="SIGTERM", ended_by="ValueError", has_ring=True,
        has_further_groups=True, progressed_counter_ns=7, idle_stack=("a", "b"), host="node0",
        not_told=frozenset({"end"}), goes_on=True,
    )  # fmt: skip


def test_when_it_was_updated_is_unknown_where_0_is_stated() -> None:
    assert words(updated_unix_ns=0).updated_ns is None


@pytest.mark.parametrize("stated", [None, True, 1.5, "1"])
def test_when_it_was_seen_alive_is_known_of_a_whole_number_alone(stated: Any) -> None:
    assert words(alive_unix_ns=stated).alive_ns is None
    assert words(alive_unix_ns=5).alive_ns == 5


@pytest.mark.parametrize(
    "told", [{"open_calls": []}, {"groups": []}, {"last_progress_counter_ns": None}, {"closed": False}]
)
def test_a_logger_that_writes_of_its_calls_refreshes_its_sidecar(told: dict[str, Any]) -> None:
    assert words(**told).has_heartbeat is ("closed" not in told)


@pytest.mark.parametrize(
    ("stated", "found"),
    [
        (5, 5.0), (0.5, 0.5), (999_999_999, 999_999_999.0), (0, 60.0), (-1, 60.0), (1e9, 60.0), (True, 60.0),
        ("5", 60.0), (None, 60.0), (float("nan"), 60.0),
    ],
)  # fmt: skip
def test_a_call_hangs_after_the_stated_time_if_that_is_one(stated: Any, found: float) -> None:
    told = words(options={"hang_after": stated}).hang_after_s
    assert (told, type(told)) == (found, float)


@pytest.mark.parametrize(("imported", "goes_on"), [({"goes_on": 1}, False), ({}, False), (None, False)])
def test_an_import_goes_on_only_where_that_is_stated(imported: Any, goes_on: bool) -> None:
    assert words(imported=imported).goes_on is goes_on


def test_lone_surrogates_in_texts_are_escaped_as_in_rows() -> None:
    assert words(host="a\udcff").host == "a\\udcff"


def test_an_open_call_has_its_texts_and_numbers_and_none_for_the_others() -> None:
    (told,) = words(open_calls=[{"operation": "SEND", "group": "a\udcff", "seq": 3, "new": 1}]).open_calls
    assert told == OpenCallInfo("", "SEND", "", None, None, "a\\udcff", None, 3, None, None, None)


# -- progress --------------------------------------------------------------------------------------------


def test_progress_is_told_by_name_and_size_of_the_group() -> None:
    told = words(groups=[
        {"group": "world", "size": 4, "issued": 7, "completed": 5}, {"issued": 3}, {"group": "empty"},
    ])  # fmt: skip
    assert told.progress == {("world", 4): Progress(7, 5), ("", None): Progress(3, 3)}
    assert told.progress_in("world", 4) == Progress(7, 5)


def test_in_a_group_that_it_is_not_in_a_process_began_nothing() -> None:
    assert words(groups=[{"group": "world", "size": 4, "issued": 7}]).progress_in("world", 2) == Progress(
        0, 0
    )


def test_in_a_group_of_which_nothing_is_known_it_has_gone_past_all() -> None:
    told = words(n_groups=9, groups=[{"group": "world", "size": 4, "issued": 7}])
    assert told.progress_in("world", 4) == Progress(7, 7)
    unknown = told.progress_in("pair", 2)
    assert unknown.issued == unknown.completed > 10**18


def test_a_process_is_idle_from_its_last_progress_to_its_last_update() -> None:
    told = {"updated_unix_ns": at(12.5), "last_progress_counter_ns": 10 * NS_PER_S, **MAPPED}
    assert words(**told).idle_s == pytest.approx(2.5)
    for lacking in told:
        assert words(**{name: value for name, value in told.items() if name != lacking}).idle_s is None


def test_progress_at_0_of_the_counter_is_known() -> None:
    assert words(updated_unix_ns=at(3), last_progress_counter_ns=0, **MAPPED).idle_s == pytest.approx(3)


# -- standstills -----------------------------------------------------------------------------------------

STALL = {
    "since_counter_ns": 10, "until_counter_ns": 20, "stack": ["a"], "groups": [{"group": "g", "issued": 2}],
    "open_calls": [{"operation": "SEND"}],
}  # fmt: skip


def test_a_standstill_has_its_calls_progress_and_stack() -> None:
    told = words(last_stall=STALL, longest_stall={**STALL, "until_counter_ns": 30})
    call = OpenCallInfo("", "SEND", "", None, None, "", None, None, None, None, None)
    expected = Standstill(10, 20, (call,), {("g", None): Progress(2, 2)}, ("a",))
    assert told.last_stall == expected
    assert told.longest_stall is not None
    assert told.longest_stall.until_counter_ns == 30


@pytest.mark.parametrize(
    "entry",
    [
        None,
        {},
        {"since_counter_ns": 1},
        {"until_counter_ns": 1},
        {"since_counter_ns": None, "until_counter_ns": 1},
    ],
)
def test_a_standstill_without_begin_or_end_is_none(entry: Any) -> None:
    assert words(last_stall=entry).last_stall is None


def test_a_standstill_that_begins_at_0_of_the_counter_is_one() -> None:
    assert words(last_stall={"since_counter_ns": 0, "until_counter_ns": 0}).last_stall == Standstill(
        0, 0, (), {}, ()
    )


@pytest.mark.parametrize(
    ("changes", "until"),
    [
        ({}, 500),
        ({"updated_unix_ns": UNIX_NS + 15}, 20),
        ({"closed": True}, 20),
        ({"closed": None}, 20),
        ({"last_progress_counter_ns": 11}, 20),
        ({"updated_unix_ns": None}, 20),
        ({"clock_anchors": []}, 20),
    ],
    ids=["in it", "noted later", "closed", "may have closed", "went on", "no update", "no clock"],
)
def test_a_process_that_ended_in_a_standstill_stood_still_up_to_its_end(
    changes: dict[str, Any], until: int
) -> None:
    in_it = {"closed": False, "last_progress_counter_ns": 10, "updated_unix_ns": UNIX_NS + 500, **MAPPED}
    told = words(**{**in_it, "last_stall": STALL, **changes}).last_stall
    assert told is not None
    assert (told.since_counter_ns, told.until_counter_ns) == (10, until)
