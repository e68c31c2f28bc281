"""Error feedback: what a compressor leaves out of one tensor is added to the next one of that name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from allreduce_instrumentation._payloads import ThresholdState
from allreduce_instrumentation._selection import accumulation_dtype
from timing_logger.errors import ConfigurationError


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
