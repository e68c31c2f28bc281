"""The rows of pauses that a logger has."""

from __future__ import annotations

from weakref import ref

from timing_logger.recording.pauses import compilations, graph_captures, imports
from timing_logger.recording.pauses.collector import CollectorPauses
from timing_logger.recording.pauses.recorders import RecordsIntervals

_KINDS = compilations, graph_captures, imports


class PauseRows:
    """Has a recorder told of pauses, from ``begin`` to ``end``.

    What was hooked in torch stays so, as torch calls it from anywhere; it then tells nobody.
    """

    def __init__(self, recorder: RecordsIntervals) -> None:
        self._recorder = ref(recorder)
        self._collector = CollectorPauses(recorder)

    def begin(self, *, of_all: bool) -> None:
        """Begin with the collector's pauses and, if those ``of_all`` kinds are wanted, with the others."""
        self._collector.begin()
        for kind in _KINDS if of_all else ():
            kind.RECORDERS.add(self._recorder)
            kind.watch()

    def end(self) -> None:
        """End with all of them; may be called again."""
        self._collector.end()
        for kind in _KINDS:
            kind.RECORDERS.remove(self._recorder)
        imports.watch_no_more()
