"""Files that the ranks of a timed communicator opened, whose collective calls are timed."""

from __future__ import annotations

from typing import TypeAlias

from mpi4py import MPI

from allreduce_instrumentation.mpi._handles import counting, ending, making, on_all, reading
from allreduce_instrumentation.mpi._operations import COLLECTIVES_OF_FILES, READS_OF_FILES, UNTIMED_OF_FILES
from allreduce_instrumentation.mpi._stand_ins import StandIn

_File: TypeAlias = MPI.File


class TimedFile(_File):
    """An ``MPI.File`` whose collective calls time themselves, as those of a :class:`TimedIntracomm` do.

    The group in its rows is named after the ranks that opened the file: ``ranks 0-3 file``.
    """

    Close = ending(_File.Close, "FILE_CLOSE")

    def free(self) -> None:
        """Call Close if not null."""
        if self:
            self.Close()


for _name, _size in COLLECTIVES_OF_FILES.items():
    setattr(TimedFile, _name, on_all(getattr(_File, _name), f"FILE_{_name.upper()}", _size))
for _name in READS_OF_FILES:
    setattr(TimedFile, _name, reading(getattr(_File, _name), f"FILE_{_name.upper()}"))
for _name in UNTIMED_OF_FILES:
    setattr(TimedFile, _name, counting(getattr(_File, _name), f"File_{_name.lower()}"))


class _Makers:
    __slots__ = ()
    Open = making(_File, lambda: TimedFile, "Open", "FILE_OPEN", "file")


STAND_IN = StandIn.of(_File, _Makers, timed=TimedFile)
"""What takes the place of ``MPI.File``."""
