"""What type checkers read of the native core is what it has: the Python core's classes, and a little more."""

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

STUB = ast.parse(Path(native.__path__[0], "core.pyi").read_text(encoding="utf-8"))
PYTHON = ast.parse(Path(python.__file__).read_text(encoding="utf-8"))
OF_PYTHON = {
    name: getattr(python, name)
    for node in PYTHON.body
    if isinstance(node, ast.ImportFrom | ast.FunctionDef)
    for name in ([node.name] if isinstance(node, ast.FunctionDef) else [one.asname for one in node.names])
    if name
}
CLASSES = {name: of for name, of in OF_PYTHON.items() if isinstance(of, type)}
IMPORTED = {alias.asname for node in STUB.body if isinstance(node, ast.ImportFrom) for alias in node.names}
STATED = {
    node.name: {part.name: part for part in node.body if isinstance(part, ast.FunctionDef)}
    for node in STUB.body
    if isinstance(node, ast.ClassDef)
}
"""The classes that the native core alone has, or of which it has more, and what it has there."""

USED_BY_NOBODY_ELSE = {
    "CallInC", "Columns", "CompletingMethod", "Entry", "Exit", "IssuedMethod", "KeptFile", "Names",
}  # fmt: skip
SET_BY_SUBCLASSES = {"value_of", "call_when_done"}
TAKES_ANYTHING = {("Unrecorded", "write")}

pytestmark = needs_both


def native_core() -> Any:
    return CORES["native"].classes


def public(of: type) -> set[str]:
    """What objects of a class have; of some attributes only an annotation tells."""
    told = {name for base in of.__mro__ for name in inspect.get_annotations(base)}
    return {name for name in {*dir(of), *told} - SET_BY_SUBCLASSES if not name.startswith("_")}


def parameters(function: Any) -> list[tuple[str, Any, bool]]:
    """The parameters, how each is given, and whether it has a default."""
    given = inspect.signature(function).parameters.values()
    return [(one.name, one.kind, one.default is not one.empty) for one in given]


def differing(of: str, native_class: type, python_class: type) -> list[str]:
    """The methods that take other parameters in the native core."""
    return [
        name
        for name in public(native_class) & public(python_class)
        if callable(getattr(python_class, name, None))
        and (of, name) not in TAKES_ANYTHING
        and parameters(getattr(native_class, name)) != parameters(getattr(python_class, name))
    ]


def test_the_stub_has_the_names_that_other_modules_use() -> None:
    core = native_core()
    classes = {
        name
        for name, value in vars(core).items()
        if isinstance(value, type) and value.__module__ == core.__name__
    }
    assert (IMPORTED | set(STATED)) & set(OF_PYTHON) == set(OF_PYTHON)
    assert classes - USED_BY_NOBODY_ELSE == set(CLASSES) | set(STATED)


@pytest.mark.parametrize("name", CLASSES)
def test_a_native_class_has_what_that_of_the_python_core_has_and_what_the_stub_adds(name: str) -> None:
    native_class = getattr(native_core(), name)
    assert public(native_class) == public(CLASSES[name]) | set(STATED.get(name, ()))
    assert differing(name, native_class, CLASSES[name]) == []


@pytest.mark.parametrize("name", sorted(set(OF_PYTHON) - set(CLASSES)))
def test_the_functions_of_both_cores_take_the_same_parameters(name: str) -> None:
    assert parameters(getattr(native_core(), name)) == parameters(OF_PYTHON[name])


def test_native_recording_calls_take_the_parameters_of_the_others() -> None:
    calls = native_core().RecordingCalls
    assert public(calls) <= public(Recorder)
    assert differing("RecordingCalls", calls, Recorder) == []


@pytest.mark.parametrize(("of", "name"), [(of, name) for of in STATED for name in STATED[of]])
def test_what_the_stub_adds_takes_the_parameters_that_it_states(of: str, name: str) -> None:
    stated, there = STATED[of][name], getattr(getattr(native_core(), of), name)
    if callable(there) and not name.startswith("__"):
        names = [one.arg for one in stated.args.args]
        first_default = len(names) - len(stated.args.defaults)
        assert [(name, default) for name, _, default in parameters(there)] == [
            (name, number >= first_default) for number, name in enumerate(names)
        ]
