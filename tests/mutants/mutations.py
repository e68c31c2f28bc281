"""Mutants of a source: each is a small change of one line that a test should notice.

Left out are what no test is to hold: type annotations, docstrings, ``__repr__`` and what goes to the log.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

COMPARISONS: dict[type[ast.cmpop], tuple[str, tuple[str, ...]]] = {
    ast.Lt: ("<", ("<=", ">=")),
    ast.LtE: ("<=", ("<", ">")),
    ast.Gt: (">", (">=", "<=")),
    ast.GtE: (">=", (">", "<")),
    ast.Eq: ("==", ("!=",)),
    ast.NotEq: ("!=", ("==",)),
    ast.Is: ("is", ("is not",)),
    ast.IsNot: ("is not", ("is",)),
    ast.In: ("in", ("not in",)),
    ast.NotIn: ("not in", ("in",)),
}
"""Each operator, and what takes its place."""

SIGNS: dict[type[ast.AST], tuple[str, str]] = {ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.USub: ("-", "+")}


class Mutant(NamedTuple):
    """A change of a file.

    Attributes:
        file: the file, from the root of the repository.
        line: the number of the line in which the change begins.
        kind: what is changed.
        begin, end: the bytes that are replaced.
        text: what replaces them.
    """

    file: Path
    line: int
    kind: str
    begin: int
    end: int
    text: str

    def applied(self, source: bytes) -> bytes:
        """Return the file's ``source`` with the change."""
        return source[: self.begin] + self.text.encode() + source[self.end :]

    def change(self, source: bytes) -> str:
        """Return the line before and after the change."""
        before, after = (text.splitlines()[self.line - 1] for text in (source, self.applied(source)))
        return f"`{before.decode().strip()}` to `{after.decode().strip()}`"


class Finder(ast.NodeVisitor):
    """Finds the mutants of one source.

    Attributes:
        found: the mutants, in no order.
    """

    def __init__(self, file: Path, source: bytes) -> None:
        self.found: list[Mutant] = []
        self._file, self._source = file, source
        lengths = [len(line) for line in source.splitlines(keepends=True)]
        self._line_begins = [sum(lengths[:number]) for number in range(len(lengths) + 1)]
        self.visit(ast.parse(source))

    def visit(self, node: ast.AST) -> None:
        """Visit all but what is left out, and of a function its defaults and body."""
        if isinstance(node, ast.JoinedStr) or _is_said_to_log(node) or _is_for_types(node):
            return
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if node.name != "__repr__":
                self._visit_all([*node.args.defaults, *filter(None, node.args.kw_defaults), *node.body])
            return
        super().visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self._visit_all([node.value] if node.value else [])

    def visit_Compare(self, node: ast.Compare) -> None:
        for left, operator, right in zip([node.left, *node.comparators], node.ops, node.comparators, strict=False):
            old, others = COMPARISONS[type(operator)]
            for new in others:
                self._replace("comparison", self._end(left), self._begin(right), old, new)
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        """A number is doubled; one that counts is one too high or too low."""
        if isinstance(node.value, bool) or not isinstance(node.value, int | float):
            return
        value = node.value
        self._put("number", node, repr(value * 2 if value else value + 1))
        if isinstance(value, int):
            self._put("off by one", node, repr(value + 1))
            self._put("off by one", node, f"({value - 1})")

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if type(node.op) in SIGNS and not any(isinstance(side, ast.JoinedStr) for side in (node.left, node.right)):
            self._replace("sign", self._end(node.left), self._begin(node.right), *SIGNS[type(node.op)])
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if type(node.op) in SIGNS:
            self._replace("sign", self._begin(node), self._begin(node.operand), *SIGNS[type(node.op)])
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if type(node.op) in SIGNS:
            self._replace("sign", self._end(node.target), self._begin(node.value), *SIGNS[type(node.op)])
        self.generic_visit(node)

    def generic_visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.If | ast.While | ast.IfExp):
            self._put("condition", node.test, f"not ({self._text(node.test)})")
        if isinstance(node, ast.stmt) and _can_be_dropped(node):
            self._put("dropped", node, "pass")
        super().generic_visit(node)

    def _visit_all(self, nodes: Sequence[ast.AST]) -> None:
        for node in nodes:
            self.visit(node)

    def _replace(self, kind: str, begin: int, end: int, old: str, new: str) -> None:
        """Replace the operator ``old``, which is somewhere between two operands, by ``new``."""
        at = self._source.find(old.encode(), begin, end)
        if at >= 0:
            self._add(kind, at, at + len(old), new)

    def _put(self, kind: str, node: ast.AST, text: str) -> None:
        self._add(kind, self._begin(node), self._end(node), text)

    def _add(self, kind: str, begin: int, end: int, text: str) -> None:
        line = self._source.count(b"\n", 0, begin) + 1
        self.found.append(Mutant(self._file, line, kind, begin, end, text))

    def _begin(self, node: ast.AST) -> int:
        return self._line_begins[node.lineno - 1] + node.col_offset

    def _end(self, node: ast.AST) -> int:
        return self._line_begins[node.end_lineno - 1] + node.end_col_offset

    def _text(self, node: ast.AST) -> str:
        return self._source[self._begin(node) : self._end(node)].decode()


def _is_said_to_log(node: ast.AST) -> bool:
    """Tell whether a statement is a call like ``log.warning(...)``."""
    called = node.value.func if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) else None
    return isinstance(called, ast.Attribute) and ast.unparse(called.value).endswith("log")


def _is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def _can_be_dropped(node: ast.stmt) -> bool:
    """Tell whether a program still runs without a statement: it binds no name that others read."""
    if isinstance(node, ast.Assign):
        return all(isinstance(target, ast.Attribute | ast.Subscript) for target in node.targets)
    if isinstance(node, ast.Expr):
        return not isinstance(node.value, ast.Constant)  # a docstring, or ``...``
    return isinstance(node, ast.AugAssign | ast.Delete | ast.Continue | ast.Break | ast.Raise | ast.Return)


def mutants_of(file: Path, source: bytes) -> list[Mutant]:
    """Return all mutants of a source, in the order of its lines."""
    return sorted(Finder(file, source).found)


def drawn(mutants: Sequence[Mutant], count: int, seed: int) -> Iterator[Mutant]:
    """Yield ``count`` of the mutants, or as many as there are lines with some: one each of lines evenly apart."""
    by_line: dict[tuple[Path, int], list[Mutant]] = {}
    for mutant in mutants:
        by_line.setdefault((mutant.file, mutant.line), []).append(mutant)
    lines, chance = list(by_line.values()), random.Random(seed)
    count = min(count, len(lines))
    for number in range(count):
        part = lines[len(lines) * number // count : len(lines) * (number + 1) // count]
        yield chance.choice(chance.choice(part))
