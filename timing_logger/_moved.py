"""Serves names of earlier versions from the place that they have now, and says where that is."""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any, Generic, TypeVar

K = TypeVar("K")
T = TypeVar("T")

_PLACES = "timing_logger", "timing_logger.compat"
"""The packages whose names are meant for programs: a name that one of them offers is imported from there."""


def moved(old: str, new: str) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of the module ``old``, whose names are in the module ``new``.

    It warns whoever uses a name of where that is now: a package of ``_PLACES``, if one offers the name.
    """

    def get(name: str) -> Any:
        if name.startswith("__"):  # Python asks for such names, and no program does
            raise AttributeError(f"module {old!r} has no attribute {name!r}")
        value = getattr(import_module(new), name)
        home = next((place for place in _PLACES if name in import_module(place).__all__), new)
        _warn(f"{old}.{name} has moved: from {home} import {name}", depth=2)
        return value

    return get


def moved_name(old: str, home: str, name: str) -> Any:
    """Return the value that ``name`` of the module ``home`` has, for the ``__getattr__`` that served ``old``.

    It warns whoever uses the name ``old`` of where it is now.
    """
    value = getattr(import_module(home), name)
    _warn(f"{old} has moved: from {home} import {name}", depth=3)
    return value


def warn_of_new_name(old: str, new: str) -> None:
    """Warn the program that called our caller: what it calls ``old`` is called ``new`` now."""
    warnings.warn(f"{old} is called {new} now", DeprecationWarning, stacklevel=3)


class EarlierName(Generic[T]):
    """An attribute by its name of an earlier version: whoever reads it is warned of the name it has now."""

    def __init__(self, old: str, new: str) -> None:
        self._old, self._new = old, new

    def __get__(self, instance: object, owner: type) -> T:
        if instance is None:
            raise AttributeError(f"{owner.__name__}.{self._old} is an attribute of instances")
        warn_of_new_name(f"{owner.__name__}.{self._old}", f"{owner.__name__}.{self._new}")
        value: T = getattr(instance, self._new)
        return value


def earlier_keywords(**names: str) -> Callable[[type[K]], type[K]]:
    """Have the constructor of a dataclass or named tuple take earlier names, too: ``earlier="present"``."""

    def taken(kind: type[K]) -> type[K]:
        maker = "__new__" if issubclass(kind, tuple) else "__init__"
        make = getattr(kind, maker)

        @functools.wraps(make)
        def made(*args: Any, **values: Any) -> Any:
            for old in names.keys() & values.keys():
                warn_of_new_name(f"{kind.__name__}({old}=)", f"{kind.__name__}({names[old]}=)")
                values[names[old]] = values.pop(old)
            return make(*args, **values)

        setattr(kind, maker, made)
        return kind

    return taken


def renamed(module: str, **names: str) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a module that calls some names otherwise now: ``Earlier="Present"``."""

    def get(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        return moved_name(f"{module}.{name}", module, names[name])

    return get


def _warn(said: str, *, depth: int) -> None:
    """Warn the program that uses a name, which is the caller at this depth.

    ``from package import name`` asks twice: Python's import system whether the package has the name, and then
    the program for its value. The program is warned, once.
    """
    if sys._getframe(depth).f_code.co_filename != "<frozen importlib._bootstrap>":
        warnings.warn(said, DeprecationWarning, stacklevel=depth + 1)
