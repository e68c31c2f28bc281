"""Puts the pages that live outside this folder into the site, each at its place in the repository.

Links between them are then the same on the site and in the repository.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.nav import Navigation
from mkdocs.structure.pages import Page
from modules_page import page as modules_page

from timing_logger.cli.parser import build_parser

ROOT = Path(__file__).parent.parent
PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "LICENSE",
    "docs/**/*.*",
    "examples/notebooks/*.ipynb",
]
MOST_OF_NAME = 40
"""Characters of the longest name in the first column of a table; what is longer is a sentence."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the repository, that of the command line, and that of the modules."""
    for pattern in PAGES:
        for page in sorted(ROOT.glob(pattern)):
            place = page.relative_to(ROOT).as_posix()
            files.append(File(place, str(ROOT), config.site_dir, config.use_directory_urls))
    files.append(File.generated(config, "api/cli.md", content="\n".join(_command_line())))
    files.append(File.generated(config, "api/modules.md", content="\n".join(modules_page())))
    return files


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Mark sentences in the first column of a table, which wrap as names there do not (extra.css)."""
    return re.sub(rf"(<td><code)(>[^<]{{{MOST_OF_NAME + 1},}}</code></td>)", r'\1 class="sentence"\2', html)


def on_page_context(context: dict[str, Any], page: Page, config: MkDocsConfig, nav: Navigation) -> None:
    """Give the first page the room of the menu on its left, which would name only that page."""
    if page.is_homepage:
        page.meta["hide"] = ["navigation"]


def _command_line() -> Iterator[str]:
    os.environ["COLUMNS"] = "96"  # argparse asks it how wide its help may be
    parser = build_parser()
    yield "# Command line\n\n`python -m timing_logger` is the same program.\n"
    yield from _help("timing-logger", parser)
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, command in action.choices.items():
                yield from _help(f"timing-logger {name}", command)


def _help(name: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    yield f"## {name}\n\n```text\n{parser.format_help()}```\n"
