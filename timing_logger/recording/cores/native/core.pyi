"""The native core for type checkers: its classes are those of the Python core, but for what is told here."""

from collections.abc import Sequence
from os import PathLike
from typing import Any

from timing_logger.recording.cores.python.core import BackgroundSpan as BackgroundSpan
from timing_logger.recording.cores.python.core import Caller as Caller
from timing_logger.recording.cores.python.core import Channel as _Channel
from timing_logger.recording.cores.python.core import CollectiveCount as _CollectiveCount
from timing_logger.recording.cores.python.core import Completion as Completion
from timing_logger.recording.cores.python.core import LearnSize as LearnSize
from timing_logger.recording.cores.python.core import OpenCall as OpenCall
from timing_logger.recording.cores.python.core import SmallFiles as SmallFiles
from timing_logger.recording.cores.python.core import Span as Span
from timing_logger.recording.cores.python.core import TimedGroup as TimedGroup
from timing_logger.recording.cores.python.core import Unrecorded as Unrecorded
from timing_logger.recording.cores.python.core import Wait as Wait
from timing_logger.recording.cores.python.core import completing_method as completing_method
from timing_logger.recording.cores.python.core import handle_class as handle_class
from timing_logger.recording.cores.python.core import issued_method as issued_method
from timing_logger.recording.cores.python.core import lose_operation as lose_operation
from timing_logger.recording.recorder import Recorder
from timing_logger.schema.record import RawRecord

class Batch(Sequence[RawRecord]):
    def __len__(self) -> int: ...
    def __getitem__(self, index: Any) -> Any: ...
    def csv_lines(self, wall_offset_ns: int) -> bytes: ...

class CollectiveCount(_CollectiveCount):
    @property
    def address(self) -> int: ...

class Channel(_Channel):
    @property
    def lacks_names(self) -> bool: ...
    def back_by(
        self,
        path: str | PathLike[str],
        timing_file: str | PathLike[str],
        started_unix_ns: int,
        wall_offset_ns: int,
        capacity: int | None = None,
    ) -> None: ...
    def renew_file(self) -> bool: ...
    def write_oldest(
        self, wall_offset_ns: int, longest_ns: int, descriptor: int, device: int, inode: int, n_bytes: int
    ) -> tuple[int, int, bool, int]: ...

class RecordingCalls(Recorder): ...
