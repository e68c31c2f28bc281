"""The page of a comparison: what the text says, charts of it, and nothing that a name could do."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from pathlib import Path

import pytest
from compared_runs import differing, noisy, summary

from timing_logger.analysis.comparison.compare import compare_runs
from timing_logger.errors import LogPathError
from timing_logger.report import comparison_text
from timing_logger.report.html import comparison_html, write_comparison
from timing_logger.results.comparison import Comparison
from timing_logger.words.comparison import cause_sentences

HOSTILE = "</script><img src=x onerror=alert(1)>{{ 7 * 7 }}\x1b[31m\u202e"


def text_of(page: str) -> str:
    """Return what a page says, without tags."""
    return re.sub(
        r"\s+", " ", html.unescape(re.sub(r"<style>.*?</style>|<[^>]*>", " ", page, flags=re.DOTALL))
    )


@pytest.fixture(scope="module")
def slower() -> Comparison:
    return compare_runs(differing(5, 1, 1.5, later=1.2), differing(5, 2))


@pytest.fixture(scope="module")
def page(slower: Comparison) -> str:
    return comparison_html(slower)


def test_the_page_says_what_the_text_says_and_no_second_version_of_it(slower: Comparison, page: str) -> None:
    said = text_of(page)
    head, _, _ = comparison_text(slower, 10_000).partition("\n\nwhat ")
    sentences = head.replace("\n", " ").replace("Verdict: REGRESSED. ", "").split(". ")
    assert len(sentences) > 6
    assert [one for one in sentences if one.strip().rstrip(".") not in said] == []


def test_the_verdict_comes_first_then_what_differs_and_last_the_runs(page: str) -> None:
    assert re.findall(r'<section id="([\w-]+)"', page) == [
        "verdict",
        "differences",
        "course",
        "parts",
        "runs",
    ]


def test_it_needs_no_script_and_nothing_from_elsewhere(page: str) -> None:
    assert "<script" not in page
    assert "default-src 'none'" in page
    assert re.findall(r'(?:src|href)="(?!#|data:)', page) == []


def test_the_same_comparison_gives_the_same_page(slower: Comparison, page: str) -> None:
    assert comparison_html(slower) == page


def test_each_run_is_a_point_with_what_is_known_of_it(page: str) -> None:
    assert page.count('<circle class="run side-0"') == page.count('<circle class="run side-1"') == 5
    assert re.search(
        r"these runs: [\d.]+ ms a step, recorded 2026-09-21 14:13:21 UTC, run run0, commit c0ffee", page
    )


def test_both_sides_have_a_bar_of_the_parts_of_their_step(page: str) -> None:
    assert "own work 80." in text_of(page)
    assert re.search(r'title="these runs, not timed: 8\.\d+ ms"', page)
    assert re.search(r'title="against, not timed: [45]\.\d+ ms"', page)


def test_what_is_not_alike_is_said_above_what_explains_it() -> None:
    found = compare_runs([replace(one, hosts=["b"]) for one in differing(5, 1, 1.5)], differing(5, 2))
    said = text_of(comparison_html(found))
    assert "What the sides do not have in common hosts (b against node0)." in said
    assert said.index("do not have in common") < said.index("What explains it")


def test_pairs_are_joined() -> None:
    pairs = compare_runs(differing(5, 1), differing(5, 2), paired=True)
    assert comparison_html(pairs).count('class="pair"') == 5


def test_of_single_runs_there_are_points_and_no_intervals() -> None:
    page = comparison_html(compare_runs(differing(1, 1, 1.5), differing(1, 2)))
    assert 'class="estimate"' in page
    assert 'class="interval' not in page
    assert "no interval is known" in text_of(page)
    assert "It takes 3 runs on each side" in text_of(page)


def test_a_history_is_a_side_like_any_other_and_what_it_lacks_is_said() -> None:
    history = [replace(one, batch=str(at // 2)) for at, one in enumerate(differing(14, 2))]
    found = compare_runs(differing(2, 1, 1.5, runs="new"), history, in_batches=True)
    page = comparison_html(found, unusable=["'a.run.json' holds no summary of a run"])
    assert page.count('<circle class="run side-1"') == 14
    assert "of a history, in 7 batches" in page
    assert "&#39;a.run.json&#39; holds no summary of a run" in page


@pytest.mark.slow("many differences; the page of few is quick")
def test_many_differences_are_in_the_table_and_the_largest_in_the_chart() -> None:
    found = compare_runs(differing(4, 1, 1.5, n_operations=150), differing(4, 2, n_operations=150))
    page = comparison_html(found)
    assert len(found.differences) > 300
    assert page.count('class="difference') == 31
    assert f"Of {len(found.differences)} that were compared, the 30 that differ most." in text_of(page)
    assert text_of(page).count("OP149") >= 2


@pytest.mark.slow("many causes; what the page says of few is quick")
def test_causes_beyond_the_first_eight_are_folded_away() -> None:
    found = compare_runs(differing(5, 1, 1.5, n_operations=12), differing(5, 2, n_operations=12))
    assert len(found.causes) > 8
    said = text_of(comparison_html(found))
    assert f"{len(found.causes) - 8} more, which say less" in said
    assert [one for one in cause_sentences(found) if one not in said] == []


def test_runs_without_an_account_or_a_course_have_no_such_sections() -> None:
    bare = [replace(one, quantities=[]) for one in noisy(3, 0.01, 1)]
    page = comparison_html(compare_runs(bare, bare))
    assert re.findall(r'<section id="([\w-]+)"', page) == ["verdict", "differences", "runs"]
    assert re.findall(r'<a href="#([\w-]+)"', page) == ["verdict", "differences", "runs"]


def test_no_name_is_more_than_a_name() -> None:
    sides = [
        [
            replace(
                one, run_id=f"{HOSTILE}{at}{seed}", hosts=[f"{HOSTILE}{seed}"], commit=HOSTILE,
                versions={HOSTILE: str(seed)},
            )
            for at, one in enumerate(differing(3, seed, 1.5 * (seed == 1), name=HOSTILE))
        ]
        for seed in (1, 2)
    ]  # fmt: skip
    page = comparison_html(compare_runs(*sides), unusable=[HOSTILE])
    assert "<img" not in page
    assert "<script" not in page
    assert "49" not in re.findall(r"onerror=alert\(1\)&gt;(\S+)", page)
    assert "\x1b" not in text_of(page).replace(HOSTILE, "")


@pytest.mark.parametrize("steps_are", ["run", "rounds"])
def test_what_cannot_be_compared_is_drawn_all_the_same(steps_are: str) -> None:
    found = compare_runs([summary(steps_are=steps_are)] * 3, [summary(began_unix_ns=10**30)] * 3)
    assert "What a step is differs between the runs" in text_of(comparison_html(found))


def test_an_existing_page_is_replaced_and_a_timing_file_never(
    slower: Comparison, page: str, tmp_path: Path
) -> None:
    path = tmp_path / "page.html"
    path.write_text("old")
    write_comparison(slower, path)
    assert path.read_text(encoding="utf-8") == page
    with pytest.raises(LogPathError):
        write_comparison(slower, tmp_path / "timing-rank0.csv")
    with pytest.raises(LogPathError):
        write_comparison(slower, tmp_path)
