"""``asyncccl``: a backend of ``torch.distributed`` on the device that queues as NCCL does.

A collective is a kernel. With ``async_op=True`` it runs in a stream of the group's own, between what the
current stream holds before and what waits for its work; with ``async_op=False`` in the current stream, and
the call returns None (torch 2.8 and later). ``Work.wait()`` holds the current stream and not the host.
Futures are complete at once and carry events, so their callbacks run in a stream of torch's pool. Messages
run in a stream for each peer, unless they are in a batch.

It can also do as ``nccl2`` does, torch's NCCL backend since version 2.15. There a synchronous call returns a
work as well, and to ask a work for its future makes the current stream wait for it. A work says how long it
took, if the group was told to measure. (So it does for both here.)
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from async_device.build import load
from async_device.exchanges import Exchange, op_of, shared_directory

NAME = "asyncccl"


class _Bundle:
    """The calls between ``start_coalescing`` and ``end_coalescing``: one work."""

    def __init__(self) -> None:
        self.exchanges: list[Exchange] = []
        self.outputs: list[Tensor] = []
        self.asynchronous = False


class StreamBackend:
    """The backend: the methods that torch calls in C++ arrive here by name.

    Attributes:
        extra_ms: by so much every operation of every group lasts longer than it would.
        from_the_wait: whether an operation with a work begins only when a stream has come to the wait for it,
            however late that is.
        as_nccl2: whether groups that are made from now on do, and say, as ``nccl2``.
        futures_of_batches: whether the one work of coalesced calls has a future. NCCL's had none in torch
            2.8: who asks its future for a callback there crashes the process.
    """

    extra_ms = 0.0
    from_the_wait = False
    as_nccl2 = False
    futures_of_batches = True

    def __init__(self, store: dist.Store, rank: int, size: int) -> None:
        self._rank = rank
        self._size = size
        self._directory = shared_directory(store, rank)
        self._collectives = itertools.count()
        self._messages: Counter[str] = Counter()
        self._streams: dict[tuple[torch.device, object], torch.Stream] = {}
        self._bundle: _Bundle | None = None
        self._measures = False
        self.is_nccl2 = StreamBackend.as_nccl2

    def enable_timing(self) -> None:
        self._measures = True

    # -- how a call is queued ----------------------------------------------------------------------------

    def _stream(self, device: torch.device, purpose: object = "collectives") -> torch.Stream:
        key = device, purpose
        if key not in self._streams:
            self._streams[key] = torch.Stream(device=device)
        return self._streams[key]

    def _queue(self, exchange: Exchange, outputs: Any, opts: Any, peer: object = "collectives") -> Any:
        """The work of ``exchange``, in the stream where it belongs; None if that is the current one."""
        asynchronous = getattr(opts, "asyncOp", True)
        if self._bundle is not None:  # its work comes in the end
            self._bundle.exchanges.append(exchange)
            self._bundle.outputs.extend(_flat(outputs))
            self._bundle.asynchronous = asynchronous
            return None
        if not asynchronous and not self.is_nccl2:
            exchange.queue(self.extra_ms)
            return None
        if not asynchronous:
            current = torch.accelerator.current_stream(exchange.device)
            return self._work(current, [exchange], _flat(outputs))
        return self._in_own_stream(self._stream(exchange.device, peer), [exchange], _flat(outputs))

    def _in_own_stream(
        self,
        stream: torch.Stream,
        exchanges: Sequence[Exchange],
        outputs: list[Tensor],
        *,
        host_waits: bool = False,
        has_future: bool = True,
    ) -> dist.Work:
        stream.wait_stream(torch.accelerator.current_stream(stream.device))
        return self._work(stream, exchanges, outputs, host_waits=host_waits, has_future=has_future)

    def _work(
        self,
        stream: torch.Stream,
        exchanges: Sequence[Exchange],
        outputs: list[Tensor],
        *,
        host_waits: bool = False,
        has_future: bool = True,
    ) -> dist.Work:
        def queue() -> None:
            with stream:
                for exchange in exchanges:
                    exchange.queue(self.extra_ms)

        futures = load().Future
        future = futures.FOR_WHO_ASKS if self.is_nccl2 else futures.AT_ONCE
        if not has_future:
            future = futures.NONE
        work: dist.Work = load().work(
            stream, outputs, queue, host_waits, future, self._measures, self.from_the_wait
        )
        return work

    def start_coalescing(self) -> None:
        self._bundle = _Bundle()

    def end_coalescing(self) -> dist.Work | None:
        bundle, self._bundle = self._bundle, None
        assert bundle is not None
        # nobody waits for a message before it has sent its own
        exchanges = sorted(bundle.exchanges, key=lambda one: bool(one.incoming))
        if bundle.asynchronous:
            stream = self._stream(exchanges[0].device)
            has_future = self.futures_of_batches
            return self._in_own_stream(stream, exchanges, bundle.outputs, has_future=has_future)
        for exchange in exchanges:
            exchange.queue(self.extra_ms)
        return None

    # -- what is left for whom ---------------------------------------------------------------------------

    def _collective(
        self,
        device: torch.device,
        outgoing: Sequence[Tensor | None],
        incoming: Sequence[Tensor | None],
        into: Tensor | None = None,
        opts: Any = None,
    ) -> Exchange:
        """The next collective: ``outgoing`` has a tensor for each rank, ``incoming`` one from each."""
        start = f"{self._directory}/collective-{next(self._collectives)}"
        out = {f"{start}-{self._rank}-{to}": one for to, one in enumerate(outgoing) if one is not None}
        got = {
            f"{start}-{source}-{self._rank}": one for source, one in enumerate(incoming) if one is not None
        }
        return Exchange(device, out, got, into, op_of(opts))

    def _all(self, tensor: Tensor) -> list[Tensor]:
        return [tensor] * self._size

    def _room(self, tensor: Tensor) -> list[Tensor]:
        """For one like ``tensor`` from each rank."""
        return [torch.empty_like(tensor) for _ in range(self._size)]

    def _only(self, rank: int, tensor: Tensor) -> list[Tensor | None]:
        return [tensor if each == rank else None for each in range(self._size)]

    def _parts(self, tensor: Tensor, sizes: list[int] | None = None) -> Sequence[Tensor]:
        return tensor.split(sizes) if sizes else tensor.chunk(self._size)

    # -- collectives -------------------------------------------------------------------------------------

    def allreduce(self, tensors: list[Tensor], opts: Any) -> Any:
        (one,) = tensors
        exchange = self._collective(one.device, self._all(one), self._room(one), one, opts)
        return self._queue(exchange, tensors, opts)

    def reduce(self, tensors: list[Tensor], opts: Any) -> Any:
        (one,) = tensors
        to_root = self._only(opts.rootRank, one)
        if self._rank == opts.rootRank:
            exchange = self._collective(one.device, to_root, self._room(one), one, opts)
        else:
            exchange = self._collective(one.device, to_root, [])
        return self._queue(exchange, tensors, opts)

    def broadcast(self, tensors: list[Tensor], opts: Any) -> Any:
        (one,) = tensors
        if self._rank == opts.rootRank:
            others = [None if each == self._rank else one for each in range(self._size)]
            return self._queue(self._collective(one.device, others, []), tensors, opts)
        return self._queue(self._collective(one.device, [], self._only(opts.rootRank, one)), tensors, opts)

    def allgather(self, outputs: list[list[Tensor]], inputs: list[Tensor], opts: Any) -> Any:
        exchange = self._collective(inputs[0].device, self._all(inputs[0]), outputs[0])
        return self._queue(exchange, outputs, opts)

    def _allgather_base(self, output: Tensor, given: Tensor, opts: Any) -> Any:
        exchange = self._collective(given.device, self._all(given), self._parts(output))
        return self._queue(exchange, [output], opts)

    def reduce_scatter(self, outputs: list[Tensor], inputs: list[list[Tensor]], opts: Any) -> Any:
        (one,) = outputs
        exchange = self._collective(one.device, inputs[0], self._room(one), one, opts)
        return self._queue(exchange, outputs, opts)

    def _reduce_scatter_base(self, output: Tensor, given: Tensor, opts: Any) -> Any:
        exchange = self._collective(given.device, self._parts(given), self._room(output), output, opts)
        return self._queue(exchange, [output], opts)

    def gather(self, outputs: list[list[Tensor]], inputs: list[Tensor], opts: Any) -> Any:
        room = outputs[0] if self._rank == opts.rootRank else []
        exchange = self._collective(inputs[0].device, self._only(opts.rootRank, inputs[0]), room)
        return self._queue(exchange, outputs, opts)

    def scatter(self, outputs: list[Tensor], inputs: list[list[Tensor]], opts: Any) -> Any:
        given = inputs[0] if self._rank == opts.rootRank else []
        exchange = self._collective(outputs[0].device, given, self._only(opts.rootRank, outputs[0]))
        return self._queue(exchange, outputs, opts)

    def alltoall(self, outputs: list[Tensor], inputs: list[Tensor], opts: Any) -> Any:
        return self._queue(self._collective(inputs[0].device, inputs, outputs), outputs, opts)

    def alltoall_base(
        self, output: Tensor, given: Tensor, output_sizes: list[int], sizes: list[int], opts: Any
    ) -> Any:
        exchange = self._collective(
            given.device, self._parts(given, sizes), self._parts(output, output_sizes)
        )
        return self._queue(exchange, [output], opts)

    def barrier(self, opts: Any) -> Any:
        index = None if opts.device is None else opts.device.index
        device = torch.device(
            "asyncdev", torch.accelerator.current_device_index() if index is None else index
        )
        token = torch.empty(1, dtype=torch.uint8, device=device)
        exchange = self._collective(device, self._all(token), self._room(token))
        if opts.asyncOp:
            return self._in_own_stream(self._stream(device), [exchange], [], host_waits=True)
        exchange.queue(self.extra_ms)
        torch.accelerator.current_stream(device).synchronize()
        return None

    # -- several at once: one work -----------------------------------------------------------------------

    def allreduce_coalesced(self, tensors: list[Tensor], opts: Any) -> Any:
        return self._together([(self.allreduce, [tensor]) for tensor in tensors], opts)

    def allgather_into_tensor_coalesced(self, outputs: list[Tensor], inputs: list[Tensor], opts: Any) -> Any:
        pairs = zip(outputs, inputs, strict=True)
        return self._together([(self._allgather_base, *pair) for pair in pairs], opts)

    def reduce_scatter_tensor_coalesced(self, outputs: list[Tensor], inputs: list[Tensor], opts: Any) -> Any:
        pairs = zip(outputs, inputs, strict=True)
        return self._together([(self._reduce_scatter_base, *pair) for pair in pairs], opts)

    def _together(self, calls: list[tuple[Any, ...]], opts: Any) -> Any:
        """Torch hands over its all-reduces in this way inside a block that coalesces already, too."""
        if self._bundle is not None:
            return [call(*args, opts) for call, *args in calls][-1]
        self.start_coalescing()
        self._together(calls, opts)
        return self.end_coalescing()

    # -- messages ----------------------------------------------------------------------------------------

    def send(self, tensors: list[Tensor], to: int, tag: int) -> Any:
        name = self._message(self._rank, to, tag)
        exchange = Exchange(tensors[0].device, {name: tensors[0]}, {})
        return self._queue(exchange, tensors, None, peer=to)

    def recv(self, tensors: list[Tensor], source: int, tag: int) -> Any:
        name = self._message(source, self._rank, tag)
        exchange = Exchange(tensors[0].device, {}, {name: tensors[0]})
        return self._queue(exchange, tensors, None, peer=source)

    def _message(self, source: int, to: int, tag: int) -> str:
        kind = f"{self._directory}/message-{source}-{to}-{tag}"
        self._messages[kind] += 1
        return f"{kind}-{self._messages[kind]}"


def register() -> None:
    """Make ``asyncccl`` a backend of ``torch.distributed``, and the one for the device."""
    if NAME.upper() not in dist.Backend._plugins:
        dist.Backend.register_backend(NAME, _make, devices=["asyncdev"])


def _make(store: dist.Store, rank: int, size: int, timeout: timedelta) -> dist.Backend:
    backend = StreamBackend(store, rank, size)
    made: dist.Backend = load().backend(backend, rank, size, "nccl2" if backend.is_nccl2 else NAME)
    return made


def _flat(outputs: Any) -> list[Tensor]:
    return [outputs] if isinstance(outputs, Tensor) else [tensor for one in outputs for tensor in _flat(one)]
