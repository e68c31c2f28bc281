"""The steps that all all-reducers share: check, compress, agree, reduce; and the compressor that they see."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from allreduce_instrumentation._communicators import Communicator
from allreduce_instrumentation._selection import is_finite
from allreduce_instrumentation.compressors import (
    Compressor,
    NoCompression,
    Payload,
    Restorable,
    SparseCompressor,
    SparsePayload,
    ThresholdState,
)
from allreduce_instrumentation.copies import copy_to_device, copy_to_host
from allreduce_instrumentation.sparse._transport import Transport, transport_for
from timing_logger.errors import ConfigurationError, ReductionError, TimingLoggerError
from timing_logger.recording.cores.protocols import NO_SPAN, Timer
from timing_logger.recording.device.span import timed_block
from timing_logger.recording.logger import TimingLogger

_P = TypeVar("_P", bound=Payload)

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
"""The dtypes of tensors that can be reduced."""


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
    must_agree: Callable[[Any, Any, str], Mapping[str, int]] = lambda *_: {}


def reduce_over_ranks(
    algorithm: Algorithm,
    tensor: Tensor,
    comm: Communicator,
    compressor: Compressor,
    name: str,
    timing_logger: TimingLogger | None,
) -> Tensor:
    """Return the mean of ``tensor`` over the ranks of ``comm``, computed by ``algorithm``. Collective.

    Arguments, result and errors are those in :mod:`allreduce_instrumentation.sparse`. If anything
    raises, residual and state that the compressor remembers under ``name`` are restored to what they were
    before the call.
    """
    label = name if isinstance(name, str) else repr(name)
    transport = transport_for(comm, tensor, label, algorithm.phase, timing_logger)
    logger = transport.logger if timing_logger is None else timing_logger
    with torch.no_grad(), logger.label(label, algorithm.phase), _restored_on_failure(compressor, label):
        try:
            timed, payload, statement = _prepare(algorithm, tensor, compressor, name, transport, logger)
        except Exception as error:
            _tell_trouble(transport, error)
            raise
        agree(transport, statement)
        mean = algorithm.reduce(transport, timed, payload, name)
        if not is_finite(mean):
            raise ReductionError(
                f"the sum of {name!r} over the ranks is too large for {tensor.dtype}: scale the loss down."
            )
        return mean.view(tensor.shape)


def named(name: str, algorithms: Mapping[str, Algorithm]) -> Algorithm:
    """Return the algorithm of that name.

    Raises:
        ConfigurationError: there is none.
    """
    if name not in algorithms:
        raise ConfigurationError(f"there is no all-reduce {name!r}: use one of {sorted(algorithms)}.")
    return algorithms[name]


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


def _prepare(
    algorithm: Algorithm,
    tensor: Tensor,
    compressor: Compressor,
    name: str,
    transport: Transport,
    logger: TimingLogger,
) -> tuple[TimedCompressor, Payload, Statement]:
    """Check and compress the tensor, and state what is to be reduced."""
    if not isinstance(name, str):
        raise ConfigurationError(f"name must be a string, and is {name!r}.")
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
    return timed, payload, statement


def _tell_trouble(transport: Transport, error: Exception) -> None:
    """Take part in the agreement without a payload: the other ranks wait to be told why there is none."""
    ours = isinstance(error, TimingLoggerError)
    with suppress(ReductionError):
        agree(transport, Statement(trouble=str(error) if ours else f"{type(error).__name__}: {error}"))


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


# -- the agreement ------------------------------------------------------------------------------------

MAX_FACTS = 4
"""The most numbers of its own that an algorithm may have compared."""

_TEXT_BYTES = 512


@dataclass(frozen=True, slots=True)
class Statement:
    """One rank's statement of what it is about to reduce.

    Attributes:
        algorithm: name of the algorithm.
        name: name of the tensor.
        length: number of entries of the tensor.
        dtype: dtype of the tensor.
        travels_as: dtype of its values when they travel.
        travels_from: type of the device from which they travel.
        density: the compressor's density; 1.0 for one that leaves nothing out.
        facts: numbers of the algorithm that must be the same on all ranks, at most ``MAX_FACTS``.
        trouble: why this rank cannot take part, and then the rest does not count; None if it can.
    """

    algorithm: str = ""
    name: str = ""
    length: int = 0
    dtype: str = ""
    travels_as: str = ""
    travels_from: str = ""
    density: float = 1.0
    facts: Mapping[str, int] = field(default_factory=dict)
    trouble: str | None = None

    def parts(self) -> list[tuple[int, str]]:
        """Return what has to be the same on all ranks: as int64 numbers, texts as digests, and in words.

        All statements have equally many parts.
        """
        stated = [
            (int(self.trouble is not None), f"cannot take part: {self.trouble}"),
            (_digest(self.algorithm), f"algorithm {self.algorithm}"),
            (_digest(self.name), f"name {self.name!r}"),
            (self.length, f"{self.length} entries"),
            (_digest(self.dtype), f"dtype {self.dtype}"),
            (_digest(self.travels_as), f"values that travel as {self.travels_as}"),
            (_digest(self.travels_from), f"values that travel from {self.travels_from}"),
            (struct.unpack("<q", struct.pack("<d", self.density))[0], f"density {self.density!r}"),
        ]
        facts = [(value, f"{fact} {value}") for fact, value in self.facts.items()]
        return [*stated, *facts, *[(0, "no such number")] * (MAX_FACTS - len(facts))]


def agree(transport: Transport, mine: Statement) -> None:
    """Compare the statements of all ranks. Collective; whatever one rank states, no rank waits for ever.

    Raises:
        ReductionError: on every rank, if some rank cannot take part or the statements differ; the message
            names the ranks and what they stated.
    """
    numbers, words = zip(*mine.parts(), strict=True)
    stated = torch.tensor(numbers, dtype=torch.int64, device=transport.control_device)
    everyone = transport.allgather(stated, "agreement").cpu()
    if bool((everyone == everyone[0]).all()) and not everyone[0, 0]:
        return
    troubled = everyone[:, 0].any()
    differing = 0 if troubled else int((everyone != everyone[0]).any(dim=0).nonzero()[0])
    said = _exchange_texts(transport, words[differing])
    if troubled:
        reasons = [f"rank {rank} {said[rank]}" for rank, cannot in enumerate(everyone[:, 0]) if cannot]
        raise ReductionError(f"nothing was reduced: {'; '.join(reasons)}")
    raise ReductionError(
        f"the ranks do not agree on what to reduce: {_who_said_what(said)}. Call it with the same arguments, "
        "but for the tensor's values, in the same order on every rank."
    )


def _exchange_texts(transport: Transport, text: str) -> list[str]:
    content = _utf8(text)[:_TEXT_BYTES].ljust(_TEXT_BYTES, b"\0")
    mine = torch.frombuffer(bytearray(content), dtype=torch.uint8).to(transport.control_device)
    everyone: Tensor = transport.allgather(mine, "disagreement").cpu()
    return [row.numpy().tobytes().rstrip(b"\0").decode(errors="ignore") for row in everyone]


def _who_said_what(said: list[str]) -> str:
    ranks: dict[str, list[str]] = {}
    for rank, text in enumerate(said):
        ranks.setdefault(text, []).append(str(rank))
    return ", ".join(
        f"{text} on rank{'s' if len(those) > 1 else ''} {' '.join(those)}" for text, those in ranks.items()
    )


def _digest(text: str) -> int:
    """Return a hash of ``text`` in 63 bits that is the same in every process."""
    digest = hashlib.blake2b(_utf8(text), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def _utf8(text: str) -> bytes:
    return text.encode(errors="backslashreplace")


# -- the compressor that algorithms are given --------------------------------------------------------


class TimedCompressor:
    """Compresses and decompresses on the tensor's device, and moves payloads to the transport's device.

    Rows, under the label in force:

    - ``COMPRESS``: picking or rounding, with the bytes **before** it, those of the tensor. The bytes
      after it are those of the communication that follows.
    - ``DECOMPRESS``: making the dense result, with the bytes of the payloads it is made of.
    - ``MERGE``: adding sparse payloads and picking from the sum, with the payloads' bytes.
    - ``D2H`` and ``H2D``: moving a payload, if the tensor and the transport are on different devices.

    :class:`NoCompression` does nothing that could be timed, and has only the rows of copies.

    Args:
        compressor: the user's compressor.
        device: the tensor's device.
        transport_device: the device of the transport's tensors.
        logger: where the rows go.
    """

    def __init__(
        self,
        compressor: Compressor,
        device: torch.device,
        transport_device: torch.device,
        logger: TimingLogger,
    ) -> None:
        self._inner = cast(SparseCompressor, compressor)  # it is a sparse one if a sparse algorithm uses it
        self._device = device
        self._transport_device = transport_device
        self._logger = logger
        self._does_something = not isinstance(compressor, NoCompression)

    # -- every compressor --------------------------------------------------------------------------------

    def compress(self, tensor: Tensor, name: str) -> Payload:
        with self._row("COMPRESS", tensor.nbytes):
            payload = self._inner.compress(tensor, name)
        return self._on(self._transport_device, payload)

    def decompress(self, payload: Payload) -> Tensor:
        payload = self._on(self._device, payload)
        with self._row("DECOMPRESS", payload.nbytes):
            return self._inner.decompress(payload)

    # -- sparse ones -------------------------------------------------------------------------------------

    @property
    def density(self) -> float:
        return self._inner.density

    def compress_above(self, tensor: Tensor, name: str, threshold: float) -> SparsePayload:
        with self._row("COMPRESS", tensor.nbytes):
            payload = self._inner.compress_above(tensor, name, threshold)
        return self._on(self._transport_device, payload)

    def merge(
        self, payloads: Sequence[SparsePayload], keep: int | None
    ) -> tuple[SparsePayload, SparsePayload]:
        with self._row("MERGE", sum(p.nbytes for p in payloads), self._transport_device):
            return self._inner.merge(payloads, keep)

    def decompress_mean(self, payloads: Sequence[SparsePayload], ranks: int) -> Tensor:
        payloads = [self._on(self._device, payload) for payload in payloads]
        with self._row("DECOMPRESS", sum(p.nbytes for p in payloads)):
            return self._inner.decompress_mean(payloads, ranks)

    def give_back(self, name: str, indices: Tensor, values: Tensor) -> None:
        self._inner.give_back(name, *(self._moved(self._device, tensor) for tensor in (indices, values)))

    def state(self, name: str) -> ThresholdState:
        return self._inner.state(name)

    def set_state(self, name: str, state: ThresholdState) -> None:
        self._inner.set_state(name, state)

    # -- parts ---------------------------------------------------------------------------------------------

    def _row(self, operation: str, nbytes: int, device: torch.device | None = None) -> Timer:
        if not self._does_something:
            return NO_SPAN
        return timed_block(self._logger, operation, device or self._device, message_size=nbytes)

    def _on(self, device: torch.device, payload: _P) -> _P:
        values = self._moved(device, payload.values)
        if isinstance(payload, SparsePayload):
            return replace(payload, values=values, indices=self._moved(device, payload.indices))
        return replace(payload, values=values)

    def _moved(self, device: torch.device, tensor: Tensor) -> Tensor:
        if device.type == "cpu":
            return copy_to_host(tensor, timing_logger=self._logger)
        return copy_to_device(tensor, device, timing_logger=self._logger)
