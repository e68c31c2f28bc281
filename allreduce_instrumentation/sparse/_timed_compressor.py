"""Wraps the user's compressor for the algorithms: moves payloads between devices, and times each step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar, cast

import torch
from torch import Tensor

from allreduce_instrumentation.compressors import (
    Compressor,
    NoCompression,
    Payload,
    SparseCompressor,
    SparsePayload,
    ThresholdState,
)
from allreduce_instrumentation.copies import copy_to_device, copy_to_host
from timing_logger.recording.cores.protocols import NO_SPAN, Timer
from timing_logger.recording.device.span import timed_block
from timing_logger.recording.logger import TimingLogger

_P = TypeVar("_P", bound=Payload)


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
