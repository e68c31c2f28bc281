"""The house can be held in mind: how much there is, how deep imports go, what an answer executes."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from places import ROOT
from processes import run_warm

FILES = {
    ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): file
    for package in ("timing_logger", "allreduce_instrumentation")
    for file in (ROOT / package).rglob("*.py")
}
NO_CODE = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER,
}  # fmt: skip

WALKED = """
import contextlib, io, sys
import timing_logger.cli as cli
modules = set()

def look(frame, event, _):
    code = frame.f_code
    if event == "call" and code.co_filename.startswith({packages!r}) and code.co_name != "<module>":
        modules.add(code.co_filename)

sys.setprofile(look)
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    cli.main(sys.argv[1:])
sys.setprofile(None)
print(len(modules))
"""


@cache
def tree_of(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def imported(nodes: Iterator[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names = (f"{node.module}.{alias.name}" for alias in node.names)
            yield from (name if name in FILES else f"{node.module}" for name in names)


def lines_of_code(file: Path) -> int:
    """Return how many lines are no blanks, comments or docstrings."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(file.read_text(encoding="utf-8")).readline):
        if token.type not in NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(tree_of(file)):
        for one in getattr(node, "body", None) or () if not isinstance(node, ast.Lambda | ast.IfExp) else ():
            if (
                isinstance(one, ast.Expr)
                and isinstance(one.value, ast.Constant)
                and isinstance(one.value.value, str)
            ):
                lines.difference_update(range(one.lineno, (one.end_lineno or one.lineno) + 1))
    return len(lines)


def test_no_module_imports_itself_through_others() -> None:
    imports = {
        name: {*imported(ast.walk(tree_of(file)))} & FILES.keys() - {name} for name, file in FILES.items()
    }
    assert len([*TopologicalSorter(imports).static_order()]) > 300  # a circle is an error that names it


def test_no_chain_of_imports_is_longer_than_thirty_modules() -> None:
    """What a module imports while it is imported, and not when a function needs it or for its types."""
    depth: dict[str, int] = {}
    imports = {
        name: {*imported(iter(tree_of(file).body))} & FILES.keys() - {name} for name, file in FILES.items()
    }
    for name in TopologicalSorter(imports).static_order():
        depth[name] = 1 + max((depth[one] for one in imports[name]), default=0)
    assert 20 < max(depth.values()) <= 30


def test_there_are_no_more_modules_and_lines_of_code_than_can_be_held_in_mind() -> None:
    assert 300 < len(FILES) <= 400
    assert 40_000 < sum(map(lines_of_code, FILES.values())) <= 46_500


@pytest.mark.parametrize(("question", "most"), [("stragglers", 120), ("hang", 100)])
def test_an_answer_executes_code_of_few_modules(question: str, most: int) -> None:
    packages = tuple(f"{ROOT / name}/" for name in ("timing_logger", "allreduce_instrumentation"))
    walked = run_warm(WALKED.format(packages=packages), question, ROOT / "logs" / "sample")
    assert 50 < int(walked.stdout) <= most
