"""Serves the names of a module of version 0.1 from the module in which they are now."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any


def moved(old: str, new: str) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of the module ``old``, whose names are in the module ``new``.

    It warns whoever uses a name of where that is now: the package, if it offers the name.
    """

    def get(name: str) -> Any:
        if name.startswith("__"):  # Python asks for such names, and no program does
            raise AttributeError(f"module {old!r} has no attribute {name!r}")
        value = getattr(import_module(new), name)
        home = "timing_logger" if name in import_module("timing_logger").__all__ else new
        warnings.warn(f"{old}.{name} has moved: from {home} import {name}", DeprecationWarning, stacklevel=2)
        return value

    return get
