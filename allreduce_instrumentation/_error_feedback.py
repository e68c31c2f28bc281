"""What a compressor leaves out of one tensor, it adds to the next one of that name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from allreduce_instrumentation._payloads import ThresholdState
from allreduce_instrumentation._selection import accumulation_dtype
from timing_logger.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Memory:
    """What is remembered under one name.

    Attributes:
        residual: 1-D, in the accumulation dtype; None before the first tensor.
        state: of ``oktopk_sparse_allreduce``.
    """

    residual: Tensor | None = None
    state: ThresholdState = field(default_factory=ThresholdState)


class ErrorFeedback:
    """A residual per name. For one thread at a time.

    Every call replaces the :class:`Memory` and makes a new residual, so that a snapshot is a
    reference and going back costs nothing.
    """

    def __init__(self) -> None:
        self._memories: dict[str, Memory] = {}

    def residual(self, name: str) -> Tensor | None:
        """A copy of what is left over under ``name``, or None before its first tensor.

        1-D and float32, or float64 for float64: a half tensor's rounding error stands in it too.
        """
        residual = self._memory(name).residual
        return None if residual is None else residual.clone()

    def snapshot(self, name: str) -> Memory | None:
        """What is remembered under ``name``, for :meth:`restore`; a reference, not a copy."""
        return self._memories.get(name)

    def restore(self, name: str, snapshot: Memory | None) -> None:
        """Remember under ``name`` what ``snapshot`` says, and nothing else."""
        if snapshot is None:
            self._memories.pop(name, None)
        else:
            self._memories[name] = snapshot

    def _memory(self, name: str) -> Memory:
        return self._memories.get(name) or Memory()

    def _keep(self, name: str, residual: Tensor) -> None:
        self._memories[name] = replace(self._memory(name), residual=residual)

    def _plus_residual(self, tensor: Tensor, name: str) -> Tensor:
        """``tensor`` plus the residual of ``name``: a new vector in the accumulation dtype.

        Raises:
            ConfigurationError: the residual is of another length or precision.
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


def check_state(state: Any, owner: str, expected: Mapping[str, type]) -> None:
    """Whether ``state`` has the parts that ``owner.state_dict()`` gives.

    Raises:
        ConfigurationError: it has not.
    """
    found = state if isinstance(state, Mapping) else {}
    if found.keys() != expected.keys() or not all(
        isinstance(found[part], kind) for part, kind in expected.items()
    ):
        raise ConfigurationError(
            f"state must be what {owner}.state_dict() gave, a dict of {sorted(expected) or 'nothing'}, and "
            f"is {sorted(map(str, found)) if isinstance(state, Mapping) else type(state).__name__}."
        )


def checked_residuals(residuals: Mapping[str, Any]) -> dict[str, Tensor]:
    """Copies of the ``residuals`` of a state.

    Raises:
        ConfigurationError: one is not a vector of float32 or float64.
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
