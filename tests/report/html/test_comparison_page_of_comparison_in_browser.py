"""The page of a comparison in a real browser: on large and small screens, light and dark, with long names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import OpenPage
from compared_runs import differing
from page_probes import BROKEN_WORDS, CUT, LANDMARKS, LOW_CONTRASTS, OVERLAPPING_TICKS
from slow import slow

from timing_logger.analysis.comparison.compare import compare_runs
from timing_logger.report.html import write_comparison

pytestmark = pytest.mark.slow("in a browser; that the page works in one, test_page_in_browser.py says")

HOSTILE = "<script>alert(1)</script>_A_LONG_NAME_" * 3
CASES = {
    "few": (1, 3, "OP"), "many": (5, 150, "OP"), "long": (5, 8, HOSTILE),
}  # fmt: skip


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("comparisons")
    for case, (n, n_operations, name) in CASES.items():
        sides = (
            differing(n, seed, more, n_operations=n_operations, name=name, runs=name, later=later)
            for seed, more, later in ((1, 1.5, 1.2), (2, 0.0, 1.0))
        )
        write_comparison(compare_runs(*sides, paired=n > 1), folder / f"{case}.html")
    return {case: folder / f"{case}.html" for case in CASES}


SHOWN = [("few", 1400, "dark"), ("many", 390, "light"), ("long", 390, "dark"), ("long", 1400, "light")]
ALL = [(case, width, scheme) for case in CASES for width in (390, 1400) for scheme in ("light", "dark")]


@pytest.fixture(
    params=[each if each in SHOWN else slow(each, "each case and each screen is shown once") for each in ALL],
    ids=str,
)
def shown(browser: Any, pages: dict[str, Path], request: pytest.FixtureRequest) -> Iterator[OpenPage]:
    case, width, scheme = request.param
    page = OpenPage(browser, pages[case], viewport={"width": width, "height": 900}, color_scheme=scheme)
    page.page.evaluate("for (const table of document.querySelectorAll('details')) table.open = true")
    yield page
    page.close()


def test_the_page_is_whole_on_any_screen_and_asks_for_nothing(shown: OpenPage) -> None:
    assert shown.page.locator(".difference").count() >= 4
    assert shown.complaints == []
    assert len([url for url in shown.requests if not url.startswith("data:")]) == 1
    assert shown.page.evaluate(CUT) == []
    assert shown.page.evaluate(OVERLAPPING_TICKS) == []
    assert shown.page.evaluate(LOW_CONTRASTS) == []


def test_no_two_parts_have_the_same_name_and_no_heading_breaks_inside_a_word(
    browser: Any, pages: dict[str, Path]
) -> None:
    opened = OpenPage(browser, pages["many"], viewport={"width": 390, "height": 844})
    names = opened.page.evaluate(LANDMARKS)
    assert len(names) > 4
    assert sorted(names) == sorted(set(names))
    assert opened.page.evaluate(BROKEN_WORDS) == []
    opened.close()


def test_points_stand_where_their_values_are(browser: Any, pages: dict[str, Path]) -> None:
    opened = OpenPage(browser, pages["many"], viewport={"width": 1400, "height": 900})
    values = opened.page.locator(".difference .value").all_inner_texts()
    at = [
        box["x"] for one in opened.page.locator(".difference .estimate").all() if (box := one.bounding_box())
    ]
    drawn = sorted(zip((float(text.split()[0]) for text in values), at, strict=True))
    assert [x for _, x in drawn] == pytest.approx(sorted(at), abs=1.0)
    assert drawn[0][1] + 100 < drawn[-1][1]
    opened.close()


def test_the_bars_of_both_sides_have_one_scale(browser: Any, pages: dict[str, Path]) -> None:
    opened = OpenPage(browser, pages["long"], viewport={"width": 1400, "height": 900})
    own = opened.page.locator("#parts .time-work-0").all()
    wide = [one.bounding_box()["width"] for one in own if one.get_attribute("title")]
    untimed = [
        one.bounding_box()["width"] for one in opened.page.locator("#parts .track .time-not-timed").all()
    ]
    assert wide[0] == pytest.approx(wide[1], rel=0.03)
    assert untimed[0] > 1.4 * untimed[1]
    opened.close()


def test_the_page_of_300_differences_is_not_endless(browser: Any, pages: dict[str, Path]) -> None:
    opened = OpenPage(browser, pages["many"], viewport={"width": 1400, "height": 900})
    assert opened.page.evaluate("document.documentElement.scrollHeight") < 5000
    opened.close()
