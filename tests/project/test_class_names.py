"""A class name stands for one class of the two packages: who reads or searches for it finds that one."""

from __future__ import annotations

import ast
from collections import Counter

from places import ROOT

PACKAGES = ("timing_logger", "allreduce_instrumentation")

TWINS = {"TimingLoggerCallback", "TimingLoggerProfiler"}
"""Named as users of several frameworks look for them."""

OF_SOURCES = {"Group", "Operation", "Process", "Span"}
"""What importers call so is what their sources call so."""


def test_no_two_public_classes_have_one_name() -> None:
    names = Counter(
        node.name
        for package in PACKAGES
        for file in (ROOT / package).rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert {name for name, n in names.items() if n > 1} <= TWINS | OF_SOURCES
