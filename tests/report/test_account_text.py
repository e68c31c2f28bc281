"""One account is shown everywhere: by ``waits`` and ``summary``, on the page, and by ``analysis.account``."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from account_rows import Row, barrier, row, table
from crowds import crowd
from hypothesis import given
from hypothesis import strategies as st
from simulated_runs import data_parallel, factors
from slow import slow
from small_run import visible_text
from timing_files import write_table

from timing_logger import analysis, read_timings
from timing_logger.cli import main
from timing_logger.report import account_text, summary_text, waits_text
from timing_logger.report._account_figures import AccountFigures, percents
from timing_logger.report._limits import MOST_LINES
from timing_logger.report.account import most_waited_for
from timing_logger.report.html import report_html
from timing_logger.report.html._account import account_chart
from timing_logger.report.html._findings import Findings


def printed(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main(list(map(str, arguments))) == 0
    return capsys.readouterr().out


def simulated(seed: int) -> pd.DataFrame:
    """Return a run of two to six ranks, of which one may be slow."""
    rng = np.random.default_rng(seed)
    n_ranks = int(rng.integers(2, 7))
    slow = factors(int(rng.integers(3, 9)), n_ranks, noise=float(rng.choice([0.0, 0.1])), seed=seed)
    slow[:, rng.integers(n_ranks)] *= rng.choice([1.0, 1.5, 4.0])
    return data_parallel(slow, noise=0.05, seed=seed)


# -- in text -------------------------------------------------------------------------------------------


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=6).filter(lambda parts: math.fsum(parts) > 1e-9))
def test_percentages_add_up_and_each_is_off_by_less_than_a_tenth(parts: list[float]) -> None:
    shown = [float(text.rstrip("%")) for text in percents(parts)]
    assert round(10 * math.fsum(shown)) == 1000
    for part, percent in zip(parts, shown, strict=True):
        assert abs(100 * part / math.fsum(parts) - percent) < 0.1


def test_of_nothing_no_percentage_is_known() -> None:
    assert percents([0.0, 0.0]) == ["-", "-"]


def test_who_waited_for_whom_comes_first_with_the_rank_most_waited_for_on_the_left() -> None:
    timings = table(*barrier([0, 2, 6], 7), *barrier([7, 9, 8], 10, seq=1))
    said = account_text(analysis.account(timings), 100)
    parts, _, matrix, *_ = (block.splitlines() for block in said.split("\n\n"))
    assert parts[0].split() == ["rank", "wall", "s", "own", "work", "not", "timed", "transfer", "waiting"]
    assert matrix[0].split() == ["rank", "waited", "ms", "for", "2", "for", "1"]
    assert [line.split() for line in matrix[2:]] == [
        ["0", "8.0", "6.0", "2.0"], ["1", "4.0", "4.0", "0.0"], ["2", "1.0", "0.0", "1.0"],
        ["all", "13.0", "10.0", "3.0"],
    ]  # fmt: skip


def test_only_what_ranks_waited_for_is_named_beside_the_three_most_waited_for() -> None:
    figures = AccountFigures.of(analysis.account(data_parallel(factors(40, 5, noise=0.1))))
    (said,) = most_waited_for(figures)
    assert said.endswith(" for others.")


def test_columns_for_which_there_is_no_room_are_summed() -> None:
    steps = [np.arange(12.0) + 20 * (np.arange(12) == late) for late in range(12)]
    timings = table(
        *(row for k, starts in enumerate(steps) for row in barrier(starts + 100 * k, 100 * k + 50, seq=k))
    )
    said = account_text(analysis.account(timings), 80)
    matrix = said.split("\n\n")[2].splitlines()
    assert max(map(len, said.splitlines())) <= 80
    rows = matrix[1 + next(i for i, line in enumerate(matrix) if line.startswith("---")) :]
    assert "others" in " ".join(matrix)
    for line in rows:
        total, *cells = map(float, line.split()[1:])
        assert sum(cells) == pytest.approx(total, abs=0.05 * len(cells))


@pytest.mark.parametrize("n_ranks", [21, slow(64, "as 21, more than are shown")])
def test_of_many_ranks_the_largest_are_shown_and_the_rest_is_one_figure(n_ranks: int) -> None:
    told = analysis.account(data_parallel(factors(20, n_ranks, noise=0.1), noise=0.1))
    waiting = analysis.waiting_by_rank(told)
    _, _, by_whom, pairs, *_ = account_text(told, 100).split("\n\n")
    for block, n_all in ((by_whom, waiting["waited_for"].nunique()), (pairs, len(waiting))):
        rows = [line.split() for line in block.splitlines()[2:]]
        *shown, rest, whole = rows
        assert rest[:2] == [str(n_all - 10), "others"]
        assert whole[0] == "all"
        assert {f"{waiting['ms'].sum():.1f}", "100.0%"} <= set(whole)
        percentages = [
            float(cell.rstrip("%")) for row in (*shown, rest) for cell in row if cell.endswith("%")
        ]
        assert round(10 * sum(percentages)) == 1000
    assert max(map(len, pairs.splitlines())) <= 100


def test_a_rank_alone_waits_for_nobody() -> None:
    said = account_text(analysis.account(table(row(0, "load", 0, 4))), 100)
    assert said.splitlines()[2].split() == ["0", "0.00", "100.0%", "0.0%", "0.0%", "0.0%"]
    assert "for" not in said.splitlines()[0]
    assert len(said.split("\n\n")) == 2


def test_time_of_which_the_other_ranks_are_missing_is_explained() -> None:
    said = account_text(analysis.account(table(*barrier([0, 5], 6, group_size=3))), 100)
    assert "not matched: in communication of which the rows of other ranks are missing" in said


def test_threads_that_count_in_no_figure_are_counted() -> None:
    other = {"thread": "io", "group": "io", "group_size": 2}
    timings = table(*barrier([0, 5], 6), row(0, "BARRIER", 1, 9, **other), row(1, "BARRIER", 2, 9, **other))
    assert "2 threads more had an account" in account_text(analysis.account(timings), 100)


def waits_of(n_ranks: int) -> pd.DataFrame:
    """What ranks waited in one operation, each longer than the one before."""
    rows = [
        {
            "operation": "ALLREDUCE", "group": "world", "rank": rank, "incarnation": 1, "count": 2,
            "wait_ms": float(rank), "clock_free_wait_ms": float(rank), "arrival_skew_ms": 1.0,
            "transfer_ms": 1.0, "times_last": 0, "clock_violations": 0, "uncertainty_ms": 0.1,
        }
        for rank in range(n_ranks)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def test_a_table_by_operation_shows_all_of_many_ranks_only_if_asked_to() -> None:
    messages = pd.DataFrame({"late_sender_ms": [], "late_receiver_ms": []})
    brief, whole = (
        waits_text(waits_of(24), messages, {}, 100, everything=everything) for everything in (False, True)
    )
    assert len(re.findall(r"^ALLREDUCE ", brief, re.MULTILINE)) == 5
    assert "Of 24 ranks each operation shows the two that waited least" in " ".join(brief.split())
    assert len(re.findall(r"^ALLREDUCE ", whole, re.MULTILINE)) == 24
    assert "each operation shows" not in whole


@pytest.mark.slow("the command prints the table above; that commands take --all, test_limits.py says")
def test_tables_by_operation_show_all_of_many_ranks_only_if_asked_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_table(tmp_path, data_parallel(factors(2, 24, noise=0.1), noise=0.1))
    brief, whole = printed(capsys, "waits", folder), printed(capsys, "waits", folder, "--all")
    assert len(re.findall(r"^ALLREDUCE ", brief, re.MULTILINE)) == 5
    assert "Of 24 ranks each operation shows the two that waited least" in " ".join(brief.split())
    assert len(re.findall(r"^ALLREDUCE ", whole, re.MULTILINE)) == 24
    assert "each operation shows" not in whole


# -- everywhere ------------------------------------------------------------------------------------------


def known(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows as JSON has them: null where nothing is known."""
    return [{key: None if pd.isna(value) else value for key, value in one.items()} for one in rows]


IN_TEXT = r"^(\d+) .*?((?: +[\d.]+%){4,5})$"
"""A rank, and the parts of its time."""


@pytest.mark.slow("that the command takes the account, and how the text shows it, is quick by itself")
@pytest.mark.parametrize("seed", range(50))
def test_summary_shows_the_account_that_waits_shows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], seed: int
) -> None:
    folder = write_table(tmp_path, simulated(seed))
    expected = known(analysis.account(read_timings(folder)).to_dict("records"))
    assert expected
    assert json.loads(printed(capsys, "summary", folder, "--json"))["account"] == expected
    in_waits, in_summary = (printed(capsys, command, folder) for command in ("waits", "summary"))
    of_ranks = re.findall(IN_TEXT, in_waits.partition("\n\n")[0], re.MULTILINE)
    in_table = re.findall(IN_TEXT, in_summary.partition("rank  rows")[2], re.MULTILINE)
    assert [(rank, parts.split()) for rank, parts in of_ranks] == [
        (rank, parts.split()) for rank, parts in in_table
    ]
    assert of_ranks


@pytest.fixture(scope="module")
def found() -> Findings:
    """What a report holds of five ranks, of which one is slow."""
    return Findings.of(crowd(5, 8, slow=2))


def test_the_table_of_ranks_in_a_summary_has_the_parts_of_the_account(found: Findings) -> None:
    in_waits = account_text(found.summary.account, 100)
    in_summary = summary_text(found.summary)
    of_ranks = re.findall(IN_TEXT, in_waits.partition("\n\n")[0], re.MULTILINE)
    in_table = re.findall(IN_TEXT, in_summary.partition("rank  rows")[2], re.MULTILINE)
    assert [(rank, parts.split()) for rank, parts in of_ranks] == [
        (rank, parts.split()) for rank, parts in in_table
    ]
    assert of_ranks


def test_the_tables_of_the_page_have_the_figures_of_the_text(found: Findings) -> None:
    totals, _, matrix, *_ = account_text(found.summary.account, 100).split("\n\n")
    of_page = account_chart(found)
    of_ranks = re.findall(IN_TEXT, totals, re.MULTILINE)
    shown = [(row[0], [cell for cell in row if cell.endswith("%")][:4]) for row in of_page.ranks.rows]
    assert shown == [(rank, parts.split()[:4]) for rank, parts in of_ranks]
    assert of_ranks
    (waiting,) = of_page.waiting
    assert waiting.rows == [line.split() for line in re.findall(r"^(?:\d+|all) .*$", matrix, re.MULTILINE)]


@pytest.mark.slow("that the command takes the account, and that text and page show the same, is quick")
@pytest.mark.parametrize("seed", range(50))
def test_waits_and_the_page_show_the_account_of_the_analysis(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], seed: int
) -> None:
    folder = write_table(tmp_path, simulated(seed))
    timings = read_timings(folder)
    expected = known(analysis.account(timings).to_dict("records"))
    assert expected
    assert json.loads(printed(capsys, "waits", folder, "--json"))["account"] == expected
    in_waits = printed(capsys, "waits", folder)
    of_ranks = re.findall(IN_TEXT, in_waits.partition("\n\n")[0], re.MULTILINE)
    assert of_ranks
    page = report_html(timings)
    totals = cells_below(page, "Totals of each rank")
    assert [(row[0], [cell for cell in row if cell.endswith("%")][:4]) for row in totals] == [
        (rank, parts.split()[:4]) for rank, parts in of_ranks
    ]
    in_text = re.findall(r"^(?:\d+|all) .*$", in_waits.split("\n\n")[2], re.MULTILINE)
    assert cells_below(page, "Who waited for whom, in ms") == [line.split() for line in in_text]


# -- on the page -------------------------------------------------------------------------------------------


def cells_below(page: str, caption: str) -> list[list[str]]:
    """Return the cells of a table of a page, row by row."""
    body = page.partition(f"<summary>Table: {caption}</summary>")[2].partition("</table>")[0]
    return [re.findall(r"<td>(.*?)</td>", line) for line in body.splitlines() if "<td>" in line]


def page_of(*rows: Row, **columns: Any) -> str:
    timestamp = pd.Timestamp("2026-02-06", tz="UTC")
    return report_html(table(*rows).assign(timestamp=timestamp, **columns))


def section(page: str) -> str:
    return page.partition('<section id="time"')[2].partition("</section>")[0]


def bars(page: str) -> dict[str, list[tuple[str, float]]]:
    """Return for each bar its parts: what each is, and its length in percent of the bar."""
    found = {}
    for bar in re.findall(r'<div class="bar">.*?</div>', section(page), re.DOTALL):
        label = re.search(r'class="label">(.*?)<', bar)
        parts = re.findall(r'flex-grow:([\d.e-]+)" title="[^"]*?, ([^"]*?): [\d.]+ ms"', bar)
        assert label is not None
        found[label[1]] = [(name, float(length)) for length, name in parts]
    return found


@pytest.mark.slow("what bars have, test_account_section.py says; that they and tables are on a page is quick")
@pytest.mark.parametrize("n_ranks", [1, 4, 17, 64])
def test_every_bar_is_whole_and_of_many_ranks_the_rest_has_one(n_ranks: int) -> None:
    slow = factors(5, n_ranks, noise=0.1)
    slow[:, n_ranks // 2] *= 2
    page = report_html(data_parallel(slow, noise=0.1))
    found = bars(page)
    for parts in found.values():
        assert sum(length for _, length in parts) == pytest.approx(100, abs=0.01)
    assert len(found) <= 18
    assert f"rank {n_ranks // 2}" in found
    n_others = sum(int(label.split()[-1]) for label in found if label.startswith("the other"))
    assert sum(label.startswith("rank ") for label in found) + n_others == n_ranks
    if n_ranks > 16:
        *pairs, rest, whole = cells_below(page, "Pairs of ranks with most waiting")
        assert rest[0].endswith("others")
        ms = [float(one[2]) for one in (*pairs, rest)]
        assert sum(ms) == pytest.approx(float(whole[2]), abs=0.05 * len(ms))


@pytest.mark.slow("test_page.py has such names in all sections")
def test_a_name_that_is_markup_stays_text_in_a_bar() -> None:
    page = section(page_of(row(0, "</i><b>load</b>", 0, 4), row(0, '" onclick="x', 4, 6)))
    assert "<b>load" not in page
    assert 'title="rank 0, " onclick' not in page
    assert "load" in visible_text(page)


@pytest.mark.slow("a sentence of the page; that there are no bars, test_account_section.py says")
def test_without_instants_the_page_says_that_it_is_not_known() -> None:
    instants = ["start_counter", "end_counter", "start_s", "end_s"]
    page = page_of(row(0, "load", 0, 4), **dict.fromkeys(instants, np.nan))
    assert "where the time went is not known" in visible_text(section(page))


@pytest.mark.parametrize("more", [0, 1])
def test_as_many_ranks_as_there_are_lines_are_all_shown_and_of_more_the_rest_is_summed(more: int) -> None:
    rows = [row(rank, "load", 0, 4) for rank in range(MOST_LINES + more)]
    told = account_text(analysis.account(table(*rows)), 100, everything=False)
    assert ("1 others" in told) == bool(more)
    assert len(told.split("\n\n")[0].splitlines()) == 2 + MOST_LINES + more + 1


def test_below_the_table_of_whom_ranks_waited_for_it_is_said_for_whom_most() -> None:
    said = account_text(analysis.account(table(*barrier([0, 5, 6], 7))), 200)
    assert said.split("\n\n")[3].startswith("The ranks waited ")
