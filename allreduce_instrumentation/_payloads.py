"""What travels, and what an all-reducer asks of a compressor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class DensePayload:
    """Every entry of a tensor.

    Attributes:
        values: 1-D, ``length`` entries, in the dtype that travels.
        length: entries of the tensor.
        dtype: of the tensor.
    """

    values: Tensor
    length: int
    dtype: torch.dtype

    @property
    def nbytes(self) -> int:
        return self.values.nbytes


@dataclass(frozen=True, slots=True)
class SparsePayload:
    """Some entries of a tensor, and where they stand.

    Attributes:
        values: 1-D; a tensor's picks have its dtype, sums of several ranks' have that in which
            they were added.
        indices: as many; int32, or int64 where ``length`` needs it; ascending, none twice.
        length: entries of the tensor.
        dtype: of the tensor.
    """

    values: Tensor
    indices: Tensor
    length: int
    dtype: torch.dtype

    @property
    def count(self) -> int:
        """How many entries."""
        return self.values.numel()

    @property
    def nbytes(self) -> int:
        return self.values.nbytes + self.indices.nbytes

    def only(self, mask: Tensor) -> SparsePayload:
        """The entries where ``mask`` holds."""
        return replace(self, values=self.values[mask], indices=self.indices[mask])


Payload = DensePayload | SparsePayload

# -- what the all-reducers ask of a compressor -------------------------------------------------------


@runtime_checkable
class Compressor(Protocol):
    """Makes payloads of tensors, and tensors of payloads."""

    def compress(self, tensor: Tensor, name: str) -> Payload:
        """The payload of ``tensor`` plus the residual of ``name``; what is left out is the new residual.

        Args:
            tensor: contiguous, finite, of a floating dtype; it is left unchanged.
        """

    def decompress(self, payload: Payload) -> Tensor:
        """As a dense tensor: 1-D, ``payload.length`` entries of ``payload.dtype``."""

    def state_dict(self) -> dict[str, Any]:
        """Everything remembered, of types that ``torch.load(weights_only=True)`` takes."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what :meth:`state_dict` gave, in place of what was remembered."""


@runtime_checkable
class Restorable(Protocol):
    """A compressor that can go back to what it remembered before a call that failed."""

    def snapshot(self, name: str) -> Any:
        """What is remembered under ``name``, for :meth:`restore`; costs nothing."""

    def restore(self, name: str, snapshot: Any) -> None:
        """Remember under ``name`` what ``snapshot`` says, and nothing else."""


@dataclass(frozen=True, slots=True)
class ThresholdState:
    """What ``oktopk_sparse_allreduce`` remembers from call to call, per name.

    Attributes:
        calls: how many calls were completed.
        local_threshold: the least magnitude that this rank picks; None before it is known.
        global_threshold: the least magnitude of a sum that is in the result; None before it is known.
        boundaries: where the regions end that the ranks reduce, ascending; empty before they are known.
    """

    calls: int = 0
    local_threshold: float | None = None
    global_threshold: float | None = None
    boundaries: tuple[int, ...] = ()


@runtime_checkable
class SparseCompressor(Compressor, Protocol):
    """A compressor with sparse payloads: what the sparse all-reducers need; :class:`TopK` is one."""

    @property
    def density(self) -> float:
        """The part of all entries that is picked, in (0, 1]."""

    def compress(self, tensor: Tensor, name: str) -> SparsePayload: ...

    def compress_above(self, tensor: Tensor, name: str, threshold: float) -> SparsePayload:
        """As ``compress``, but picks every entry of magnitude >= ``threshold``."""

    def merge(
        self, payloads: Sequence[SparsePayload], keep: int | None
    ) -> tuple[SparsePayload, SparsePayload]:
        """The sum of ``payloads`` in their order, as the ``keep`` largest entries and the others.

        None keeps all. The values of both have the dtype in which they were added.
        """

    def decompress_mean(self, payloads: Sequence[SparsePayload], ranks: int) -> Tensor:
        """The sum of ``payloads`` in their order, divided by ``ranks``, as ``decompress`` gives it."""

    def give_back(self, name: str, indices: Tensor, values: Tensor) -> None:
        """Add to the residual of ``name`` what was picked in vain; no index twice."""

    def state(self, name: str) -> ThresholdState:
        """What ``oktopk_sparse_allreduce`` remembers under ``name``."""

    def set_state(self, name: str, state: ThresholdState) -> None:
        """Remember ``state`` under ``name``."""
