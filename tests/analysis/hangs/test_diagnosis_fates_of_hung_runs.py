"""How a run ended never hides what it hung in: the ranks are told as they stood, and then what ended it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hung_runs import END_S, STUCK_AT_S, Rank, counted, inflight, open_call, trained, write_run
from processes import run_python
from timing_files import record

from timing_logger import read_timings
from timing_logger.analysis import RunEnd, hang
from timing_logger.schema.record import NS_PER_S, Record

STACK = ["train.py:88 in load_batch", "train.py:120 in main"]
NEVER_CAME = (
    "Rank 1 never entered ALLREDUCE 10 of MPI_COMM_WORLD, in which ranks 0, 2 and 3 have been for 118 s."
)
LAST_SEEN = "Rank 1 was last seen at train.py:88 in load_batch"


def stall(*open_calls: dict[str, Any], since_s: float = STUCK_AT_S, until_s: float = END_S) -> dict[str, Any]:
    """Return a standstill as it is in a sidecar."""
    return {
        "since_counter_ns": round(since_s * NS_PER_S), "until_counter_ns": round(until_s * NS_PER_S),
        "open_calls": list(open_calls), "groups": [counted(11 if open_calls else 10, 10)], "stack": STACK,
    }  # fmt: skip


def was_inside(status: str, **sidecar: Any) -> Rank:
    """Return a rank that was in the world's collective until that ended, a moment after the standstill."""
    row = record(
        "ALLREDUCE", STUCK_AT_S, 1000 * (END_S + 0.2 - STUCK_AT_S), iteration=10, group="MPI_COMM_WORLD",
        group_size=4, seq=10, status=status, layer_name="bucket0",
    )  # fmt: skip
    stalls = dict.fromkeys(("last_stall", "longest_stall"), stall(open_call()))
    return Rank([*trained(), row], closed=True, seen_s=END_S + 0.3, sidecar={**stalls, **sidecar})


def was_stuck(*, ended_s: float = END_S + 0.3, closed: bool = True, **sidecar: Any) -> Rank:
    """Return a rank that was in its own code."""
    stalls = dict.fromkeys(("last_stall", "longest_stall"), stall())
    return Rank(seen_s=ended_s, closed=closed, sidecar={**stalls, **sidecar})


def ended(folder: Path, inside: Rank, stuck: Rank) -> RunEnd:
    return hang(read_timings(write_run(folder, inside, stuck, inside, inside)))


# -- as it stood -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("inside", "stuck", "what"),
    [
        (
            was_inside("error:KeyboardInterrupt", ended_by="KeyboardInterrupt"),
            was_stuck(ended_by="KeyboardInterrupt"),
            "What ended it: ranks 0 to 3 were interrupted, as by Ctrl-C.",
        ),
        (
            was_inside("error:RuntimeError", ended_by="RuntimeError"),
            was_stuck(closed=False, killed=True, ring_path="/dev/shm/gone.ring", ended_s=END_S),
            "What ended it: rank 1 ended without closing the log, as a killed process does; then ranks 0, 2 "
            "and 3 failed (RuntimeError).",
        ),
        pytest.param(
            was_inside("error:RuntimeError", ended_by="RuntimeError"),
            was_stuck(closed=False, killed=True, ring_path="/dev/shm/gone.ring", ended_s=END_S + 2),
            "What ended it: ranks 0, 2 and 3 failed (RuntimeError); then rank 1 ended without closing the "
            "log, as a killed process does.",
            marks=pytest.mark.slow("as the one before it, in another order"),
        ),
        pytest.param(
            was_inside("unresolved", signal="SIGTERM"),
            was_stuck(signal="SIGTERM"),
            "What ended it: ranks 0 to 3 got SIGTERM.",
            marks=pytest.mark.slow("test_diagnosis_fates_by_hand.py holds how each fate is told"),
        ),
    ],
    ids=["interrupt", "kill", "time-out", "sigterm"],
)  # fmt: skip
def test_a_hang_that_was_ended_is_told_as_while_it_lasted(
    tmp_path: Path, inside: Rank, stuck: Rank, what: str
) -> None:
    end = ended(tmp_path, inside, stuck)
    assert (end.state, end.culprits, end.groups[0].inside) == ("hang", (1,), (0, 2, 3))
    assert end.sentences[0] == NEVER_CAME
    assert end.sentences[1].startswith(LAST_SEEN)
    assert end.sentences[2] == what


@pytest.mark.slow("test_sidecar_state_stalls.py holds who had ended by then")
def test_a_rank_that_was_killed_long_before_the_others_gave_up_is_gone(tmp_path: Path) -> None:
    stuck = was_stuck(closed=False, killed=True, ended_s=STUCK_AT_S + 5)
    early = stall(until_s=STUCK_AT_S + 5)
    stuck.sidecar |= {"last_stall": early, "longest_stall": early}
    end = ended(tmp_path, was_inside("error:RuntimeError"), stuck)
    assert (end.culprits, end.gone) == ((1,), (1,))


def that_went_on(**sidecar: Any) -> tuple[Rank, Rank]:
    """Return a rank that was in a collective for 118 s, and the one that came late; then both go on."""
    more = [
        record(
            "ALLREDUCE", END_S + step, 500.0, iteration=step, group="MPI_COMM_WORLD", group_size=4, seq=step
        )
        for step in range(10, 14)
    ]
    inside, came_late = was_inside("ok", **sidecar), was_stuck(**sidecar)
    inside.rows, came_late.rows = [*inside.rows, *more[1:]], [*came_late.rows, *more]
    inside.seen_s = came_late.seen_s = END_S + 20
    return inside, came_late


@pytest.mark.slow(
    "test_sidecar_state_stalls.py holds which standstill counts, test_hang_in_words.py its words"
)
def test_of_what_ranks_stood_in_at_different_times_the_longest_is_told(tmp_path: Path) -> None:
    inside, came_late = that_went_on(last_stall=None)
    brief = stall(open_call("BARRIER", END_S + 14, seq=14), since_s=END_S + 14, until_s=END_S + 84)
    also_brief = replace(inside, sidecar={**inside.sidecar, "longest_stall": brief}, seen_s=END_S + 85)
    end = hang(read_timings(write_run(tmp_path, inside, came_late, inside, also_brief)))
    assert end.sentences[1].startswith(f"Before, the run stood still for 118 s, and went on: {NEVER_CAME}")


@pytest.mark.slow("test_sidecar_state_stalls.py holds which runs went on, test_hang_in_words.py the words")
def test_a_hang_from_which_the_run_went_on_is_told_beside_how_it_ended(tmp_path: Path) -> None:
    end = ended(tmp_path, *that_went_on())
    assert end.state == "ended"
    assert end.sentences[0].startswith("The run ended: every file was closed")
    assert end.sentences[1].startswith(f"Before, the run stood still for 118 s, and went on: {NEVER_CAME}")


# -- without a standstill --------------------------------------------------------------------------------


def broke(status: str) -> Record:
    group: dict[str, Any] = {"group": "MPI_COMM_WORLD", "group_size": 4, "seq": 10}
    return record("ALLREDUCE", STUCK_AT_S, 500.0, iteration=10, status=status, **group)


@pytest.mark.slow("test_open_calls_at_the_end.py holds whose doing it is")
def test_what_fails_because_a_peer_was_interrupted_is_no_failure_of_its_own(tmp_path: Path) -> None:
    failed = Rank([*trained(), broke("error:RuntimeError")], closed=True, seen_s=STUCK_AT_S + 1)
    failed.sidecar["ended_by"] = "RuntimeError"
    interrupted = Rank(closed=True, seen_s=STUCK_AT_S + 1, sidecar={"ended_by": "KeyboardInterrupt"})
    end = ended(tmp_path, failed, interrupted)
    assert (end.state, end.culprits, end.failed) == ("ended", (), ())
    assert end.sentences[-1] == (
        "What ended it: ranks 0, 2 and 3 failed (RuntimeError); then rank 1 was interrupted, as by Ctrl-C."
    )


@pytest.mark.slow("test_open_calls_at_the_end.py holds whose doing it is")
def test_what_fails_because_its_peer_was_killed_in_a_call_is_no_failure_of_its_own(tmp_path: Path) -> None:
    failed = Rank([*trained(), broke("error:RuntimeError")], closed=True, seen_s=STUCK_AT_S + 1)
    ring = {"killed": True, "ring_path": "/dev/shm/gone.ring"}
    killed = Rank(seen_s=STUCK_AT_S + 3, sidecar={**ring, "open_calls": [open_call()]})
    failed_first = ended(tmp_path / "later", failed, killed)
    assert [sorted(group.failed) for group in failed_first.failed] == [[0, 2, 3]]
    killed.seen_s = STUCK_AT_S + 0.3
    assert ended(tmp_path / "before", failed, killed).failed == ()


@pytest.mark.slow("test_stuck_groups.py holds that such a failure hangs")
@pytest.mark.parametrize("killed_after_s", [0.3, 3.0])
def test_what_fails_for_want_of_a_rank_that_died_in_its_own_code_tells_of_it(
    tmp_path: Path, killed_after_s: float
) -> None:
    failed = Rank([*trained(), broke("error:RuntimeError")], closed=True, seen_s=STUCK_AT_S + 1)
    died = Rank(
        seen_s=STUCK_AT_S + killed_after_s, sidecar={"killed": True, "ring_path": "/dev/shm/gone.ring"}
    )
    end = ended(tmp_path, failed, died)
    (group,) = end.groups
    assert (sorted(group.failed), group.missing, end.culprits) == ([0, 2, 3], (1,), (1,))


# -- what the sidecar keeps ------------------------------------------------------------------------------


@pytest.mark.slow(
    "waits for two stalls of a real process; test_sidecar_state_stalls.py holds which standstill counts"
)
def test_the_sidecar_keeps_the_longest_stall_and_the_last_with_their_stacks(tmp_path: Path) -> None:
    program = """
        import sys, time
        from timing_logger import TimingLogger
        logger = TimingLogger(0, sys.argv[1], hang_after=0.3)
        def wait_until(done):
            while not done(): time.sleep(0.01)
        def stall(): return logger._hang_watch.standing().last_stall
        def length(): return stall().until_counter_ns - stall().since_counter_ns
        def first_batch(): wait_until(lambda: stall() and length() > 10**9)
        def second_batch(seen): wait_until(lambda: stall().since_counter_ns > seen)
        first_batch()
        before = stall().until_counter_ns
        logger.record_timing("A", 1.0)
        with logger.record_mpi_operation("RECV", group="world", group_size=2, seq=0, peer=1):
            second_batch(before)
        raise KeyboardInterrupt
        """
    run_python(program, tmp_path)
    told = json.loads((tmp_path / "timing-rank0.meta.json").read_text())
    longest, last = told["longest_stall"], told["last_stall"]
    assert "in first_batch" in longest["stack"][1]
    assert "in second_batch" in last["stack"][1]
    assert [call["operation"] for call in last["open_calls"]] in ([], ["RECV"])
    assert (told["closed"], told["idle_stack"], told["ended_by"]) == (True, [], "KeyboardInterrupt")


@pytest.mark.slow("test_diagnosis.py has such sidecars alone")
def test_calls_that_hang_without_any_of_this_in_the_sidecar_are_told_as_before(tmp_path: Path) -> None:
    inside = Rank([*trained(), inflight()])
    assert ended(tmp_path, inside, Rank()).culprits == (1,)
