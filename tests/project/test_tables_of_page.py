"""What benchmarks measure goes into their pages, part by part, and nothing else in these changes."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from _tables_of_page import data_file, measure, parser_of, read_csv, write, write_into_csv

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


def test_a_part_without_a_place_in_the_page_is_kept_beside_it(page: Path) -> None:
    for line in ("| old |", "| a |"):
        write(page, {"three parts": [line, "| b |"]})
    assert (page.parent / "data" / "page-three-parts.txt").read_text() == "| a |\n| b |\n"
    assert page.read_text() == PAGE


def test_rows_replace_those_of_the_same_name_and_no_others(page: Path) -> None:
    file = data_file(page, "one")
    write_into_csv(file, ["fault", "ranks", "right"], [["slow", "4", "9"], ["slow", "8", "9"]], 2)
    write_into_csv(file, ["fault", "ranks", "right"], [["none", "4", "1"], ["slow", "4", "0"]], 2)
    assert read_csv(file) == [["slow", "4", "0"], ["slow", "8", "9"], ["none", "4", "1"]]
