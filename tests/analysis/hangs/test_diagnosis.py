"""A run that hung is never called healthy, and who is missing is named."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hung_runs import (
    END_S,
    HUNG_S,
    STUCK_AT_S,
    WORLD,
    Rank,
    allreduce,
    counted,
    inflight,
    open_call,
    trained,
    waiting,
    write_run,
)
from rank_tables import as_polars
from simulated_runs import data_parallel, factors
from slow import slow
from timing_files import EPOCH_S, record

from timing_logger import read_timings
from timing_logger.analysis import RunEnd, hang, stragglers
from timing_logger.analysis.hangs.diagnosis import HANG, run_end_of
from timing_logger.analysis.hangs.last_rows import last_rows
from timing_logger.analysis.verdict.verdict import map_judgement, reduce_judgement
from timing_logger.cli import main
from timing_logger.reading.named_ranks import select
from timing_logger.report import stragglers_text, verdict_sentence
from timing_logger.report.html.page import report_html
from timing_logger.schema.record import Record


def test_a_rank_that_never_arrives_is_named_with_what_it_did_last(tmp_path: Path) -> None:
    stuck = Rank(sidecar={"idle_stack": ["train.py:88 in load_batch", "train.py:120 in main"]})
    end = hang(read_timings(write_run(tmp_path, waiting(), waiting(), stuck, waiting())))
    (group,) = end.groups
    assert (group.group, group.seq, group.operation) == (WORLD, 10, "ALLREDUCE")
    assert (group.inside, group.missing, group.since_s) == ((0, 1, 3), (2,), HUNG_S)
    assert (end.state, end.ended, end.culprits) == ("hang", False, (2,))
    assert end.sentences[:2] == (
        "Rank 2 never entered ALLREDUCE 10 of MPI_COMM_WORLD, in which ranks 0, 1 and 3 have been for 118 s.",
        "Rank 2 was last seen at train.py:88 in load_batch; the last that it recorded was ALLREDUCE of "
        "iteration 9 (bucket0), 118 s before the run's last sign of life.",
    )


@pytest.mark.slow("the words of each fate are quick, and so is a rank that is gone")
def test_of_a_rank_that_was_killed_it_is_said_that_it_is_gone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_run(tmp_path, waiting(), waiting(), Rank(sidecar={"killed": True}), waiting())
    assert main(["hang", str(folder)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "Rank 2 ended without closing its log, as a killed process does; the last that it" in said
    assert "2 gone - - ALLREDUCE" in said


@pytest.mark.slow("one killed rank is quick, and so are the words of each fate")
def test_of_a_job_that_was_killed_as_a_whole_it_is_said_where_each_rank_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stuck = Rank(sidecar={"killed": True, "idle_stack": ["train.py:88 in load_batch"]})
    folder = write_run(tmp_path, waiting(killed=True), stuck, waiting(killed=True))
    assert main(["hang", str(folder)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "Rank 1 was last seen at train.py:88 in load_batch" in said


def test_the_command_says_it_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_run(tmp_path, waiting(), waiting(), Rank(), waiting())
    assert main(["hang", str(folder)]) == 0
    said = " ".join(capsys.readouterr().out.split())  # it may be wrapped anywhere
    assert said.startswith(
        "Rank 2 never entered ALLREDUCE 10 of MPI_COMM_WORLD, in which ranks 0, 1 and 3 have"
    )


@pytest.mark.slow("as --json and --fail-on of other commands; the answer is quick")
def test_the_command_gives_the_same_as_json_and_fails_where_it_shall(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_run(tmp_path, waiting(), waiting(), Rank(), waiting())
    assert main(["hang", str(folder), "--json", "--fail-on", "hang"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert not found["ended"]
    (group,) = found["groups"]
    named = {
        name: group[name]
        for name in ("group", "seq", "operation", "inside", "missing", "since_s", "mismatch")
    }
    assert named == {
        "group": WORLD, "seq": 10, "operation": "ALLREDUCE", "inside": [0, 1, 3], "missing": [2],
        "since_s": 118.0, "mismatch": "",
    }  # fmt: skip


@pytest.mark.slow("other commands; that of hangs is quick, and so is what it says")
@pytest.mark.parametrize("command", ["stragglers", "summary"])
def test_no_command_calls_it_healthy(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_run(tmp_path, waiting(), waiting(), Rank(), waiting())
    assert main([command, str(folder)]) == 0
    said = capsys.readouterr().out
    assert "Rank 2 never entered ALLREDUCE 10" in said
    assert "healthy" not in said


@pytest.mark.slow("the same answer by another command; what watching tells of groups is quick")
def test_whoever_watches_reads_who_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    goes_on = Rank([*trained(), record("FORWARD", END_S - 1, 900.0, iteration=10)], progressed_s=END_S)
    write_run(tmp_path, waiting(), waiting(), goes_on, waiting())
    assert main(["watch", "--once", str(tmp_path)]) == 0
    assert "Rank 2 never entered ALLREDUCE 10" in capsys.readouterr().out


@pytest.mark.slow("on a page; the answer is quick")
def test_the_page_says_it_at_its_top(tmp_path: Path) -> None:
    timings = read_timings(write_run(tmp_path, waiting(), waiting(), Rank(), waiting()))
    page = report_html(timings)
    said = page.index("Rank 2 never entered ALLREDUCE 10 of MPI_COMM_WORLD")
    assert said < page.index('id="verdict"')
    assert "No rank is slow" not in page


OF_MADE_CALLS = pytest.mark.slow("test_open_calls_at_the_end.py holds both sides of it, of made calls")


def ended(folder: Path, *ranks: Rank, **options: Any) -> RunEnd:
    """What ``hang`` says of a run of these ranks."""
    return hang(read_timings(write_run(folder, *ranks, **options)))


# -- the seven hangs -----------------------------------------------------------------------------------


@pytest.mark.slow("test_stuck_groups.py holds that they disagree, of made rows")
def test_ranks_in_different_collectives_disagree_and_none_is_missing(tmp_path: Path) -> None:
    other = Rank([*trained(), inflight("BARRIER", message_size_bytes=None)])
    end = ended(tmp_path, waiting(), other, waiting(), waiting())
    (group,) = end.groups
    assert (group.inside, group.missing) == ((0, 1, 2, 3), ())
    assert group.mismatch == "operations differ: ALLREDUCE on ranks 0, 2 and 3, BARRIER on rank 1"
    assert end.sentences[0] == (
        "Ranks disagree on a collective (number 10) of MPI_COMM_WORLD: operations differ: ALLREDUCE on ranks "
        "0, 2 and 3, BARRIER on rank 1; ranks 0 to 3 have been in it for 118 s."
    )


@pytest.mark.slow("test_stuck_groups.py holds that sizes differ, of made rows")
def test_ranks_that_bring_different_sizes_disagree(tmp_path: Path) -> None:
    other = Rank([*trained(), inflight(message_size_bytes=8192)])
    end = ended(tmp_path, waiting(), other, waiting(), waiting())
    assert end.groups[0].mismatch == "sizes differ: 4096 bytes on ranks 0, 2 and 3, 8192 bytes on rank 1"
    assert end.sentences[0].startswith("Ranks disagree on ALLREDUCE 10 of MPI_COMM_WORLD: sizes differ")


@pytest.mark.slow("test_who_waits.py holds which circles are told")
def test_ranks_that_wait_for_each_other_in_two_groups_are_a_circle(tmp_path: Path) -> None:
    one, two = ("pair 0", 3), ("pair 1", 7)

    def pair(mine: tuple[str, int], before: tuple[str, int]) -> Rank:
        met = [allreduce(9, group=name, group_size=2, seq=seq - 1) for name, seq in (one, two)]
        return Rank([*met, inflight(group=mine[0], seq=mine[1], group_size=2)])

    end = ended(tmp_path, pair(one, two), pair(two, one))
    assert [(group.group, group.inside, group.missing) for group in end.groups] == [
        ("pair 0", (0,), (1,)),
        ("pair 1", (1,), (0,)),
    ]
    assert (end.circle, end.culprits) == ((0, 1), ())
    assert end.sentences[0].startswith("Ranks 0 and 1 wait for each other in a circle (0 -> 1 -> 0)")


@pytest.mark.slow("test_stuck_groups.py holds who is silent, test_hang_in_words.py what is said of it")
@pytest.mark.parametrize("where", ["outside", "inside"])
def test_a_rank_that_died_was_stopped_or_is_stuck_in_c_is_gone(tmp_path: Path, where: str) -> None:
    rows = trained() if where == "outside" else [*trained(), inflight()]
    silent = Rank(rows, seen_s=STUCK_AT_S + 2)
    end = ended(tmp_path, waiting(), waiting(), silent, waiting())
    assert (end.gone, end.culprits) == ((2,), (2,))
    assert end.groups[0].missing == ((2,) if where == "outside" else ())
    said = " ".join(end.sentences)
    assert "Rank 2 is gone, stopped, or stuck in C code: its last sign of life was 116 s before" in said
    assert "sidecar" in said


@pytest.mark.slow("test_hang_in_words.py holds its words")
def test_a_rank_stuck_in_python_within_a_block_of_its_own_is_told_with_it(tmp_path: Path) -> None:
    own = {"group": "", "group_size": None, "seq": None, "layer_name": ""}
    rows = [*trained(), inflight("DATA", STUCK_AT_S + 1, **own)]
    stuck = Rank(rows, sidecar={"idle_stack": ["train.py:88 in load_batch"]})
    end = ended(tmp_path, waiting(), waiting(), stuck, waiting())
    assert end.culprits == (2,)
    assert end.sentences[1].startswith("Rank 2 has been in DATA for 117 s, at train.py:88 in load_batch;")


@pytest.mark.slow("test_hang_in_words.py holds its words; who is missing is quick")
def test_a_rank_that_closed_while_others_wait_for_it_is_told(tmp_path: Path) -> None:
    left = Rank(seen_s=STUCK_AT_S + 1, closed=True)
    end = ended(tmp_path, waiting(), waiting(), left, waiting())
    assert (end.state, end.groups[0].missing, end.gone) == ("hang", (2,), ())
    assert end.sentences[1].startswith("Rank 2 had come to its end and closed its log;")


# -- how it is known -----------------------------------------------------------------------------------


@pytest.mark.slow("test_open_calls_at_the_end.py holds it of made rows")
def test_a_call_that_the_sidecar_alone_knows_counts_and_one_that_both_know_counts_once(
    tmp_path: Path,
) -> None:
    unwritten = Rank(sidecar={"open_calls": [open_call()]})
    both = waiting(open_calls=[open_call()])
    end = ended(tmp_path, unwritten, both, Rank(), both)
    assert (end.groups[0].inside, end.groups[0].missing) == ((0, 1, 3), (2,))


@pytest.mark.slow("test_open_calls_at_the_end.py holds which call has its row")
def test_a_call_of_the_sidecar_whose_end_has_a_row_is_over(tmp_path: Path) -> None:
    late = Rank([*trained(), allreduce(10, start_ns=10 * 10**9, end_ns=100 * 10**9)])
    late.sidecar["open_calls"] = [open_call()]
    assert ended(tmp_path, late, late, late, late).state == "unfinished"


@pytest.mark.slow("test_stuck_groups.py holds it of made counts")
def test_where_sampling_leaves_out_the_rows_counts_tell_who_never_entered(tmp_path: Path) -> None:
    inside = Rank(sidecar={"groups": [counted(501, 500)]})
    missing = Rank(sidecar={"groups": [counted(500)]})
    end = ended(tmp_path, inside, inside, missing, inside)
    (group,) = end.groups
    assert (group.seq, group.inside, group.missing, group.since_s) == (500, (0, 1, 3), (2,), HUNG_S)
    assert end.culprits == (2,)


@pytest.mark.slow("test_stuck_groups.py holds it of made counts")
def test_a_rank_that_entered_by_its_counts_is_not_missing(tmp_path: Path) -> None:
    by_counts = Rank(sidecar={"groups": [counted(11, 10)]}, progressed_s=END_S - 40)
    end = ended(tmp_path, waiting(), by_counts, Rank(), waiting())
    assert (end.groups[0].inside, end.groups[0].missing) == ((0, 1, 3), (2,))
    assert end.groups[0].inside_s[1] == 40.0


@pytest.mark.slow("test_stuck_groups.py holds both sides of the 10 s")
@pytest.mark.parametrize(("idle_s", "is_inside"), [(9.0, False), (11.0, True)])
def test_the_counts_of_a_process_are_final_once_it_began_nothing_for_10_s(
    tmp_path: Path, idle_s: float, is_inside: bool
) -> None:
    by_counts = Rank(sidecar={"groups": [counted(11, 10)]}, progressed_s=END_S - idle_s)
    end = ended(tmp_path, waiting(), by_counts, Rank(), waiting())
    assert (1 in end.groups[0].inside) == is_inside


@OF_MADE_CALLS
@pytest.mark.parametrize(("open_s", "state"), [(59.0, "unfinished"), (61.0, "hang")])
def test_a_call_hangs_after_60_s_where_no_option_says_otherwise(
    tmp_path: Path, open_s: float, state: str
) -> None:
    inside = replace(waiting(options={}), seen_s=STUCK_AT_S + open_s)
    missing = Rank(seen_s=STUCK_AT_S + open_s, sidecar={"options": {}})
    assert ended(tmp_path, inside, inside, missing, inside).state == state


def test_collectives_timed_by_hand_are_matched_by_their_order(tmp_path: Path) -> None:
    by_hand: dict[str, Any] = {"group": "", "group_size": None, "seq": None, "iteration": None, "epoch": None}
    before = [allreduce(step, **by_hand) for step in range(20)]
    inside = Rank([*before, inflight(start_s=30.0, **by_hand)], seen_s=220.0)
    end = ended(tmp_path, inside, inside, Rank(before, seen_s=220.0), inside)
    (group,) = end.groups
    assert (group.inside, group.missing, group.seq) == ((0, 1, 3), (2,), None)
    assert (
        end.sentences[0] == "Rank 2 never entered ALLREDUCE, in which ranks 0, 1 and 3 have been for 190 s."
    )


@pytest.mark.slow("test_stuck_groups.py holds who is unread, of made rows")
def test_a_rank_without_a_file_is_told_and_nobody_else_blamed(tmp_path: Path) -> None:
    end = ended(tmp_path, waiting(), waiting(), waiting(), world_size=4)
    assert (end.groups[0].missing, end.groups[0].unread, end.culprits) == ((), (3,), ())
    assert end.sentences[0] == (
        "Ranks 0, 1 and 2 have been in ALLREDUCE 10 of MPI_COMM_WORLD for 118 s; nothing was read of rank 3."
    )


@pytest.mark.slow("test_open_calls_at_the_end.py holds which rows are of its last life")
def test_a_group_that_was_made_anew_is_compared_in_its_last_life(tmp_path: Path) -> None:
    again = [
        allreduce(seq, start_ns=(20 + seq) * 10**9, end_ns=(21 + seq) * 10**9, iteration=20)
        for seq in range(3)
    ]
    stuck = inflight(start_s=30.0, seq=3, iteration=30)
    inside = Rank([*trained(), *again, stuck])
    end = ended(tmp_path, inside, inside, Rank([*trained(), *again]), inside)
    assert (end.groups[0].seq, end.groups[0].inside, end.groups[0].missing) == (3, (0, 1, 3), (2,))


@pytest.mark.slow("test_open_calls_at_the_end.py holds where such a call comes")
def test_a_call_by_hand_that_the_sidecar_alone_knows_comes_after_the_rows(tmp_path: Path) -> None:
    by_hand: dict[str, Any] = {"group": "", "group_size": None, "seq": None, "iteration": None, "epoch": None}
    before = [allreduce(step, **by_hand) for step in range(10)]
    inside = Rank(before, sidecar={"open_calls": [open_call(**by_hand)]})
    end = ended(tmp_path, inside, inside, Rank(before), inside)
    assert (end.groups[0].inside, end.groups[0].missing) == ((0, 1, 3), (2,))


@pytest.mark.slow("test_group_members.py holds which ranks such a name lists")
def test_a_group_between_two_groups_has_the_ranks_of_both(tmp_path: Path) -> None:
    between = {"group": "ranks 0-1|2-3", "group_size": 4, "seq": 0}
    inside = Rank([*trained(), inflight("BARRIER", **between)])
    end = ended(tmp_path, inside, inside, Rank(), inside)
    assert (end.groups[0].inside, end.groups[0].missing) == ((0, 1, 3), (2,))


# -- chains ----------------------------------------------------------------------------------------------


@pytest.mark.slow("test_who_waits.py holds who is at the end of a chain")
def test_who_waits_in_another_group_is_not_the_culprit(tmp_path: Path) -> None:
    """Rank 1 is missing in the world's collective since it waits for rank 2 in a group of its own."""
    pair = {"group": "ranks 1,2", "group_size": 2}
    met = allreduce(9, **pair, seq=4)
    one = Rank([*trained(), met, inflight("BCAST", STUCK_AT_S + 5, **pair, seq=5, peer=1)])
    two = Rank([*trained(), met], sidecar={"idle_stack": ["data.py:7 in read"]})
    end = ended(tmp_path, waiting(), one, two, waiting())
    assert end.culprits == (2,)
    assert end.sentences[0].startswith(
        "Rank 2 never entered BCAST 5 of ranks 1,2, in which rank 1 has been for 113 s"
    )
    assert end.sentences[1].startswith("Rank 2 was last seen at data.py:7 in read;")
    assert end.sentences[2].startswith("Ranks 1 and 2 never entered ALLREDUCE 10 of MPI_COMM_WORLD")


@pytest.mark.slow("test_who_waits.py holds that it is a circle")
def test_sends_in_a_ring_are_a_circle(tmp_path: Path) -> None:
    def sender(rank: int) -> Rank:
        return Rank([*trained(), inflight("SEND", peer=(rank + 1) % 4, seq=0)])

    end = ended(tmp_path, *map(sender, range(4)))
    assert (end.circle, end.culprits) == ((0, 1, 2, 3), ())
    assert [(one.rank, one.peer, one.has_partner) for one in end.messages] == [
        (0, 1, False), (1, 2, False), (2, 3, False), (3, 0, False),
    ]  # fmt: skip
    assert "0 -> 1 -> 2 -> 3 -> 0" in end.sentences[0]


def listening(peer: int, *more: Record, **sidecar: Any) -> Rank:
    """Return a rank that posted a receive for a message which never has to come."""
    return Rank([*trained(), inflight("IRECV", 1.0, peer=peer, seq=0, iteration=0), *more], sidecar=sidecar)


@pytest.mark.slow("test_who_waits.py holds what is in the background")
def test_a_receive_that_nobody_waits_for_makes_no_circle_over_the_rank_that_is_stuck(tmp_path: Path) -> None:
    stuck = listening(0, idle_stack=["train.py:88 in load_batch"])
    end = ended(tmp_path, listening(3, inflight()), listening(0, inflight()), listening(1, inflight()), stuck)
    assert (end.culprits, end.circle) == ((3,), ())
    assert end.sentences[0].startswith("Rank 3 never entered ALLREDUCE 10 of MPI_COMM_WORLD")
    assert end.sentences[1].startswith("Rank 3 was last seen at train.py:88 in load_batch")
    assert end.sentences[2] == (
        "Rank 3 has had IRECV from rank 0 (number 0 of MPI_COMM_WORLD) under way for 127 s, and is in no "
        "call that waits for it."
    )


@pytest.mark.slow("test_who_waits_stuck_messages.py holds which are in the background")
def test_a_receive_in_the_background_that_a_call_waits_for_makes_its_rank_wait(tmp_path: Path) -> None:
    waits = inflight("WAIT", peer=1, seq=0, message_size_bytes=None)
    stuck = Rank([*trained(), inflight("IBARRIER")], sidecar={"idle_stack": ["train.py:88 in load_batch"]})
    end = ended(tmp_path, listening(1, waits), stuck, waiting(), waiting())
    assert not end.messages[0].in_background
    assert end.culprits[0] == 1


@pytest.mark.slow("test_who_waits.py holds what is in the background")
def test_a_collective_in_the_background_that_nobody_waits_for_holds_up_nobody(tmp_path: Path) -> None:
    begun = inflight("IALLREDUCE", 5.0, group="others", seq=0)
    met = allreduce(9, group="others", seq=3)
    stuck = Rank([*trained(), begun], sidecar={"idle_stack": ["train.py:88 in load_batch"]})
    end = ended(tmp_path, waiting(met), waiting(met), stuck, waiting(met))
    assert end.culprits == (2,)


@pytest.mark.slow("test_stuck_groups.py holds that they hang at once")
def test_ranks_in_different_collectives_are_told_at_once(tmp_path: Path) -> None:
    one = Rank([*trained(), inflight()], seen_s=STUCK_AT_S + 4)
    other = Rank([*trained(), inflight("BCAST", peer=0)], seen_s=STUCK_AT_S + 4)
    end = ended(tmp_path, one, other)
    assert end.state == "hang"
    assert end.sentences[0] == (
        "Ranks disagree on a collective (number 10) of MPI_COMM_WORLD: operations differ: ALLREDUCE on rank "
        "0, BCAST on rank 1; ranks 0 and 1 have been in it for 4.0 s."
    )


@pytest.mark.slow("test_hang_in_words.py holds that it is told what the other side does")
def test_a_receive_whose_sender_does_something_else_tells_what(tmp_path: Path) -> None:
    receiver = Rank([*trained(), inflight("RECV", peer=1, seq=0)])
    sender = Rank(sidecar={"idle_stack": ["train.py:88 in load_batch"]})
    idle = Rank(closed=True)
    end = ended(tmp_path, receiver, sender, idle, idle)
    assert end.culprits == (1,)
    assert end.sentences[0] == (
        "Rank 0 has been in RECV from rank 1 (number 0 of MPI_COMM_WORLD) for 118 s; rank 1 was last seen at "
        "train.py:88 in load_batch."
    )


@pytest.mark.slow("test_group_members.py holds which ranks such a name lists")
def test_a_peer_is_a_number_in_its_group(tmp_path: Path) -> None:
    split = {"group": "ranks 3,1", "group_size": 2, "seq": 0}
    met = allreduce(9, group="ranks 3,1", group_size=2, seq=0)
    receiver = Rank([*trained(), met, inflight("RECV", peer=0, **split)])
    end = ended(tmp_path, Rank(), receiver, Rank(), Rank([*trained(), met]))
    assert [(one.rank, one.peer) for one in end.messages] == [(1, 3)]


@pytest.mark.slow("its words and the search for the other side are quick")
def test_a_message_that_was_sent_under_another_tag_is_told(tmp_path: Path) -> None:
    receiver = Rank([*trained(), inflight("RECV", peer=1, seq=0)])
    sender = Rank([*trained(), record("SEND", 10.0, 1.0, group=WORLD, peer=0, seq=0)])
    end = ended(tmp_path, receiver, sender, Rank(), Rank())
    assert end.messages[0].has_partner
    assert "their tags may differ" in end.sentences[0]


@pytest.mark.slow("test_who_waits_stuck_messages.py holds that it is not stuck")
def test_a_send_that_was_received_hangs_nowhere_though_its_rank_waits_for_another_call_beside_it(
    tmp_path: Path,
) -> None:
    """As in ``Waitall([Irecv(source=1), Isend(dest=1)])``."""
    pair = [inflight("IRECV", peer=1, seq=0), inflight("ISEND", peer=1, seq=0)]
    receiver = Rank([*trained(), record("RECV", 10.0, 1.0, group=WORLD, peer=0, seq=0)])
    end = ended(tmp_path, Rank([*trained(), *pair]), receiver, Rank(), Rank())
    assert [(one.operation, one.peer) for one in end.messages] == [("IRECV", 1)]
    assert end.culprits == (1,)


@pytest.mark.slow("test_stuck_groups.py holds who is not blocked in it")
def test_an_exchange_in_the_background_that_one_rank_does_not_wait_for_is_that_ranks_doing(
    tmp_path: Path,
) -> None:
    """MPI may go on with it only while somebody is in a call of MPI."""
    begun = [*trained(), inflight("IALLREDUCE")]
    waits = Rank([*begun, inflight("WAIT", STUCK_AT_S + 1, message_size_bytes=None)])
    stuck = Rank(begun, sidecar={"idle_stack": ["train.py:88 in load_batch"]})
    end = ended(tmp_path, waits, waits, stuck, waits)
    assert (end.groups[0].unblocked, end.culprits, end.messages) == ((2,), (2,), ())
    assert "rank 2 has it under way too, but is not waiting for it" in end.sentences[0]


def test_a_run_in_which_ranks_fell_silent_and_the_others_are_idle_stands_still(tmp_path: Path) -> None:
    """The first pickled ``allreduce`` of mpi4py copies the communicator with the interpreter's lock held."""
    silent = Rank(trained(9), seen_s=9.0, progressed_s=9.0)
    end = ended(tmp_path, silent, Rank(sidecar={"idle_stack": ["train.py:88 in load_batch"]}), silent, silent)
    assert (end.state, end.culprits, end.gone) == ("hang", (), (0, 2, 3))
    assert end.sentences[0].startswith(
        "The run stands still: ranks 0, 2 and 3 fell silent, and of rank 1 nothing more was recorded."
    )
    assert "Rank 1 was last seen at train.py:88 in load_batch" in " ".join(end.sentences)


def test_a_rank_that_fell_silent_beside_others_that_train_on_is_no_hang(tmp_path: Path) -> None:
    silent = Rank(trained(9), seen_s=9.0, progressed_s=9.0)
    assert ended(tmp_path, silent, Rank(progressed_s=END_S - 1)).state == "unfinished"
    assert ended(tmp_path / "closed", silent, Rank(closed=True)).state == "unfinished"


@pytest.mark.slow("test_hang_in_words.py holds that nobody is missing")
def test_where_all_are_inside_nobody_is_blamed(tmp_path: Path) -> None:
    end = ended(tmp_path, waiting(), waiting(), waiting(), waiting())
    assert (end.state, end.culprits) == ("hang", ())
    assert "nobody is missing" in end.sentences[0]


@pytest.mark.slow("a rarer case of ranks that disagree, which is quick")
def test_a_rank_that_came_through_another_collective_makes_no_culprits_of_the_others(
    tmp_path: Path,
) -> None:
    """A root need not wait in a broadcast: rank 1 is one ahead, while the others never agreed with it."""
    ahead = record("BCAST", STUCK_AT_S, 1.0, group=WORLD, group_size=4, seq=10, peer=1, iteration=10)
    other = Rank([*trained(), ahead, inflight(start_s=STUCK_AT_S + 1, seq=11)])
    end = ended(tmp_path, waiting(), other, waiting(), waiting())
    assert end.culprits == ()
    assert end.sentences[0].startswith("Ranks disagree on a collective (number 10)")


def test_requests_whose_end_nobody_asked_for_are_no_hang(tmp_path: Path) -> None:
    forgetful = Rank(trained(20), sidecar={"groups": [counted(20, 15)]}, progressed_s=20.0)
    assert ended(tmp_path, *[forgetful] * 4).state == "unfinished"


# -- failures --------------------------------------------------------------------------------------------


def timed_out() -> Rank:
    """As gloo leaves it: the collective raised after a time limit, and the process came to its end."""
    return Rank([*trained(), allreduce(10, status="error:RuntimeError")], closed=True, seen_s=12.0)


@pytest.mark.slow("test_stuck_groups.py holds that such a failure hangs")
def test_ranks_that_failed_for_want_of_another_did_not_end_well(tmp_path: Path) -> None:
    end = ended(tmp_path, timed_out(), timed_out(), Rank(), timed_out())
    assert (end.state, end.groups[0].missing, end.culprits) == ("hang", (2,), (2,))
    assert end.sentences[0] == (
        "Rank 2 never entered ALLREDUCE 10 of MPI_COMM_WORLD, in which ranks 0, 1 and 3 failed "
        "(error:RuntimeError)."
    )
    verdict = stragglers(read_timings(tmp_path))
    assert verdict.verdict == "hang"
    assert "healthy" not in verdict_sentence(verdict)


@pytest.mark.slow("test_stuck_groups.py holds that such a failure is over")
def test_a_failure_that_the_group_recovered_from_is_no_hang(tmp_path: Path) -> None:
    failed, well = allreduce(10, status="error:RuntimeError"), allreduce(11)
    end = ended(
        tmp_path, Rank([*trained(), failed, well], closed=True), Rank([*trained(), well], closed=True)
    )
    assert end.state == "ended"


@pytest.mark.slow("test_stuck_groups.py holds that it is no hang")
def test_a_collective_that_raised_on_all_ranks_is_told_though_nobody_hung(tmp_path: Path) -> None:
    end = ended(tmp_path, *[timed_out()] * 4)
    assert (end.state, end.ended, end.culprits) == ("failed", True, ())
    assert end.warning == (
        "Ranks 0 to 3 failed (error:RuntimeError) in ALLREDUCE 10 of MPI_COMM_WORLD, after which its group "
        "never met again."
    )


@OF_MADE_CALLS
@pytest.mark.parametrize(("lasted_s", "state"), [(0.5, "ended"), (100.0, "hang")])
def test_an_interrupt_ends_a_run_and_is_no_hang_unless_it_ended_one(
    tmp_path: Path, lasted_s: float, state: str
) -> None:
    broken_off = record(
        "ALLREDUCE", STUCK_AT_S, 1000 * lasted_s, group=WORLD, seq=10, iteration=10,
        status="error:KeyboardInterrupt",
    )  # fmt: skip
    inside = Rank([*trained(), broken_off], closed=True, seen_s=STUCK_AT_S + lasted_s)
    end = ended(tmp_path, inside, inside, Rank(closed=True, seen_s=STUCK_AT_S + lasted_s), inside)
    assert (end.state, end.culprits) == (state, (2,) if state == "hang" else ())


@pytest.mark.slow("a rarer case of calls that are matched by their order, which is quick")
def test_a_root_that_is_far_ahead_by_hand_is_not_missing(tmp_path: Path) -> None:
    by_hand: dict[str, Any] = {"group": "", "group_size": None, "seq": None, "iteration": None, "epoch": None}
    before = [allreduce(step, **by_hand) for step in range(10)]
    ahead = Rank([allreduce(step, **by_hand) for step in range(200)], seen_s=200.0)
    stuck = Rank([*before, inflight(start_s=10.0, **by_hand)], seen_s=200.0)
    end = ended(tmp_path, ahead, stuck, stuck, stuck)
    assert (end.groups[0].inside, end.groups[0].missing) == ((1, 2, 3), ())


# -- no hangs --------------------------------------------------------------------------------------------


def control_thread(operation: str = "RECV") -> Record:
    return inflight(operation, 1.0, iteration=0, thread="control", group="control", seq=0, peer=None)


@pytest.mark.slow("test_open_calls_at_the_end.py holds that its call is not open")
def test_a_run_that_closed_while_a_control_thread_waited_is_no_hang(tmp_path: Path) -> None:
    end = ended(tmp_path, Rank([control_thread(), *trained()], closed=True), Rank(closed=True))
    assert (end.state, end.ended, end.groups, end.messages) == ("ended", True, (), ())


@pytest.mark.slow("test_open_calls_at_the_end.py holds that training beside it goes on")
@pytest.mark.parametrize("operation", ["RECV", slow("BCAST", "the same of a collective")])
def test_a_control_thread_that_waits_while_the_training_goes_on_is_no_hang(
    tmp_path: Path, operation: str
) -> None:
    long = trained(200)
    training = Rank([control_thread(operation), *long], seen_s=200.0, progressed_s=200.0)
    end = ended(tmp_path, training, training)
    assert (end.state, end.gone) == ("unfinished", ())


def test_a_killed_run_names_nobody_and_keeps_its_verdict(tmp_path: Path) -> None:
    killed = Rank(trained(40), seen_s=36.0, progressed_s=40.0)
    timings = read_timings(write_run(tmp_path, *[killed] * 4))
    end = hang(timings)
    assert (end.state, end.culprits, end.unclosed) == ("unfinished", (), (0, 1, 2, 3))
    assert end.sentences == (
        "The run did not end: 4 of 4 files were not closed, so it was killed or is still running. Nothing "
        "is known to hang.",
    )
    verdict = stragglers(timings)
    assert verdict.verdict != "hang"
    said = stragglers_text(verdict, timings[:0], 100)
    assert said.startswith("The run did not end")


def test_a_run_that_is_read_while_it_goes_on_is_in_progress(tmp_path: Path) -> None:
    young = Rank([*trained(), inflight()], seen_s=STUCK_AT_S + 20)
    timings = read_timings(write_run(tmp_path, young, young))
    now_s = EPOCH_S + STUCK_AT_S + 25
    assert hang(timings, now_unix_s=now_s).state == "running"


@pytest.mark.slow("a run that was killed is quick, and so is one in progress")
def test_a_run_that_is_read_long_after_its_last_sign_of_life_did_not_end(tmp_path: Path) -> None:
    young = Rank([*trained(), inflight()], seen_s=STUCK_AT_S + 20)
    timings = read_timings(write_run(tmp_path, young, young))
    assert hang(timings, now_unix_s=EPOCH_S + STUCK_AT_S + 625).state == "unfinished"


@pytest.mark.slow("test_hang_in_words.py holds the words of both")
def test_calls_that_were_open_when_sigterm_came_are_told_but_are_no_hang(tmp_path: Path) -> None:
    stopped = Rank([*trained(), inflight()], seen_s=STUCK_AT_S + 20, sidecar={"signal": "SIGTERM"})
    late = Rank(seen_s=STUCK_AT_S + 20, sidecar={"signal": "SIGTERM"})
    end = ended(tmp_path, stopped, late, stopped, stopped)
    assert (end.state, end.groups) == ("unfinished", ())
    assert (end.younger[0].inside, end.younger[0].missing) == ((0, 2, 3), (1,))
    assert "SIGTERM" in end.sentences[0]
    assert end.sentences[1].endswith("for 20 s, which is no hang yet; rank 1 had not entered it.")


@pytest.mark.slow("test_open_calls_at_the_end.py and test_sidecar_state.py hold it")
def test_the_option_says_from_when_on_a_call_hangs(tmp_path: Path) -> None:
    inside = Rank([*trained(), inflight()], seen_s=20.0, sidecar={"options": {"hang_after": 5}})
    assert ended(tmp_path, inside, Rank(seen_s=20.0), inside, inside).state == "hang"


def test_files_without_a_sidecar_tell_nothing_of_the_end(tmp_path: Path) -> None:
    write_run(tmp_path, Rank(), Rank())
    for sidecar in tmp_path.glob("*.json"):
        sidecar.unlink()
    end = hang(read_timings(tmp_path))
    assert (end.state, end.warning, end.sentences) == ("unknown", "", ())


# -- the verdict on slow ranks ---------------------------------------------------------------------------


def test_a_verdict_that_names_a_slow_rank_stands_beside_the_hang() -> None:
    factor = factors(40, 4, noise=0.02)
    factor[:, 1] *= 2
    table = data_parallel(factor, slow_operations=["BACKWARD"])
    end = RunEnd(state="hang", sentences=("Rank 2 never came.",))
    verdict = reduce_judgement([map_judgement(table)], end=end).verdict
    assert (verdict.verdict, verdict.ranks, verdict.end.hangs) == ("rank", (1,), True)
    said = stragglers_text(verdict, table[:0], 100)
    assert said.startswith("Rank 2 never came.\n\nVerdict: rank 1 costs this run ")


@pytest.mark.slow("the exit code, by the command; the answer is quick")
def test_fail_on_hang_fails(tmp_path: Path) -> None:
    write_run(tmp_path, waiting(), waiting(), Rank(), waiting())
    assert main(["stragglers", "--fail-on", "hang", str(tmp_path)]) == 1
    assert main(["stragglers", "--fail-on", "rank", str(tmp_path)]) == 0
    assert main(["hang", "--fail-on", "unfinished", str(tmp_path)]) == 0


# -- damaged sidecars ------------------------------------------------------------------------------------


HOSTILE: list[Any] = [None, [], {}, "x", 3, 2.5, True, -(2**70), [None, 3, {"group": []}], {"a": 1}, "\ud800"]
KEYS = [
    "open_calls", "groups", "updated_unix_ns", "closed", "signal", "idle_stack", "last_progress_counter_ns",
    "options", "world_size",
]  # fmt: skip


LEFT_OUT = "what has another type is left out when the sidecar is read, whatever its name"


@pytest.mark.slow("what has another type is left out when a file is read, which is quick")
@pytest.mark.parametrize("key", KEYS)
def test_a_sidecar_of_wrong_types_raises_nothing(tmp_path: Path, key: str) -> None:
    hostile = [Rank(sidecar={key: value}) for value in HOSTILE]
    with pytest.warns(UserWarning, match=f"no value that can be one for {key}"):
        timings = read_timings(write_run(tmp_path, waiting(), *hostile))
    json.dumps(hang(timings).as_dict())


ENTRY_KEYS = list({**open_call(), **counted(0)})


@pytest.mark.slow("test_sidecar_state.py holds what an entry of a sidecar gives")
@pytest.mark.parametrize(
    "key", ["start_counter_ns", *(slow(key, LEFT_OUT) for key in ENTRY_KEYS if key != "start_counter_ns")]
)
def test_entries_of_wrong_types_raise_nothing(tmp_path: Path, key: str) -> None:
    hostile = [
        Rank(
            sidecar={"open_calls": [{**open_call(), key: value}], "groups": [{**counted(11, 10), key: value}]}
        )
        for value in HOSTILE
    ]
    with pytest.warns(UserWarning, match="no value that can be one for"):
        timings = read_timings(write_run(tmp_path, waiting(), Rank(), *hostile))
    json.dumps(hang(timings).as_dict())


# -- whoever reads ---------------------------------------------------------------------------------------


def test_the_answer_from_files_one_by_one_and_of_polars_is_that_of_all_rows(tmp_path: Path) -> None:
    timings = read_timings(write_run(tmp_path, waiting(), waiting(), Rank(), waiting()))
    parts = []
    for rank in range(4):
        of_rank = select(timings, ranks=[rank])
        parts.append(HANG.map(of_rank))
    assert HANG.reduce(parts) == hang(timings)
    files = timings.attrs["files"]
    assert run_end_of([last_rows(as_polars(timings.drop(columns=["timestamp"])))], files) == hang(timings)


@pytest.mark.slow("the second engine")
@pytest.mark.parametrize("engine", ["pandas", "pyarrow"])
def test_every_engine_tells_the_same(tmp_path: Path, engine: str, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path, waiting(), waiting(), Rank(), waiting())
    for command in ("hang", "stragglers", "summary"):
        assert main([command, "--engine", engine, str(tmp_path)]) == 0
        assert "Rank 2 never entered ALLREDUCE 10" in capsys.readouterr().out
