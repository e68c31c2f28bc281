"""Follow the ends of the files in which a process writes what its host counts, beside its timing files."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from timing_logger.analysis.table_types import Floats
from timing_logger.engine.live.growing_file import GrowingFile
from timing_logger.engine.live.newest_files import Parts
from timing_logger.errors import NotATimingFileError
from timing_logger.files_beside import HOST
from timing_logger.reading.host_rows import COUNTED, counters_in

_FIRST_LOOK_BYTES = 2**15  # of some minutes


class CounterTail:
    """The end of the file of counters of one process, which may have several parts."""

    def __init__(self) -> None:
        self._files: dict[int, GrowingFile] = {}

    def added(self, parts: Parts) -> Floats:
        """Return the rows that were added, in the columns ``COUNTED``; none where nothing is counted.

        Args:
            parts: the parts of the timing file.
        """
        try:
            if any(number not in parts or file.is_replaced() for number, file in self._files.items()):
                self._files = {}
            found = list(self._read(parts))
        except (OSError, NotATimingFileError):  # an answer can do without
            found = []
        return np.concatenate([np.zeros((0, len(COUNTED))), *found])

    def _read(self, parts: Parts) -> Iterator[Floats]:
        since = max(self._files, default=max(parts))
        for number in sorted(part for part in parts if part >= since):
            path = HOST.path(parts[number])
            if not path.is_file():
                continue
            file = self._files.setdefault(number, GrowingFile(path, _FIRST_LOOK_BYTES))
            while added := file.added():
                yield counters_in(path, file.header + added)
        self._files = {number: self._files[number] for number in sorted(self._files)[-1:]}
