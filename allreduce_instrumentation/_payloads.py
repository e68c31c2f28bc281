"""Payloads, which travel between ranks, and the protocols that all-reducers require of compressors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class DensePayload:
    """A payload that holds every entry of a tensor.

    Attributes:
        values: 1-D, ``length`` entries, in the dtype that travels.
        length: number of entries of the tensor.
        dtype: dtype of the tensor.
    """

    values: Tensor
    length: int
    dtype: torch.dtype

    @property
    def nbytes(self) -> int:
        """The size of the payload in bytes."""
        return self.values.nbytes


@dataclass(frozen=True, slots=True)
class SparsePayload:
    """A payload that holds some entries of a tensor and their indices.

    Attributes:
        values: 1-D; entries picked from a tensor have its dtype, sums over several ranks have the dtype
            in which they were added.
        indices: one index per value; int32, or int64 where ``length`` needs it; ascending, none twice.
        length: number of entries of the tensor.
        dtype: dtype of the tensor.
    """

    values: Tensor
    indices: Tensor
    length: int
    dtype: torch.dtype

    @property
    def count(self) -> int:
        """The number of entries in the payload."""
        return self.values.numel()

    @property
    def nbytes(self) -> int:
        """The size of values and indices together, in bytes."""
        return self.values.nbytes + self.indices.nbytes

    def only(self, which: Tensor) -> SparsePayload:
        """Return the payload of some entries: at these ascending positions, or where a mask is true."""
        return replace(self, values=self.values[which], indices=self.indices[which])


Payload = DensePayload | SparsePayload

# -- what the all-reducers ask of a compressor -------------------------------------------------------


@runtime_checkable
class Compressor(Protocol):
    """The protocol of an object that turns tensors into payloads and payloads into tensors."""

    def compress(self, tensor: Tensor, name: str) -> Payload:
        """Compress ``tensor`` plus the residual of ``name``; what is left out is the new residual.

        Args:
            tensor: contiguous, finite, of a floating dtype; it is left unchanged.
            name: the name under which the residual is remembered.
        """

    def decompress(self, payload: Payload) -> Tensor:
        """Return the payload as a dense tensor: 1-D, ``payload.length`` entries of ``payload.dtype``."""

    def state_dict(self) -> Mapping[str, object]:
        """Return everything remembered, in types that ``torch.load(weights_only=True)`` accepts."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Replace everything remembered by ``state``, which :meth:`state_dict` returned."""


@runtime_checkable
class Restorable(Protocol):
    """The protocol of a compressor that can go back to what it remembered before a call that failed."""

    def snapshot(self, name: str) -> object:
        """Return what is remembered under ``name``, for :meth:`restore`; costs nothing."""

    def restore(self, name: str, snapshot: Any) -> None:
        """Replace what is remembered under ``name`` by ``snapshot``."""


@dataclass(frozen=True, slots=True)
class ThresholdState:
    """The state that ``oktopk_sparse_allreduce`` keeps from call to call, one per name.

    Attributes:
        calls: how many calls were completed.
        local_threshold: the least magnitude that this rank picks; None before it is known.
        global_threshold: the least magnitude of a sum that is in the result; None before it is known.
        boundaries: the ends of the regions that the ranks reduce, ascending; empty before they are known.
    """

    calls: int = 0
    local_threshold: float | None = None
    global_threshold: float | None = None
    boundaries: tuple[int, ...] = ()


@runtime_checkable
class SparseCompressor(Compressor, Protocol):
    """The protocol of a compressor with sparse payloads, such as :class:`TopK`, for sparse all-reducers."""

    @property
    def density(self) -> float:
        """The fraction of all entries that is picked, in (0, 1]."""

    def compress(self, tensor: Tensor, name: str) -> SparsePayload: ...

    def compress_above(self, tensor: Tensor, name: str, threshold: float) -> SparsePayload:
        """Compress as ``compress`` does, but pick every entry of magnitude >= ``threshold``."""

    def merge(
        self, payloads: Sequence[SparsePayload], keep: int | None
    ) -> tuple[SparsePayload, SparsePayload]:
        """Add ``payloads`` in their order, and split the sum by magnitude.

        Args:
            payloads: at least one, all of the same length.
            keep: how many entries the first part has at most; None for all.

        Returns:
            The ``keep`` largest entries, and the others. The values of both have the dtype in which they
            were added.
        """

    def decompress_mean(self, payloads: Sequence[SparsePayload], ranks: int) -> Tensor:
        """Return the sum of ``payloads``, added in their order, divided by ``ranks``.

        The result has the form that ``decompress`` gives.
        """

    def give_back(self, name: str, indices: Tensor, values: Tensor) -> None:
        """Add entries that were picked but not used to the residual of ``name``; no index twice."""

    def state(self, name: str) -> ThresholdState:
        """Return what ``oktopk_sparse_allreduce`` remembers under ``name``."""

    def set_state(self, name: str, state: ThresholdState) -> None:
        """Remember ``state`` for ``oktopk_sparse_allreduce`` under ``name``."""
