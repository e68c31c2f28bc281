"""What type checkers read of the native core is what it has, and what the Python core has, too."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from typing import Any

import pytest
from both_cores import CORES, needs_both

from timing_logger.recording.cores import native
from timing_logger.recording.cores.python import core as python
from timing_logger.recording.recorder import Recorder

STUB = Path(native.__path__[0], "core.pyi")
CLASSES = {
    node.name: node
    for node in ast.parse(STUB.read_text(encoding="utf-8")).body
    if isinstance(node, ast.ClassDef)
}
FUNCTIONS = {
    node.name: node
    for node in ast.parse(STUB.read_text(encoding="utf-8")).body
    if isinstance(node, ast.FunctionDef)
}
IN_PYTHON: dict[str, type] = {
    **{name: getattr(python, name) for name in python.__all__ if name not in FUNCTIONS},
    "RecordingCalls": Recorder,
}
NATIVE_ALONE = {"Channel": {"back_by", "lacks_names", "renew_file", "write_oldest"}}
"""What only the native core has: its ring may be backed by a file, and it writes lines itself."""

SET_BY_INIT = {
    "Caller": {"innermost"},
    "Channel": {"capacity", "count_overflow"},
    "CollectiveCount": {"collectives"},
    "RecordingCalls": {"recording"},
}
"""Attributes of which a class of the Python core tells nothing; its objects have them."""

TAKES_ANYTHING = {("Unrecorded", "write")}
OF_THE_LANGUAGE = {"__enter__", "__exit__", "__len__", "__getitem__", "__call__", "__init__"}

Signature = list[tuple[str, bool]]
"""The parameters, and which have a default; those by name alone come after a ``*``."""


def stated(function: ast.FunctionDef) -> Signature:
    """Return the signature that the stub states."""
    given = function.args
    first = len(given.args) - len(given.defaults)
    found = [(one.arg, number >= first) for number, one in enumerate(given.args)]
    if given.vararg or given.kwonlyargs:
        found.append(("*", False))
    found += [
        (one.arg, default is not None)
        for one, default in zip(given.kwonlyargs, given.kw_defaults, strict=True)
    ]
    return [*found, *([("**", False)] if given.kwarg else [])]


def real(function: Any) -> Signature:
    """Return the signature that a function of either core has."""
    found: Signature = []
    for one in inspect.signature(function).parameters.values():
        if one.kind is one.VAR_KEYWORD:
            found.append(("**", False))
        elif one.kind is one.VAR_POSITIONAL:
            found.append(("*", False))
        else:
            if one.kind is one.KEYWORD_ONLY and ("*", False) not in found:
                found.append(("*", False))
            found.append((one.name, one.default is not one.empty))
    return found


def methods(of: str) -> dict[str, Signature]:
    """Return the methods that the stub states for a class, without those of the language."""
    return {
        node.name: stated(node)
        for node in CLASSES[of].body
        if isinstance(node, ast.FunctionDef) and not node.decorator_list and node.name not in OF_THE_LANGUAGE
    }


def with_bases(of: str) -> set[str]:
    """Return all names that the stub states for a class and its bases."""
    found: set[str] = set()
    for node in CLASSES[of].body:
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
    return found.union(*(with_bases(base.id) for base in CLASSES[of].bases if isinstance(base, ast.Name)))


def public(names: Any) -> set[str]:
    return {name for name in names if not name.startswith("_")}


@needs_both
def test_the_stub_states_the_classes_of_the_native_core() -> None:
    module = CORES["native"].classes
    there = {
        name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__
    }
    classes = {name for name in there if isinstance(getattr(module, name), type)}
    assert classes - {"Entry", "Exit", "IssuedMethod", "Names"} == set(CLASSES)  # what no other module uses


@needs_both
def test_both_cores_have_the_functions_that_the_stub_states() -> None:
    assert FUNCTIONS
    for name, node in FUNCTIONS.items():
        for core in (CORES["native"].classes, python):
            assert real(getattr(core, name)) == stated(node), name


@needs_both
@pytest.mark.parametrize("name", CLASSES)
def test_the_stub_states_what_a_native_class_has(name: str) -> None:
    built = getattr(CORES["native"].classes, name)
    assigned = {"value_of", "call_when_done"}  # by subclasses
    assert public(with_bases(name)) - assigned == public(dir(built))
    assert methods(name) == {method: real(getattr(built, method)) for method in methods(name)}


@pytest.mark.parametrize("name", IN_PYTHON)
def test_the_classes_of_the_python_core_have_what_the_stub_states(name: str) -> None:
    stubbed, there = public(with_bases(name)), public(dir(IN_PYTHON[name]))
    there |= {of for base in IN_PYTHON[name].__mro__ for of in public(inspect.get_annotations(base))}
    only_native = NATIVE_ALONE.get(name, set())
    if name in python.__all__:  # a recorder has further calls, which stand on these
        assert there - stubbed == set()
    assert stubbed - there - SET_BY_INIT.get(name, set()) == only_native
    for method in methods(name).keys() - only_native - SET_BY_INIT.get(name, set()):
        signature = real(getattr(IN_PYTHON[name], method))
        if (name, method) not in TAKES_ANYTHING:
            assert (method, methods(name)[method]) == (method, signature)
