"""The steps that all all-reducers share: check, compress, agree, reduce; and what to do when one fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from allreduce_instrumentation._communicators import Communicator
from allreduce_instrumentation._payloads import Compressor, Payload, Restorable, SparsePayload
from allreduce_instrumentation._selection import is_finite
from allreduce_instrumentation.sparse._agreement import Statement, agree
from allreduce_instrumentation.sparse._timed_compressor import TimedCompressor
from allreduce_instrumentation.sparse._transport import Transport, transport_for
from timing_logger.errors import ConfigurationError, ReductionError, TimingLoggerError
from timing_logger.recording.logger import TimingLogger

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
"""The dtypes of tensors that can be reduced."""


def _nothing(compressor: object, payload: object, name: str) -> Mapping[str, int]:
    return {}


def count_picked(compressor: object, payload: SparsePayload, name: str) -> Mapping[str, int]:
    """Return how many entries this rank picked, for algorithms that need equally many of every rank."""
    return {"entries picked:": payload.count}


def _compress(compressor: Compressor, tensor: Tensor, name: str) -> Payload:
    return compressor.compress(tensor, name)


@dataclass(frozen=True, slots=True)
class Algorithm:
    """The parts of an all-reduce that differ between algorithms; they know no clock, logger or device.

    The compressor that its functions are given wraps the user's compressor. It has the same methods, but
    payloads are on the transport's device, dense tensors are on that of the input, and each step is a row.

    Attributes:
        name: the algorithm's name, at most 8 characters.
        phase: the first word of the phase of its rows: ``dense`` or ``sparse``.
        accepts: the compressors that it works with, for ``isinstance``.
        wanted: these compressors, in words.
        reduce: ``(transport, compressor, payload, name)`` -> the mean, 1-D, as ``decompress`` and
            ``decompress_mean`` give it; the same on every rank, bit for bit. Either all ranks call it
            or none.
        compress: ``(compressor, tensor, name)`` -> payload; ``tensor`` is 1-D. It is called before any
            communication. If it raises, every rank learns of it and none calls ``reduce``.
        must_agree: ``(compressor, payload, name)`` -> at most 4 numbers by their names, which have to be
            the same on all ranks for ``reduce`` to work. It is called after ``compress``.
    """

    name: str
    phase: str
    accepts: type | tuple[type, ...]
    wanted: str
    reduce: Callable[[Transport, Any, Any, str], Tensor]
    compress: Callable[[Any, Tensor, str], Payload] = _compress
    must_agree: Callable[[Any, Any, str], Mapping[str, int]] = _nothing


def reduce_over_ranks(
    algorithm: Algorithm,
    tensor: Tensor,
    *,
    comm: Communicator,
    compressor: Compressor,
    name: str,
    timing_logger: TimingLogger | None = None,
) -> Tensor:
    """Return the mean of ``tensor`` over the ranks of ``comm``, computed by ``algorithm``. Collective.

    Arguments, result and errors are those in :mod:`allreduce_instrumentation.sparse`. If anything
    raises, residual and state that the compressor remembers under ``name`` are restored to what they were
    before the call.
    """
    label = name if isinstance(name, str) else repr(name)
    transport = transport_for(
        comm, tensor, layer_name=label, phase=algorithm.phase, timing_logger=timing_logger
    )
    logger = transport.logger if timing_logger is None else timing_logger
    with torch.no_grad(), logger.label(label, algorithm.phase), _restored_on_failure(compressor, label):
        ready = _prepare(algorithm, tensor, compressor, name, transport, logger)
        _agree(transport, ready)
        mean = algorithm.reduce(transport, ready.compressor, ready.payload, name)
        if not is_finite(mean):
            raise ReductionError(
                f"the sum of {name!r} over the ranks is too large for {tensor.dtype}: scale the loss down."
            )
        return mean.view(tensor.shape)


def check_compressor(algorithm: Algorithm, compressor: object) -> None:
    """Check that ``algorithm`` works with ``compressor``.

    Raises:
        ConfigurationError: it does not.
    """
    if isinstance(compressor, type) or not isinstance(compressor, algorithm.accepts):
        raise ConfigurationError(
            f"compressor is {compressor!r}, and the {algorithm.name} all-reduce wants {algorithm.wanted}."
        )


# -- one rank's part, before the others are asked ----------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Ready:
    """One rank's state before the agreement: a payload, or the error because of which there is none."""

    statement: Statement
    compressor: TimedCompressor | None = None
    payload: Payload | None = None
    error: Exception | None = None


def _prepare(
    algorithm: Algorithm,
    tensor: Tensor,
    compressor: Compressor,
    name: str,
    transport: Transport,
    logger: TimingLogger,
) -> _Ready:
    """Check and compress the tensor; errors are returned, as the other ranks wait to be told of them."""
    try:
        _check_name(name)
        check_compressor(algorithm, compressor)
        _check_tensor(tensor, name)
        timed = TimedCompressor(compressor, tensor.device, transport.device, logger)
        payload = algorithm.compress(timed, tensor.detach().view(-1), name)
        statement = Statement(
            algorithm=algorithm.name,
            name=name,
            length=payload.length,
            dtype=str(payload.dtype),
            travels_as=str(payload.values.dtype),
            travels_from=transport.device.type,
            density=getattr(compressor, "density", 1.0),
            facts=algorithm.must_agree(timed, payload, name),
        )
        return _Ready(statement, timed, payload)
    except Exception as error:
        ours = isinstance(error, TimingLoggerError)
        return _Ready(
            Statement(trouble=str(error) if ours else f"{type(error).__name__}: {error}"), error=error
        )


def _agree(transport: Transport, ready: _Ready) -> None:
    """Take part in the agreement, and raise this rank's own error if it has one."""
    try:
        agree(transport, ready.statement)
    except ReductionError:
        if ready.error is None:
            raise
    if ready.error is not None:
        raise ready.error


@contextmanager
def _restored_on_failure(compressor: object, name: str) -> Iterator[None]:
    if not isinstance(compressor, Restorable):
        yield
        return
    before = compressor.snapshot(name)
    try:
        yield
    except BaseException:
        compressor.restore(name, before)
        raise


# -- arguments -------------------------------------------------------------------------------------


def _check_name(name: object) -> None:
    if not isinstance(name, str):
        raise ConfigurationError(f"name must be a string, and is {name!r}.")


def _check_tensor(tensor: object, name: str) -> None:
    if not isinstance(tensor, Tensor):
        raise ConfigurationError(f"tensor {name!r} must be a torch tensor, and is a {type(tensor).__name__}.")
    wrong = _wrong_with(tensor)
    if wrong:
        raise ConfigurationError(f"tensor {name!r} {wrong}")
    if not is_finite(tensor):
        raise ReductionError(
            f"tensor {name!r} has entries that are NaN or infinite: look for what made them, or skip this "
            "step on every rank."
        )


def _wrong_with(tensor: Tensor) -> str | None:
    if tensor.layout is not torch.strided:
        return f"is sparse ({tensor.layout}): make it dense, with to_dense()."
    if tensor.dtype not in DTYPES:
        return f"has dtype {tensor.dtype}: convert it to one of {', '.join(map(str, DTYPES))}."
    if tensor.device.type == "meta":
        return "is on the meta device and has no data."
    if tensor.numel() == 0:
        return "is empty: leave it out on every rank."
    if not tensor.is_contiguous():
        return "is not contiguous: pass tensor.contiguous()."
    return None
