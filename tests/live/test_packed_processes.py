"""What a process says of itself has few bytes however much it is, and what is judged of it arrives."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from digests import digest_of
from hung_runs import Rank, counted, open_call, write_run
from simulated_runs import data_parallel, factors
from slow import slow

from timing_logger.analysis.hangs.sidecar_state import N_GROUPS
from timing_logger.live.collector import Collector
from timing_logger.live.digest import Digest
from timing_logger.live.looking import MOST_BYTES_PER_S
from timing_logger.live.packed import packed, packed_within, unpacked

BYTES = int(5.0 * MOST_BYTES_PER_S)
"""How many a digest may have for each rank, every five seconds."""

MANY = 500


def groups(n: int = MANY, *, pending: Sequence[int] = ()) -> list[dict[str, Any]]:
    """Return what a process counted in so many groups, in some of which a collective is under way."""
    issued = [1000 + 37 * i % 911 for i in range(n)]
    return [counted(of, of - (i in pending), f"default_pg {i}", 8) for i, of in enumerate(issued)]


@cache
def usual(n_ranks: int) -> Digest:
    return digest_of(data_parallel(factors(60, n_ranks, noise=0.1)))


def digest_with(n_ranks: int, **said: Any) -> Digest:
    """Return a digest of a run whose processes say this of themselves."""
    return saying(usual(n_ranks), **said)


def saying(digest: Digest, **said: Any) -> Digest:
    processes = [one._replace(sidecar={**one.sidecar, **said}) for one in digest.processes]
    return digest._replace(processes=processes)


@pytest.mark.parametrize("n_ranks", [4, *(slow(number, "as of four") for number in (1, 2, 8))])
def test_many_groups_do_not_make_a_digest_larger_than_it_may_be(n_ranks: int) -> None:
    digest = digest_with(n_ranks, groups=groups())
    data = packed_within(digest, n_ranks * BYTES)
    found = unpacked(data)
    assert len(packed(digest)) > n_ranks * BYTES >= len(data)
    assert len(found.processes) == n_ranks
    assert len(found.rows) > 0
    standing = digest._replace(rows=digest.rows.only(slice(0)))
    assert len(packed_within(standing, n_ranks * BYTES)) <= n_ranks * BYTES


def test_where_there_is_room_all_groups_are_told() -> None:
    said = groups(40, pending=[3])
    (process, *_) = unpacked(packed_within(digest_with(4, groups=said), 4 * BYTES)).processes
    assert process.sidecar["groups"] == said
    assert N_GROUPS not in process.sidecar


def test_counts_of_each_rank_arrive_though_they_are_not_the_same() -> None:
    digest = digest_with(3)
    said = [groups(4), [*groups(2), counted(9, 7, "other", 2)], []]
    processes = [
        one._replace(sidecar={**one.sidecar, "groups": its})
        for one, its in zip(digest.processes, said, strict=True)
    ]
    found = unpacked(packed(digest._replace(processes=processes)))
    assert [one.sidecar["groups"] for one in found.processes] == said


def test_of_too_many_groups_those_are_told_in_which_something_is_under_way_and_the_others_in_turn() -> None:
    digest = digest_with(1, groups=groups(pending=[7, 400]))
    standing = digest._replace(rows=digest.rows.only(slice(0)))
    names = []
    for number in range(32):
        (process,) = unpacked(packed_within(standing._replace(number=number), BYTES)).processes
        told = {one["group"] for one in process.sidecar["groups"]}
        assert {"default_pg 7", "default_pg 400"} < told
        assert process.sidecar[N_GROUPS] == MANY > len(told)
        names.append(told)
    assert set.union(*names) == {f"default_pg {i}" for i in range(MANY)}


@pytest.mark.parametrize(
    "said",
    [
        {"open_calls": [open_call(layer_name=f"layer {i}", seq=i) for i in range(100)]},
        {"idle_stack": [f"a/file_{i}.py:{i * i} in function_{i}" for i in range(12)]},
        {"untimed": {f"Function_{i}": i * 7919 for i in range(100)}},
        {"options": {"hang_after": 60.0, "ranks": [i * i for i in range(2000)]}},
        {"sinks": [{"sink": f"Sink{i}", "written": i} for i in range(100)]},
        {"clock_anchors": [{"perf_counter_ns": i**5, "unix_ns": i**6} for i in range(1, 100)]},
        {
            "last_progress_counter_ns": 5,
            "last_stall": {
                "since_counter_ns": 5,
                "until_counter_ns": 9,
                "groups": groups(),
                "open_calls": [],
            },
        },
    ],
    ids=lambda said: next(reversed(said)),
)
def test_whatever_is_long_keeps_to_the_bytes(said: dict[str, Any]) -> None:
    digest = digest_with(1, **said)
    assert len(packed_within(digest, BYTES)) <= BYTES


def test_of_open_calls_the_oldest_and_the_newest_are_told() -> None:
    calls = [open_call(layer_name="x" * (i % 50) + str(i * 7919), seq=i) for i in range(100)]
    (process,) = unpacked(packed_within(digest_with(1, open_calls=calls), BYTES)).processes
    told = process.sidecar["open_calls"]
    half = len(told) // 2
    assert told == [*calls[:half], *calls[-half:]]


def test_all_that_is_judged_of_a_process_that_stands_still_arrives(tmp_path: Path) -> None:
    stall = {
        "since_counter_ns": 10 * 10**9, "until_counter_ns": 128 * 10**9, "open_calls": [open_call()],
        "groups": [counted(11, 10)], "stack": ["train.py:7 in wait"],
    }  # fmt: skip
    said = {
        "open_calls": [open_call()], "groups": [counted(11, 10)], "idle_stack": ["train.py:7 in wait"],
        "last_stall": stall, "signal": "SIGTERM", "ended_by": "KeyboardInterrupt", "untimed": {"Rput": 2},
        "labels": {"role": "encoder"}, "killed": True, "run_id": "job 7", "world": "1",
    }  # fmt: skip
    write_run(tmp_path, Rank(sidecar=said))
    (process,) = unpacked(packed(Collector(tmp_path).digest())).processes
    expected = json.loads((tmp_path / "timing-rank0.meta.json").read_text())
    kept = {
        name: expected[name] for name in (*said, "host", "boot_id", "closed", "counters", "clock_anchors")
    }
    assert {name: process.sidecar[name] for name in kept} == kept
    assert process.sidecar["options"]["hang_after"] == expected["options"]["hang_after"]


def test_a_standstill_that_is_over_is_not_told() -> None:
    stall = {"since_counter_ns": 3, "until_counter_ns": 4, "open_calls": [], "groups": [], "stack": []}
    digest = digest_with(1, last_progress_counter_ns=5, last_stall=stall)
    (process,) = unpacked(packed(digest)).processes
    assert process.sidecar["last_stall"] is None
