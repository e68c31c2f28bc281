"""Serves names of earlier versions from the place that they have now, and says where that is."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any

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


def _warn(said: str, *, depth: int) -> None:
    """Warn the program that uses a name, which is the caller at this depth.

    ``from package import name`` asks twice: Python's import system whether the package has the name, and then
    the program for its value. The program is warned, once.
    """
    if sys._getframe(depth).f_code.co_filename != "<frozen importlib._bootstrap>":
        warnings.warn(said, DeprecationWarning, stacklevel=depth + 1)
