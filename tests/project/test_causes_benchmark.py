"""The benchmark of causes: none is stated by chance, and the true one mostly is."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import _tables_of_page as tables
import pytest
from causes_by_chance import KINDS, Kind, Outcome, line, outcome
from places import ROOT
from slow import slow

pytestmark = pytest.mark.slow("of a benchmark: make test-deep runs it where that changes")


@pytest.mark.parametrize("seeds", [1, slow(12, "twelve times as many jobs")])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if not kind.planted], ids=str)
def test_counters_that_have_nothing_to_do_with_it_are_no_cause(kind: Kind, seeds: int) -> None:
    assert [one.stated for one in (outcome(kind, seed) for seed in range(seeds))] == [""] * seeds


@pytest.mark.parametrize("seeds", [2, slow(12, "six times as many jobs")])
def test_the_true_cause_of_a_slow_rank_is_mostly_stated_and_no_other(seeds: int) -> None:
    kind = next(kind for kind in KINDS if kind.planted)
    found = [one for one in (outcome(kind, seed) for seed in range(seeds)) if one.verdict == "rank"]
    stated = [one.stated == one.true for one in found if one.stated]
    assert stated == [True] * len(stated)
    assert len(stated) >= 0.75 * len(found) > 0


def test_the_shares_are_of_the_runs_in_which_time_was_found_to_be_lost() -> None:
    found = [
        Outcome("rank", "a", "a", "", ""),
        Outcome("rank", "b", "a", "", ""),
        Outcome("healthy", "a", "a", "", ""),
    ]
    assert line(KINDS[0], found).endswith("true cause 50.0%, another 50.0%, none 0.0%")


def test_the_page_says_what_is_not_right_and_its_data_are_counted_on(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    import causes

    page = tmp_path / "causes.md"
    page.write_text("<!-- made: causes -->\nold\n<!-- end -->\n")
    lines = {"burner": Counter(right=2, untold=1), "healthy": Counter(right=3), "memory": Counter()}
    for _ in range(2):
        causes.write(page, lines)
        lines = causes.counted(page)
    assert {name: +line for name, line in lines.items()} == {
        "healthy": Counter(right=3),
        "burner": Counter(right=2, untold=1),
        "memory": Counter(),
    }
    text = page.read_text()
    assert "**5 of 6 runs of 3 scenarios are right**" in text
    assert "- `burner`: 2 right, 1 not told, 0 wrong\n" in text
    assert "- `memory`: not possible on this machine\n" in text
    assert "`healthy`" not in text


def test_every_scenario_has_a_line_of_data() -> None:
    pytest.importorskip("torch")
    from real_causes.befalls import SCENARIOS

    rows = tables.read_csv(tables.data_file(ROOT / "docs" / "causes.md", "scenarios"))
    assert [row[:2] for row in rows] == [[name, befalls.__doc__] for name, befalls in SCENARIOS.items()]
