"""What benchmarks measure goes into their pages, part by part, and nothing else in these changes."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from _tables_of_page import measure, parser_of, write

PAGE = "# Head\n\n<!-- made: one -->\n| old |\n<!-- end -->\ntext\n\n<!-- made: two parts -->\n<!-- end -->\n"


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "page.md"
    path.write_text(PAGE)
    return path


def one(asked: argparse.Namespace) -> Iterator[str]:
    yield f"| quick: {asked.quick} |"


def broken(asked: argparse.Namespace) -> Iterator[str]:
    yield "| begun |"
    raise RuntimeError("cannot be measured")


def measured(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    monkeypatch.setattr(sys, "argv", ["benchmark", *arguments])
    measure(parser_of("What it is.", "less"), {"one": one, "two parts": broken})


def test_only_the_parts_that_are_given_are_written(page: Path) -> None:
    write(page, {"two parts": ["| a |", "| b |"]})
    assert page.read_text() == PAGE.replace("two parts -->\n", "two parts -->\n| a |\n| b |\n")


def test_a_part_is_printed_and_written_at_once(
    page: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(RuntimeError, match="cannot be measured"):
        measured(monkeypatch, "--quick", "--write", str(page))
    assert page.read_text() == PAGE.replace("| old |", "| quick: True |")
    assert capsys.readouterr().out.startswith("== one\n| quick: True |\n")


def test_only_the_parts_that_are_asked_for_are_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measured(monkeypatch, "--only", "^one$")
    assert "two parts" not in capsys.readouterr().out


def test_a_part_that_is_not_there_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        measured(monkeypatch, "--only", "three")
    assert "no part matches 'three': there are one, two parts" in capsys.readouterr().err
