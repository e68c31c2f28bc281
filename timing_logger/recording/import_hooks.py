"""Call a function once a module has been imported, by whomever, or at once if it was imported before."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

Hook = Callable[[ModuleType], None]


Around = Callable[[Callable[[], None]], None]


def after_import(name: str, hook: Hook, *, around: Around = lambda load: load()) -> None:
    """Have ``hook`` called with the module ``name`` as soon as it has been imported.

    Args:
        name: the module's full name.
        hook: called once. It must not raise: its error would be that of the import.
        around: calls its argument, which loads the module, once; if the module was not imported before.
    """
    module = sys.modules.get(name)
    if module is not None and not getattr(module.__spec__, "_initializing", False):
        hook(module)
    else:
        sys.meta_path.insert(0, _Finder(name, hook, around))


class _Finder:
    """Finds one module as the finders behind it do, and has a hook called once it is imported."""

    def __init__(self, name: str, hook: Hook, around: Around) -> None:
        self._name = name
        self._hook = hook
        self._around = around

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != self._name:
            return None
        for finder in sys.meta_path:
            look = None if finder is self else getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = look and look(name, path, target)
            if spec is not None:
                loader: Any = spec.loader and _Loader(spec.loader, self._loaded, self._around)
                spec.loader = loader
                return spec
        return None

    def _loaded(self, module: ModuleType) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)
            self._hook(module)


class _Loader:
    """A loader that hands everything on to another one, and calls a hook when that has loaded the module."""

    def __init__(self, loader: Any, hook: Hook, around: Around) -> None:
        self._loader = loader
        self._hook = hook
        self._around = around

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def exec_module(self, module: ModuleType) -> None:
        # What the module says of itself is what it says without us.
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._around(partial(self._loader.exec_module, module))
        self._hook(module)
