"""Writes what was measured into ``docs/live.md``; everything else in the page is written by hand."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

MADE = re.compile(r"(?<=<!-- made: )(?P<name>[\w ]+) -->\n(.*?)(?=<!-- end -->)", re.DOTALL)


def write(page: Path, parts: Mapping[str, Sequence[str]]) -> None:
    """Rewrite each of these parts of the page, between ``<!-- made: NAME -->`` and ``<!-- end -->``."""

    def made(part: re.Match[str]) -> str:
        lines = parts.get(part["name"])
        return part[0] if lines is None else "\n".join([f"{part['name']} -->", *lines, ""])

    page.write_text(MADE.sub(made, page.read_text(encoding="utf-8")), encoding="utf-8")
