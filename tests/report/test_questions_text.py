"""Answers to a single question: which rows of many are shown, and what is said of those and of the rest."""

from __future__ import annotations

import re
from typing import Any

import pandas as pd
import pytest

from timing_logger.report import questions
from timing_logger.report._limits import MOST_LINES, MOST_SETS
from timing_logger.report.questions import (
    bandwidth_text,
    compression_text,
    different_runs_text,
    of_the_fastest,
    on_expectation,
    overlap_text,
    reading_text,
    totals_text,
    waits_text,
)

WIDE = 250


def flat(text: str) -> str:
    """Return a text without its line ends: paragraphs are wrapped."""
    return re.sub(r"\s+", " ", text)


def firsts(text: str) -> list[str]:
    """Return the first cell of each row of the table that a text begins with."""
    return [line.split()[0] for line in text.partition("\n\n")[0].splitlines()[2:]]


# -- totals ----------------------------------------------------------------------------------------------


def totals(n: int) -> pd.DataFrame:
    return pd.DataFrame({"rank": range(n), "count": 1, "total_ms": [float(i) for i in range(n)]})


def test_of_many_ranks_those_with_most_time_are_shown_and_the_others_counted() -> None:
    said = totals_text(totals(MOST_LINES + 2), ["rank"], WIDE, everything=False)
    assert firsts(said) == [str(rank) for rank in range(MOST_LINES + 1, 1, -1)]
    assert "Of 22 rows these are the 20 with most total time; 2 are left out." in flat(said)


@pytest.mark.parametrize("everything", [True, False])
def test_of_many_operations_all_are_shown(everything: bool) -> None:
    frame = totals(MOST_LINES + 2).rename(columns={"rank": "operation"})
    said = totals_text(frame, ["operation"], WIDE, everything=everything)
    assert len(firsts(said)) == MOST_LINES + 2
    assert "left out" not in said


def test_of_many_ranks_all_are_shown_if_that_is_asked_for() -> None:
    assert len(firsts(totals_text(totals(MOST_LINES + 2), ["rank"], WIDE, everything=True))) == MOST_LINES + 2


def test_the_parts_that_rows_are_divided_by_come_first() -> None:
    by = {"rank": 3, "incarnation": 2, "epoch": 5, "iteration": 7}
    rows = [{**by, "count": 1, "total_ms": 1.0, "incarnation": run} for run in (2, 1)]
    heads, _, row, *_ = totals_text(pd.DataFrame(rows), list(by), WIDE).splitlines()
    assert heads.split() == ["rank", "run", "epoch", "iteration", "count", "total", "ms"]
    assert row.split() == ["3", "2", "5", "7", "1", "1.0"]


# -- bandwidth -------------------------------------------------------------------------------------------


def bandwidth(*groups: str, each: int = 1) -> pd.DataFrame:
    """Return rows of groups, each slower than the one before."""
    names = [group for group in groups for _ in range(each)]
    return pd.DataFrame({
        "operation": "ALLREDUCE", "group": names, "group_size": 2, "size_class_bytes": 1024.0, "count": 1,
        "message_size_bytes": 1000.0, "time_ms": 1.0,
        "busbw_gb_per_s": [10.0 / (i + 1) for i in range(len(names))],
    })  # fmt: skip


def test_a_group_that_all_rows_share_is_named_once_above_them() -> None:
    head, _, rest = bandwidth_text(bandwidth("world", "world"), WIDE).partition("\n")
    assert head == "Group world"
    assert "group" not in rest
    assert "world" not in rest


@pytest.mark.parametrize("groups", [("a", "b"), ("",)])
def test_several_groups_are_named_in_their_rows_and_none_nowhere(groups: tuple[str, ...]) -> None:
    said = bandwidth_text(bandwidth(*groups), WIDE)
    assert not said.startswith("Group")
    assert said.startswith("operation")
    assert ("group" in said.splitlines()[0].split()) == (len(groups) > 1)


def test_the_rows_of_few_groups_are_all_shown() -> None:
    frame = bandwidth(*map(str, range(MOST_SETS)), each=4)
    said = bandwidth_text(frame, WIDE, everything=False)
    assert len(firsts(said)) == 4 * MOST_SETS
    assert "left out" not in said


def test_of_many_groups_the_slowest_are_shown_first() -> None:
    frame = bandwidth(*(f"group{i}" for i in range(MOST_LINES + 1)))
    said = bandwidth_text(frame, WIDE, everything=False)
    lines = said.partition("\n\n")[0].splitlines()[2:]
    assert [line.split()[1] for line in lines] == [f"group{i}" for i in range(MOST_LINES, 0, -1)]
    assert "Of 21 rows these are the 20 that are slowest beside other groups" in flat(said)
    assert "left out. --all" not in bandwidth_text(frame, WIDE)


def test_a_row_is_as_slow_as_beside_the_fastest_with_its_operation_and_size() -> None:
    frame = pd.DataFrame({
        "operation": ["A", "A", "B", "A"], "size_class_bytes": [1024.0, 1024.0, 1024.0, 2048.0],
        "busbw_gb_per_s": [4.0, 1.0, 5.0, 2.0],
    })  # fmt: skip
    assert of_the_fastest(frame).tolist() == [1.0, 0.25, 1.0, 1.0]


def expected(*shares: float | None, **fields: Any) -> pd.DataFrame:
    frame = bandwidth(*[""] * len(shares)).assign(**fields)
    return frame.assign(share_of_expected=pd.Series(shares, dtype=float))


def test_nothing_is_expected_without_a_benchmark() -> None:
    assert list(on_expectation(bandwidth("a"), "")) == []


def test_it_is_said_if_a_benchmark_measured_nothing_that_is_here() -> None:
    assert list(on_expectation(expected(None), "ib.txt")) == [
        "Nothing here is an operation and a size that ib.txt measured."
    ]


def test_the_three_rows_with_most_time_are_compared_with_the_benchmark() -> None:
    frame = expected(0.1, 0.2, None, 0.4, 0.5, count=[9, 1, 99, 2, 2], time_ms=[1.0, 1.0, 1.0, 10.0, 6.0])
    *rows, legend = on_expectation(frame, "ib.txt")
    shares = (0.4, 0.5, 0.1)  # 20 ms, 12 ms, 9 ms
    assert rows == [
        f"ALLREDUCE of 1 kB: {share:.0%} of what ib.txt reached at this size." for share in shares
    ]
    assert legend.startswith("of expected: the bus bandwidth")


def test_a_row_of_a_group_is_compared_with_its_name() -> None:
    frame = expected(0.5).assign(group="dp")
    assert next(iter(on_expectation(frame, "ib.txt"))).startswith("ALLREDUCE of 1 kB in dp: 50% ")


def test_what_was_expected_is_shown_beside_the_bandwidth_once() -> None:
    heads, _, row, *_ = bandwidth_text(expected(0.5), WIDE, benchmark="ib.txt").splitlines()
    assert re.split(r"  +", heads.strip())[-3:] == ["of expected", "time", "busbw GB/s"]
    assert heads.count("GB/s") == 1
    assert row.split()[-4:] == ["50.0%", "1.000", "ms", "10.000"]


# -- waits -----------------------------------------------------------------------------------------------


NO_MESSAGES = pd.DataFrame({"group": [], "late_sender_ms": [], "late_receiver_ms": []})


def waits(n_ranks: int, *operations: str, **fields: Any) -> pd.DataFrame:
    """Return a table in which each rank waited as long as its number, and each operation more than before."""
    rows = [
        {"operation": name, "group": "", "rank": rank, "incarnation": 1, "count": 1,
         "wait_ms": float(rank + 100 * number), "clock_free_wait_ms": float(rank), "clock_violations": 0,
         "uncertainty_ms": 0.1, **fields}
        for number, name in enumerate(operations) for rank in range(n_ranks)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def ranks_shown(said: str) -> list[int]:
    return [int(line.split()[1]) for line in said.partition("\n\n")[0].splitlines()[2:]]


@pytest.mark.parametrize(("n_ranks", "shown"), [(20, list(range(20))), (21, [0, 1, 10, 19, 20])])
def test_of_many_ranks_both_ends_and_the_middle_are_shown(n_ranks: int, shown: list[int]) -> None:
    said = waits_text(waits(n_ranks, "BARRIER"), NO_MESSAGES, {}, WIDE, everything=False)
    assert ranks_shown(said) == shown
    assert ("Of 21 ranks each operation shows the two that waited least" in flat(said)) == (n_ranks > 20)
    assert ranks_shown(waits_text(waits(n_ranks, "BARRIER"), NO_MESSAGES, {}, WIDE)) == list(range(n_ranks))


def test_where_waits_are_not_known_those_without_clocks_decide_who_is_shown() -> None:
    frame = waits(21, "BARRIER", wait_ms=float("nan"))
    frame["clock_free_wait_ms"] = frame["clock_free_wait_ms"].tolist()[::-1]
    assert ranks_shown(waits_text(frame, NO_MESSAGES, {}, WIDE, everything=False)) == [20, 19, 10, 1, 0]


def test_of_many_ranks_the_operations_with_most_waiting_are_shown() -> None:
    frame = waits(21, *"abcdefghi")
    said = waits_text(frame, NO_MESSAGES, {}, WIDE, everything=False)
    assert sorted(set(firsts(said))) == list("bcdefghi")
    assert "Of 9 operations of groups these are the 8 with most waiting; 1 are left out." in flat(said)


def test_of_few_ranks_all_operations_are_shown() -> None:
    said = waits_text(waits(3, *"abcdefghi"), NO_MESSAGES, {}, WIDE, everything=False)
    assert len(firsts(said)) == 27
    assert "left out" not in said


@pytest.mark.parametrize(
    ("uncertainty_ms", "is_said"), [(float("nan"), True), (0.1, False)], ids=["unknown", "known"]
)
def test_clocks_that_are_not_known_to_be_aligned_are_told(uncertainty_ms: float, is_said: bool) -> None:
    said = waits_text(waits(2, "A", uncertainty_ms=uncertainty_ms), NO_MESSAGES, {}, WIDE)
    assert ("clocks are not known to be aligned" in flat(said)) == is_said


def test_of_no_waits_nothing_is_said_about_clocks() -> None:
    said = waits_text(waits(1, "A")[:0], NO_MESSAGES, {}, WIDE)
    assert "There are no such rows." in said
    assert "not known to be aligned" not in flat(said)


def test_rows_that_ended_too_early_are_counted() -> None:
    assert "ended before a rank" not in flat(waits_text(waits(2, "A"), NO_MESSAGES, {}, WIDE))
    said = waits_text(waits(2, "A", clock_violations=2), NO_MESSAGES, {}, WIDE)
    assert "4 rows ended before a rank had come that it needed" in flat(said)


@pytest.mark.parametrize(
    ("states", "sentence"),
    [
        ({"complete": 5, "incomplete": 2}, "Of 7 collectives 2 are incomplete"),
        ({"complete": 5, "mismatched": 3}, "and 3 do not fit together"),
        ({"complete": 5, "incomplete": 0, "mismatched": 0}, ""),
        ({"mismatched": 3}, "Of 3 collectives 0 are incomplete"),
        ({"incomplete": 3}, "and 0 do not fit together"),
        ({}, ""),
    ],
)
def test_collectives_that_are_left_out_are_counted(states: dict[str, int], sentence: str) -> None:
    said = flat(waits_text(waits(2, "A"), NO_MESSAGES, states, WIDE))
    assert sentence in said
    assert ("collectives" in said) == bool(sentence)


def messages(n: int) -> pd.DataFrame:
    """Return pairs of ranks, of which those in the middle waited most, on both sides together."""
    middle = [float(n - abs(2 * i - n)) for i in range(n)]
    return pd.DataFrame({
        "group": "", "sender": range(n), "receiver": range(1, n + 1), "count": 1, "bytes": 8,
        "late_sender_ms": [float(i) for i in range(n)],
        "late_receiver_ms": [100.0 + ms - i for i, ms in enumerate(middle)],
    })  # fmt: skip


def test_pairs_of_ranks_with_most_waiting_are_shown_with_what_their_columns_mean() -> None:
    said = waits_text(waits(2, "A"), messages(21), {}, WIDE, everything=False)
    pairs = said.split("\n\n")[2].splitlines()
    assert pairs[0].split()[:3] == ["from", "to", "messages"]
    assert [int(line.split()[0]) for line in pairs[2:5]] == [10, 11, 9]
    assert "Of 21 pairs of ranks these are the 20 with most waiting; 1 are left out." in flat(said)
    assert "late sender: how long receivers waited" in said
    assert "left out" not in waits_text(waits(2, "A"), messages(21), {}, WIDE)


def test_without_messages_nothing_is_said_of_them() -> None:
    said = waits_text(waits(2, "A"), NO_MESSAGES, {}, WIDE)
    assert "late sender" not in said
    assert "no such rows" not in said


# -- overlap ---------------------------------------------------------------------------------------------


NO_EFFICIENCIES = pd.DataFrame()


def overlap(n: int) -> pd.DataFrame:
    return pd.DataFrame({
        "rank": range(n), "incarnation": 1, "step_ms": 9.0, "compute_ms": 1.0, "communication_ms": 1.0,
        "exposed_ms": [float(i) for i in range(n)],
    })  # fmt: skip


def test_of_many_rows_those_with_most_exposed_communication_are_shown() -> None:
    said = overlap_text(overlap(21), NO_EFFICIENCIES, WIDE, everything=False)
    assert firsts(said) == [str(rank) for rank in range(20, 0, -1)]
    assert "Of 21 rows these are the 20 with most exposed communication; 1 are left out." in flat(said)
    assert len(firsts(overlap_text(overlap(21), NO_EFFICIENCIES, WIDE))) == 21


def test_the_efficiencies_that_are_known_are_told() -> None:
    known = {"parallel_efficiency": 0.5, "load_balance": 0.625, "communication_efficiency": 0.8}
    efficiencies = pd.DataFrame([known, dict.fromkeys(known, float("nan"))])
    said = flat(overlap_text(overlap(1), efficiencies, WIDE))
    assert said.count("Parallel efficiency") == 1
    assert "0.50 = load balance 0.62 x communication efficiency 0.80 (POP;" in said


# -- compression -----------------------------------------------------------------------------------------


def compressed(**fields: Any) -> pd.DataFrame:
    plain = {
        "layer_name": ["fc"], "pays": True, "break_even": 0.5, "achieved_ms": 1.0, "dense_estimate_ms": 2.0,
        "extrapolated_by": 1.0,
    }  # fmt: skip
    return pd.DataFrame({**plain, **fields})


def test_it_is_said_if_nothing_is_compressed() -> None:
    said = compression_text(compressed()[:0], WIDE)
    assert said.strip() == "Nothing is compressed in these files: no layer has a COMPRESS row."


@pytest.mark.parametrize(("pays", "word"), [(True, "yes"), (False, "no")])
def test_it_is_said_of_each_layer_whether_compression_pays(pays: bool, word: str) -> None:
    said = compression_text(compressed(pays=pays), WIDE)
    assert said.splitlines()[2].split()[:3] == ["fc", word, "0.50"]
    assert "estimate from" not in said
    assert "extrapolates" not in said


def test_layers_without_an_estimate_are_named_five_at_most() -> None:
    layers = [f"l{i}" for i in range(7)]
    estimates = [float("nan")] * 6 + [1.0]
    said = flat(compression_text(compressed(layer_name=layers, dense_estimate_ms=estimates), WIDE))
    assert "among as many ranks to estimate from: l0, l1, l2, l3, l4. Log" in said


def test_an_estimate_of_sizes_beyond_twice_those_measured_is_told() -> None:
    frame = compressed(layer_name=["a", "b", "c"], extrapolated_by=[2.0, 2.5, 1.0])
    said = flat(compression_text(frame, WIDE))
    assert said.count("extrapolates") == 1
    assert "b: its estimate extrapolates the sizes measured by a factor of 2.5." in said


# -- how it was read -------------------------------------------------------------------------------------


def test_files_of_different_runs_are_warned_of_with_the_reason() -> None:
    assert "different runs: they began on two days." in flat(
        different_runs_text("they began on two days", 99)
    )
    assert different_runs_text("", 99) == ""


def test_nothing_is_said_about_clocks_and_sidecars_without_trouble() -> None:
    assert questions.clocks_text([], 99) == ""


@pytest.mark.parametrize(
    ("engine", "by_file", "said"),
    [
        ("pandas", False, ""),
        ("pandas", True, "Read with --engine pandas, batch by batch."),
        ("pyarrow", False, "Read with --engine pyarrow."),
        ("pyarrow", True, "Read with --engine pyarrow, batch by batch."),
        ("cluster", False, "Read by the workers of the scheduler."),
    ],
)
def test_how_rows_were_read_is_told_unless_all_are_held_by_pandas(
    engine: str, by_file: bool, said: str
) -> None:
    assert reading_text(engine, 99, by_file=by_file).strip() == said
