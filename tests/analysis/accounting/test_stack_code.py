"""Samples are told by the operation that the account of the run has at their instants."""

from __future__ import annotations

import random
from typing import Any

import pandas as pd
import pytest
from account_rows import barrier, random_run, row, table, what_at

from timing_logger.analysis import sampled_code
from timing_logger.schema.timing_files import COLUMNS, StackSample


def samples(*seen: tuple[int, float, str, int]) -> pd.DataFrame:
    """Return samples: of each the rank, the instant in ms, the function and the line."""
    rows = [StackSample(at_ms / 1e3, function, "a/b.py", line, "") for _, at_ms, function, line in seen]
    whose = pd.DataFrame({"rank": [rank for rank, *_ in seen], "incarnation": 1})
    return pd.concat([whose, pd.DataFrame(rows, columns=list(COLUMNS))], axis=1)


RUN = table(
    row(0, "forward", 0, 4), row(1, "forward", 0, 8), *barrier([4, 8], 10),
    row(0, "load", 12, 14), row(1, "load", 10, 14),
)  # fmt: skip


def told(seen: pd.DataFrame, timings: pd.DataFrame = RUN) -> list[tuple[object, ...]]:
    found = sampled_code(timings, seen)
    return list(
        found[["rank", "operation", "function", "line", "samples", "share"]].itertuples(
            index=False, name=None
        )
    )


def test_a_sample_counts_for_the_operation_at_its_instant() -> None:
    assert told(samples((0, 1, "f", 3), (0, 13, "g", 5))) == [
        (0, "forward", "f", 3, 1, 1.0),
        (0, "load", "g", 5, 1, 1.0),
    ]


def test_where_no_row_is_it_counts_for_none() -> None:
    assert told(samples((0, 11, "f", 3))) == [(0, "", "f", 3, 1, 1.0)]


def test_while_a_rank_was_blocked_or_had_no_row_it_does_not_count() -> None:
    assert told(samples((0, 5, "f", 3), (0, 9, "f", 3), (0, 99, "f", 3), (7, 1, "f", 3))) == []


def test_shares_are_of_the_rank_and_operation_and_the_line_is_that_with_most_samples() -> None:
    seen = samples((1, 1, "f", 3), (1, 2, "f", 4), (1, 3, "f", 4), (1, 4, "g", 9), (0, 1, "g", 9))
    assert told(seen) == [
        (0, "forward", "g", 9, 1, 1.0),
        (1, "forward", "f", 4, 3, 0.75),
        (1, "forward", "g", 9, 1, 0.25),
    ]


def test_a_process_whose_main_thread_does_not_tell_what_it_did_has_none() -> None:
    in_thread = RUN.assign(thread="trainer")
    assert told(samples((0, 1, "f", 3)), in_thread) == []


def test_without_samples_the_table_has_its_columns_and_no_row() -> None:
    found = sampled_code(RUN, samples())
    assert len(found) == 0
    assert found["samples"].dtype == sampled_code(RUN, samples((0, 1, "f", 3)))["samples"].dtype


@pytest.mark.slow("random runs; for which operation a sample counts is quick")
@pytest.mark.parametrize("seed", range(10))
def test_each_sample_of_a_random_run_has_the_operation_that_the_definition_gives(seed: int) -> None:
    timings, n = random_run(seed)
    rows: list[Any] = timings.to_dict("records")
    rng = random.Random(seed)
    seen, expected = [], []
    for number in range(100):
        rank = rng.randrange(n)
        its = timings[timings["rank"] == rank]
        at_s = rng.uniform(its["start_s"].min(), its["end_s"].max())
        what, operation = what_at(rows, rank, at_s)
        seen.append((rank, 1e3 * at_s, f"f{number}", number))
        if what in ("own work", "not timed"):
            expected.append((rank, operation, f"f{number}"))
    found = [(rank, operation, function) for rank, operation, function, *_ in told(samples(*seen), timings)]
    assert sorted(found) == sorted(expected)
