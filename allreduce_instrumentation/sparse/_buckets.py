"""Buckets: gradients that travel together in one Allreduce."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from timing_logger.errors import ReductionError

NamedParameters = Sequence[tuple[str, torch.Tensor]]

_DOUBLE = (torch.float64, torch.complex128)


class Bucket:
    """The gradients of some parameters of one dtype and device, and the buffer in which they travel.

    The buffer holds the gradients one after the other; then one flag per parameter, whether it has a
    gradient (summed: on how many ranks); then two numbers on failures: how many ranks failed, and the sum
    of (rank + 1) over them. So one Allreduce tells every rank everything. Where the values are compressed,
    an Allreduce of the flags and the two numbers comes first.

    float64 and complex128 travel as float64, everything else as float32: half precision is summed
    in single precision.

    Args:
        members: the parameters with their names, all of one dtype and device.
        travels_from_device: whether the buffer is on the device of the gradients; else it is in host
            memory, which is pinned if the gradients are on a device.

    Attributes:
        name: the first parameter's name and how many more there are, such as ``fc.weight (+3 more)``.
        names: the parameters' names, in the order of the buffer.
        parameters: the parameters, in the order of the buffer.
        buffer: the tensor that the Allreduce reads and writes.
        on_device: the gradients' values on their device, if the buffer is elsewhere; else None.
        ready: an event that occurs when gradients on a device are loaded; None on the host.
    """

    def __init__(self, members: NamedParameters, *, travels_from_device: bool = False) -> None:
        names, parameters = zip(*members, strict=True)
        self.name: str = names[0] if len(names) == 1 else f"{names[0]} (+{len(names) - 1} more)"
        self.names: tuple[str, ...] = names
        self.parameters: tuple[torch.Tensor, ...] = parameters
        first, wire = parameters[0], _wire_dtype(parameters[0].dtype)
        self._values = sum(_real_numel(p) for p in parameters)
        length = self._values + len(parameters) + 2
        on_cpu = first.device.type == "cpu"
        copied = not on_cpu and not travels_from_device
        place = torch.device("cpu") if copied else first.device
        self.buffer = torch.zeros(length, dtype=wire, device=place, pin_memory=copied)
        self.on_device = torch.zeros(self._values, dtype=wire, device=first.device) if copied else None
        self.ready = None if on_cpu else torch.Event(device=first.device)
        self._views = self._split(self.values)
        self._loaded: list[tuple[torch.Tensor, int] | None] = [None] * len(parameters)
        self._used: list[float] = []  # on how many ranks each parameter has a gradient

    def _split(self, flat: torch.Tensor) -> list[torch.Tensor]:
        """Return one view of ``flat`` per parameter, in its shape."""
        pieces = torch.split(flat[: self._values], [_real_numel(p) for p in self.parameters])
        return [
            torch.view_as_complex(piece.view(*p.shape, 2)) if p.is_complex() else piece.view(p.shape)
            for piece, p in zip(pieces, self.parameters, strict=True)
        ]

    # -- filling the buffer; on the thread that runs backward ----------------------------------------

    @torch.no_grad()
    def load(self) -> None:
        """Copy the gradients as they are now; a missing gradient counts as zeros and as unused.

        Raises:
            ReductionError: a gradient is sparse.
        """
        for i, (parameter, view) in enumerate(zip(self.parameters, self._views, strict=True)):
            gradient = parameter.grad
            if gradient is None:
                view.zero_()
                self._loaded[i] = None
            elif gradient.layout is not torch.strided:
                raise ReductionError(
                    f"the gradient of {self.names[i]!r} is sparse ({gradient.layout}), and only dense ones "
                    "are reduced: build the layer with sparse=False, or make the gradient dense in a hook."
                )
            else:
                view.copy_(gradient)
                self._loaded[i] = gradient, gradient._version
        if self.ready is not None:
            self.ready.record()

    def changed_since_load(self) -> str | None:
        """Return the name of the first parameter whose gradient is no longer what was loaded, or None."""
        for name, parameter, loaded in zip(self.names, self.parameters, self._loaded, strict=True):
            gradient, version = loaded or (None, 0)
            if parameter.grad is not gradient or (gradient is not None and gradient._version != version):
                return name
        return None

    # -- around the Allreduce; on the thread that does it ----------------------------------------------

    def set_flags(self) -> None:
        """Write into the buffer which parameters have a gradient, and that this rank did not fail."""
        flags = [float(loaded is not None) for loaded in self._loaded]
        self.flags.copy_(torch.tensor([*flags, 0.0, 0.0]))

    def set_failed(self, rank: int) -> None:
        """Overwrite the buffer with zeros and the news that ``rank`` failed."""
        self.buffer.zero_()
        self.buffer[-2:] = torch.tensor([1.0, rank + 1.0])

    @property
    def values(self) -> torch.Tensor:
        """The gradients' values on the gradients' device, 1-D."""
        return self.summed if self.on_device is None else self.on_device

    @property
    def summed(self) -> torch.Tensor:
        """The part of the buffer with the gradients' values, wherever the buffer is."""
        return self.buffer[: self._values]

    @property
    def flags(self) -> torch.Tensor:
        """The part of the buffer after the values: one flag per parameter, and two numbers on failures."""
        return self.buffer[self._values :]

    def read_flags(self) -> tuple[int, int]:
        """Return how many ranks failed, and the sum of (rank + 1) over them.

        To be called after the Allreduce. Blocks until the numbers are on the host.
        """
        *self._used, count, ranks = self.flags.tolist()
        return int(count), int(ranks)

    def settle(self) -> None:
        """Wait until the device has done everything in this thread's current stream."""
        if self.ready is not None:
            torch.accelerator.current_stream(self.values.device).synchronize()

    # -- emptying the buffer; on the thread that calls step() --------------------------------------------

    @torch.no_grad()
    def store(self) -> None:
        """Write the means into the gradients; a gradient that no rank has stays None."""
        for parameter, view, ranks in zip(self.parameters, self._views, self._used, strict=True):
            if not ranks:
                continue
            if parameter.grad is None:
                parameter.grad = torch.empty_like(parameter)
            parameter.grad.copy_(view)
        self._loaded = [None] * len(self.parameters)  # lets go of the gradients


def make_buckets(
    named_parameters: NamedParameters, bucket_bytes: int, travels_from: Callable[[torch.device], bool]
) -> list[Bucket]:
    """Return buckets of all trained parameters, in the order in which backward is expected to fill them.

    Args:
        named_parameters: in the order of the forward pass; frozen ones are left out.
        bucket_bytes: the most gradient bytes in one bucket; a larger parameter has a bucket of its own.
        travels_from: tells whether gradients on a given device travel directly from there.
    """
    full: list[list[tuple[str, torch.Tensor]]] = []
    filling: dict[tuple[torch.dtype, torch.device], list[tuple[str, torch.Tensor]]] = {}
    for name, parameter in reversed(named_parameters):
        if not parameter.requires_grad:
            continue
        members = filling.setdefault((parameter.dtype, parameter.device), [])
        if members and sum(map(_wire_bytes, [p for _, p in members])) + _wire_bytes(parameter) > bucket_bytes:
            full.append(members)
            members = filling[parameter.dtype, parameter.device] = []
        members.append((name, parameter))
    return [
        Bucket(members, travels_from_device=travels_from(members[0][1].device))
        for members in (*full, *filling.values())
    ]


def _wire_dtype(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype in _DOUBLE else torch.float32


def _real_numel(parameter: torch.Tensor) -> int:
    return parameter.numel() * (2 if parameter.is_complex() else 1)


def _wire_bytes(parameter: torch.Tensor) -> int:
    return _real_numel(parameter) * _wire_dtype(parameter.dtype).itemsize
