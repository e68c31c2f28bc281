"""The rows of pauses that a logger has."""

from __future__ import annotations

from weakref import ref

from timing_logger.recording.watchers import collector, compilations, graph_captures
from timing_logger.recording.watchers import slow_imports as imports
from timing_logger.recording.watchers.pause_recorders import RecordsIntervals

_KINDS = collector, compilations, graph_captures, imports


class PauseRows:
    """Has a recorder told of pauses, from ``begin`` to ``end``.

    What was hooked in torch stays so, as torch calls it from anywhere; it then tells nobody.
    """

    def __init__(self, recorder: RecordsIntervals) -> None:
        self._recorder = ref(recorder)

    def begin(self) -> None:
        """Begin with all kinds."""
        for kind in _KINDS:
            kind.RECORDERS.add(self._recorder)
            kind.watch()

    def end(self) -> None:
        """End with all of them; may be called again."""
        for kind in _KINDS:
            kind.RECORDERS.remove(self._recorder)
        collector.watch_no_more()
        imports.watch_no_more()
