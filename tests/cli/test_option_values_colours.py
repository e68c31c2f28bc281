"""Colours are for terminals; what is printed is the same text everywhere."""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path

import pytest

from timing_logger.cli import main
from timing_logger.cli.option_values import print_in_colour

SAMPLE = Path(__file__).parents[2] / "logs/sample"
CODE = re.compile(r"\x1b\[[\d;]*m")


class Terminal(io.StringIO):
    """A stand-in for standard output that is a terminal."""

    def isatty(self) -> bool:
        return True


def printed(
    monkeypatch: pytest.MonkeyPatch, *arguments: str, question: str = "stragglers", terminal: bool = True
) -> str:
    out = Terminal() if terminal else io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    assert main([question, str(SAMPLE), *arguments]) == 0
    return out.getvalue()


@pytest.fixture(autouse=True)
def colourful(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("NO_COLOR", raising=False)


def test_on_a_terminal_the_verdict_stands_out_and_the_text_is_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain = printed(monkeypatch, terminal=False)
    coloured = printed(monkeypatch)
    assert CODE.search(plain) is None
    assert re.match(r"\x1b\[1;31mVerdict: rank 2 costs this run 0.82 s, 51% of the recorded time\.", coloured)
    assert CODE.sub("", coloured) == plain


@pytest.mark.parametrize("unwanted", [False, True])
def test_who_wants_no_colours_gets_none(monkeypatch: pytest.MonkeyPatch, unwanted: bool) -> None:
    if unwanted:
        monkeypatch.setenv("NO_COLOR", "1")
    out = Terminal()
    monkeypatch.setattr(sys, "stdout", out)
    print_in_colour("Verdict: no rank is slow.\n")
    assert (re.search(r"\x1b\[[\d;]*3[0-9]", out.getvalue()) is None) == unwanted


def test_json_is_never_coloured(monkeypatch: pytest.MonkeyPatch) -> None:
    json.loads(printed(monkeypatch, "--json", question="bandwidth"))
