"""docs/troubleshooting.md quotes what the packages say, word for word."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from places import ROOT

PAGE = ROOT / "docs" / "troubleshooting.md"
PACKAGES = ("timing_logger", "allreduce_instrumentation")
LEFT_OPEN = "\0"
"""What stands for a value: ``<...>`` on the page, ``{...}`` and ``%s`` in the source."""

_OF_FORMATS = re.compile(r"\{[\w.!:]*\}|%[-.\d]*[sdrgf]")
_ON_THE_PAGE = re.compile(r"'?<[\w .-]+>'?")
_BLOCKS = ("body", "orelse", "finalbody")
_SAID_BEFORE = re.compile(r"^(timing-logger: |Verdict: )")


def quoted(text: str) -> list[str]:
    """Return the messages of a page: blocks marked ``output``, and code in the first cells of tables."""
    blocks = re.findall(r"^```output\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    cells = re.findall(r"^\| `([^`\n]+)` \|", text, re.MULTILINE)
    return [" ".join(message.split()) for message in [*blocks, *cells]]


def searched_for(message: str) -> str:
    return _ON_THE_PAGE.sub(LEFT_OPEN, _SAID_BEFORE.sub("", message))


@cache
def words_by_file() -> dict[Path, set[str]]:
    """Return what of each file of both packages costs little to know."""
    files = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    return {path: words(path.read_text("utf-8")) for path in files}


def words(text: str) -> set[str]:
    return set(re.findall(r"\w{2,}", text))


@cache
def said_in(path: Path) -> tuple[str, ...]:
    """Return all texts of a file, with ``LEFT_OPEN`` for the values in them."""
    return tuple(texts_of(path.read_text("utf-8"), module_of(path)))


def is_said_by_a_package(message: str) -> bool:
    """Look first where most words of the message are."""
    lacking = {path: len(words(searched_for(message)) - found) for path, found in words_by_file().items()}
    return any(is_said(message, said_in(path)) for path in sorted(lacking, key=lacking.__getitem__))


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def texts_of(source: str, module: str = "") -> Iterator[str]:
    nodes = [*_nodes(ast.parse(source))]
    whole = [node for node in nodes if isinstance(node, ast.JoinedStr)]
    parts = {id(part) for node in whole for part in node.values}
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            yield _as_one("".join(_part(value, module) for value in node.values))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            yield _as_one(node.value)


def _as_one(text: str) -> str:
    """Return a text with one ``LEFT_OPEN`` for each row of values."""
    return re.sub(f"{LEFT_OPEN}+", LEFT_OPEN, _OF_FORMATS.sub(LEFT_OPEN, text))


def _nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a tree as ``ast.walk`` does, but for docstrings."""
    waiting = [tree]
    for node in waiting:
        yield node
        for field in node._fields:
            value = getattr(node, field, None)
            if isinstance(value, list):
                parts = [one for one in value if isinstance(one, ast.AST)]
                waiting.extend([one for one in parts if not _is_text(one)] if field in _BLOCKS else parts)
            elif isinstance(value, ast.AST) and field != "ctx":
                waiting.append(value)


def _is_text(statement: ast.AST) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _part(value: ast.expr, module: str) -> str:
    """Return a part of an f-string: of a value its text, if it is a constant of the module."""
    if isinstance(value, ast.Constant):
        return str(value.value)
    assert isinstance(value, ast.FormattedValue)
    if value.conversion == -1 and module and re.fullmatch(r"(?:\w+\.)*[A-Z_]+", ast.unparse(value.value)):
        found = _constant(module, ast.unparse(value.value))
        return found if isinstance(found, str) else LEFT_OPEN
    return LEFT_OPEN


def _constant(module: str, name: str) -> object:
    found: object = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def is_said(message: str, texts: tuple[str, ...]) -> bool:
    return any(searched_for(message) in text for text in texts)


MESSAGES = quoted(PAGE.read_text("utf-8"))


def test_the_page_quotes_messages_of_each_kind() -> None:
    assert len(MESSAGES) > 40
    assert any(len(message) > 150 for message in MESSAGES)  # a block
    assert any("<" not in message for message in MESSAGES)
    assert any("TIMING_LOGGER_NATIVE_MPI" in message for message in MESSAGES)  # a constant


def test_each_message_is_in_the_source() -> None:
    changed_or_gone = [message for message in MESSAGES if not is_said_by_a_package(message)]
    assert changed_or_gone == []


def test_a_message_has_enough_words_of_its_own_to_be_found_by() -> None:
    too_short = [message for message in MESSAGES if len(re.findall(r"\w{2,}", searched_for(message))) < 4]
    assert too_short == []


def test_a_message_that_nobody_says_is_told() -> None:
    texts = tuple(texts_of('"""No rank came."""\nerror = f"rank {rank!r} of {len(ranks)} came" " late"\n'))
    assert is_said("rank <rank> of <n> came late", texts)
    assert is_said("rank '<rank>' of <n> came", texts)
    assert not is_said("rank <rank> of 4 came late", texts)
    assert not is_said("rank <rank> came late", texts)
    assert not is_said("No rank came.", texts)  # a docstring, which nobody prints


def test_formats_of_every_kind_are_left_open() -> None:
    assert [*texts_of('log("rank %d: %.1f s", 1, 2)')] == [f"rank {LEFT_OPEN}: {LEFT_OPEN} s"]
    assert [*texts_of('say("of {} in {folder}".format())')] == [f"of {LEFT_OPEN} in {LEFT_OPEN}"]
    assert f"in {LEFT_OPEN}, {LEFT_OPEN} s" in texts_of('f"in {{}}, {x:.1f}{y} s"')
