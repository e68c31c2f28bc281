"""The head of the page over a run in progress says what a person asks, and shows names as they are."""

from __future__ import annotations

import re

import pandas as pd
import pytest
from crowds import SLOW as SLOW_RANK
from crowds import crowd
from small_run import visible_text
from snapshots import BEGINS, ENDS, HEALTHY, SLOW, snapshot_of

from timing_logger.analysis import RunEnd, Verdict, stragglers
from timing_logger.live.run_page import Head, figures_of, head_html, head_of, live_page

HOSTILE = "<script>alert(1)</script>"


def html_of(head: Head) -> str:
    return head_html(head, 1_700_000_100.0, 1_700_000_000.0)


def test_the_head_answers_what_a_person_asks() -> None:
    said = " ".join(visible_text(html_of(head_of(snapshot_of(4, SLOW), [BEGINS]))).split())
    assert "Running: 4 ranks, 2.0 iterations/s, at iteration 100" in said
    assert "Who is slow Rank 3 costs this run" in said
    assert "Who waits Ranks waited for 50.0% of their time on average" in said
    assert "Does it hang No." in said
    assert re.search(r"What changed [\d:]+ rank 3 costs this run", said)


def test_what_changed_last_comes_first_and_five_changes_are_shown() -> None:
    head = head_of(snapshot_of(2), [*[BEGINS] * 5, ENDS])
    assert [change.text.split()[0] for change in head.changes] == ["over:", *["rank"] * 4]


def test_a_run_that_hangs_is_said_to_hang_and_why() -> None:
    end = RunEnd(state="hang", culprits=(5,), sentences=("Rank 5 never entered ALLREDUCE 3.",))
    head = head_of(snapshot_of(8, Verdict(verdict="hang", ranks=(5,), end=end)), [])
    assert (head.state, head.whether_it_hangs, head.hangs) == ("hangs", "Yes, as said above.", end.sentences)
    assert head.ranks.rows[0][0] == "5"


def test_of_many_ranks_the_20_worst_are_shown_and_the_others_counted() -> None:
    ranks = head_of(snapshot_of(1000, SLOW), []).ranks
    assert (len(ranks.rows), ranks.rows[0][0]) == (20, "3")
    assert "980 are not shown. timing-logger watch --all has all." in ranks.note


@pytest.mark.parametrize("where", ["headline", "trouble", "verdict", "waits"])
def test_names_are_text(where: str) -> None:
    head = head_of(snapshot_of(2, HEALTHY), [])._replace(**{where: HOSTILE})
    assert HOSTILE not in html_of(head)
    assert HOSTILE in visible_text(html_of(head))


def page_of(timings: pd.DataFrame) -> str:
    figures = figures_of(timings, stragglers(timings))
    return live_page("name", "<p></p>", {}, figures, window_s=30.0, made_unix_s=0.0)


def check_named_in_each_section(page: str, rank: int) -> None:
    for section in ("verdict", "time", "timeline"):
        assert f"ank {rank}" in page[page.index(f'id="{section}"') :]


@pytest.mark.slow("the sections are those of a report; test_run_page.py has a page with all of them")
def test_the_page_has_the_slow_rank_in_each_section() -> None:
    """Of a run of four ranks."""
    check_named_in_each_section(page_of(crowd(4, 20, slow=2)), 2)


@pytest.mark.slow("a page of many ranks; the sections are those of a report")
def test_the_page_of_many_ranks_has_the_slow_one_in_each_section() -> None:
    check_named_in_each_section(page_of(crowd(80, 6)), SLOW_RANK)


def test_it_may_ask_its_own_server_and_nobody_else() -> None:
    page = live_page("x", "<p></p>", {}, None, window_s=0.0, made_unix_s=0.0)
    policy = re.search('Content-Security-Policy" content="([^"]+)"', page)
    assert policy is not None
    kept = [one.strip() for one in policy[1].split(";") if "sha256" not in one]
    assert kept == [
        "default-src 'none'", "style-src 'unsafe-inline'", "connect-src 'self'", "img-src data:",
        "base-uri 'none'", "form-action 'none'",
    ]  # fmt: skip
