"""Traces of torch.profiler become timing files: collectives, own work, copies, steps, clocks."""

from __future__ import annotations

import functools
import gzip
import json
import tempfile
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from kineto_traces import (
    BASE_NS,
    FIRST_US,
    N_ELEMENTS,
    RANKS,
    STEP_US,
    STEPS,
    events_of,
    parameters,
    trace_of,
    write_traces,
    x,
)
from slow import slow
from timing_files import record

from timing_logger import read_timings
from timing_logger.analysis import match_collectives, stragglers, waits
from timing_logger.errors import NotImportableError
from timing_logger.importing import Imported, import_kineto
from timing_logger.importing.kineto import _not_told


def imported(traces: Path) -> pd.DataFrame:
    import_kineto(traces, traces.parent / "out")
    return read_timings(traces.parent / "out")


@functools.cache
def of_slow_rank(slow_in: str = "kernels", *, seq: bool = True) -> pd.DataFrame:
    """Return the rows of traces of which rank 2 is slow; no test may change them."""
    with tempfile.TemporaryDirectory() as folder:
        return imported(write_traces(Path(folder, "traces"), 2, slow_in, seq=seq))


FEW, EVENTS_OF_STEP = 8, 9


def few_events(rank: int, *, seq: bool = True) -> list[dict[str, Any]]:
    """Return the events of the first steps of a rank."""
    return events_of(rank, None, "", seq=seq)[: 1 + FEW * EVENTS_OF_STEP]


def of_events(folder: Path, *events: dict[str, Any], **further: Any) -> pd.DataFrame:
    """Return the rows of a trace with these events."""
    (folder / "rank0.json").write_text(json.dumps(trace_of(0, list(events), **further)))
    return imported(folder / "rank0.json")


@pytest.fixture(scope="module")
def alike(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    """Rows of traces of ranks that are alike; no test may change them."""
    return imported(write_traces(tmp_path_factory.mktemp("alike") / "traces", None))


@pytest.mark.parametrize(
    ("slow_in", "operation"),
    [
        pytest.param("kernels", "COMPUTE", id="on the device"),
        pytest.param("data", "DATA", id="on the host", marks=pytest.mark.slow("as on the device")),
    ],
)
def test_a_rank_that_is_slow_is_named_with_what_it_is_slow_in(slow_in: str, operation: str) -> None:
    verdict = stragglers(of_slow_rank(slow_in))
    assert (verdict.verdict, verdict.ranks, verdict.operation) == ("rank", (2,), operation)


def test_of_ranks_that_are_alike_none_is_named(alike: pd.DataFrame) -> None:
    verdict = stragglers(alike)
    assert (verdict.verdict, verdict.judged) == ("healthy", True)


@pytest.mark.parametrize(
    "seq",
    [
        pytest.param(True, id="numbered by torch"),
        slow(False, "traces that begin at different steps are numbered here too", id="numbered here"),
    ],
)
def test_collectives_match_and_ranks_wait_for_the_last_to_arrive(seq: bool) -> None:
    rows = of_slow_rank(seq=seq)
    assert set(match_collectives(rows)["state"]) == {"complete"}
    found = waits(rows)
    assert len(found) == RANKS * STEPS
    assert set(found["last_arriver"]) == {2}
    assert found[found["rank"] == 0]["wait_ms"].median() == pytest.approx(13.8, abs=0.3)


def test_a_row_of_a_collective_has_what_the_trace_says_of_it(alike: pd.DataFrame) -> None:
    first = alike[alike["operation"] == "ALLREDUCE"].iloc[0]
    named = "group", "group_size", "seq", "message_size_bytes", "clock", "stream", "thread", "iteration"
    assert [first[name] for name in named] == [
        "default_pg 0", RANKS, 0, 4 * N_ELEMENTS, "device", "cuda:0/20", "MainThread", 0,
    ]  # fmt: skip


def test_instants_are_unix_time_and_ranks_of_one_host_have_one_clock(alike: pd.DataFrame) -> None:
    first = alike[alike["operation"] == "DATA"].iloc[0]
    assert first["timestamp"].value == BASE_NS + int(FIRST_US + 1) * 1000
    assert {file["clock"]["alignment"] for file in alike.attrs["files"]} == {"same host"}


def test_without_the_name_of_a_host_clocks_are_not_taken_to_agree(tmp_path: Path) -> None:
    traces = tmp_path / "traces"
    traces.mkdir()
    for rank in range(RANKS):
        trace = trace_of(rank, few_events(rank))
        del trace["host_name"]
        (traces / f"rank{rank}.json").write_text(json.dumps(trace))
    assert {file["clock"]["alignment"] for file in imported(traces).attrs["files"]} == {"unaligned"}


def test_the_handler_of_tensorboard_tells_the_host_in_the_name_of_the_file(tmp_path: Path) -> None:
    trace = trace_of(0, few_events(0))
    del trace["host_name"]
    path = tmp_path / "node3_4711.1770388245000.pt.trace.json.gz"
    path.write_bytes(gzip.compress(json.dumps(trace).encode()))
    assert imported(path).attrs["files"][0]["sidecar"]["host"] == "node3"


def test_work_of_a_device_belongs_to_the_step_that_launched_it(tmp_path: Path) -> None:
    rows = of_events(
        tmp_path,
        x("ProfilerStep#5", "user_annotation", 77, 100, 50),
        x("ProfilerStep#6", "user_annotation", 77, 150, 50),
        x("cudaLaunchKernel", "cuda_runtime", 77, 140, 5, correlation=9),
        x("gemm", "kernel", 7, 160, 30, correlation=9, device=1, stream=7),
    )
    [row] = rows[rows["operation"] == "COMPUTE"].to_dict("records")
    assert (row["iteration"], row["stream"], row["clock"]) == (5, "cuda:1/7", "device")


def test_kernels_of_a_step_that_follow_each_other_closely_are_one_row(tmp_path: Path) -> None:
    begins = (110, 125, 160, 205)  # 5 us and 25 us apart, and in another step
    rows = of_events(
        tmp_path,
        x("ProfilerStep#0", "user_annotation", 77, 100, 95),
        x("ProfilerStep#1", "user_annotation", 77, 195, 100),
        *(x("gemm", "kernel", 7, at, 10 if at < 160 else 40, device=0, stream=7) for at in begins),
    )
    lasts_us = (rows["elapsed_ms"] * 1e3).round().astype(int)
    assert list(zip(rows["iteration"], lasts_us, strict=True)) == [(0, 25), (0, 40), (1, 40)]


def test_copies_have_their_direction_and_bytes(tmp_path: Path) -> None:
    names = [
        "Memcpy HtoD (Pageable -> Device)",
        "Memcpy DtoH (Device -> Pinned)",
        "Memcpy DtoD (Device -> Device)",
    ]
    rows = of_events(
        tmp_path,
        *(x(name, "gpu_memcpy", 7, 10 * i, 5, bytes=8, stream=7, device=0) for i, name in enumerate(names)),
    )
    assert rows["operation"].tolist() == ["H2D", "D2H", "D2D"]
    assert rows["message_size_bytes"].tolist() == [8, 8, 8]


def test_annotations_are_operations_and_what_lies_in_them_is_no_row_of_its_own(tmp_path: Path) -> None:
    rows = of_events(
        tmp_path,
        x("Optimizer.step#AdamW.step", "user_annotation", 77, 0, 100),
        x("aten::add_", "cpu_op", 77, 10, 20),
        x("load batch", "user_annotation", 77, 200, 100),
        x("all_reduce_gradients", "user_annotation", 77, 400, 100),
        x("aten::mm", "cpu_op", 77, 600, 100),
    )
    assert rows[["operation", "layer_name"]].values.tolist() == [
        ["OPTIMIZER", "AdamW.step"], ["LOAD BATCH", ""], ["ANNOTATED ALL_REDUCE_GRADIENTS", ""],
        ["COMPUTE", ""],
    ]  # fmt: skip


def test_a_backward_pass_is_one_row_though_it_runs_on_a_thread_of_autograd(tmp_path: Path) -> None:
    node = "autograd::engine::evaluate_function: MmBackward0"
    rows = of_events(
        tmp_path,
        {
            "ph": "M",
            "name": "thread_name",
            "pid": 77,
            "tid": 78,
            "args": {"name": "thread 78 (pt_autograd_0)"},
        },
        x("aten::mm", "cpu_op", 77, 0, 10),
        x(node, "cpu_op", 78, 100, 50),
        x("aten::mm", "cpu_op", 78, 110, 20),
        x(node, "cpu_op", 78, 5000, 50),
    )
    [row] = rows[rows["operation"] == "BACKWARD"].to_dict("records")
    assert (row["thread"], row["elapsed_ms"]) == ("MainThread", pytest.approx(4.95))


def of_gloo(tmp_path: Path, *events: dict[str, Any]) -> pd.DataFrame:
    shapes = {"Input Dims": [[1000], []], "Input type": ["float", ""]}
    return of_events(
        tmp_path,
        x("c10d::allreduce_", "cpu_op", 77, 100, 10),
        x("gloo:all_reduce", "user_annotation", 80, 120, 500, **shapes),
        *events,
    )


def test_over_gloo_a_collective_lasts_from_its_issue_to_its_end(tmp_path: Path) -> None:
    rows = of_gloo(tmp_path)
    row = rows[rows["operation"] == "IALLREDUCE"].iloc[0]
    assert (row["operation"], row["elapsed_ms"], row["message_size_bytes"]) == ("IALLREDUCE", 0.52, 4000)
    assert (row["group"], row["group_size"], row["seq"]) == ("default_pg 0", RANKS, 0)


@pytest.mark.parametrize(
    ("events", "waited_ms"),
    [
        pytest.param([], 0.51, id="it calls nothing else until the end"),
        pytest.param([(110, 300), (630, 10)], 0.21, id="it goes on when the operation has ended"),
        pytest.param([(110, 300), (600, 50)], 0.19, id="it goes on before the end is noted"),
        pytest.param([(110, 700)], 0.0, id="it works until after the end"),
        pytest.param([(110, 300), (9000, 10)], 0.0, id="it calls nothing, and goes on much later"),
    ],
)
def test_a_thread_waits_while_it_calls_nothing_until_the_operation_ends(
    tmp_path: Path, events: list[tuple[float, float]], waited_ms: float
) -> None:
    rows = of_gloo(tmp_path, *(x("aten::mm", "cpu_op", 77, at, lasts) for at, lasts in events))
    [wait] = rows[rows["operation"] == "WAIT"]["elapsed_ms"]
    assert wait == pytest.approx(waited_ms)


def test_of_several_groups_that_the_trace_does_not_tell_apart_nothing_is_matched(tmp_path: Path) -> None:
    traces = tmp_path / "traces"
    traces.mkdir()
    for rank in range(2):
        events = [x("c10d::allreduce_", "cpu_op", 77, 1, 1), x("gloo:all_reduce", "user_annotation", 8, 2, 9)]
        trace = trace_of(rank, events)
        trace["distributedInfo"]["pg_config"] *= 2
        (traces / f"{rank}.json").write_text(json.dumps(trace))
    made = import_kineto(traces, tmp_path / "out")
    assert made.not_told == ["groups", "sizes", "end"]
    assert match_collectives(read_timings(tmp_path / "out"))["instance"].is_unique


def test_messages_have_the_other_ranks_place_in_the_group(tmp_path: Path) -> None:
    further = {"Process Group Ranks": "[4, 6]", "Group size": 2, "Process Group Name": "3"}
    kernel = {"External id": 5, "stream": 20, "device": 0}
    rows = of_events(
        tmp_path,
        parameters(5, 10, 1, **{**further, "Collective name": "send", "Dst Rank": 6}),
        x("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", "kernel", 20, 30, 5, **kernel),
    )
    row = rows[rows["operation"] == "SEND"].iloc[0]
    assert (row["peer"], row["group"], row["group_size"]) == (1, "default_pg 3", 2)


def test_traces_that_begin_at_different_steps_are_numbered_from_one_that_all_have(tmp_path: Path) -> None:
    traces = tmp_path / "traces"
    traces.mkdir()
    for rank in range(RANKS):
        begins_us = FIRST_US + STEP_US if rank == 1 else 0
        events = [event for event in few_events(rank, seq=False) if event["ts"] >= begins_us]
        (traces / f"rank{rank}.json").write_text(json.dumps(trace_of(rank, events)))
    states = match_collectives(imported(traces))
    states = states[states["iteration"] >= 1]
    assert set(states["state"]) == {"complete"}
    assert len(states) == RANKS * (FEW - 1)


# -- what is no trace, or a damaged one ----------------------------------------------------------------


@functools.cache
def layouts() -> dict[str, bytes]:
    """Return one trace in the layouts that tools write."""
    trace = trace_of(3, few_events(3))
    events = trace["traceEvents"]
    return {
        "one line": json.dumps(trace).encode(),
        "indented": json.dumps(trace, indent=2).encode(),
        "as Kineto": _as_kineto(trace),
        "events first": json.dumps({"traceEvents": events, **trace}).encode(),
        "gzip": gzip.compress(json.dumps(trace).encode()),
        "byte order mark": b"\xef\xbb\xbf" + json.dumps(trace).encode(),
    }


def _as_kineto(trace: dict[str, Any]) -> bytes:
    head = json.dumps({name: value for name, value in trace.items() if name != "traceEvents"})[:-1]
    events = ",\n".join("  " + json.dumps(event, indent=4) for event in trace["traceEvents"])
    return f'{head},\n  "traceEvents": [\n{events}\n  ],\n  "traceName": "x.json"\n}}'.encode()


@pytest.mark.parametrize("layout", layouts())
@pytest.mark.parametrize(
    "block_bytes", [slow(2**22, "the same in one block", id="at once"), pytest.param(997, id="in blocks")]
)
def test_a_trace_is_read_in_any_layout_and_any_blocks(
    tmp_path: Path, layout: str, block_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("timing_logger.importing.trace_events._BLOCK_BYTES", block_bytes)
    path = tmp_path / "trace.json"
    path.write_bytes(layouts()[layout])
    made = import_kineto(path, tmp_path / "out")
    assert (made.ranks, made.rows, made.left_out) == ([3], 4 * FEW, {})


def test_a_list_of_events_without_more_is_a_trace_too(tmp_path: Path) -> None:
    path = tmp_path / "rank2.json"
    path.write_text(json.dumps(few_events(2))[:-1])  # the closing bracket may lack
    made = import_kineto(path, tmp_path / "out")
    assert (made.ranks, made.rows, made.left_out) == ([2], 4 * FEW, {})


def damaged(tmp_path: Path, content: bytes) -> Imported:
    path = tmp_path / "rank0.json"
    path.write_bytes(content)
    return import_kineto(path, tmp_path / "out")


def test_what_a_cut_trace_has_before_its_end_is_used(tmp_path: Path) -> None:
    whole = json.dumps(trace_of(0, events_of(0, None, ""))).encode()
    made = damaged(tmp_path, whole[: len(whole) // 2])
    assert made.left_out["the end of a trace that is cut or damaged"] == 1
    assert STEPS < made.rows < 4 * STEPS


def test_a_cut_file_of_gzip_is_used_as_far_as_it_goes(tmp_path: Path) -> None:
    made = damaged(tmp_path, gzip.compress(json.dumps(trace_of(0, events_of(0, None, ""))).encode())[:-2000])
    assert "the end of a trace that is cut or damaged" in made.left_out


BAD_EVENTS: dict[str, tuple[Any, str]] = {
    "times that are text": ({"ph": "X", "name": "a", "cat": "cpu_op", "ts": "soon"}, "an event that is none"),
    "a number": (17, "an event that is none"),
    "a list": ([[]], "an event that is none"),
    "a name that is none": ({"ph": "X", "name": {}, "ts": 1}, "an event that is none"),
    "negative": (x("aten::mm", "cpu_op", 77, -5, 1), "an event whose times are impossible"),
    "endless": (x("aten::mm", "cpu_op", 77, 5, 1e300), "an event whose times are impossible"),
    "a kernel of nothing": (
        x("ncclDevKernel_Generic", "kernel", 1, 5, 1),
        "a kernel of NCCL of which nothing",
    ),
    "no kernel": (parameters(9**9, 5.0, 1), "a collective that has no kernel of its own"),
    "early": (x("gloo:barrier", "user_annotation", 8, 5, 1), "a collective that was issued before the trace"),
    "another copy": (x("Memcpy XtoY", "gpu_memcpy", 8, 5, 1), "a copy neither between host and device"),
}


@pytest.mark.parametrize("what", BAD_EVENTS)
def test_an_event_that_cannot_be_used_is_counted(tmp_path: Path, what: str) -> None:
    event, reason = BAD_EVENTS[what]
    made = damaged(tmp_path, json.dumps(trace_of(0, [*few_events(0), event])).encode())
    assert made.rows == 4 * FEW
    [(told, n)] = made.left_out.items()
    assert (told.startswith(reason), n) == (True, 1), made.left_out


ODD_ARGUMENTS = [
    {"External id": "x"}, {"External id": [1]}, {"stream": {}, "device": []}, {"correlation": 1e300},
    {"correlation": 2**80}, {"Group size": -1, "Process Group Ranks": "[0, 1, ..."}, {"Seq": True},
    {"In msg nelems": 2**62}, {"dtype": None}, {"Process Group Name": 7}, {"Collective name": 3},
]  # fmt: skip


@pytest.mark.parametrize("odd", ODD_ARGUMENTS, ids=str)
def test_arguments_of_odd_types_leave_blanks_and_break_nothing(tmp_path: Path, odd: dict[str, Any]) -> None:
    events = few_events(0)
    for event in events:
        event["args"].update(odd)
    content = json.dumps(trace_of(0, events, host_name=5, baseTimeNanoseconds="x")).encode()
    assert damaged(tmp_path, content).rows >= FEW


NO_TRACES = {
    "empty": b"", "text": b"hello", "an object": b'{"a": 1}', "broken head": b'{"a": , "traceEvents": [{}]}',
    "no events": b'{"traceEvents": []}', "deep": b'{"a": ' + b"[" * 10**6, "binary": bytes(range(256)) * 100,
}  # fmt: skip


@pytest.mark.parametrize("what", NO_TRACES)
def test_what_is_no_trace_is_refused_and_leaves_nothing(tmp_path: Path, what: str) -> None:
    with pytest.raises(NotImportableError, match=r"paths: .*rank0\.json'"):
        damaged(tmp_path, NO_TRACES[what])
    assert [path.name for path in tmp_path.iterdir()] == ["rank0.json"]


@pytest.mark.parametrize(
    ("operation", "fields", "lacks"),
    [
        ("ALLREDUCE", {}, set()),
        ("ALLREDUCE", {"message_size_bytes": None}, {"sizes"}),
        ("IALLREDUCE", {"message_size_bytes": None}, {"sizes"}),
        ("BARRIER", {"message_size_bytes": None}, set()),
        ("IBARRIER", {"message_size_bytes": None}, set()),
        ("WAIT", {"message_size_bytes": None}, set()),
        ("SEND", {}, {"peers"}),
        ("IRECV", {}, {"peers"}),
        ("SEND", {"peer": 0}, set()),
        ("ALLREDUCE", {"group": "not told, rank 3"}, {"groups"}),
        ("ALLREDUCE", {"group": "not told, rank 2"}, set()),
        ("FORWARD", {"group": ""}, {"communication", "waits"}),
    ],
)
def test_what_rows_of_communication_lack_is_not_told(
    operation: str, fields: dict[str, Any], lacks: set[str]
) -> None:
    assert _not_told([record(operation, **fields)], 3) == {"end", *lacks}


def test_two_traces_of_one_rank_are_refused(tmp_path: Path) -> None:
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_text(json.dumps(trace_of(1, few_events(1))))
    with pytest.raises(NotImportableError, match="are both of rank 1"):
        import_kineto(tmp_path, tmp_path / "out")


def test_traces_that_tell_no_rank_are_refused_where_there_are_several(tmp_path: Path) -> None:
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_text(json.dumps({"traceEvents": few_events(1)}))
    with pytest.raises(NotImportableError, match="nothing tells the rank"):
        import_kineto(tmp_path, tmp_path / "out")
    assert import_kineto(tmp_path / "a.json", tmp_path / "out").ranks == [0]
