"""Draws docs/report.png: the top of the report of logs/sample, in a real browser.

make picture runs it.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from timing_logger import read_timings
from timing_logger.report.html import write_report

ROOT = Path(__file__).parent.parent
PICTURE = ROOT / "docs" / "report.png"
WIDTH = 1240


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page_file = Path(folder) / "report.html"
        write_report(read_timings(ROOT / "logs/sample"), page_file)
        path = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
        browser = playwright.chromium.launch(executable_path=path)
        page = browser.new_page(viewport={"width": WIDTH, "height": 900})
        page.goto(page_file.as_uri())
        page.wait_for_selector("html[data-drawn=yes]", state="attached")
        bottom = page.locator(".both").bounding_box()
        assert bottom
        height = bottom["y"] + bottom["height"]
        page.screenshot(path=PICTURE, clip={"x": 0, "y": 0, "width": WIDTH, "height": height})
        browser.close()


if __name__ == "__main__":
    main()
