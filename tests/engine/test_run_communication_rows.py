"""Read in batches, however small, the rows of communication tell what all rows together tell."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slow import examples, slow
from timing_files import record, write_timing_file

from timing_logger import analysis, read_timings
from timing_logger.analysis import COLUMNS_OF
from timing_logger.analysis.accounting.account import ACCOUNT
from timing_logger.analysis.collectives.bandwidth import BANDWIDTH
from timing_logger.analysis.collectives.compression import DENSE_TIMES, compression_against
from timing_logger.analysis.collectives.messages import MESSAGES
from timing_logger.analysis.collectives.waits import WAITS
from timing_logger.analysis.rows.analysis import Analysis, OfCommunication
from timing_logger.analysis.rows.steps import Meaning
from timing_logger.analysis.rows.tables import opened
from timing_logger.analysis.verdict.overview import OVERVIEW
from timing_logger.analysis.verdict.windows import STRAGGLERS
from timing_logger.engine.rows import Query
from timing_logger.engine.run import KeptRows, Wanted, answers_in_batches, in_one_table, kept_of, run
from timing_logger.engine.workers import Processes
from timing_logger.errors import TooLargeError
from timing_logger.reading.batches import batches_of
from timing_logger.reading.named_ranks import stated_world_size
from timing_logger.reading.timings import TimingFiles, timing_files
from timing_logger.report._trace_rows import (
    FLOWS_OF_COLLECTIVES,
    FLOWS_OF_MESSAGES,
    FlowsOf,
    flows_in,
    joined_flows,
)
from timing_logger.schema.record import Record


def as_text(table: pd.DataFrame) -> pd.DataFrame:
    coded = [name for name in table if isinstance(table[name].dtype, pd.CategoricalDtype)]
    return table.astype(dict.fromkeys(coded, "str"))


def assert_same(found: pd.DataFrame, expected: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(
        as_text(found).reset_index(drop=True), as_text(expected).reset_index(drop=True), check_exact=True
    )


def written(folder: Path, processes: Sequence[Sequence[list[Record]]]) -> Path:
    for rank, runs in enumerate(processes):
        for incarnation, records in enumerate(runs, 1):
            write_timing_file(folder, rank, records, incarnation=incarnation)
    return folder


def in_batches(found: TimingFiles, *analyses: Analysis[Any]) -> tuple[Any, ...]:
    return answers_in_batches(analyses, Query(found), Processes(1))


def assert_batches_say_the_same(folder: Path) -> None:
    """Of all that rows of communication are kept for."""
    rows = read_timings(folder, incarnations="all", engine="pandas")
    found = timing_files(folder, incarnations="all", columns=COLUMNS_OF["waits"])
    (totals, states, flawed), sums_of_messages = in_batches(found, WAITS, MESSAGES)
    assert_same(totals, analysis.summarize_waits(analysis.waits(rows)))
    matched = analysis.match_collectives(rows).drop_duplicates("instance")
    assert states == matched["state"].value_counts().to_dict()
    assert_same(
        flawed,
        matched.loc[matched["state"] != "complete", ["group", "seq", "operation", "state", "why"]],
    )
    assert_same(sums_of_messages, analysis.summarize_messages(analysis.message_waits(rows)))
    found = timing_files(folder, incarnations="all", columns=COLUMNS_OF["bandwidth"])
    (of_bandwidth,) = in_batches(found, BANDWIDTH)
    assert_same(of_bandwidth, analysis.bandwidth(rows))
    found = timing_files(folder, incarnations="all", columns=COLUMNS_OF["compression"])
    (of_compression,) = in_batches(found, compression_against(None))
    assert_same(of_compression, analysis.compression(rows))
    found = timing_files(folder, incarnations="all")
    flows = in_batches(found, FLOWS_OF_COLLECTIVES, FLOWS_OF_MESSAGES)
    assert chains(joined_flows(flows)) == chains(
        flows_in(opened(rows), stated_world_size(rows.attrs["files"]))
    )


def chains(flows: FlowsOf) -> set[frozenset[tuple[Any, ...]]]:
    """The rows of each flow, with what arrows they have, whatever its number is."""
    found: dict[int, set[tuple[Any, ...]]] = {}
    for process, (rows, numbers, *arrows) in flows.items():
        for number, *row in zip(numbers.tolist(), rows.tolist(), *(a.tolist() for a in arrows), strict=True):
            found.setdefault(number, set()).add((process, *row))
    return set(map(frozenset, found.values()))


# -- a run in which everything happens that parts could tear ---------------------------------------------


def collectives(rank: int, step: int, start_s: float, seq: int, **fields: Any) -> list[Record]:
    """One step: numbered, in the background with its wait in the next step, and without a number."""
    wait = {"elapsed_ms": 3 + rank, "seq": seq + 1, "group_size": 3}
    return [
        record("FORWARD", start_s, 5.0, iteration=step, group="", group_size=None),
        # Rank 1 is one step behind in what it calls its iteration.
        record("ALLREDUCE", start_s + 0.01, 7.3 - rank, iteration=step - (rank == 1), seq=seq, group_size=3,
               **fields),
        record("IALLREDUCE", start_s + 0.02, 40.1, iteration=step, seq=seq + 1, group_size=3, **fields),
        record("WAIT", start_s + 0.05, iteration=step + 1, **wait, **fields),
        record("ALLGATHERV", start_s + 0.06, 2.1, iteration=step, group="tp", group_size=None,
               message_size_bytes=100 * rank),
        record("BARRIER", start_s + 0.07, 1.7 + rank / 3, iteration=None, group="tp", group_size=2),
    ]  # fmt: skip


def reduction(rank: int, step: int, start_s: float) -> list[Record]:
    """One that is compressed, with durations whose sum depends on the order in which they are added."""
    of_layer: dict[str, Any] = {"iteration": step, "layer_name": "embedding", "group_size": 3}
    return [
        record("COMPRESS", start_s + 0.03, 1 / (3 + step + rank), phase="sparse", **of_layer),
        record("ALLGATHER_TOPK", start_s + 0.031, 1 / (7 + step) + rank, phase="sparse values",
               group="sparse", seq=step if step % 3 else None, message_size_bytes=64, **of_layer),
        record("MERGE", start_s + 0.035, 0.1 + rank / 7, phase="sparse", **of_layer),
        record("DECOMPRESS", start_s + 0.036, 0.3 / (1 + step), phase="sparse", **of_layer),
    ]  # fmt: skip


def messages(rank: int, step: int, start_s: float) -> list[Record]:
    """To the next rank, in a group whose members only other rows tell."""
    sends = record("SEND", start_s + 0.08, 1.1, iteration=step, group="pp", seq=step, peer=rank + 1,
                   group_size=3)  # fmt: skip
    receives = sends._replace(operation="RECV", peer=rank - 1, start_ns=sends.start_ns + 1000)
    return ([sends] if rank < 2 else []) + ([receives] if rank > 0 else [])


def process(rank: int, steps: range, first_seq: int = 0) -> list[Record]:
    found = []
    for step in steps:
        start_s = 1 + step / 10 + rank / 1000
        found += collectives(rank, step, start_s, first_seq + 2 * (step - steps.start))
        found += reduction(rank, step, start_s)
        found += messages(rank, step, start_s)
        # A group that is created again under its old name counts from 0 again.
        found.append(
            record("ALLREDUCE", start_s + 0.09, 2.0 + rank, iteration=step, group="anew", group_size=3,
                   seq=step % 4)
        )  # fmt: skip
    return found


@pytest.fixture(scope="module")
def difficult(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three ranks; rank 2 dies early, and rank 0 was started a second time, all alone."""
    processes = [[process(0, range(8)), process(0, range(2))], [process(1, range(8))],
                 [process(2, range(3))]]  # fmt: skip
    return written(tmp_path_factory.mktemp("run"), processes)


@pytest.fixture
def batched(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of so many bytes."""
    sized = partial(batches_of, n_bytes=request.param)
    monkeypatch.setattr("timing_logger.engine.rows.batches_of", sized)


@pytest.mark.parametrize(
    "batched",
    [slow(1, "batches of a row each, as of few rows"), 25_000, slow(10**9, "all in one batch")],
    indirect=True,
)
@pytest.mark.usefixtures("batched")
def test_batches_say_the_same_of_a_difficult_run(difficult: Path) -> None:
    assert_batches_say_the_same(difficult)


def test_batches_take_the_speed_of_full_reductions_from_another_run(difficult: Path) -> None:
    rows = read_timings(difficult, incarnations="all", engine="pandas")
    found = timing_files(difficult, incarnations="all", columns=COLUMNS_OF["compression"])
    faster = rows.assign(elapsed_ms=rows["elapsed_ms"] / 3)
    expected = analysis.compression(rows, faster)
    (in_parts,) = in_batches(found, compression_against(DENSE_TIMES.of(faster)))
    assert_same(in_parts, expected)
    assert (expected["break_even"] > analysis.compression(rows)["break_even"]).all()


def test_only_rows_are_kept_that_some_analysis_wants(difficult: Path) -> None:
    rows = read_timings(difficult, incarnations="all", engine="pandas")
    (kept,) = kept_of(rows, Wanted.by([WAITS])).rows
    assert set(kept["operation"].unique()) == {
        "ALLREDUCE",
        "IALLREDUCE",
        "WAIT",
        "ALLGATHERV",
        "BARRIER",
        "ALLGATHER_TOPK",
    }
    (with_bytes,) = kept_of(rows, Wanted.by([WAITS, BANDWIDTH])).rows
    assert set(with_bytes["operation"].unique()) - set(kept["operation"].unique()) == {"SEND", "RECV"}
    assert {*COLUMNS_OF["waits"], "rank", "incarnation"} <= {*with_bytes}


def test_all_rows_are_given_at_once_process_by_process(difficult: Path) -> None:
    seen: list[pd.DataFrame] = []
    looking = OfCommunication(COLUMNS_OF["waits"], lambda rows: seen.append(rows))
    in_batches(timing_files(difficult, incarnations="all", columns=COLUMNS_OF["waits"]), looking)
    (rows,) = seen
    processes = rows[["rank", "incarnation"]].drop_duplicates()
    assert processes.to_numpy().tolist() == [[0, 1], [0, 2], [1, 1], [2, 1]]
    assert rows["rank"].is_monotonic_increasing


@pytest.mark.slow("a rarer case of a rank that begins a second time, which the difficult run has")
def test_a_life_of_a_rank_without_collectives_counts_as_one(tmp_path: Path) -> None:
    """The second life of rank 0 is not matched with the first of rank 1."""
    steps = [record(seq=seq, group_size=2, elapsed_ms=2.0) for seq in range(4)]
    written(tmp_path, [[[record("FORWARD")], steps], [steps]])
    assert_batches_say_the_same(tmp_path)


@pytest.mark.slow("a rarer case of a rank that begins a second time, which the difficult run has")
def test_a_rank_of_which_the_first_file_is_lost_is_matched_in_batches_as_in_the_table(tmp_path: Path) -> None:
    steps = [record(seq=seq, group_size=3, elapsed_ms=2.0) for seq in range(4)]
    written(tmp_path, [[steps, steps]] * 3)
    (tmp_path / "timing-rank1.csv").unlink()
    assert_batches_say_the_same(tmp_path)


@pytest.mark.slow("a rarer case of a rank that dies, as one of the difficult run does")
@pytest.mark.parametrize("epoch", [None, 0])
def test_a_rank_that_died_before_iterations_began_anew_stays_with_the_first_pass(
    tmp_path: Path, epoch: int | None
) -> None:
    steps = [
        record(start_s=1 + i / 10, iteration=i % 6, epoch=epoch, group_size=2, elapsed_ms=2.0 + i)
        for i in range(18)
    ]
    written(tmp_path, [[steps], [steps[:4]]])
    assert_batches_say_the_same(tmp_path)


# -- any rows ------------------------------------------------------------------------------------------

rows = st.builds(
    record,
    operation=st.sampled_from(
        [
            "ALLREDUCE",
            "IALLREDUCE",
            "ALLGATHERV",
            "BCAST",
            "WAIT",
            "SEND",
            "RECV",
            "H2D",
            "FORWARD",
            "COMPRESS",
            "DECOMPRESS",
            "MERGE",
        ]
    ),
    layer_name=st.sampled_from(["", "layer1"]),
    phase=st.sampled_from(["", "sparse", "sparse values"]),
    start_s=st.integers(1, 40).map(lambda tenths: tenths / 10),
    elapsed_ms=st.none() | st.integers(1, 3000).map(lambda tenths: tenths / 7),
    iteration=st.none() | st.integers(0, 3),
    seq=st.none() | st.integers(0, 5),
    group=st.sampled_from(["", "world", "tp"]),
    group_size=st.none() | st.integers(1, 3),
    peer=st.none() | st.integers(0, 2),
    message_size_bytes=st.none() | st.integers(0, 5),
    status=st.sampled_from(["ok", "ok", "ok", "unresolved"]),
)
processes = st.lists(st.lists(st.lists(rows, max_size=8), min_size=1, max_size=2), min_size=1, max_size=3)


@pytest.mark.slow("random rows; those of the difficult run are quick")
@given(processes)
@settings(deadline=None, max_examples=examples(5))
@pytest.mark.filterwarnings("ignore:.*left out")
def test_batches_say_the_same_of_any_rows(ranks: list[list[list[Record]]]) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        patched.setattr("timing_logger.engine.rows.batches_of", partial(batches_of, n_bytes=1))
        assert_batches_say_the_same(written(Path(folder), ranks))


# -- memory --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "asked", [WAITS, OVERVIEW, *(slow(one, "refused as waits are") for one in (ACCOUNT, STRAGGLERS))]
)
def test_without_room_for_the_rows_the_error_says_how_to_choose_fewer(
    difficult: Path, monkeypatch: pytest.MonkeyPatch, asked: Analysis[Any]
) -> None:
    for module in ("rows", "run"):
        monkeypatch.setattr(f"timing_logger.engine.{module}.free_memory_bytes", lambda: 1000.0)
    with pytest.raises(TooLargeError, match=r"need about .* Choose fewer: --iterations A:B, or --ranks"):
        run(Query(timing_files(difficult, engine="pyarrow")), asked)


def test_the_rows_of_a_run_are_told_from_those_of_another(difficult: Path) -> None:
    rows = read_timings(difficult, incarnations="all", engine="pandas")
    parts = [kept_of(of_rank, Wanted.by([WAITS])) for _, of_rank in rows.groupby("rank")]
    table = in_one_table(parts)
    assert table.groupby(["rank", "incarnation"])["run_of_rank"].unique().map(list).tolist() == [
        [0],
        [1],
        [0],
        [0],
    ]


def test_epochs_are_for_what_they_are_in_some_process_also_if_that_has_no_row_of_communication() -> None:
    rows = pd.DataFrame({"rank": [0, 0], "incarnation": [1, 1]})
    parts = [
        KeptRows(np.array([rank]), np.array([1]), meaning, [its])
        for rank, meaning, its in ((0, Meaning.NOTHING, rows), (1, Meaning.TELL_STEPS_APART, rows[:0]))
    ]
    assert in_one_table(parts)["meaning_of_epochs"].tolist() == [Meaning.TELL_STEPS_APART] * 2
