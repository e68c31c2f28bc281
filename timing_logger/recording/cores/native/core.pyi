"""The classes of the native core, for type checkers; tests/test_native_stub.py holds them against both."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from types import TracebackType
from typing import Any, TypeVar

from timing_logger.record import RawRecord
from timing_logger.recording.cores.channel import ChannelCounts
from timing_logger.recording.cores.issued_calls import CommonCalls
from timing_logger.recording.cores.protocols import NumberedGroup, Timer, Waitable
from timing_logger.run_info import GroupProgress

B = TypeVar("B", bound=BackgroundSpan)
M = TypeVar("M", bound=Callable[..., Any])
R = TypeVar("R")
S = TypeVar("S", bound=Span)

class Batch:
    def __len__(self) -> int: ...
    def __getitem__(self, index: Any) -> Any: ...
    def csv_lines(self, wall_offset_ns: int) -> bytes: ...

class Channel:
    def __init__(self, capacity: int) -> None: ...
    @property
    def capacity(self) -> int: ...
    @property
    def lacks_names(self) -> bool: ...
    @property
    def oldest(self) -> RawRecord | None: ...
    def abandon(self) -> None: ...
    def back_by(
        self,
        path: str | PathLike[str],
        timing_file: str | PathLike[str],
        started_unix_ns: int,
        wall_offset_ns: int,
        capacity: int | None = None,
    ) -> None: ...
    def close(self) -> None: ...
    def count_overflow(self) -> None: ...
    def counts(self) -> ChannelCounts: ...
    def note_standing(
        self,
        open_records: Iterable[RawRecord],
        groups: Iterable[GroupProgress],
        now_ns: int,
        progressed_ns: int,
    ) -> None: ...
    def put(self, record: RawRecord) -> None: ...
    def release(self) -> None: ...
    def remove_file(self) -> None: ...
    def renew_file(self) -> bool: ...
    def take(self, limit: int) -> list[RawRecord]: ...
    def take_packed(self, limit: int) -> Sequence[RawRecord]: ...
    def write_oldest(
        self, wall_offset_ns: int, longest_ns: int, descriptor: int, device: int, inode: int, n_bytes: int
    ) -> tuple[int, int, bool, int]: ...
    def __len__(self) -> int: ...

class Caller:
    thread: Any
    channel: Any
    running: set[OpenCall]
    innermost: OpenCall | None
    def __init__(self, thread: str, channel: object, running: set[OpenCall]) -> None: ...
    def calls(self) -> list[OpenCall]: ...

class OpenCall:
    caller: Caller
    outer: OpenCall | None
    is_in_ring: bool
    start_ns: int
    end_ns: int
    @property
    def is_open(self) -> bool: ...
    def claim(self) -> bool: ...
    def enter(self) -> None: ...
    def leave(self) -> int: ...
    def leave_running(self) -> None: ...
    def open_records(self, status: str) -> list[RawRecord]: ...
    def unlink(self) -> None: ...
    def write_open(self, status: str) -> None: ...

class Columns(OpenCall):
    epoch: Any
    group: Any
    group_size: Any
    iteration: Any
    layer_name: Any
    message_size_bytes: Any
    operation: Any
    peer: Any
    phase: Any
    seq: Any
    thread: Any
    work: Any

class Span(Columns):
    @property
    def elapsed_ms(self) -> float: ...
    def __enter__(self) -> Span: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...
    def __call__(self, *args: Any) -> Span | None: ...
    def fail(self, error: BaseException, begun: Waitable | None, counts: bool) -> None: ...
    def finish(self, status: str) -> None: ...
    def write(
        self,
        operation: str | None,
        start_ns: int,
        end_ns: int | None,
        status: str,
        thread: str | None = None,
    ) -> None: ...
    def write_not_entered(self, kind: type[BaseException] | None) -> None: ...

class Unrecorded(Span):
    def write(
        self,
        operation: object = None,
        start_ns: object = None,
        end_ns: object = None,
        status: object = None,
        thread: object = None,
    ) -> None: ...

class CollectiveCount:
    collectives: int
    def next_collective(self) -> int: ...
    def take_back(self, error: BaseException) -> bool: ...

class Wait(OpenCall):
    of: Any
    thread: Any
    def __init__(self, of: Sequence[Span], caller: Caller) -> None: ...

class BackgroundSpan(Span):
    goes_on: bool
    learn: Callable[[BackgroundSpan, Any], str] | None
    value_of: Callable[[Any], object]
    call_when_done: Callable[[Any, Callable[[Any], None]], None]
    @property
    def ended_ns(self) -> int | None: ...
    def begin(
        self, goes_on: bool, recorder: RecordingCalls, start_ns: int | None = None, has_rows: bool = True
    ) -> None: ...
    def block_from(self, instant_ns: int, behind: BackgroundSpan | None) -> None: ...
    def end(self, failure: type[BaseException] | None) -> None: ...
    def end_by(self, future: Any) -> None: ...
    def end_of(self, future: object) -> None: ...
    def end_with(self, status: str) -> None: ...
    def lose(self) -> None: ...
    def wait(self, work: Waitable, *args: Any, **kwargs: Any) -> Any: ...

class Completion(Wait):
    learns: bool
    @staticmethod
    def of_handles(handles: Sequence[object], blocks: bool) -> Completion | None: ...
    def failed(self, error: BaseException) -> None: ...
    def saw(self, places: Iterable[int] | None, told: Sequence[object] | None) -> None: ...

def issued_method(general: M, common: CommonCalls) -> M: ...
def lose_operation(handle: Any) -> None: ...

class RecordingCalls:
    recording: bool
    def begin_background(
        self,
        operation: str,
        message_size: int | None,
        peer: int | None,
        group: NumberedGroup,
        seq: int | None,
        learn: Callable[[BackgroundSpan, Any], str] | None,
        start_ns: int,
        has_rows: bool = True,
    ) -> BackgroundSpan: ...
    def begin_operation(
        self,
        kind: type[S],
        operation: str | None,
        message_size: int | None,
        layer_name: str | None,
        group: str,
        group_size: int | None,
        peer: int | None,
    ) -> S: ...
    def issue_call(
        self,
        kind: type[B],
        operation: str,
        message_size: int | None,
        layer_name: str | None,
        peer: int | None,
        group: NumberedGroup,
        numbered: bool,
        goes_on: bool,
        call: Callable[..., R],
        args: tuple[object, ...],
    ) -> tuple[B, R]: ...
    def record_interval(
        self,
        operation: str | None,
        start_ns: object,
        end_ns: int | None,
        message_size: int | None = None,
        layer_name: str | None = None,
        phase: str | None = None,
        iteration: int | None = None,
        epoch: int | None = None,
        *,
        group: str = "",
        group_size: int | None = None,
        seq: int | None = None,
        peer: int | None = None,
        work: float | None = None,
        clock: str = ...,
        status: str = ...,
        metadata: Mapping[str, object] | None = None,
    ) -> None: ...
    def record_mpi_operation(
        self,
        operation: str | None = None,
        message_size: int | None = None,
        layer_name: str | None = None,
        phase: str | None = None,
        iteration: int | None = None,
        epoch: int | None = None,
        *,
        group: str = "",
        group_size: int | None = None,
        seq: int | None = None,
        peer: int | None = None,
        work: float | None = None,
        message_size_bytes: int | None = None,
        mpi_op_name: str | None = None,
    ) -> Timer: ...
    def record_timing(
        self,
        operation: str | None = None,
        elapsed_ms: float | None = None,
        layer_name: str | None = None,
        message_size: int | None = None,
        phase: str | None = None,
        iteration: int | None = None,
        epoch: int | None = None,
        start_counter: float | None = None,
        end_counter: float | None = None,
        *,
        group: str = "",
        group_size: int | None = None,
        seq: int | None = None,
        peer: int | None = None,
        work: float | None = None,
        message_size_bytes: int | None = None,
        mpi_op_name: str | None = None,
    ) -> None: ...
    def time_call(
        self,
        operation: str,
        message_size: int | None,
        layer_name: str | None,
        peer: int | None,
        group: NumberedGroup,
        handle: type[Waitable],
        call: Callable[..., R],
        args: tuple[object, ...],
    ) -> R: ...
