"""Rows of ``torch.distributed`` against what torch says itself: its flight recorder, its profiler."""

from __future__ import annotations

import functools
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise
from math import prod
from operator import itemgetter
from statistics import median
from typing import Any, NamedTuple

import pytest
import torch.distributed as dist
from torch_runner import run_with_torchrun

pytestmark = pytest.mark.slow("compares at length with what torch says of the same calls")

Row = dict[str, Any]
Rows = list[Row]

# -- the flight recorder ---------------------------------------------------------------------------

FLIGHT = {
    "ALLREDUCE": "all_reduce",
    "BCAST": "broadcast",
    "REDUCE": "reduce",
    "ALLGATHER": "all_gather",
    "GATHER": "gather",
    "SCATTER": "scatter",
    "REDUCE_SCATTER": "all_reduce",  # gloo makes them of each other
    "ALLTOALL": "all_to_all",
    "BARRIER": "barrier",
}
BYTES = {"Float": 4, "Int": 4, "Double": 8, "Long": 8, "Byte": 1, "BFloat16": 2}
RUNS = {
    "init": ("mixed", "ddp", "fsdp", "called in C++", "ddp in the pair"),
    "instrument": ("mixed", "ddp", "fsdp"),
}
if hasattr(dist.ProcessGroup, "register_pre_hook"):  # of torch 2.14
    RUNS["instrument"] = RUNS["init"]
CASES = [(how, run) for how, runs in RUNS.items() for run in runs]


@functools.cache
def recorded(how: str) -> list[dict[str, Any]]:
    """What the program found on each of three ranks: for each run its rows and its entries."""
    return run_with_torchrun(3, "oracle_flight_recorder.py", how)


@pytest.fixture(params=CASES, ids=" ".join)
def flights(request: pytest.FixtureRequest) -> list[tuple[Rows, Rows, Numbers]]:
    """Rows, entries, and the recorder's numbers before them, on each rank."""
    how, run = request.param
    found = []
    for rank in recorded(how):
        runs = list(rank)
        before = [entry for earlier in runs[: runs.index(run)] for entry in rank[earlier]["entries"]]
        found.append((rank[run]["rows"], rank[run]["entries"], Numbers(before)))
    return found


class Numbers:
    """How far gloo has counted: its collectives, and all that it does, in each group."""

    def __init__(self, entries: Rows) -> None:
        self.collectives: defaultdict[str, int] = defaultdict(int)
        self.operations: defaultdict[str, int] = defaultdict(int)
        for entry in entries:
            name = entry["process_group"][0]
            self.collectives[name], self.operations[name] = entry["collective_seq_id"], entry["op_id"]


def issued(rows: Rows) -> Rows:
    """Everything but waits, in the order of the calls."""
    return sorted((row for row in rows if row["operation"] != "WAIT"), key=lambda row: row["start_ns"])


def base(row: Row) -> str:
    operation: str = row["operation"]
    return operation if operation in FLIGHT else operation.removeprefix("I")


def said_by_entry(entry: Row) -> tuple[str, str, int, int, int | None]:
    """Group, operation, both numbers, and bytes; a scatter's are those that arrive."""
    name, description = entry["process_group"]
    sizes, dtypes = entry["input_sizes"], entry["input_dtypes"]
    operation = entry["profiling_name"].removeprefix("gloo:")
    if operation == "scatter":
        sizes, dtypes = entry["output_sizes"], entry["output_dtypes"]
    kind = "process group" if description == "undefined" else description
    sent = sum(prod(size) * BYTES[dtype] for size, dtype in zip(sizes, dtypes, strict=True))
    return f"{kind} {name}", operation, entry["collective_seq_id"], entry["op_id"], sent


def expected_entries(rows: Rows, numbers: Numbers, rank: int) -> Iterator[tuple[Any, ...]]:
    """What the recorder must have said, if ``rows`` are right.

    It counts from 1, we from 0. Messages are no entries and no collectives to it, but operations. A
    reduce-scatter of pieces is one all-reduce for each piece (the label says how many there are). A
    monitored barrier is no entry: it is two collectives of messages, two on each rank with the first.
    """
    for row in issued(rows):
        name = row["group"].rsplit(" ", 1)[1]
        if base(row) in ("SEND", "RECV"):
            numbers.operations[name] += 1
            continue
        if row["layer_name"] == "monitored":
            numbers.collectives[name] += 2
            first = rank == (1 if row["group"].startswith("process group") else 0)
            numbers.operations[name] += 2 * (row["group_size"] - 1) if first else 2
            continue
        pieces = int(row["layer_name"].split()[1]) if row["layer_name"].startswith("pieces") else 1
        shares = row["group_size"] if base(row) == "SCATTER" else pieces
        for _ in range(pieces):
            numbers.collectives[name] += 1
            numbers.operations[name] += 1
            sent = row["message_size_bytes"] // shares
            yield row["group"], FLIGHT[base(row)], numbers.collectives[name], numbers.operations[name], sent


def test_every_entry_of_the_flight_recorder_has_one_row_and_every_row_its_entries(flights: Any) -> None:
    for rank, (rows, entries, numbers) in enumerate(flights):
        assert [said_by_entry(entry) for entry in entries] == list(expected_entries(rows, numbers, rank))
        assert len(entries) > 5


def test_numbers_of_a_groups_collectives_have_no_gap(flights: Any) -> None:
    for rows, _, _ in flights:
        seqs = defaultdict(list)
        for row in issued(rows):
            if base(row) not in ("SEND", "RECV"):
                seqs[row["group"]].append(row["seq"])
        for found in seqs.values():
            assert found == list(range(found[0], found[0] + len(found)))


def test_numbers_begin_with_the_group() -> None:
    for rank in recorded("init"):
        first = {row["group"]: row["seq"] for row in reversed(issued(rank["mixed"]["rows"]))}
        assert set(first.values()) == {0}


def test_rows_and_entries_agree_that_all_went_well(flights: Any) -> None:
    for rows, entries, _ in flights:
        assert {row["status"] for row in rows if not untold(row)} == {"ok"}
        assert all(entry["retired"] for entry in entries)


def untold(row: Row) -> bool:
    """Of a reduce-scatter that C++ code issued over a group which exists, gloo does not tell the end."""
    return bool(row["operation"] == "IREDUCE_SCATTER" and row["status"] == "unresolved")


def test_whoever_waited_has_a_row_with_the_number_of_the_operation(flights: Any, request: Any) -> None:
    """One for each operation in the background, since these programs wait for all of them.

    Over groups that exist, C++ code waits unseen; but for DDP's reducer.
    """
    in_cpp = "instrument" in request.node.callspec.id and "mixed" not in request.node.callspec.id
    columns = itemgetter("group", "seq", "peer", "message_size_bytes")
    for rows, _, _ in flights:
        waits = Counter(columns(row) for row in rows if row["operation"] == "WAIT")
        background = [row for row in issued(rows) if row["operation"] not in FLIGHT]
        if in_cpp:
            seen = [row for row in background if row["operation"] == "IALLREDUCE" and in_backward(row)]
            assert waits >= Counter(map(columns, seen))
            assert waits <= Counter(map(columns, background))
        else:
            assert waits == Counter(map(columns, background))


def in_backward(row: Row) -> bool:
    return bool(row["layer_name"].startswith("ddp:"))


# -- the profiler, and clocks ----------------------------------------------------------------------

MS = 1_000_000
CLOCKS_NS = 2 * MS
"""How far the profiler's clock and ours may be apart; seen: 0.1 ms."""
LATE_MS = 30  # as in the program
SPANS = {
    "ALLREDUCE": "all_reduce",
    "ALLGATHER": "all_gather",
    "BCAST": "broadcast",
    "ALLTOALL": "all_to_all",
    "BARRIER": "barrier",
}
SYNCHRONISING = ("ALLREDUCE", "ALLGATHER", "ALLTOALL", "REDUCE_SCATTER", "BARRIER")


@pytest.fixture(scope="module")
def ranks() -> list[dict[str, Any]]:
    return run_with_torchrun(2, "oracle_clocks.py")


class Pair(NamedTuple):
    """A row and the profiler's span of the same call, both on the axis of the row's clock, in ns."""

    operation: str
    start: int
    end: int
    span_start: int
    span_end: int

    @property
    def longer_ms(self) -> float:
        return (self.end - self.start - (self.span_end - self.span_start)) / MS

    @property
    def span_ms(self) -> float:
        return (self.span_end - self.span_start) / MS


def pairs(rank: dict[str, Any]) -> list[Pair]:
    """In the order of the calls, which is that of the spans too: gloo was given one at a time."""
    found = rank["profiled"]
    rows, spans, offset = issued(found["rows"]), found["spans"], found["offsets"][0]
    assert [SPANS[base(row)] for row in rows] == [span["name"] for span in spans]
    return [
        Pair(row["operation"], row["start_ns"], row["end_ns"], start, start + span["ns"])
        for row, span in zip(rows, spans, strict=True)
        for start in [span["start"] - offset]
    ]


@pytest.mark.serial
def test_a_row_begins_before_the_profilers_span(ranks: list[dict[str, Any]]) -> None:
    for rank in ranks:
        assert [pair for pair in pairs(rank) if pair.start > pair.span_start + CLOCKS_NS] == []


@pytest.mark.serial
def test_the_row_of_a_call_that_waits_ends_after_the_profilers_span(ranks: list[dict[str, Any]]) -> None:
    """In the background it ends inside, a moment before: gloo tells the future, then the profiler."""
    for rank in ranks:
        waited = [pair for pair in pairs(rank) if pair.operation in SPANS]
        assert [pair for pair in waited if pair.end < pair.span_end - CLOCKS_NS] == []
        assert len(waited) > 100


@pytest.mark.serial
@pytest.mark.parametrize("name", [*SPANS, *(f"I{name}" for name in SPANS)])
def test_a_row_lasts_as_long_as_the_profilers_span(ranks: list[dict[str, Any]], name: str) -> None:
    """Where another rank is late. A row of the call alone, or up to the wait, would be far off.

    Medians, and the best of all: what a busy machine adds is added to single calls.
    """
    late = [pair for pair in pairs(ranks[0]) if pair.operation == name and pair.span_ms > LATE_MS / 2]
    assert len(late) >= 10
    assert abs(median(pair.longer_ms for pair in late)) < median(pair.span_ms for pair in late) / 4
    assert min(abs(pair.longer_ms) for pair in late) < 5


@pytest.mark.serial
def test_rows_lie_between_the_instants_around_their_calls(ranks: list[dict[str, Any]]) -> None:
    for rank in ranks:
        rows, calls = rank["profiled"]["rows"], rank["profiled"]["calls"]
        measured = [row for row in issued(rows) if row["seq"] % 2 == issued(rows)[1]["seq"] % 2]
        waits = {row["seq"]: row for row in rows if row["operation"] == "WAIT"}
        assert len(measured) == len(calls)
        for row, call in zip(measured, calls, strict=True):
            begun, returned, *waited = call["instants"]
            assert SPANS[base(row)] == call["name"]
            assert begun <= row["start_ns"] <= returned
            assert row["start_ns"] <= row["end_ns"] <= (waited[0] if waited else returned)
            if waited:
                wait = waits.pop(row["seq"])
                assert returned <= wait["start_ns"] <= wait["end_ns"] <= waited[0]
                assert row["end_ns"] <= wait["end_ns"]
        assert waits == {}


@pytest.mark.serial
def test_a_collective_that_synchronises_overlaps_on_all_ranks(ranks: list[dict[str, Any]]) -> None:
    """One host, one clock: nobody leaves before everybody has come."""
    for part in ("profiled", "trained"):
        intervals = defaultdict(list)
        for row in (row for rank in ranks for row in issued(rank[part]["rows"])):
            if base(row) in SYNCHRONISING:
                intervals[row["group"], row["seq"]].append((row["start_ns"], row["end_ns"]))
        assert len(intervals) > 10
        for found in intervals.values():
            assert len(found) == len(ranks)
            assert max(start for start, _ in found) <= min(end for _, end in found)


def waits_in(passes: Rows, rows: Rows, number: int) -> list[tuple[int, int]]:
    """Of one backward pass, by their beginning."""
    begun, done = passes[number]
    starts = {row["seq"]: row["start_ns"] for row in issued(rows) if base(row) == "ALLREDUCE"}
    waits = [row for row in rows if row["operation"] == "WAIT" and begun <= starts.get(row["seq"], 0) <= done]
    return sorted((row["start_ns"], row["end_ns"]) for row in waits)


@pytest.mark.serial
def test_waits_of_a_backward_pass_follow_each_other(ranks: list[dict[str, Any]]) -> None:
    """Nobody waits for two at once; for one that ended before its turn came, nobody waits at all.

    The first wait begins within the pass. Another may begin after it: at an end that gloo's thread came to
    tell only then, on a busy machine.
    """
    for rank in ranks:
        passes, rows = rank["trained"]["passes"], rank["trained"]["rows"]
        ends = {row["end_ns"] for row in issued(rows)}
        for number, (begun, done) in enumerate(passes):
            waits = waits_in(passes, rows, number)
            first, _ = waits[0]
            assert begun <= first <= done
            assert all(start <= end for start, end in waits)
            assert {start for start, _ in waits} <= {first, *ends}
            blocked = [(start, end) for start, end in waits if end > start]
            assert all(earlier[1] <= later[0] for earlier, later in pairwise(blocked))


@pytest.mark.serial
def test_waits_of_a_backward_pass_are_the_time_lost_to_a_late_rank(ranks: list[dict[str, Any]]) -> None:
    """Half of it at least: the first of two ranks computes for a moment and then waits for the other."""
    passes, rows = ranks[0]["trained"]["passes"], ranks[0]["trained"]["rows"]
    shares = []
    for number, (begun, done) in enumerate(passes):
        waited = sum(end - start for start, end in waits_in(passes, rows, number))
        shares.append(waited / (done - begun))
    assert median(shares) > 0.5


# -- what torch tests of its own groups --------------------------------------------------------------

CASES_OF_TORCH = (
    "reductions", "odd tensors", "a sparse tensor", "wrong arguments", "forms of a call", "futures",
    "questions to a work", "messages", "a message from anybody", "many in flight",
    "waiting in another thread", "barrier", "a wait that gives up", "a work outlives its group",
    "sequence numbers", "attributes", "without this rank", "after shutdown", "monitored barrier", "objects",
    "derivatives", "traced", "DDP", "DDP in views of buckets", "DDP without a first broadcast",
    "DDP with a hook", "DDP with a hook of torch", "reducer by itself",
)  # fmt: skip


@functools.cache
def behaviour() -> list[dict[str, Any]]:
    return run_with_torchrun(2, "oracle_behaviour.py")


@pytest.mark.parametrize("case", CASES_OF_TORCH)
def test_a_timed_group_behaves_as_one_of_torch(case: str) -> None:
    for rank in behaviour():
        assert rank["timed"][case] == rank["torch"][case]


def test_every_case_was_tried_on_a_timed_group() -> None:
    for rank in behaviour():
        assert set(rank["torch"]) == set(rank["timed"]) == set(CASES_OF_TORCH)
        assert rank["rows"] > 400


def test_only_groups_made_with_a_logger_are_timed() -> None:
    """A logger that is off, or torch's own function, after a timed group was there."""
    expected = {
        "timed": "TimedProcessGroup",
        "logger is off": "ProcessGroup",
        "of torch again": "ProcessGroup",
    }
    assert all(rank["kinds"] == expected for rank in behaviour())


def test_every_message_names_the_other_rank() -> None:
    """By position or by word; from anybody, once it has come."""
    assert [rank["peers"] for rank in behaviour()] == [["1"], ["0"]]


def test_cases_show_what_they_are_meant_to() -> None:
    """Errors where there should be some, and results elsewhere."""
    first, second = (rank["torch"] for rank in behaviour())
    assert all("no error" not in error for error in first["wrong arguments"])
    assert first["a wait that gives up"] == ["RuntimeError: Operation timed out!", True, [3.0] * 4]
    assert "Rank 1 failed to pass monitoredBarrier" in first["monitored barrier"][0]
    assert second["messages"] == {
        "returned": [0] * 3,
        "received": [[3.0] * 2, [1.0] * 2, [2.0] * 2],
        "any": 0,
    }
    assert all(first["forms of a call"] + second["forms of a call"])
    assert first["DDP"] == second["DDP"] == first["DDP with a hook"] == first["DDP with a hook of torch"]
    assert first["a work outlives its group"] == [True, True]


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("training", {"same gradients": True, "waited": True, "took futures": True}),
        ("works", {"waited": True, "waits": 1, "done": True, "own": "kept"}),
        ("names", ["lonely", 0, 1]),
        ("ends", ["abort", "shutdown"]),
        ("a work outlives both", [True, True]),
    ],
)
def test_a_timed_group_holds_one_that_is_written_in_python(case: str, expected: Any) -> None:
    for rank in behaviour():
        assert rank["python"][case] == expected


def test_a_backend_that_is_written_in_python_is_the_default_group_as_without_timing() -> None:
    for rank in behaviour():
        found = rank["python"]["as a backend"]
        assert found["kinds"] == ["TimedProcessGroup", "LonelyGroup"]
        assert found["timed"] == found["untimed"]
        assert found["timed"]["calls"][0] == "allreduce"


def test_calls_over_a_group_that_exists_and_is_written_in_python_are_rows_whoever_makes_them() -> None:
    for rank in behaviour():
        found = rank["python"]["instrumented"]
        assert found["same gradients"]
        assert found["left changed"] == []
        in_background = {
            "IALLREDUCE": 2,
            "IALLGATHER": 1,
            "IBCAST": 3 + 2 * 2,
        }  # by the reducer, by its constructor
        counted = {f"{operation} ok": number for operation, number in in_background.items()}
        assert found["rows"] == {**counted, "WAIT ok": sum(in_background.values()), "ALLREDUCE ok": 1}
