"""Mutants of a source: each is a small change in one line that a test should notice.

Left out is what no test is to hold: type annotations, docstrings, ``__repr__`` and what goes to the log; and
what any test would notice: a function that returns nothing, an object without an attribute.
"""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

IN_PLACE_OF: dict[type[ast.AST], str] = {
    ast.Lt: "<= >=", ast.LtE: "< >", ast.Gt: ">= <=", ast.GtE: "> <", ast.Eq: "!=", ast.NotEq: "==",
    ast.Is: "is_not", ast.IsNot: "is", ast.In: "not_in", ast.NotIn: "in",
    ast.Add: "-", ast.Sub: "+", ast.USub: "+",
}  # fmt: skip
_OPERATOR = re.compile(rb"[<>=!]=|[<>+-]|is\s+not|not\s+in|is|in")


class Mutant(NamedTuple):
    """A change of a file: ``text`` replaces the bytes from ``begin`` to ``end``, which are in ``line``."""

    file: Path
    line: int
    kind: str
    begin: int
    end: int
    text: str

    def applied(self, source: bytes) -> bytes:
        """Return the file's ``source`` with the change."""
        return source[: self.begin] + self.text.encode() + source[self.end :]

    def said(self, source: bytes) -> str:
        """Return where the change is, its kind, and the line before and after it."""
        texts = source.splitlines(), self.applied(source).splitlines()
        before, after = (lines[self.line - 1].decode().strip() for lines in texts)
        return f"{self.file}:{self.line}: {self.kind}, `{before}` to `{after}`"


class Finder:
    """Finds the mutants of a source."""

    def __init__(self, file: Path, source: bytes) -> None:
        self._file, self._source = file, source
        self._line_begins = [0, *(at.end() for at in re.finditer(b"\n", source))]

    def mutants(self) -> Iterator[Mutant]:
        """Yield all of them, in no order."""
        for node in _walk(ast.parse(self._source)):
            if isinstance(node, ast.Compare):
                for (left, right), op in zip(pairwise([node.left, *node.comparators]), node.ops, strict=True):
                    yield from self._operators("comparison", self._end(left), self._begin(right), op)
            elif isinstance(node, ast.BinOp):
                yield from self._operators("sign", self._end(node.left), self._begin(node.right), node.op)
            elif isinstance(node, ast.AugAssign):
                yield from self._operators("sign", self._end(node.target), self._begin(node.value), node.op)
            elif isinstance(node, ast.UnaryOp):
                yield from self._operators("sign", self._begin(node), self._begin(node.operand), node.op)
            elif isinstance(node, ast.Constant):
                yield from self._numbers(node)
            elif isinstance(node, ast.If | ast.While | ast.IfExp):
                begin, end = self._begin(node.test), self._end(node.test)
                yield self._mutant("condition", begin, end, f"not ({self._source[begin:end].decode()})")
            if isinstance(node, ast.stmt) and _can_be_dropped(node):
                yield self._mutant("dropped", self._begin(node), self._end(node), "pass")

    def _operators(self, kind: str, begin: int, end: int, operator: ast.AST) -> Iterator[Mutant]:
        """Yield those in which others stand for an operator, which is between two operands."""
        if others := IN_PLACE_OF.get(type(operator)):
            at = _OPERATOR.search(self._source, begin, end)
            assert at is not None
            yield from (self._mutant(kind, *at.span(), other.replace("_", " ")) for other in others.split())

    def _numbers(self, node: ast.Constant) -> Iterator[Mutant]:
        value, begin, end = node.value, self._begin(node), self._end(node)
        if isinstance(value, int) and not isinstance(value, bool):
            yield from (self._mutant("off by one", begin, end, f"({value + by})") for by in (1, -1))
        if isinstance(value, float) or (isinstance(value, int) and value > 1):
            yield self._mutant("number", begin, end, repr(value * 2 or 1.0))

    def _mutant(self, kind: str, begin: int, end: int, text: str) -> Mutant:
        return Mutant(self._file, self._source.count(b"\n", 0, begin) + 1, kind, begin, end, text)

    def _begin(self, node: ast.expr | ast.stmt) -> int:
        return self._line_begins[node.lineno - 1] + node.col_offset

    def _end(self, node: ast.expr | ast.stmt) -> int:
        return self._line_begins[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and all in it, but for what is left out."""
    if isinstance(node, ast.JoinedStr) or _is_left_out(node):
        return
    yield node
    is_first = isinstance(node, ast.FunctionDef) and node.name in ("__init__", "__post_init__")
    for field, value in ast.iter_fields(node):
        for child in (
            () if field in ("annotation", "returns") else value if isinstance(value, list) else [value]
        ):
            if isinstance(child, ast.AST):
                yield from _walk(child.value if is_first and isinstance(child, ast.Assign) else child)


def _is_left_out(node: ast.AST) -> bool:
    """Tell whether this is a ``__repr__``, a call like ``log.warning(...)``, or for type checkers alone."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        called = node.value.func
        return isinstance(called, ast.Attribute) and ast.unparse(called.value).endswith("log")
    if isinstance(node, ast.If):
        return "TYPE_CHECKING" in ast.unparse(node.test)
    return isinstance(node, ast.FunctionDef) and node.name == "__repr__"


def _can_be_dropped(node: ast.stmt) -> bool:
    """Tell whether a program runs without a statement: it binds no name, and gives no value back."""
    if isinstance(node, ast.Assign):
        return all(isinstance(target, ast.Attribute | ast.Subscript) for target in node.targets)
    if isinstance(node, ast.Expr):
        return not isinstance(node.value, ast.Constant)  # a docstring, or ``...``
    is_bare_return = isinstance(node, ast.Return) and node.value is None
    return is_bare_return or isinstance(
        node, ast.AugAssign | ast.Delete | ast.Continue | ast.Break | ast.Raise
    )


def mutants_of(file: Path, source: bytes) -> list[Mutant]:
    """Return all mutants of a source, in the order of its lines."""
    return sorted(Finder(file, source).mutants())


def drawn(mutants: Sequence[Mutant], count: int, seed: int) -> Iterator[Mutant]:
    """Yield a mutant of each of ``count`` lines that are evenly apart, or of all lines if they are fewer."""
    by_line: dict[tuple[Path, int], list[Mutant]] = {}
    for mutant in mutants:
        by_line.setdefault((mutant.file, mutant.line), []).append(mutant)
    lines, chance = list(by_line.values()), random.Random(seed)
    count = min(count, len(lines))
    for number in range(count):
        part = lines[len(lines) * number // count : len(lines) * (number + 1) // count]
        yield chance.choice(chance.choice(part))
