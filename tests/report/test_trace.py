"""A trace says what the table says, to the nanosecond, as Perfetto itself understands it."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from places import SAMPLE
from rank_tables import aligned, quick_table
from slow import examples, slow
from timing_files import record, write_sidecar, write_timing_file
from trace_processor import TraceProcessor, compiled

from timing_logger import read_timings
from timing_logger.report.trace import TraceCounts, write_trace
from timing_logger.schema.record import Record
from timing_logger.schema.timing_files import sidecar_path

ERRORS = "select name, value from stats where severity = 'error' and value > 0"
DATA_LOSS = "select name, value from stats where severity = 'data_loss' and value > 0"
SPANS = """
    select process.name, thread.name, slice.name, slice.ts, slice.dur
    from slice join thread_track on slice.track_id = thread_track.id
    join thread using (utid) join process using (upid)
    where category != 'arrow'
"""
ARROWS = """
    select a.name, pa.name, b.name, pb.name from flow
    join slice a on slice_out = a.id join thread_track ta on a.track_id = ta.id
    join thread xa on ta.utid = xa.utid join process pa on xa.upid = pa.upid
    join slice b on slice_in = b.id join thread_track tb on b.track_id = tb.id
    join thread xb on tb.utid = xb.utid join process pb on xb.upid = pb.upid
    order by a.ts, b.ts
"""
ARGUMENT = "select args.key, args.display_value from slice join args using (arg_set_id)"

Load = Callable[[Path], TraceProcessor]


@pytest.fixture(scope="session")
def load() -> Load:
    processor = compiled()
    return lambda path: TraceProcessor(processor, path.read_bytes())


@pytest.fixture(scope="module")
def sample() -> pd.DataFrame:
    return read_timings(SAMPLE)


def table(*ranks: list[Record]) -> pd.DataFrame:
    """The timings of ``ranks`` of a run of four, all on this host; the first is 0."""
    timings = aligned(quick_table(*ranks))
    timings.attrs["files"] = [
        {"rank": rank, "incarnation": 1, "sidecar": {"world_size": 4}} for rank in range(len(ranks))
    ]
    return timings


def written(timings: Any, folder: Path) -> tuple[Path, TraceCounts]:
    path = folder / "trace.json"
    return path, write_trace(timings, path)


def counted(processor: TraceProcessor) -> TraceCounts:
    """What the trace processor counts; it knows nothing of rows that are not placed."""
    one = {
        "processes": "select count(*) from process where name glob 'rank *'",
        "lanes": "select count(*) from thread_track",
        "spans": "select count(*) from slice where category not in ('instant', 'arrow') and dur >= 0",
        "flows": "select count(*) from flow",
        "counters": "select count(*) from counter",
    }
    counts = {name: processor.query(sql)[0][0] for name, sql in one.items()}
    return TraceCounts(**counts, instants=0, unplaced=0)


def spans(processor: TraceProcessor) -> Counter[tuple[Any, ...]]:
    return Counter(processor.query(SPANS))


# -- against the trace processor -----------------------------------------------------------------


class Sample(NamedTuple):
    """The trace of the sample run: its file, what was counted, what is known of it, and the progress."""

    path: Path
    counts: TraceCounts
    processor: TraceProcessor
    progress: list[tuple[int, int]]


@pytest.fixture(scope="module")
def sample_trace(sample: pd.DataFrame, load: Load, tmp_path_factory: pytest.TempPathFactory) -> Sample:
    path = tmp_path_factory.mktemp("sample") / "trace.json"
    calls: list[tuple[int, int]] = []
    counts = write_trace(sample, path, progress=lambda done, total: calls.append((done, total)))
    return Sample(path, counts, load(path), calls)


def test_perfetto_finds_all_of_the_sample_run(sample_trace: Sample, sample: pd.DataFrame) -> None:
    df = sample
    counts, processor = sample_trace.counts, sample_trace.processor
    assert counted(processor) == counts
    assert (counts.spans, counts.processes) == (len(df), df["rank"].nunique())
    parts = df[df["operation"].isin(["ALLREDUCE", "ALLGATHER", "BCAST"])].groupby(["group", "seq"]).size()
    assert counts.flows == (parts - 1).sum()
    assert processor.query(ERRORS) == processor.query(DATA_LOSS) == []


def test_every_span_keeps_its_nanoseconds(sample_trace: Sample, sample: pd.DataFrame) -> None:
    df = sample
    start_ns = ((df["start_s"] - df["start_s"].min()) * 1e9).round().astype("int64")
    dur_ns = (df["elapsed_ms"] * 1e6).round().astype("int64")
    rows = zip(df["rank"].astype(str), df["thread"], df["operation"], start_ns, dur_ns, strict=True)
    found = spans(sample_trace.processor).elements()
    assert Counter((process.split()[1], *span) for process, *span in found) == Counter(rows)


def lanes_of(processor: TraceProcessor, thread: str) -> set[tuple[str, str]]:
    """The spans of a thread, and the lane of each."""
    return {(name, lane) for _, lane, name, *_ in spans(processor) if thread in lane}


@pytest.fixture(scope="module")
def threads(load: Load, tmp_path_factory: pytest.TempPathFactory) -> TraceProcessor:
    """What is known of a trace of threads, on each of which rows lie in another way."""
    rows = [
        record("BACKWARD", 1.0, 100.0, thread="nested"),
        record("ALLREDUCE", 1.01, 20.0, thread="nested"),
        record("WAIT", 1.02, 10.0, thread="nested"),
        record("ALLREDUCE", 1.05, 50.0, thread="nested"),
        record("ONE", 1.0, 10.0, thread="overlapping"),
        record("TWO", 1.005, 10.0, thread="overlapping"),
        record("THREE", 1.007, 10.0, thread="overlapping"),
        record("FOUR", 1.02, 1.0, thread="overlapping"),
        record("IALLREDUCE", 1.0, 20.0, thread="communicating"),
        record("FORWARD", 1.01, 20.0, thread="communicating"),
        record("WAIT", 1.012, 8.0, thread="communicating"),
        record("H2D", 1.0, 20.0, clock="device", thread="copying"),
        record("FORWARD", 1.01, 20.0, thread="copying"),
    ]
    folder = tmp_path_factory.mktemp("threads")
    path, counts = written(table(rows), folder)
    processor = load(path)
    assert counted(processor) == counts
    assert processor.query(ERRORS) == []
    return processor


def test_spans_that_lie_in_each_other_share_a_lane(threads: TraceProcessor) -> None:
    assert {lane for _, lane in lanes_of(threads, "nested")} == {"nested"}
    sql = """
        select depth, slice.name from slice join thread_track on track_id = thread_track.id
        join thread using (utid) where thread.name = 'nested' order by ts
    """
    assert threads.query(sql) == [
        (0, "BACKWARD"),
        (1, "ALLREDUCE"),
        (2, "WAIT"),
        (1, "ALLREDUCE"),
    ]


def test_of_spans_that_begin_together_the_longer_holds_the_shorter(tmp_path: Path, load: Load) -> None:
    """In the file it comes first: this trace processor would sort them itself, others need not."""
    path, counts = written(table([record("WAIT", 1.0, 1.0), record("STEP", 1.0, 2.0)]), tmp_path)
    assert counts.lanes == 1
    assert load(path).query("select name, depth from slice order by depth") == [("STEP", 0), ("WAIT", 1)]
    events = [event["name"] for event in json.loads(path.read_text())["traceEvents"] if event["ph"] == "X"]
    assert events == ["STEP", "WAIT"]


def test_spans_that_overlap_in_part_have_lanes_of_their_own(threads: TraceProcessor) -> None:
    assert lanes_of(threads, "overlapping") == {
        ("ONE", "overlapping"),
        ("TWO", "overlapping #2"),
        ("THREE", "overlapping #3"),
        ("FOUR", "overlapping"),
    }


@pytest.mark.slow("of what judges here: Perfetto's own trace processor")
def test_the_trace_processor_tells_of_what_it_drops(tmp_path: Path, load: Load) -> None:
    """Or the tests here would pass whatever is on a lane."""
    path, _ = written(table([record("ONE", 1.0, 10.0), record("TWO", 1.005, 10.0)]), tmp_path)
    content = json.loads(path.read_text())
    for event in content["traceEvents"]:
        event["tid"] = 1
    path.write_text(json.dumps(content))
    processor = load(path)
    assert len(spans(processor)) == 1
    assert processor.query(
        "select value from stats where name = 'slice_drop_overlapping_complete_event'"
    ) == [(1,)]


@settings(
    max_examples=examples(40, few=2),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    rows=st.lists(
        st.tuples(
            st.integers(0, 30), st.integers(0, 12), st.sampled_from(["a", "b"]),
            st.sampled_from(["WORK", "ISEND"]), st.sampled_from(["host", "device"]),
        ),
        max_size=25,
    )
)  # fmt: skip
def test_no_span_is_dropped_however_they_lie(rows: list[tuple[Any, ...]], tmp_path: Path, load: Load) -> None:
    df = pd.DataFrame(rows, columns=["start_s", "dur_s", "thread", "operation", "clock"])
    df = df.assign(rank=0, iteration=0, end_s=df["start_s"] + df["dur_s"]).astype(
        {"start_s": float, "end_s": float}
    )
    path, counts = written(df, tmp_path)
    processor = load(path)
    assert counted(processor)._replace(processes=counts.processes) == counts
    assert counts.spans == len(rows)
    assert processor.query(ERRORS) == []


# -- lanes ---------------------------------------------------------------------------------------


def test_what_goes_on_in_the_background_stands_beside_its_thread(threads: TraceProcessor) -> None:
    """Though it began first: what a thread does itself is never moved off its lane."""
    assert lanes_of(threads, "communicating") == {
        ("IALLREDUCE", "background (communicating)"),
        ("FORWARD", "communicating"),
        ("WAIT", "communicating"),
    }


def test_what_a_device_did_stands_beside_the_thread_that_issued_it(threads: TraceProcessor) -> None:
    assert lanes_of(threads, "copying") == {
        ("H2D", "device (copying)"),
        ("FORWARD", "copying"),
    }


def test_threads_of_one_name_on_two_ranks_are_two_lanes(tmp_path: Path) -> None:
    _, counts = written(table([record()], [record()]), tmp_path)
    assert (counts.processes, counts.lanes) == (2, 2)


# -- flows ---------------------------------------------------------------------------------------


def arrows(processor: TraceProcessor) -> list[tuple[str, str, str]]:
    """From which rank to which, of which operation."""
    return [(source, target, name) for name, source, _, target in processor.query(ARROWS)]


def test_arrows_lead_from_the_last_to_arrive_in_a_collective(tmp_path: Path, load: Load) -> None:
    starts = (1.002, 1.0, 1.001)
    ranks = [
        [record(start_s=start, elapsed_ms=5, seq=5), record("WAIT", start_s=start, seq=5)] for start in starts
    ]
    path, counts = written(table(*ranks), tmp_path)
    assert counts.flows == 2
    assert arrows(load(path)) == [("rank 0", "rank 1", "ALLREDUCE"), ("rank 0", "rank 2", "ALLREDUCE")]


TO_OR_FROM_RANK_1 = {
    "BCAST": {("rank 1", "rank 0"), ("rank 1", "rank 2")},
    "SCATTER": {("rank 1", "rank 0"), ("rank 1", "rank 2")},
    "REDUCE": {("rank 2", "rank 1")},
    "IGATHER": {("rank 2", "rank 1")},
    "SCAN": set(),
    "NEIGHBOR_ALLGATHER": set(),
}


@pytest.mark.parametrize(
    "starts", [(1.0, 1.002, 1.001), slow((1.0, 1.001, 1.002), "the root is neither first nor last")]
)
def test_arrows_lead_from_the_root_or_to_it(starts: tuple[float, ...], tmp_path: Path, load: Load) -> None:
    ranks = [
        [
            record(operation, start + at, 5, seq=at, peer=1, group_size=3)
            for at, operation in enumerate(TO_OR_FROM_RANK_1)
        ]
        for start in starts
    ]
    path, counts = written(table(*ranks), tmp_path)
    expected = [(*ends, operation) for operation, all_ends in TO_OR_FROM_RANK_1.items() for ends in all_ends]
    assert counts.flows == len(expected)
    assert sorted(arrows(load(path))) == sorted(expected)


def test_collectives_of_two_groups_or_numbers_are_not_joined(tmp_path: Path) -> None:
    ranks = [[record(seq=0), record(seq=1, group="a")], [record(seq=1), record(seq=1, group="b")]]
    assert written(table(*ranks), tmp_path)[1].flows == 0


def test_an_arrow_leads_from_a_message_to_its_receipt(tmp_path: Path, load: Load) -> None:
    ranks = [
        [record("SEND", 1.0, peer=1, seq=0), record("ISEND", 1.1, peer=2, seq=0)],
        [record("RECV", 1.01, peer=0, seq=0), record("SEND", 1.2, peer=0, seq=0)],
        [record("IRECV", 1.11, peer=0, seq=0), record("RECV", 1.2, peer=0, seq=1)],
    ]
    path, counts = written(table(*ranks), tmp_path)
    assert counts.flows == 2
    assert [(source, target) for source, target, _ in arrows(load(path))] == [
        ("rank 0", "rank 1"),
        ("rank 0", "rank 2"),
    ]


def test_an_arrow_leads_from_a_message_to_its_receipt_whichever_began_first(
    tmp_path: Path, load: Load
) -> None:
    """It ends in a mark at the end of the receive: Perfetto draws none to a span that began earlier."""
    sends = [record("SEND", 1.1 + i, 2.0, peer=1, seq=i) for i in range(3)]
    receives = [
        record("RECV", start_s, elapsed_ms, peer=0, seq=i)
        for i, (start_s, elapsed_ms) in enumerate([(1.0, 105.0), (2.101, 4.0), (3.1, 5.0)])
    ]
    path, counts = written(table(sends, receives), tmp_path)
    processor = load(path)
    assert counts.flows == 3
    assert arrows(processor) == [("rank 0", "rank 1", "SEND")] * 3
    marks = processor.query("select name, ts from slice where category = 'arrow' order by ts")
    assert marks == [("from rank 0", ns) for ns in (105_000_000, 1_105_000_000, 2_105_000_000)]
    assert processor.query(ERRORS) == []


@pytest.mark.slow("a rarer kind of receipt that began before its message, which is quick")
def test_what_is_received_in_the_background_is_arrived_at_its_end(tmp_path: Path, load: Load) -> None:
    """Of two receives that end together, one of which lies within the other on their lane, too."""
    receives = [
        record("IRECV", 1.0, 100.0, peer=1, seq=0), record("IRECV", 1.01, 90.0, peer=1, seq=1),
        record("WAIT", 1.05, 50.0, peer=1, seq=0), record("WAIT", 1.05, 50.0, peer=1, seq=1),
    ]  # fmt: skip
    sends = [record("ISEND", 1.02, 90.0, peer=0, seq=0), record("ISEND", 1.03, 70.0, peer=0, seq=1)]
    path, counts = written(table(receives, sends), tmp_path)
    assert counts.flows == 2
    assert arrows(load(path)) == [("rank 1", "rank 0", "ISEND")] * 2


@pytest.mark.slow("an exchange is two messages, and those are quick")
def test_ranks_that_exchange_have_an_arrow_each_way(tmp_path: Path, load: Load) -> None:
    ranks = [
        [record("SENDRECV", 1.0 + rank / 100, 20.0, peer=1 - rank, seq=0, group_size=2)] for rank in range(2)
    ]
    path, counts = written(table(*ranks).assign(clock_uncertainty_s=0.0), tmp_path)
    assert counts.flows == 2
    assert set(arrows(load(path))) == {("rank 0", "rank 1", "SENDRECV"), ("rank 1", "rank 0", "SENDRECV")}


def test_no_arrow_leads_back_in_time(tmp_path: Path, load: Load) -> None:
    """The receive ended before the send began: the clocks are farther apart than that."""
    ranks = [[record("SEND", 1.5, peer=1, seq=0)], [record("RECV", 1.0, peer=0, seq=0)]]
    path, counts = written(table(*ranks), tmp_path)
    assert (counts.flows, arrows(load(path))) == (0, [])


def test_the_peers_of_a_smaller_group_are_numbers_in_it(tmp_path: Path, load: Load) -> None:
    last_two = {"group": "ranks 2-3", "group_size": 2, "seq": 0}
    ranks = [[], [], [record("SEND", 1.0, peer=1, **last_two)], [record("RECV", 1.01, peer=0, **last_two)]]
    assert arrows(load(written(table(*ranks), tmp_path)[0])) == [("rank 2", "rank 3", "SEND")]


@pytest.mark.slow("of a lost file; the peers of a smaller group are quick")
def test_no_arrow_leads_to_a_rank_that_may_be_another(tmp_path: Path) -> None:
    """Of the group {0, 2, 4} the file of 4 is lost, which was number 2."""
    stage = {"group": "stage", "group_size": 3, "seq": 0}
    ranks = [[record("SEND", 1.0, peer=2, **stage)], [], [record("RECV", 1.01, peer=0, **stage)]]
    assert written(table(*ranks), tmp_path)[1].flows == 0


@pytest.mark.slow("of restarts; that groups and numbers are told apart is quick")
def test_a_restart_is_joined_with_itself(tmp_path: Path, load: Load) -> None:
    for rank in (0, 1):
        for incarnation in (1, 2):
            rows = [record(start_s=10 * incarnation + rank / 1e4, seq=0)]
            write_sidecar(write_timing_file(tmp_path, rank, rows, incarnation=incarnation))
    path, counts = written(read_timings(tmp_path, incarnations="all"), tmp_path)
    assert counts.flows == 2
    assert [(source, target) for source, target, _ in arrows(load(path))] == [
        ("rank 1", "rank 0"),
        ("rank 1 (run 2)", "rank 0 (run 2)"),
    ]


@pytest.mark.slow("programs that disagree; that groups and numbers are told apart is quick")
def test_parts_that_are_not_of_one_operation_are_not_joined(tmp_path: Path) -> None:
    ranks = [[record("ALLREDUCE", seq=0)], [record("BCAST", seq=0)]]
    assert written(table(*ranks), tmp_path)[1].flows == 0


# -- counters ------------------------------------------------------------------------------------


def test_the_counter_shows_the_bytes_under_way(tmp_path: Path, load: Load) -> None:
    rows = [
        record("ALLREDUCE", 1.0, 10.0, message_size_bytes=100),
        record("ISEND", 1.005, 10.0, message_size_bytes=7, seq=0),
        record("ISEND_INDEX", 1.006, 0.1, message_size_bytes=5),  # until when, nobody knows
        record("WAIT", 1.0, 10.0, message_size_bytes=1000),
        record("BARRIER", 1.0, 10.0, message_size_bytes=None),
        record("RECV", 1.015, 1.0, message_size_bytes=3),
    ]
    path, counts = written(table(rows), tmp_path)
    sql = "select ts, value from counter join process_counter_track t on track_id = t.id order by ts"
    changes = load(path).query(sql)
    assert changes == [(0, 100), (5_000_000, 107), (10_000_000, 7), (15_000_000, 3), (16_000_000, 0)]
    assert counts.counters == len(changes)


# -- what is said of a row -----------------------------------------------------------------------


def test_a_row_without_an_end_is_an_instant_where_it_began(tmp_path: Path, load: Load) -> None:
    rows = [
        record("FORWARD", 1.0, 1.0),
        record("IALLREDUCE", 1.5, elapsed_ms=None, status="unresolved", seq=0),
    ]
    path, counts = written(table(rows, rows), tmp_path)
    processor = load(path)
    assert (counts.spans, counts.instants, counts.flows) == (2, 2, 0)
    assert processor.query("select ts, dur from slice where name = 'IALLREDUCE'") == [(500_000_000, 0)] * 2
    assert ("args.status", "unresolved") in processor.query(ARGUMENT)


def test_a_row_without_a_start_is_counted_and_left_out(tmp_path: Path) -> None:
    df = table([record(), record()])
    df.loc[0, ["start_counter", "start_s"]] = np.nan
    _, counts = written(df, tmp_path)
    assert (counts.spans, counts.unplaced) == (1, 1)


def test_a_span_has_what_its_row_says_and_nothing_blank(tmp_path: Path, load: Load) -> None:
    row = record(
        iteration=3, epoch=None, layer_name='a "b", c', seq=2**53 + 1, peer=None, phase="", group_size=2
    )
    processor = load(written(table([row]), tmp_path)[0])
    said = {key: value for key, value in processor.query(ARGUMENT) if key.startswith("args.")}
    assert said == {
        "args.iteration": "3",
        "args.layer_name": 'a "b", c',
        "args.message_size_bytes": "4096",
        "args.group": "world",
        "args.group_size": "2",
        "args.seq": str(2**53 + 1),
        "args.status": "ok",
        "args.clock": "host",
    }


def test_metadata_are_arguments_of_their_own(tmp_path: Path, load: Load) -> None:
    df = table([record(), record()]).assign(metadata=[{"density": 0.01}, None])
    said = load(written(df, tmp_path)[0]).query(ARGUMENT)
    assert [value for key, value in said if key == "args.metadata.density"] == ["0.01"]


@pytest.mark.slow("other names; those that JSON escapes are quick")
def test_names_that_could_break_json_come_through(tmp_path: Path, load: Load) -> None:
    names = ['"', "\u2028", "ä😀", "=cmd", "a,b", "'"]
    rows = [record(name, start_s=i) for i, name in enumerate(names)]
    processor = load(written(table(rows), tmp_path)[0])
    shown = [name for (name,) in processor.query("select name from slice order by ts")]
    assert shown == [name.upper() for name in names]


def test_what_json_escapes_breaks_neither_it_nor_perfetto(tmp_path: Path, load: Load) -> None:
    names = ["\\", "a\\", '\\"', "\\n", "\n"]
    rows = [record(layer_name=name, start_s=float(at)) for at, name in enumerate(names)]
    path, _ = written(table(rows), tmp_path)
    spans = [event for event in json.loads(path.read_text())["traceEvents"] if event["ph"] == "X"]
    assert [span["args"]["layer_name"] for span in spans] == names
    assert load(path).query("select count(*) from slice") == [(len(names),)]


# -- names of processes --------------------------------------------------------------------------


def process_names(processor: TraceProcessor) -> list[str]:
    return [
        name for (name,) in processor.query("select name from process where name glob 'rank*' order by upid")
    ]


def change_sidecar(timing_file: Path, **fields: Any) -> None:
    path = sidecar_path(timing_file)
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def test_a_process_is_called_after_its_rank_labels_and_run(tmp_path: Path, load: Load) -> None:
    for rank, incarnation in ((10, 1), (2, 1), (2, 2)):
        file = write_timing_file(tmp_path, rank, [record()], incarnation=incarnation)
        write_sidecar(file)
        change_sidecar(file, labels={"pipeline_stage": rank})
    path, _ = written(read_timings(tmp_path, incarnations="all"), tmp_path)
    assert process_names(load(path)) == [
        "rank 2 (pipeline_stage=2)",
        "rank 2 (run 2, pipeline_stage=2)",
        "rank 10 (pipeline_stage=10)",
    ]


def test_hosts_are_named_where_there_are_several(tmp_path: Path, load: Load) -> None:
    for rank, host in enumerate(("left", "right")):
        file = write_timing_file(tmp_path, rank, [record()])
        write_sidecar(file)
        change_sidecar(file, host=host)
    df = read_timings(tmp_path).assign(clock_uncertainty_s=1e-6)
    assert process_names(load(written(df, tmp_path)[0])) == ["rank 0 (left)", "rank 1 (right)"]


def test_a_clock_that_is_not_aligned_is_said_to_be_so(tmp_path: Path, load: Load) -> None:
    df = table([record()], [record()])
    df = df.assign(start_s=1.0, end_s=1.5, clock_uncertainty_s=[0.0, np.nan])
    assert process_names(load(written(df, tmp_path)[0])) == ["rank 0", "rank 1 (clock not aligned)"]


# -- the file ------------------------------------------------------------------------------------


@pytest.mark.slow("the sample run has such instants, and each of its spans is compared")
def test_instants_common_to_all_ranks_are_used_where_they_are_there(tmp_path: Path, load: Load) -> None:
    df = table([record()], [record()]).assign(start_s=[100.0, 99.0], end_s=[100.5, 99.25])
    sql = "select ts, dur from slice order by ts"
    assert load(written(df, tmp_path)[0]).query(sql) == [(0, 250_000_000), (1_000_000_000, 500_000_000)]


def test_a_name_in_gz_is_compressed(tmp_path: Path) -> None:
    timings = table([record(), record("FORWARD", 1.0005)])
    write_trace(timings, tmp_path / "trace.json.gz")
    plain = written(timings, tmp_path)[0].read_bytes()
    assert gzip.decompress((tmp_path / "trace.json.gz").read_bytes()) == plain


@pytest.mark.slow("a second library of tables; all is read through one that knows both")
def test_polars_gives_the_same_trace(tmp_path: Path) -> None:
    df = table([record(seq=0), record(iteration=None)], [record(seq=0)])
    plain = written(df, tmp_path)[0].read_bytes()
    objects = {name: [None if v is pd.NA else v for v in df[name].tolist()] for name in df.columns}
    assert written(pl.DataFrame(objects), tmp_path)[0].read_bytes() == plain


def test_a_table_of_ten_columns_has_a_trace(tmp_path: Path, load: Load) -> None:
    df = table([record(), record("FORWARD", 1.0005)])
    path, counts = written(df[[*df.columns[:10], "rank"]], tmp_path)
    assert (counts.spans, counts.flows) == (2, 0)
    assert load(path).query("select count(*) from slice") == [(2,)]


def test_a_table_without_rows_has_a_trace(tmp_path: Path, load: Load) -> None:
    path, counts = written(table([]), tmp_path)
    assert counts == TraceCounts(0, 0, 0, 0, 0, 0, 0)
    assert load(path).query(ERRORS) == []


def test_progress_ends_with_all_rows(sample_trace: Sample, sample: pd.DataFrame) -> None:
    calls = sample_trace.progress
    assert calls[-1] == (len(sample), len(sample))
    assert calls == sorted(calls)


def test_a_trace_that_fails_leaves_the_one_before(tmp_path: Path) -> None:
    path, _ = written(table([record()]), tmp_path)
    before = path.read_bytes()

    def give_up(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_trace(table([record("FORWARD")]), path, progress=give_up)
    assert path.read_bytes() == before
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["trace.json"]
