"""The names of files that stand beside a timing file: of the same rank, incarnation and part."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from timing_logger.run_info import TimingFile

_TIMING = "timing"


class FilesBeside(NamedTuple):
    """The files of one kind.

    Attributes:
        kind: what their names begin with, in the place of ``timing``.
    """

    kind: str

    def name(self, of: TimingFile) -> str:
        """Return the name of the file beside a timing file, such as ``host-rank0.run2.csv``."""
        return self.kind + of.name.removeprefix(_TIMING)

    def path(self, timing_file: Path) -> Path:
        """Return the path of the file beside a timing file."""
        of = TimingFile.parse(timing_file.name)
        return timing_file.with_name(self.name(of) if of else self.kind + timing_file.name)

    def parse(self, name: str) -> TimingFile | None:
        """Return the timing file beside which a file stands; None if it is not the name of one."""
        return (
            TimingFile.parse(_TIMING + name.removeprefix(self.kind)) if name.startswith(self.kind) else None
        )


HOST = FilesBeside("host")
"""What the host counted, see :mod:`timing_logger.host_counters`."""

STACKS = FilesBeside("stacks")
"""Where the main thread was, see :mod:`timing_logger.stack_samples`."""

KINDS = HOST, STACKS
