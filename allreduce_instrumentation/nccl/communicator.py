"""``TimedCommunicator``: a communicator of nccl4py that times itself."""

from __future__ import annotations

import functools
import hashlib
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from nccl.bindings import nccl as bindings
from nccl.core import Communicator
from nccl.core.cuda import get_stream_ptr

from allreduce_instrumentation._operation_counts import OperationCounts
from allreduce_instrumentation.nccl._calls import METHODS, NcclCalls, NcclMethod, watch_groups
from timing_logger.recording.global_logger import get_timing_logger
from timing_logger.recording.logger import TimingLogger

if TYPE_CHECKING:
    from typing_extensions import Self


_calling = threading.local()


class TimedCommunicator(Communicator):
    """A communicator of nccl4py of which each call is a row, timed in the stream that it is given.

    All methods are nccl4py's, and what is split, shrunk or grown from it is timed like it. Calls inside
    ``nccl.core.group()`` end with the group. Durations need torch, with the device in use: without it
    rows say ``unresolved``.

    Args:
        ptr: as nccl4py takes it: the address of a communicator; None for one that is initialised later.
        timing_logger: where the rows go. Default: ``get_timing_logger()``.

    Attributes:
        timing_logger: where the rows go.
        timing_name: the communicator's name in the rows, the same on all ranks. It may be set before the
            first call; by default it is made of the unique id, and of what the communicator was made from.
    """

    def __init__(self, ptr: int | None = None, *, timing_logger: TimingLogger | None = None) -> None:
        super().__init__(ptr)
        self.timing_logger = get_timing_logger() if timing_logger is None else timing_logger
        self.timing_name = "nccl"
        self._timing_calls: NcclCalls | None = None
        self._timing_made = 0
        watch_groups(bindings, "group_start", "group_end", "group_simulate_end")

    @classmethod
    def init(
        cls,
        nranks: int,
        rank: int,
        unique_id: Any,
        config: Any = None,
        *,
        timing_logger: TimingLogger | None = None,
    ) -> Self:
        """Initialise a communicator, as nccl4py does; collective.

        Args:
            nranks, rank, unique_id, config: nccl4py's arguments.
            timing_logger: where the rows go. Default: ``get_timing_logger()``.
        """
        comm = cls(timing_logger=timing_logger)
        comm.initialize(nranks, rank, unique_id, config)
        return comm

    def initialize(self, nranks: int, rank: int, unique_id: Any, config: Any = None) -> None:
        """Initialise this communicator, as nccl4py does; collective."""
        super().initialize(nranks, rank, unique_id, config)
        first = unique_id[0] if isinstance(unique_id, (list, tuple)) else unique_id
        self.timing_name = f"nccl {hashlib.sha256(bytes(first)).hexdigest()[:8]}"

    def split(self, color: int | None = None, key: int = 0, config: Any = None) -> Communicator:
        """Split the communicator, as nccl4py does; collective."""
        part = super().split(color, key, config)
        self._timing_made += 1
        return self._timed_like_this(part, f"{self.timing_name}, split {self._timing_made}, {color}")

    def shrink(self, exclude_ranks: Sequence[int] | None = None, *args: Any, **kwargs: Any) -> Communicator:
        """Make a communicator without some of the ranks, as nccl4py does; collective."""
        rest = super().shrink(exclude_ranks, *args, **kwargs)
        left = " ".join(map(str, sorted(exclude_ranks or ())))
        return self._timed_like_this(rest, f"{self.timing_name}, without {left}".rstrip())

    def grow(self, nranks: int, *args: Any, **kwargs: Any) -> Communicator:
        """Make a communicator with further ranks, as nccl4py does; collective."""
        # New ranks know nothing of the communicator that they join: the name can only be made of the size.
        whole = super().grow(nranks, *args, **kwargs)
        return self._timed_like_this(whole, f"nccl grown to {nranks}")

    def _timed_like_this(self, made: Communicator, name: str) -> Communicator:
        if isinstance(made, TimedCommunicator):
            made.timing_logger = self.timing_logger
            made.timing_name = name
        return made

    def _calls(self) -> NcclCalls:
        """Return what times this communicator's calls, once it is initialised."""
        if self._timing_calls is None:
            identity = OperationCounts(self.timing_name, self.nranks, self.rank)
            self._timing_calls = NcclCalls(self.timing_logger, identity, int(self.device.device_id))
        return self._timing_calls


def _timed(method: NcclMethod, untimed: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(untimed)
    def timed(self: TimedCommunicator, *args: Any, **kwargs: Any) -> Any:
        call = functools.partial(untimed, self, *args, **kwargs)
        if not self.timing_logger.enabled or getattr(_calling, "inside", False):  # allreduce calls reduce
            return call()
        try:
            calls = self._calls()
            identity = calls.identity
            peer = method.other_rank(args, kwargs)
            rooted = peer is not None or not method.without_root
            row = (
                method.operation if rooted else method.without_root,
                method.sent_bytes(args, kwargs, identity.rank, identity.size),
                peer,
                method.collective,
                get_stream_ptr(kwargs.get("stream")),
            )
        except Exception:  # nccl4py's own error comes from the call itself
            return call()
        _calling.inside = True
        try:
            return calls.time(call, *row)
        finally:
            _calling.inside = False

    return timed


for _name, _method in METHODS.items():
    if hasattr(Communicator, _name):
        setattr(TimedCommunicator, _name, _timed(_method, getattr(Communicator, _name)))
