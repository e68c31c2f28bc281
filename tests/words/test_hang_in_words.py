"""What is said of the end of a run, of results that are made by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from timing_logger.results.run_end import Fate, How, RankEnd, RunEnd, StuckGroup, StuckMessage
from timing_logger.words.hang import in_words, with_earlier

SETTLED = (
    "A rank counts as gone when its sidecar, which a living process refreshes every 10 s, is more than 30 s "
    "older than the newest."
)


def group(*inside: int, **fields: Any) -> StuckGroup:
    plain = {"group": "world", "group_size": 4, "seq": 7, "operation": "ALLREDUCE", "since_s": 90.0}
    return StuckGroup(**{**plain, "inside": inside, **fields})


def message(rank: int, peer: int | None = 1, operation: str = "RECV", **fields: Any) -> StuckMessage:
    plain = {
        "group": "world", "seq": 3, "thread": "MainThread", "iteration": None, "has_partner": False,
        "since_s": 80.0, "hangs": True,
    }  # fmt: skip
    return StuckMessage(**{**plain, "rank": rank, "peer": peer, "operation": operation, **fields})


def rank_end(rank: int, **fields: Any) -> RankEnd:
    plain: dict[str, Any] = {
        "incarnation": 1, "closed": False, "gone": False, "killed": False, "silent_s": 0.0, "operation": "",
        "layer_name": "", "iteration": None, "status": "", "ended_s": None, "busy_with": "", "busy_s": None,
        "idle_stack": (), "signal": "",
    }  # fmt: skip
    return RankEnd(**{**plain, "rank": rank, **fields})


def said(
    state: Any = "hang", *, n_hosts: int = 1, lacks: str = "", mixed: str = "", **fields: Any
) -> list[str]:
    """Return the sentences on a run whose end has these fields."""
    end = RunEnd(**{"state": state, "ranks": tuple(rank_end(rank) for rank in range(4)), **fields})
    return list(in_words(end, n_hosts=n_hosts, lacks=lacks, mixed=mixed).sentences)


def on_group(stuck: StuckGroup, **fields: Any) -> str:
    return said(groups=(stuck,), **fields)[0]


def on_message(stuck: StuckMessage, **fields: Any) -> str:
    return said(messages=(stuck,), **fields)[0]


def on_culprit(**fields: Any) -> str:
    """Return what is said of rank 3, for which rank 0 waits."""
    ranks = (*map(rank_end, range(3)), rank_end(3, **fields))
    return said(groups=(group(0, missing=(3,)),), culprits=(3,), ranks=ranks)[1]


# -- which sentences -------------------------------------------------------------------------------------


def test_of_an_end_of_which_nothing_is_known_nothing_is_said() -> None:
    assert said("unknown", mixed="two runs") == []
    assert said("unknown", lacks="rows of rank 3 are missing") == ["Rows of rank 3 are missing."]


def test_a_run_that_ended_is_said_to_have_ended() -> None:
    assert said("ended") == ["The run ended: every file was closed, and nothing was left open."]


def test_what_is_missing_and_what_is_mixed_comes_last() -> None:
    assert said("ended", lacks="rows are missing", mixed="they overlap")[1:] == [
        "Rows are missing.",
        "The files look like those of different runs, so nobody can be blamed: they overlap.",
    ]


def test_texts_of_the_run_are_escaped() -> None:
    assert "\n" not in on_group(group(0, group="a\nb"))


@pytest.mark.parametrize(("how", "told"), [("signal", True), ("interrupted", True), ("failed", False)])
def test_the_fates_of_a_run_that_did_not_hang_are_told_if_a_signal_ended_it(how: How, told: bool) -> None:
    fates = (Fate(how, "SIGTERM", (0,)),)
    assert any(one.startswith("What ended it") for one in said("ended", fates=fates)) is told
    assert sum(one.startswith("What ended it") for one in said("hang", fates=fates)) == 1
    assert said("unknown", fates=fates) == []


@pytest.mark.parametrize(
    ("fate", "told"),
    [
        (Fate("interrupted", "", (0,)), "rank 0 was interrupted, as by Ctrl-C"),
        (Fate("interrupted", "", (0, 1)), "ranks 0 and 1 were interrupted, as by Ctrl-C"),
        (Fate("signal", "SIGTERM", (2,)), "rank 2 got SIGTERM"),
        (Fate("killed", "", (1,)), "rank 1 ended without closing the log, as a killed process does"),
        (Fate("failed", "ValueError", (1,)), "rank 1 failed (ValueError)"),
    ],
)
def test_each_fate_has_its_words(fate: Fate, told: str) -> None:
    closed = Fate("closed", "", (3,))
    assert said(groups=(group(0),), fates=(fate, closed))[-1] == (
        f"What ended it: {told}; then rank 3 closed the log."
    )


def test_that_all_closed_their_logs_is_no_fate_worth_telling() -> None:
    assert not any(one.startswith("What ended") for one in said(fates=(Fate("closed", "", (0, 1)),)))


def test_an_earlier_hang_is_told_in_its_first_two_sentences() -> None:
    end, then = (
        RunEnd(state="ended", sentences=("It ended.",)),
        RunEnd(state="hang", sentences=("A.", "B.", "C.")),
    )
    assert with_earlier(end, then, 12.0).sentences == (
        "It ended.",
        "Before, the run stood still for 12 s, and went on: A. B.",
    )


@pytest.mark.parametrize(
    ("seconds", "told"), [(9.94, "9.9 s"), (9.95, "10 s"), (9.96, "10 s"), (0.04, "0.0 s"), (118.4, "118 s")]
)
def test_times_from_ten_seconds_on_have_no_tenths(seconds: float, told: str) -> None:
    assert f" for {told}," in on_group(group(0, since_s=seconds))


# -- on what it rests ------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["hang", "unfinished", "running"])
def test_when_a_rank_counts_as_gone_is_told_where_one_fell_silent(state: str) -> None:
    silent = (rank_end(0, gone=True), rank_end(1))
    killed = (rank_end(0, gone=True, killed=True), rank_end(1))
    assert SETTLED in said(state, ranks=silent, gone=(0,), unclosed=(0, 1))
    assert SETTLED not in said(state, ranks=killed, gone=(0,), unclosed=(0, 1))


def test_that_clocks_of_several_hosts_are_compared_is_told_where_times_count() -> None:
    clocks = "Times compare the wall clocks of 2 hosts, and are as far off as these differ."
    assert clocks in said(groups=(group(0),), n_hosts=2)
    assert clocks not in said(groups=(group(0),), n_hosts=1)
    assert clocks not in said("unfinished", unclosed=(0,), n_hosts=2)
    assert clocks in said("unfinished", gone=(0,), unclosed=(0,), n_hosts=2)


# -- no more than six ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "more"), [(6, []), (7, ["1 more calls hang."]), (8, ["2 more calls hang."])])
def test_six_collectives_are_told_and_the_others_counted(n: int, more: list[str]) -> None:
    told = said(groups=tuple(group(0, seq=seq) for seq in range(n)))
    assert [one.split(",")[0].rsplit(" for ")[0] for one in told[:6]] == [
        f"Rank 0 has been in ALLREDUCE {seq} of world" for seq in range(6)
    ]
    assert told[6:] == more


@pytest.mark.parametrize(("n", "more"), [(6, []), (7, ["1 more calls hang."]), (9, ["3 more calls hang."])])
def test_beside_a_collective_six_messages_are_told_and_the_others_counted(n: int, more: list[str]) -> None:
    told = said(groups=(group(0),), messages=tuple(message(2, seq=seq) for seq in range(n)))
    assert all(one.startswith("Rank 2 has been in RECV from rank 1") for one in told[1:7])
    assert told[7:] == more


def test_what_is_left_out_of_both_is_counted_together() -> None:
    groups, messages = tuple(group(0, seq=seq) for seq in range(7)), tuple(message(2) for _ in range(8))
    assert said(groups=groups, messages=messages)[-1] == "3 more calls hang."


def test_without_a_collective_seven_messages_are_told() -> None:
    seven, eight = (tuple(message(2) for _ in range(n)) for n in (7, 8))
    assert len(said(messages=seven)) == 7
    assert said(messages=eight)[7:] == ["1 more calls hang."]


@pytest.mark.parametrize(
    ("n", "more"),
    [
        (6, []),
        (7, ["The same may hold for 1 more ranks."]),
        (9, ["The same may hold for 3 more ranks."]),
    ],
)
def test_six_culprits_are_told_and_the_others_counted(n: int, more: list[str]) -> None:
    ranks = tuple(rank_end(rank) for rank in range(12))
    culprits = tuple(range(1, n + 1))
    told = said(groups=(group(0, missing=culprits),), culprits=culprits, ranks=ranks)[1:]
    assert [one.split(" is ")[0] for one in told[:6]] == [f"Rank {rank}" for rank in range(1, 7)]
    assert told[6:] == more


def test_of_a_culprit_of_which_nothing_is_known_nothing_is_said() -> None:
    assert len(said(groups=(group(0, missing=(9,)),), culprits=(9,))) == 1


def test_six_silent_six_younger_and_six_failed_are_told() -> None:
    ranks = tuple(rank_end(rank, gone=True) for rank in range(8))
    silent = said("unfinished", ranks=ranks, gone=tuple(range(8)), unclosed=tuple(range(8)))
    assert sum("is gone, stopped" in one for one in silent) == 6
    young = said("unfinished", younger=tuple(group(0, seq=seq) for seq in range(8)), unclosed=(0,))
    assert sum("is no hang yet" in one for one in young) == 6
    failed = said("failed", failed=tuple(group(failed={0: "error:E"}, seq=seq) for seq in range(8)))
    assert len(failed) == 6


# -- order -----------------------------------------------------------------------------------------------


def test_the_collective_next_to_the_cause_comes_first_and_its_culprits_after_it() -> None:
    far, among, near = (
        group(0, missing=(1,), seq=1),
        group(0, missing=(1, 3), seq=2),
        group(0, missing=(3,), seq=3),
    )
    told = said(groups=(far, among, near), culprits=(3,))
    assert [one[: one.index(",")] for one in (told[0], *told[2:])] == [
        "Rank 3 never entered ALLREDUCE 3 of world",
        "Ranks 1 and 3 never entered ALLREDUCE 2 of world",
        "Rank 1 never entered ALLREDUCE 1 of world",
    ]
    assert told[1].startswith("Rank 3 is in no call")


@pytest.mark.parametrize(
    ("near", "fields"),
    [
        (group(0, seq=3, mismatch="roots differ", missing=(2,)), {}),
        (group(0, seq=3, odd=(3,)), {}),
        (group(0, 3, seq=3, unblocked=(3,)), {}),
        (group(0, 3, seq=3), {"gone": (3,)}),
        (group(0, seq=3), {}),
    ],
    ids=["mismatch", "odd", "unblocked", "gone", "nobody"],
)
def test_a_collective_is_next_to_the_cause_by_whomever_its_ranks_wait_for(
    near: StuckGroup, fields: dict[str, Any]
) -> None:
    told = said(groups=(group(0, seq=1, missing=(1, 3)), near), culprits=(3,), **fields)
    assert "ALLREDUCE 3" in told[0]


@pytest.mark.parametrize("of_2", [{"odd": (2,)}, {"unblocked": (2,)}])
def test_a_collective_whose_ranks_wait_for_others_too_comes_later(of_2: dict[str, Any]) -> None:
    told = said(groups=(group(0, 2, seq=1, **of_2), group(0, seq=2, missing=(3,))), culprits=(3,))
    assert "ALLREDUCE 2" in told[0]


def test_messages_to_culprits_come_first_and_those_in_the_background_last() -> None:
    messages = (
        message(0, 3, in_background=True),
        message(1, 2),
        message(2, 3),
    )
    told = said(messages=messages, culprits=(3,))
    assert [one.split(",")[0].rsplit(" (")[0] for one in told[:3]] == [
        "Rank 2 has been in RECV from rank 3",
        "Rank 1 has been in RECV from rank 2",
        "Rank 0 has had RECV from rank 3",
    ]
    assert told[3].startswith("Rank 3 is in no call")


def test_beside_a_collective_messages_in_the_background_are_told_of_culprits_alone() -> None:
    messages = (message(0, 1, in_background=True), message(3, 1, in_background=True))
    told = said(groups=(group(0, missing=(3,)),), messages=messages, culprits=(3,))
    assert [one for one in told if "under way" in one] == [
        "Rank 3 has had RECV from rank 1 (number 3 of world) under way for 80 s, and is in no call that "
        "waits "
        "for it."
    ]


CIRCLE = (
    "Ranks 0 and 2 wait for each other in a circle (0 -> 2 -> 0): nobody in it can go on, so they "
    "communicate in different orders."
)


def test_a_circle_comes_first_unless_ranks_disagree() -> None:
    assert said(messages=(message(0, 2), message(2, 0)), circle=(0, 2))[0] == CIRCLE
    assert said(groups=(group(0),), circle=(0, 2))[0] == CIRCLE
    assert CIRCLE not in said(groups=(group(0, mismatch="roots differ"),), circle=(0, 2))


# -- on a collective -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stuck", "told"),
    [
        (
            group(0, 1, mismatch="sizes differ: 4 and 8", missing=(2,)),
            "Ranks disagree on ALLREDUCE 7 of world: sizes differ: 4 and 8; ranks 0 and 1 have been in "
            "it for "
            "90 s.",
        ),
        (
            group(mismatch="operations differ: A, B", failed={0: "error:E", 1: "error:F", 2: "error:E"}),
            "Ranks disagree on a collective (number 7) of world: operations differ: A, B; ranks 0 and 2 "
            "failed "
            "(error:E), rank 1 failed (error:F).",
        ),
        (
            group(0, missing=(2, 3)),
            "Ranks 2 and 3 never entered ALLREDUCE 7 of world, in which rank 0 has been for 90 s.",
        ),
        (
            group(0, missing=(2, 3), silent=(2,)),
            "Ranks 2 and 3 never entered ALLREDUCE 7 of world, in which rank 0 has been for 90 s.",
        ),
        (
            group(0, missing=(2,), silent=(2,), failed={1: "error:E"}),
            "Rank 2 left no sign of having entered ALLREDUCE 7 of world, in which rank 0 has been for "
            "90 s and "
            "rank 1 failed (error:E).",
        ),
        (
            group(missing=(2,), failed={1: "error:E"}),
            "Rank 2 never entered ALLREDUCE 7 of world, in which rank 1 failed (error:E).",
        ),
        (
            group(0, unread=(2,), failed={1: "error:E"}),
            "Rank 0 has been in ALLREDUCE 7 of world for 90 s and rank 1 failed (error:E) in ALLREDUCE 7 of "
            "world; nothing was read of rank 2.",
        ),
        (
            group(0, unknown_ranks=1),
            "Rank 0 has been in ALLREDUCE 7 of world for 90 s; nothing was read of 1 other rank of the "
            "group.",
        ),
        (
            group(0, unknown_ranks=2),
            "Rank 0 has been in ALLREDUCE 7 of world for 90 s; nothing was read of 2 other ranks of the "
            "group.",
        ),
        (
            group(0, 1, unblocked=(1,)),
            "Ranks 0 and 1 have been in ALLREDUCE 7 of world for 90 s; rank 1 has it under way too, but "
            "is not "
            "waiting for it.",
        ),
        (
            group(0, 1, 2, unblocked=(1, 2)),
            "Ranks 0, 1 and 2 have been in ALLREDUCE 7 of world for 90 s; ranks 1 and 2 have it under way "
            "too, but "
            "are not waiting for it.",
        ),
        (
            group(0, 1, since_s=None, group="", seq=None, operation=""),
            "Ranks 0 and 1 have been in a collective, and nobody is missing: what hangs is the exchange "
            "itself, "
            "in the network or the library, or ranks of which nothing was recorded.",
        ),
        (
            group(0, operation="", seq=0),
            "Rank 0 has been in a collective (number 0) of world for 90 s, and nobody is missing: what "
            "hangs is "
            "the exchange itself, in the network or the library, or ranks of which nothing was recorded.",
        ),
        (
            group(0, operation="NEW_GROUP", group="", seq=None, unread=(3,)),
            "Rank 0 has been in NEW_GROUP for 90 s; there is no file of rank 3, whose process has not "
            "started, "
            "or not come so far as to import torch or mpi4py.",
        ),
        (
            group(0, operation="NEW_GROUP", group="", seq=None, unread=(2, 3)),
            "Rank 0 has been in NEW_GROUP for 90 s; there are no files of ranks 2 and 3, whose "
            "processes have "
            "not started, or not come so far as to import torch or mpi4py.",
        ),
    ],
)  # fmt: skip
def test_a_collective_is_told_by_who_is_missing_or_else_by_what_is_known(
    stuck: StuckGroup, told: str
) -> None:
    assert on_group(stuck) == told


def test_a_rank_that_fell_silent_inside_is_told_before_those_that_do_not_wait() -> None:
    assert on_group(group(0, 1, 3, unblocked=(0,)), gone=(2, 3)) == (
        "Rank 3 fell silent inside ALLREDUCE 7 of world, in which ranks 0, 1 and 3 have been for 90 s."
    )


# -- on a message ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operation", "peer", "whom"),
    [
        ("RECV", 1, "from rank 1"),
        ("IRECV_INDEX", 1, "from rank 1"),
        ("SEND", 1, "to rank 1"),
        ("isend_index", 1, "to rank 1"),
        ("WIN_LOCK", 1, "of rank 1"),
        ("RECV", None, "from any source"),
        ("SEND", None, "to a rank that cannot be told"),
        ("WIN_LOCK", None, "of its window"),
    ],
)
def test_a_message_is_told_with_its_other_side(operation: str, peer: int | None, whom: str) -> None:
    told = on_message(message(0, peer, operation))
    assert told.startswith(f"Rank 0 has been in {operation} {whom} (number 3 of world) for 80 s")
    assert told.endswith(" for 80 s.") is (peer is None)


def test_a_message_without_a_number_or_a_name_of_its_group_is_told_without() -> None:
    assert on_message(message(0, None, seq=None)) == "Rank 0 has been in RECV from any source for 80 s."
    assert on_message(message(0, None, group="", since_s=None)) == (
        "Rank 0 has been in RECV from any source (number 3 of its group)."
    )


def test_of_the_other_side_it_is_told_what_it_does() -> None:
    start = "Rank 0 has been in RECV from rank 1 (number 3 of world) for 80 s"
    assert on_message(message(0)) == f"{start}; rank 1 is in no call that is recorded."
    assert on_message(message(0, has_partner=True)) == (
        f"{start}; rank 1 made the call that belongs to it, so their tags may differ."
    )
    assert on_message(message(0), ranks=(rank_end(0),)) == f"{start}, of which nothing was read."


# -- on a rank -------------------------------------------------------------------------------------------

NO_ROW = "; it has no row that tells an end."
STACK = ("train.py:8 in load", "train.py:1 in main")


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        (
            {"killed": True, "gone": True, "idle_stack": STACK},
            "ended without closing its log, as a killed process does; before, it was seen at train.py:8 "
            "in load",
        ),
        ({"killed": True, "gone": True}, "ended without closing its log, as a killed process does"),
        (
            {"gone": True, "silent_s": 40.0, "closed": True},
            "is gone, stopped, or stuck in C code: its last sign of life was 40 s before the run's last "
            "sign of "
            "life",
        ),
        (
            {"gone": True, "silent_s": None},
            "is gone, stopped, or stuck in C code: its last sign of life was at an unknown time",
        ),
        ({"closed": True, "busy_with": "DATA"}, "had come to its end and closed its log"),
        (
            {"busy_with": "DATA", "busy_s": 60.0, "idle_stack": STACK},
            "has been in DATA for 60 s, at train.py:8 in load",
        ),
        ({"busy_with": "DATA"}, "has been in DATA"),
        ({"idle_stack": STACK}, "was last seen at train.py:8 in load"),
        ({}, "is in no call that is recorded"),
    ],
)  # fmt: skip
def test_where_a_rank_is_is_told_by_the_surest_sign(fields: dict[str, Any], told: str) -> None:
    assert on_culprit(**fields) == f"Rank 3 {told}{NO_ROW}"


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"operation": "FORWARD"}, "FORWARD, at an unknown time"),
        (
            {"operation": "FORWARD", "iteration": 0, "ended_s": 3.0},
            "FORWARD of iteration 0, 3.0 s before the run's last sign of life",
        ),
        (
            {"operation": "SEND", "layer_name": "fc", "ended_s": 3.0, "status": "error:E"},
            "SEND (fc), 3.0 s before the run's last sign of life, which ended as error:E",
        ),
    ],
)
def test_the_last_that_a_rank_recorded_is_told(fields: dict[str, Any], told: str) -> None:
    assert on_culprit(**fields) == (
        f"Rank 3 is in no call that is recorded; the last that it recorded was {told}."
    )


def where_rank_1_is(**fields: Any) -> str:
    """Return what is told of rank 1, for which rank 0 waits in a message."""
    told: str = said(messages=(message(0), *fields.pop("others", ())), **fields)[0]
    return told.split("; ")[1]


def test_a_rank_in_a_collective_is_told_with_how_long_it_is_in_it() -> None:
    inside = group(1, 2, inside_s={1: 20.0, 2: 90.0}, hangs=False)
    assert where_rank_1_is(younger=(inside,)) == "rank 1 is in ALLREDUCE 7 of world for 20 s."
    assert where_rank_1_is(younger=(replace(inside, inside_s={}),)) == "rank 1 is in ALLREDUCE 7 of world."


@pytest.mark.parametrize("how", ["unblocked", "pending"])
def test_a_rank_that_only_has_a_collective_under_way_is_not_in_it(how: str) -> None:
    under_way = group(1, 2, **{how: (1,)})
    assert where_rank_1_is(younger=(under_way,)) == "rank 1 is in no call that is recorded."


def test_a_rank_in_a_message_is_told_with_it_unless_it_is_in_the_background() -> None:
    of_1 = message(1, 2, "SEND", since_s=70.0)
    assert where_rank_1_is(others=(of_1,)) == "rank 1 is in SEND for 70 s."
    posted = replace(of_1, in_background=True)
    assert where_rank_1_is(others=(posted,)) == "rank 1 is in no call that is recorded."


# -- standing still, and without a hang ------------------------------------------------------------------


def test_where_no_call_hangs_it_is_told_who_fell_silent_and_who_is_idle() -> None:
    ranks = (
        rank_end(0, idle_stack=STACK), rank_end(1), rank_end(2, gone=True, silent_s=40.0, idle_stack=STACK),
        rank_end(3, gone=True, killed=True),
    )  # fmt: skip
    told = said(ranks=ranks, gone=(2, 3), unclosed=(0, 1, 2))
    assert told[0] == (
        "The run stands still: ranks 2 and 3 fell silent, and of ranks 0 and 1 nothing more was recorded. No "
        "call is known to hang, so nobody can tell who waits for whom."
    )
    assert [one.split(" at ")[0].split(",")[0] for one in told[1:3]] == [
        "Rank 2 is gone",
        "Rank 0 was last seen",
    ]
    assert told[3:] == [SETTLED]


def test_a_run_in_progress_is_told_with_the_time_after_which_a_call_hangs() -> None:
    assert said("running", hang_after_s=59.6, unclosed=(0,)) == [
        "The run is in progress: nothing is open for longer than 60 s."
    ]


def test_where_all_files_here_were_closed_the_end_is_not_known() -> None:
    assert said("unfinished", lacks="rank 3 is missing") == [
        "Whether the run ended is not known: only the files that are here were closed.",
        "Rank 3 is missing.",
    ]


def test_a_run_that_did_not_end_is_told_with_its_files_and_the_signal() -> None:
    tail = "not closed, so it was killed or is still running"
    alone = (rank_end(0),)
    assert said("unfinished", ranks=alone, unclosed=(0,)) == [
        f"The run did not end: its file was {tail}. Nothing is known to hang."
    ]
    two = (rank_end(0, signal="SIGUSR1"), rank_end(1, signal="SIGTERM"), rank_end(2))
    assert said("unfinished", ranks=two, unclosed=(0,)) == [
        f"The run did not end: 1 of 3 files were {tail} (SIGTERM came). Nothing is known to hang."
    ]


def test_ranks_that_were_killed_come_first() -> None:
    one = (rank_end(0, killed=True, gone=True), rank_end(1), rank_end(2))
    assert said("running", ranks=one, gone=(0,))[0] == (
        "Rank 0 ended without closing its log, as a killed process does."
    )
    two = (*one[:2], rank_end(2, killed=True, gone=True))
    assert said("unfinished", ranks=two, gone=(0, 2))[0] == (
        "Ranks 0 and 2 ended without closing their logs, as killed processes do."
    )


def test_what_is_open_for_a_short_time_is_no_hang_yet() -> None:
    assert said("running", younger=(group(0, since_s=5.0, missing=(1,)), group(2, 3, since_s=None)))[1:] == [
        "Rank 0 is in ALLREDUCE 7 of world for 5.0 s, which is no hang yet; rank 1 had not entered it.",
        "Ranks 2 and 3 are in ALLREDUCE 7 of world, which is no hang yet.",
    ]


def test_of_what_nobody_is_in_nothing_is_said_even_where_ranks_disagree() -> None:
    assert len(said("running", younger=(group(), group(mismatch="roots differ")))) == 1


def test_that_ranks_disagree_is_told_of_whatever_age() -> None:
    told = said("running", younger=(group(0, 1, since_s=5.0, mismatch="roots differ"),))
    assert told[1:] == [
        "Ranks disagree on ALLREDUCE 7 of world: roots differ; ranks 0 and 1 have been in it for 5.0 s."
    ]


@pytest.mark.parametrize("state", ["failed", "unfinished", "running"])
def test_what_failed_is_told_where_a_run_did_not_hang(state: str) -> None:
    failed = (group(failed={0: "error:E", 1: "error:E"}),)
    assert said(state, failed=failed, unclosed=(0,))[-1] == (
        "Ranks 0 and 1 failed (error:E) in ALLREDUCE 7 of world, after which its group never met again."
    )
    assert not any("never met again" in one for one in said("hang", failed=failed))
