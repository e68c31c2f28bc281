"""The summary of hundreds of ranks: its tables show the ends and the middle."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pandas as pd
import pytest
from timing_files import record, write_sidecar, write_timing_file

from timing_logger import analysis, read_timings
from timing_logger.analysis import Summary
from timing_logger.cli import main
from timing_logger.reading.named_ranks import listed_ranks, named_ranks
from timing_logger.report import summary_text
from timing_logger.report._limits import MOST_LINES, ends_and_middle
from timing_logger.schema.sidecar import Counters


def run_of(folder: Path, n_ranks: int) -> Path:
    """Write files of ranks of which each waits 1 ms longer than the one before, and the last not at all."""
    for rank in range(n_ranks):
        elapsed_ms = 0.5 if rank == n_ranks - 1 else 1.0 + rank
        reduction = record("ALLREDUCE", 2.0 - elapsed_ms / 1e3, elapsed_ms, seq=0, group_size=n_ranks)
        file = write_timing_file(folder, rank, [reduction])
        lost = Counters(2, 1, 1, 0) if rank == 3 else None
        write_sidecar(file, counters=lost)
    return folder


@pytest.fixture(scope="module")
def of_24(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run_of(tmp_path_factory.mktemp("of_24"), 24)


@pytest.fixture(scope="module")
def timings(of_24: Path) -> pd.DataFrame:
    return read_timings(of_24)


@pytest.fixture(scope="module")
def summary(timings: pd.DataFrame) -> Summary:
    """The summary of 24 ranks."""
    return analysis.overview(timings)


@pytest.fixture(scope="module")
def text(summary: Summary) -> str:
    return summary_text(summary)


def ranks_in(text: str, table: str) -> list[int]:
    """The column ``rank`` of the table whose header begins so."""
    blocks = (part.splitlines() for part in text.split("\n\n"))
    head, _, *lines = next(
        lines[i:] for lines in blocks for i in range(min(2, len(lines))) if lines[i].startswith(table)
    )
    at = head.split().index("rank")
    rows = [line.split() for line in lines]
    return [int(row[at if len(row) > 6 and row[0] == "ALLREDUCE" else 0]) for row in rows]


def test_of_more_than_twenty_ranks_each_operation_shows_the_ends_and_the_middle(text: str) -> None:
    assert ranks_in(text, "operation") == [23, 0, 10, 21, 22]
    assert "Of 24 ranks each operation shows the two that spent least in it" in text


def test_the_table_of_ranks_begins_with_the_one_that_all_others_waited_for(text: str) -> None:
    assert ranks_in(text, "rank  rows") == [23, *range(22, 3, -1)]
    assert "Of 24 ranks these are the 20 that others waited for longest" in text
    assert "4 are left out. --all shows all." in text


@pytest.mark.slow("that all are shown is quick for twenty, and that --all shows all in test_limits.py")
def test_all_ranks_are_shown_if_asked_for(summary: Summary) -> None:
    text = summary_text(summary, everything=True)
    assert ranks_in(text, "operation") == list(range(24))
    assert ranks_in(text, "rank  rows") == list(range(24))
    assert "these are the 20" not in text
    assert "each operation shows" not in text


def test_of_many_files_those_that_are_not_complete_are_shown(text: str) -> None:
    assert [word for word in text.split() if word.endswith(".csv")] == ["timing-rank3.csv"]


@pytest.mark.slow("that up to twenty ranks are all shown is quick")
def test_ranks_that_are_named_are_shown(of_24: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["summary", str(of_24), "--ranks", "5-9"]) == 0
    text = capsys.readouterr().out
    assert ranks_in(text, "operation") == [5, 6, 7, 8, 9]
    assert "each operation shows" not in text


def test_up_to_twenty_ranks_are_all_shown(timings: pd.DataFrame) -> None:
    text = summary_text(analysis.overview(timings[timings["rank"] < MOST_LINES]))
    assert ranks_in(text, "operation") == list(range(MOST_LINES))
    assert ranks_in(text, "rank  rows") == list(range(MOST_LINES))


def test_what_is_not_known_is_at_the_far_end() -> None:
    rows = [{"ms": float(n)} for n in range(21)]
    rows[7] = {"ms": float("nan")}
    shown = [row["ms"] for row in ends_and_middle(rows, "ms")]
    assert shown[:4] == [0.0, 1.0, 11.0, 20.0]
    assert shown[4] != shown[4]


@pytest.mark.parametrize(
    ("ranks", "named", "listed"),
    [
        ([3], "rank 3", "3"),
        ([1, 0, 1], "ranks 0 and 1", "0, 1"),
        ([4, 5, 6], "ranks 4, 5 and 6", "4, 5, 6"),
        ([64, *range(63)], "ranks 0 to 62 and 64", "0 to 62, 64"),
        (range(0, 16, 2), "ranks 0, 2, 4, 6, 8, 10, 12 and 14", "0, 2, 4, 6, 8, 10, 12, 14"),
        (
            [*range(0, 16, 2), *range(20, 29)],
            "ranks 0, 2, 4, 6, 8, 10, 12, 14 and 9 more",
            "0, 2, 4, 6, 8, 10, 12, 14, 9 more",
        ),
    ],
)
def test_many_ranks_are_named_in_few_words(ranks: Iterable[int], named: str, listed: str) -> None:
    assert named_ranks(ranks) == named
    assert listed_ranks(ranks) == listed
