"""``TimedNcclCommunicator``: a communicator of CuPy that times itself."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from cupy.cuda import nccl

from allreduce_instrumentation._operation_counts import OperationCounts, as_rank
from allreduce_instrumentation.nccl._calls import NcclCalls, watch_groups
from timing_logger.recording.global_logger import get_timing_logger
from timing_logger.recording.logger import TimingLogger

_ITEM_BYTES = (1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1)
"""The size of each ``ncclDataType_t``, in the order of nccl.h."""


class _Method(NamedTuple):
    """One method: the operation's name in the rows, and the names of its parameters in their order."""

    operation: str
    parameters: tuple[str, ...]

    @property
    def is_collective(self) -> bool:
        return "peer" not in self.parameters

    def given(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        return {**dict(zip(self.parameters, args, strict=False)), **kwargs}


def _method(operation: str, parameters: str) -> _Method:
    return _Method(operation, tuple(parameters.split()))


METHODS: dict[str, _Method] = {
    "allReduce": _method("ALLREDUCE", "sendbuf recvbuf count datatype op stream"),
    "allGather": _method("ALLGATHER", "sendbuf recvbuf count datatype stream"),
    "reduce": _method("REDUCE", "sendbuf recvbuf count datatype op root stream"),
    "reduceScatter": _method("REDUCE_SCATTER", "sendbuf recvbuf recvcount datatype op stream"),
    "broadcast": _method("BCAST", "sendbuff recvbuff count datatype root stream"),
    "bcast": _method("BCAST", "buff count datatype root stream"),
    "send": _method("SEND", "sendbuf count datatype peer stream"),
    "recv": _method("RECV", "recvbuf count datatype peer stream"),
}
"""CuPy's methods that communicate, by name."""


class TimedNcclCommunicator:
    """A communicator of CuPy of which each call is a row, timed in the stream that it is given.

    It has all methods of the communicator that it is made of; what is split from it is timed like it. Calls
    between ``groupStart`` and ``groupEnd`` end with the group. Durations need torch, with the device in use:
    without it rows say ``unresolved``.

    Args:
        comm: the communicator, however it was made.
        name: the name in the rows, the same on all ranks.
        timing_logger: where the rows go. Default: ``get_timing_logger()``.
    """

    def __init__(
        self, comm: nccl.NcclCommunicator, name: str = "nccl", *, timing_logger: TimingLogger | None = None
    ) -> None:
        self._comm = comm
        self._logger = get_timing_logger() if timing_logger is None else timing_logger
        self._n_split = 0
        identity = OperationCounts(name, comm.size(), comm.rank_id())
        self._calls = NcclCalls(self._logger, identity, comm.device_id())
        watch_groups(nccl, "groupStart", "groupEnd")

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self._comm, attribute)

    def commSplit(self, color: int, key: int, config: Any = None) -> TimedNcclCommunicator | None:
        """Split the communicator, as CuPy does; collective."""
        part = self._comm.commSplit(color, key, config)
        self._n_split += 1
        if part is None:
            return None
        name = f"{self._calls.identity.name}, split {self._n_split}, {color}"
        return TimedNcclCommunicator(part, name, timing_logger=self._logger)


def _timed(name: str, method: _Method) -> Callable[..., Any]:
    def timed(self: TimedNcclCommunicator, *args: Any, **kwargs: Any) -> Any:
        call = functools.partial(getattr(self._comm, name), *args, **kwargs)
        if not self._logger.enabled:
            return call()
        try:
            given = method.given(args, kwargs)
            count: int = given["recvcount"] if "recvcount" in given else given["count"]
            size_bytes = count * _ITEM_BYTES[given["datatype"]]
            if method.operation == "REDUCE_SCATTER":  # which sends a block for each rank
                size_bytes *= self._calls.identity.size
            peer = as_rank(given.get("root", given.get("peer")))
            row = (method.operation, size_bytes, peer, method.is_collective, given["stream"])
        except Exception:  # CuPy's own error comes from the call itself
            return call()
        return self._calls.time(call, *row)

    timed.__name__ = name
    timed.__doc__ = f"As CuPy's ``{name}``, timed."
    return timed


for _name, _described in METHODS.items():
    setattr(TimedNcclCommunicator, _name, _timed(_name, _described))
