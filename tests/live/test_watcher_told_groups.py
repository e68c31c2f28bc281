"""Who reads digests knows all groups of a process that stands still, and blames nobody before."""

from __future__ import annotations

from pathlib import Path

from hung_runs import Rank, counted, open_call, write_run

from timing_logger.analysis.hangs.sidecar_state import N_GROUPS
from timing_logger.live.collector import Collector
from timing_logger.live.digest import Digest
from timing_logger.live.packed import packed, unpacked
from timing_logger.live.watcher import ToldGroups, snapshot_of
from timing_logger.live.window import Window

MANY, MOST = 200, 64
TURNS = -(-MANY // MOST)


def digest_of_rank(folder: Path, rank: int) -> Digest:
    return Collector(folder, f"node{rank}", lambda sidecar: sidecar["rank"] == rank).digest()


def of_groups(tmp_path: Path, issued: int = 10, progressed_s: float = 20.0) -> Digest:
    said = [counted(issued, group=f"pg {i}", size=2) for i in range(MANY)]
    write_run(tmp_path, Rank([], progressed_s=progressed_s, sidecar={"groups": said}))
    return digest_of_rank(tmp_path, 0)


def received(told: ToldGroups, digest: Digest, number: int) -> dict[str, object]:
    """Return what is known of the one process after the digest of this number."""
    sent = unpacked(packed(digest._replace(number=number), MOST))
    return told.completed(sent).processes[0].sidecar


def test_all_groups_of_a_process_that_stands_still_are_known_when_each_had_its_turn(tmp_path: Path) -> None:
    told, digest = ToldGroups(), of_groups(tmp_path)
    known = [received(told, digest, number) for number in range(TURNS)]
    assert [N_GROUPS in one for one in known] == [True] * (TURNS - 1) + [False]
    groups = known[-1]["groups"]
    assert isinstance(groups, list)
    assert len(groups) == MANY


def test_a_digest_that_is_lost_costs_a_round(tmp_path: Path) -> None:
    told, digest = ToldGroups(), of_groups(tmp_path)
    known = [received(told, digest, number) for number in range(2 * TURNS) if number != 3]
    assert N_GROUPS in known[TURNS - 2]
    assert N_GROUPS not in known[-1]


def test_what_was_told_before_a_process_went_on_is_forgotten(tmp_path: Path) -> None:
    told, before = ToldGroups(), of_groups(tmp_path)
    for number in range(TURNS):
        received(told, before, number)
    groups = received(told, of_groups(tmp_path, 11, progressed_s=30.0), 0)["groups"]
    assert isinstance(groups, list)
    assert {one["issued"] for one in groups} == {11}


def test_a_rank_that_never_entered_is_named_once_its_groups_are_known_and_nobody_before(
    tmp_path: Path,
) -> None:
    """Rank 1 is in 200 groups, and the others wait for it in one of the last."""
    of_all = [counted(10, group=f"pg {i}", size=2) for i in range(MANY)]
    stuck = [counted(11, 10, "pg 195", 2), *(one for one in of_all if one["group"] != "pg 195")]
    calls = [open_call(group="pg 195", group_size=2, seq=10)]
    waits, missing = {"groups": stuck, "open_calls": calls}, {"groups": of_all, "idle_stack": ["train.py:7"]}
    write_run(tmp_path, Rank([], sidecar=waits), Rank([], sidecar=missing))
    told, named = ToldGroups(), []
    waiting, absent = (digest_of_rank(tmp_path, rank) for rank in (0, 1))
    for number in range(TURNS):
        window = Window(1e9)
        window.add(waiting)
        window.add(told.completed(unpacked(packed(absent._replace(number=number), MOST))))
        end = snapshot_of(window).end
        named.append((end.hangs, end.culprits))
    assert named == [(True, ())] * (TURNS - 1) + [(True, (1,))]
