"""Compressors and their payloads: what makes a gradient smaller before it travels, and what then travels.

A compressor keeps what it leaves out (the residual) under the tensor's name, and adds it to the next
tensor of that name: error feedback. One instance serves many names, and one thread at a time. This
module needs torch only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Protocol, TypedDict, TypeVar, runtime_checkable

import torch
from torch import Tensor

from allreduce_instrumentation._selection import (
    accumulation_dtype,
    at_least,
    entries_to_keep,
    index_dtype,
    is_finite,
    largest,
    sum_by_index,
    sum_into_dense,
)
from timing_logger.errors import ConfigurationError, ReductionError

# -- what travels ------------------------------------------------------------------------------------


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
_P = TypeVar("_P", DensePayload, SparsePayload)

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

    def compress(self, tensor: Tensor, name: str) -> SparsePayload:
        """Compress as every :class:`Compressor` does, into the entries that are picked."""

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


# -- what is remembered, and its state ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Memory:
    """The residual and the state that a compressor remembers under one tensor name.

    Attributes:
        residual: what is left over of the latest tensor: 1-D, in the accumulation dtype; None before the
            first tensor.
        state: the state of ``oktopk_sparse_allreduce``.
    """

    residual: Tensor | None = None
    state: ThresholdState = field(default_factory=ThresholdState)


class ErrorFeedback:
    """The base of compressors that keep a residual per tensor name; for one thread at a time.

    Compressing a tensor replaces the :class:`Memory` of its name and makes a new residual. So a snapshot
    is a reference, and taking or restoring one costs nothing.
    """

    def __init__(self) -> None:
        self._memories: dict[str, Memory] = {}

    def residual(self, name: str) -> Tensor | None:
        """Return a copy of the residual of ``name``, or None before its first tensor.

        The residual is 1-D: float64 for float64 tensors, float32 for all others. For a tensor in half
        precision it includes the rounding error.
        """
        residual = self._memory(name).residual
        return None if residual is None else residual.clone()

    def snapshot(self, name: str) -> Memory | None:
        """Return what is remembered under ``name``, for :meth:`restore`: a reference, not a copy."""
        return self._memories.get(name)

    def restore(self, name: str, snapshot: Memory | None) -> None:
        """Replace what is remembered under ``name`` by ``snapshot``; None forgets the name."""
        if snapshot is None:
            self._memories.pop(name, None)
        else:
            self._memories[name] = snapshot

    def _memory(self, name: str) -> Memory:
        return self._memories.get(name) or Memory()

    def _keep(self, name: str, residual: Tensor) -> None:
        self._memories[name] = replace(self._memory(name), residual=residual)

    def _plus_residual(self, tensor: Tensor, name: str) -> Tensor:
        """Return ``tensor`` plus the residual of ``name``: a new vector in the accumulation dtype.

        Raises:
            ConfigurationError: the residual has another length or precision.
        """
        flat = tensor.detach().reshape(-1)
        dtype = accumulation_dtype(tensor.dtype)
        residual = self._memory(name).residual
        if residual is None:
            return flat.to(dtype) + 0.0  # a new tensor, and without negative zeros: x + residual has none
        if (residual.numel(), residual.dtype) != (flat.numel(), dtype):
            raise ConfigurationError(
                f"name {name!r} had a tensor of {residual.numel()} entries with a residual in "
                f"{residual.dtype}, and now has one of {flat.numel()} entries that needs {dtype}: "
                "give each tensor a name of its own."
            )
        return flat.to(dtype) + residual.to(flat.device)

    def _residuals(self) -> dict[str, Tensor]:
        return {name: m.residual for name, m in self._memories.items() if m.residual is not None}


def check_state(state: object, owner: str, expected: Mapping[str, type]) -> None:
    """Check that ``state`` has the parts that ``owner.state_dict()`` returns.

    Args:
        state: the state that was passed to ``load_state_dict``.
        owner: name of the compressor's class, for the message.
        expected: the type of each part, by the part's name.

    Raises:
        ConfigurationError: a part is missing, unknown or of another type.
    """
    found = state if isinstance(state, Mapping) else {}
    is_whole = isinstance(state, Mapping) and found.keys() == expected.keys()
    if not is_whole or not all(isinstance(found[part], kind) for part, kind in expected.items()):
        raise ConfigurationError(
            f"state must be what {owner}.state_dict() gave, a dict of {sorted(expected) or 'nothing'}, and "
            f"is {sorted(map(str, found)) if isinstance(state, Mapping) else type(state).__name__}."
        )


def checked_residuals(residuals: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return copies of the ``residuals`` of a state.

    Raises:
        ConfigurationError: a residual is not a vector of float32 or float64, or its name is no string.
    """
    for name, residual in residuals.items():
        if not (
            isinstance(name, str)
            and isinstance(residual, Tensor)
            and residual.dim() == 1
            and residual.dtype in (torch.float32, torch.float64)
        ):
            raise ConfigurationError(f"state holds a residual of {name!r} that is no vector of floats.")
    return {name: residual.detach().clone() for name, residual in residuals.items()}


class ResidualsState(TypedDict):
    """The state of a compressor that remembers residuals: a vector by the name of its tensor."""

    residuals: dict[str, Tensor]


class TopKState(ResidualsState):
    """The state of :class:`TopK`; ``states`` holds the fields of a :class:`ThresholdState` by name."""

    density: float
    states: dict[str, dict[str, Any]]


# -- the compressors ---------------------------------------------------------------------------------


class NoCompression:
    """A compressor that sends tensors as they are and remembers nothing."""

    def compress(self, tensor: Tensor, name: str) -> DensePayload:
        """Return all entries of ``tensor``; ``payload.values`` shares memory with it."""
        return DensePayload(tensor.detach().reshape(-1), tensor.numel(), tensor.dtype)

    def decompress(self, payload: Payload) -> Tensor:
        """Return the entries in the tensor's dtype: ``payload.values`` itself if it has that already.

        Raises:
            ConfigurationError: ``payload`` is no :class:`DensePayload`.
        """
        return _checked(payload, DensePayload).values.to(payload.dtype)

    def state_dict(self) -> dict[str, object]:
        """Return an empty dict, as nothing is remembered."""
        return {}

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Check that ``state`` is empty.

        Raises:
            ConfigurationError: ``state`` is not an empty dict.
        """
        check_state(state, "NoCompression", {})

    def __repr__(self) -> str:
        return "NoCompression()"


class FP16(ErrorFeedback):
    """A compressor that sends tensors as float16 and remembers the rounding error.

    The rounding error of the mean is not remembered: every rank gets the mean as float16 holds it.
    """

    def compress(self, tensor: Tensor, name: str) -> DensePayload:
        """Return ``tensor`` plus the residual of ``name`` as float16; the rounding error is the new residual.

        Raises:
            ConfigurationError: ``name`` had a tensor of another length or precision.
            ReductionError: an entry is too large for float16; the residual is left as it was.
        """
        if tensor.dtype == torch.float16 and name not in self._memories:  # nothing is rounded
            return DensePayload(tensor.detach().reshape(-1), tensor.numel(), tensor.dtype)
        exact = self._plus_residual(tensor, name)
        values = _rounded(exact, torch.float16, name)
        self._keep(name, exact.sub_(values))
        return DensePayload(values, tensor.numel(), tensor.dtype)

    def decompress(self, payload: Payload) -> Tensor:
        """Return the entries in the tensor's dtype: ``payload.values`` itself if it has that already.

        Raises:
            ConfigurationError: ``payload`` is no :class:`DensePayload`.
        """
        return _checked(payload, DensePayload).values.to(payload.dtype)

    def state_dict(self) -> ResidualsState:
        """Return ``{"residuals": {name: vector}}``; the vectors are copies."""
        return {"residuals": checked_residuals(self._residuals())}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Replace everything remembered by ``state``, which :meth:`state_dict` returned.

        Raises:
            ConfigurationError: ``state`` is something else.
        """
        check_state(state, "FP16", {"residuals": dict})
        self._memories = {name: Memory(r) for name, r in checked_residuals(state["residuals"]).items()}

    def __repr__(self) -> str:
        return "FP16()"


class TopK(ErrorFeedback):
    """A compressor that sends the entries of largest magnitude and remembers the others.

    Picked entries and residual add up to what was compressed, bit for bit. For a tensor in half precision
    the residual includes the rounding error of the picked entries. Of equal magnitudes the lowest indices
    are picked.

    Args:
        density: the fraction of the entries that is picked, in (0, 1]: ``ceil(density * n)`` of ``n``
            entries, and at least one.

    Raises:
        ConfigurationError: ``density`` is not a number in (0, 1].
    """

    def __init__(self, density: float) -> None:
        super().__init__()
        if isinstance(density, bool) or not isinstance(density, (int, float)) or not 0 < density <= 1:
            raise ConfigurationError(f"density must be a number in (0, 1], and is {density!r}.")
        self._density = float(density)

    @property
    def density(self) -> float:
        """The fraction of the entries that is picked, in (0, 1]."""
        return self._density

    # -- one tensor and its payload --------------------------------------------------------------------

    def compress(self, tensor: Tensor, name: str) -> SparsePayload:
        """Pick the largest entries of ``tensor`` plus the residual of ``name``; the rest is the new residual.

        Raises:
            ConfigurationError: ``name`` had a tensor of another length or precision.
            ReductionError: a picked entry is too large for the tensor's dtype; the residual is left as it
                was.
        """
        exact = self._plus_residual(tensor, name)
        return self._pick(exact, largest(exact, entries_to_keep(self._density, exact.numel())), tensor, name)

    def compress_above(self, tensor: Tensor, name: str, threshold: float) -> SparsePayload:
        """Compress as :meth:`compress` does, but pick every entry of magnitude >= ``threshold``, maybe none.

        Raises:
            ConfigurationError, ReductionError: as :meth:`compress`.
        """
        exact = self._plus_residual(tensor, name)
        return self._pick(exact, at_least(exact, threshold), tensor, name)

    def decompress(self, payload: Payload) -> Tensor:
        """Return a dense 1-D tensor with the payload's entries at their indices and zeros elsewhere.

        Raises:
            ConfigurationError: ``payload`` is no :class:`SparsePayload`.
        """
        return self.decompress_mean([_checked(payload, SparsePayload)], 1)

    def _pick(self, exact: Tensor, positions: Tensor, tensor: Tensor, name: str) -> SparsePayload:
        """Return the picked entries, and turn ``exact`` in place into the new residual of ``name``."""
        picked = exact[positions]
        values = _rounded(picked, tensor.dtype, name)
        exact[positions] = picked - values
        self._keep(name, exact)
        indices = positions.to(index_dtype(exact.numel()))
        return SparsePayload(values, indices, exact.numel(), tensor.dtype)

    # -- several payloads of the same length -------------------------------------------------------------

    def merge(
        self, payloads: Sequence[SparsePayload], keep: int | None
    ) -> tuple[SparsePayload, SparsePayload]:
        """Add ``payloads`` in their order, and split the sum by magnitude.

        Args:
            payloads: at least one, all of the same length.
            keep: how many entries the first part has at most; None for all.

        Returns:
            The ``keep`` largest entries, and the others. Values in half precision are added in float32,
            and the values of the result are float32 then.
        """
        first = payloads[0]
        values, indices = sum_by_index(_parts(payloads), accumulation_dtype(first.dtype))
        union = replace(first, values=values, indices=indices)
        kept = torch.zeros(union.count, dtype=torch.bool, device=values.device)
        kept[largest(values, union.count if keep is None else min(keep, union.count))] = True
        return union.only(kept), union.only(~kept)

    def decompress_mean(self, payloads: Sequence[SparsePayload], ranks: int) -> Tensor:
        """Return the sum of ``payloads``, added in their order, divided by ``ranks``.

        The result is dense, 1-D and in the tensor's dtype. Values in half precision are added and divided
        in float32, and rounded once.
        """
        first = payloads[0]
        total = sum_into_dense(_parts(payloads), first.length, accumulation_dtype(first.dtype))
        return total.div_(ranks).to(first.dtype)

    # -- what is remembered --------------------------------------------------------------------------------

    def give_back(self, name: str, indices: Tensor, values: Tensor) -> None:
        """Add entries that were picked but not used to the residual of ``name``.

        The residual is changed in place: it is the one that the latest ``compress`` made, so a snapshot
        from before that does not change.

        Args:
            name: the tensor's name.
            indices: 1-D; no index twice.
            values: one value per index.

        Raises:
            ConfigurationError: nothing was compressed under ``name`` yet.
        """
        residual = self._memory(name).residual
        if residual is None:
            raise ConfigurationError(f"nothing was compressed under name {name!r} that could be given back.")
        residual.index_add_(0, indices.to(residual.device), values.to(residual))

    def state(self, name: str) -> ThresholdState:
        """Return what ``oktopk_sparse_allreduce`` remembers under ``name``."""
        return self._memory(name).state

    def set_state(self, name: str, state: ThresholdState) -> None:
        """Remember ``state`` for ``oktopk_sparse_allreduce`` under ``name``."""
        self._memories[name] = replace(self._memory(name), state=state)

    def state_dict(self) -> TopKState:
        """Return density, residuals and states; the residuals are copies.

        The form is ``{"density": float, "residuals": {name: vector}, "states": {name: dict}}``.
        """
        return {
            "density": self._density,
            "residuals": checked_residuals(self._residuals()),
            "states": {name: asdict(memory.state) for name, memory in self._memories.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Replace everything remembered by ``state``, which :meth:`state_dict` returned.

        Raises:
            ConfigurationError: ``state`` is something else, or has another density.
        """
        check_state(state, "TopK", {"density": float, "residuals": dict, "states": dict})
        if state["density"] != self._density:
            raise ConfigurationError(
                f"state is of density {state['density']!r}, and this compressor's is {self._density!r}: "
                f"make a TopK({state['density']!r})."
            )
        residuals = checked_residuals(state["residuals"])
        self._memories = {
            name: Memory(residuals.get(name), _threshold_state(name, fields))
            for name, fields in state["states"].items()
        }

    def __repr__(self) -> str:
        return f"TopK({self._density!r})"


# -- parts -----------------------------------------------------------------------------------------


def _rounded(exact: Tensor, dtype: torch.dtype, name: str) -> Tensor:
    """Return ``exact`` in ``dtype``; raise a ReductionError if an entry is not finite there."""
    values = exact.to(dtype)
    if not is_finite(values):
        raise ReductionError(
            f"{name!r} plus its residual has entries beyond {torch.finfo(dtype).max:g}, the largest {dtype}: "
            "scale the loss down, or use a compressor and dtype with more range."
        )
    return values


def _checked(payload: Payload, kind: type[_P]) -> _P:
    if not isinstance(payload, kind):
        raise ConfigurationError(f"payload must be a {kind.__name__}, and is a {type(payload).__name__}.")
    return payload


def _parts(payloads: Sequence[SparsePayload]) -> list[tuple[Tensor, Tensor]]:
    return [(payload.values, payload.indices) for payload in payloads]


def _threshold_state(name: str, fields: Any) -> ThresholdState:
    try:
        return replace(ThresholdState(**fields), boundaries=tuple(fields["boundaries"]))
    except (TypeError, KeyError) as error:
        raise ConfigurationError(f"state holds something unknown of {name!r}: {fields!r}.") from error
