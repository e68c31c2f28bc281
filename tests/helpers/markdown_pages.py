"""The pages of the documentation: which there are, their links, and what links may point to."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token
from places import ROOT

PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").glob("*.md")),
]

_OF_ANOTHER_PLACE = re.compile(r"[a-z][a-z+.-]*:")


@dataclass(frozen=True)
class Link:
    """A link of ``page`` to ``target``, as it is written there."""

    page: Path
    target: str

    @property
    def is_relative(self) -> bool:
        return not _OF_ANOTHER_PLACE.match(self.target)

    @property
    def file(self) -> Path:
        """The file that it points to."""
        place = self.target.partition("#")[0]
        return (self.page.parent / place).resolve() if place else self.page

    @property
    def anchor(self) -> str:
        return self.target.partition("#")[2]


def links_of(page: Path) -> list[Link]:
    """Return the links and pictures of a page."""
    tokens = [*_inside(_parsed(page))]
    targets = [
        token.attrs.get("href", token.attrs.get("src"))
        for token in tokens
        if token.type in {"link_open", "image"}
    ]
    return [Link(page, str(target)) for target in targets]


@cache
def anchors_of(page: Path) -> set[str]:
    """Return the anchors that GitHub gives to a page's headings."""
    anchors: set[str] = set()
    tokens = _parsed(page)
    for opening, heading in pairwise(tokens):
        if opening.type == "heading_open":
            anchors.add(_unused(_as_anchor(heading), anchors))
    return anchors


def _parsed(page: Path) -> list[Token]:
    return MarkdownIt("commonmark").enable("table").parse(page.read_text(encoding="utf-8"))


def _inside(tokens: list[Token]) -> Iterator[Token]:
    for token in tokens:
        yield token
        yield from _inside(token.children or [])


def _as_anchor(heading: Token) -> str:
    text = "".join(token.content for token in heading.children or [] if token.type in {"text", "code_inline"})
    return re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")


def _unused(anchor: str, others: set[str]) -> str:
    number, unused = 0, anchor
    while unused in others:
        number += 1
        unused = f"{anchor}-{number}"
    return unused
