"""Keep the module names of version 0.1 importable after their modules have moved."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_HOME = {
    "timing_logger.converting": "timing_logger.reading.converting",
    "timing_logger.global_logger": "timing_logger.recording.global_logger",
    "timing_logger.logger": "timing_logger.recording.logger",
    "timing_logger.sampling": "timing_logger.recording.sampling",
    "timing_logger.watching": "timing_logger.engine.live",
}


class _Moved:
    """Finds the old names, and gives the module itself: there are no two of one class.

    It is what ``importlib.abc`` calls a finder and a loader; importing that would add a tenth to ours.
    """

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        loader: Any = self
        return ModuleSpec(name, loader) if name in _HOME else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(_HOME[spec.name])
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Restore the module's own spec, which the import system has replaced by that of the old name.

        The module has already been executed.
        """
        old = module.__spec__
        if old is not None and isinstance(old.loader_state, ModuleSpec):
            module.__spec__ = old.loader_state


def install() -> None:
    sys.meta_path.append(_Moved())
