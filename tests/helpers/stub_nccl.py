"""A stand-in for nccl4py, because it needs a GPU: its names and signatures, and calls that are only noted."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

asked: list[str] = []
"""What the stand-in was asked to do, in order."""


class Communicator:
    """As ``nccl.core.Communicator`` of nccl4py 0.6."""

    def __init__(self, ptr: int | None = None) -> None:
        self._ptr = ptr or 0
        self.nranks, self.rank = 4, 1
        self.device = SimpleNamespace(device_id=0)
        self.fails: Exception | None = None

    @classmethod
    def _from_comm(cls, comm: int) -> Communicator:
        made = cls()
        made._ptr = comm
        return made

    @classmethod
    def init(cls, nranks: int, rank: int, unique_id: Any, config: Any = None) -> Communicator:
        made = cls()
        made.initialize(nranks, rank, unique_id, config)
        return made

    def initialize(self, nranks: int, rank: int, unique_id: Any, config: Any = None) -> None:
        self._ptr, self.nranks, self.rank = 1, nranks, rank

    def split(self, color: int | None = None, key: int = 0, config: Any = None) -> Communicator:
        return type(self)._from_comm(2)

    def shrink(
        self, exclude_ranks: Sequence[int] | None = None, config: Any = None, flag: Any = None
    ) -> Communicator:
        return type(self)._from_comm(3)

    def grow(
        self, nranks: int, unique_id: Any = None, rank: int | None = None, config: Any = None
    ) -> Communicator:
        return type(self)._from_comm(4)

    def _note(self, name: str) -> None:
        if self.fails is not None:
            raise self.fails
        asked.append(name)

    def send(self, sendbuf: Any, peer: int, *, stream: Any = None) -> None:
        self._note("send")

    def recv(self, recvbuf: Any, peer: int, *, stream: Any = None) -> None:
        self._note("recv")

    def wait_signal(self, descs: Any, *, stream: Any = None) -> None:
        self._note("wait_signal")

    def signal(
        self, peer: int, signal_index: int = 0, context: int = 0, flags: int = 0, *, stream: Any = None
    ) -> None:
        self._note("signal")

    def put_signal(
        self, local_buffer: Any, peer: int, peer_window: Any, peer_window_offset: int = 0,
        signal_index: int = 0, context: int = 0, flags: int = 0, *, stream: Any = None,
    ) -> None:  # fmt: skip
        self._note("put_signal")

    def allreduce(
        self, sendbuf: Any, recvbuf: Any, op: Any, *, stream: Any = None, config: Any = None
    ) -> None:
        self.reduce(sendbuf, recvbuf, op, stream=stream, config=config)

    def broadcast(
        self, sendbuf: Any, recvbuf: Any, root: int, *, stream: Any = None, config: Any = None
    ) -> None:
        self._note("broadcast")

    def reduce(
        self, sendbuf: Any, recvbuf: Any, op: Any, root: int | None = None, *, stream: Any = None,
        config: Any = None,
    ) -> None:  # fmt: skip
        self._note("reduce")

    def allgather(self, sendbuf: Any, recvbuf: Any, *, stream: Any = None, config: Any = None) -> None:
        self.gather(sendbuf, recvbuf, stream=stream, config=config)

    def reduce_scatter(
        self, sendbuf: Any, recvbuf: Any, op: Any, *, stream: Any = None, config: Any = None
    ) -> None:
        self._note("reduce_scatter")

    def alltoall(self, sendbuf: Any, recvbuf: Any, *, stream: Any = None, config: Any = None) -> None:
        self._note("alltoall")

    def gather(
        self, sendbuf: Any, recvbuf: Any, root: int | None = None, *, stream: Any = None, config: Any = None
    ) -> None:
        self._note("gather")

    def scatter(
        self, sendbuf: Any, recvbuf: Any, root: int, *, stream: Any = None, config: Any = None
    ) -> None:
        self._note("scatter")


def _modules() -> dict[str, ModuleType]:
    names = ("nccl", "nccl.bindings", "nccl.bindings.nccl", "nccl.core", "nccl.core.cuda", "nccl.core.group")
    made = {name: ModuleType(name) for name in names}
    bindings = made["nccl.bindings.nccl"]
    for name in ("group_start", "group_end", "group_simulate_end"):
        setattr(bindings, name, lambda name=name: asked.append(name))

    @contextmanager
    def group() -> Iterator[None]:
        bindings.group_start()
        try:
            yield
        finally:
            bindings.group_end()

    made["nccl.bindings"].nccl = bindings  # type: ignore[attr-defined]
    made["nccl.core"].Communicator, made["nccl.core"].group = Communicator, group  # type: ignore[attr-defined]
    made["nccl.core.cuda"].get_stream_ptr = lambda stream=None: stream or 0  # type: ignore[attr-defined]
    return made


@pytest.fixture
def nccl(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """``nccl.core`` of the stand-in, for one test."""
    ours = [name for name in sys.modules if name.startswith("allreduce_instrumentation.nccl.")]
    for name in ours:
        monkeypatch.delitem(sys.modules, name)
    modules = _modules()
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    asked.clear()
    yield modules["nccl.core"]
    for name in [name for name in sys.modules if name.startswith("allreduce_instrumentation.nccl.")]:
        del sys.modules[name]
