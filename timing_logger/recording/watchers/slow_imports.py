"""Rows of modules that a program imports in its steps, which it does where it first needs them."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from functools import partial
from importlib import _bootstrap  # private, see _lock_of
from importlib.machinery import ModuleSpec
from types import ModuleType
from weakref import ref

from timing_logger.recording.clock import perf_counter_ns
from timing_logger.recording.watchers.pause_recorders import Recorders
from timing_logger.schema import defaults
from timing_logger.schema.record import IMPORT

RECORDERS = Recorders(IMPORT)


class _Watch:
    """Finds no module, but sees on its place that one is looked for: that its import begins.

    So the import is what it would be without. Nothing is called where a module has been imported before.
    """

    def __init__(self) -> None:
        self._outermost: ref[object] | None = None

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find nothing, and note when the import of ``name`` begins, if no other is under way."""
        if self._outermost is None and RECORDERS and _is_main_thread():
            lock = _lock_of(name)
            if lock is not None:
                self._outermost = ref(lock, partial(self._ended, name, perf_counter_ns()))
        return None

    def _ended(self, name: str, start_ns: int, lock: ref[object]) -> None:
        end_ns, self._outermost = perf_counter_ns(), None
        if end_ns - start_ns >= defaults.SHORTEST_IMPORT_NS and _is_main_thread():
            RECORDERS.tell(start_ns, end_ns, layer_name=name, in_iterations=True)


def _lock_of(name: str) -> object | None:
    """Return the lock that the import of a module holds; None if it is only looked up, not imported.

    ``importlib`` drops the lock as soon as the import is over, also if it failed. To see this end, a loader
    of ours in place of the module's own would be the alternative, which others would see.
    """
    reference = getattr(_bootstrap, "_module_locks", {}).get(name)
    return None if reference is None else reference()


def _is_main_thread() -> bool:
    return threading.get_ident() == threading.main_thread().ident


_WATCH = _Watch()


def watch() -> None:
    """See each import that begins from now on."""
    if _WATCH not in sys.meta_path:
        sys.meta_path.insert(0, _WATCH)


def watch_no_more() -> None:
    """See no import any more, unless a recorder wants rows of them."""
    if not RECORDERS and _WATCH in sys.meta_path:
        sys.meta_path.remove(_WATCH)
