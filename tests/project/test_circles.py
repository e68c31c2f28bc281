"""No module imports itself through others, in a function, for a type checker or otherwise."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

from places import ROOT

FILES = {
    ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): file
    for package in ("timing_logger", "allreduce_instrumentation")
    for file in (ROOT / package).rglob("*.py")
}


def imported(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names = (f"{node.module}.{alias.name}" for alias in node.names)
            yield from (name if name in FILES else f"{node.module}" for name in names)


def test_no_module_imports_itself_through_others() -> None:
    imports = {name: {*imported(file)} & FILES.keys() - {name} for name, file in FILES.items()}
    assert len([*TopologicalSorter(imports).static_order()]) > 300  # a circle is an error that names it
