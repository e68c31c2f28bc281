"""Copies between host and device that time themselves: ``H2D``, ``D2H`` and ``D2D`` rows."""

from __future__ import annotations

import torch
from torch import Tensor

from timing_logger.errors import ConfigurationError
from timing_logger.recording.device.span import has_streams, timed_block
from timing_logger.recording.global_logger import get_timing_logger
from timing_logger.recording.logger import TimingLogger

_HOST = torch.device("cpu")


def copy_to_device(
    tensor: Tensor,
    device: torch.device | str,
    *,
    non_blocking: bool = False,
    out: Tensor | None = None,
    layer_name: str | None = None,
    timing_logger: TimingLogger | None = None,
) -> Tensor:
    """Copy ``tensor`` to ``device``, with an ``H2D`` row, or a ``D2D`` row if it was on a device already.

    A tensor that is on ``device`` already is returned as it is, without a row. On the ``meta`` device
    nothing is copied, and nothing recorded.

    The row's duration is the time that the device took, from the moment when its stream reached the copy;
    nothing waits for it. Where the device cannot be asked, it is the time that the call took. The row's
    column ``clock`` says which.

    Args:
        tensor: on the host or a device.
        device: such as ``"cuda"``, ``"cuda:1"``, ``"xpu"``; without a number, the current one.
        non_blocking: return once the copy is queued. From pinned memory it then runs later, and
            ``tensor`` must not change before the stream has done it.
        out: where to copy to, on ``device``, with the shape and dtype of ``tensor``; also the result.
        layer_name: the row's layer name. Default: the label in force.
        timing_logger: where the row goes. Default: ``get_timing_logger()``.

    Returns:
        The tensor on ``device``: ``out``, a new tensor, or ``tensor`` itself.

    Raises:
        ConfigurationError: ``tensor`` is no tensor or has no data, ``device`` is no device, or is the
            host while ``tensor`` is not there, or ``out`` does not fit.
    """
    _check_tensor("tensor", tensor)
    target = _device(device)
    if target == _HOST and has_streams(tensor.device):
        raise ConfigurationError(f"device is the host, and tensor is on {tensor.device}: use copy_to_host.")
    if out is None and tensor.device == target:
        return tensor
    if target.type == "meta":
        return tensor.to(target)
    place = _place_for(tensor, out, target)
    return _copy(tensor, place, non_blocking, layer_name, timing_logger)


def copy_to_host(
    tensor: Tensor,
    *,
    pin_memory: bool | None = None,
    non_blocking: bool = False,
    out: Tensor | None = None,
    layer_name: str | None = None,
    timing_logger: TimingLogger | None = None,
) -> Tensor:
    """Copy ``tensor`` to host memory, with a ``D2H`` row.

    A tensor that is on the host already is returned as it is, pinned or not, without a row. For the
    meaning of the row's duration see :func:`copy_to_device`.

    Args:
        tensor: on a device or on the host.
        pin_memory: whether the copy's memory is pinned (page-locked). Default: the value of
            ``non_blocking``.
        non_blocking: return once the copy is queued; **the result must not be read before the stream
            has done it** (``torch.accelerator.current_stream().synchronize()``). Into memory that is
            not pinned this cannot be done safely, and is an error.
        out: where to copy to, on the host, with the shape and dtype of ``tensor``; also the result.
            Excludes ``pin_memory``.
        layer_name: the row's layer name. Default: the label in force.
        timing_logger: where the row goes. Default: ``get_timing_logger()``.

    Returns:
        The tensor on the host: ``out``, a new tensor, or ``tensor`` itself.

    Raises:
        ConfigurationError: ``tensor`` is no tensor or has no data, ``out`` does not fit or is given
            together with ``pin_memory``, or the copy would be non-blocking into memory that is not pinned.
    """
    _check_tensor("tensor", tensor)
    if out is not None and pin_memory is not None:
        raise ConfigurationError("pin_memory and out are both given, and out has its memory: drop one.")
    if non_blocking and pin_memory is False:
        raise ConfigurationError(
            "non_blocking=True needs pinned memory, and pin_memory is False: drop one of the two."
        )
    if out is None and tensor.device.type == "cpu":
        return tensor
    place = _place_for(tensor, out, _HOST, pinned=non_blocking if pin_memory is None else pin_memory)
    if out is not None and non_blocking and has_streams(tensor.device) and not out.is_pinned():
        raise ConfigurationError(
            "non_blocking=True needs pinned memory, and out is not pinned: allocate it with pin_memory=True."
        )
    return _copy(tensor, place, non_blocking, layer_name, timing_logger)


def _place_for(tensor: Tensor, out: Tensor | None, device: torch.device, *, pinned: bool = False) -> Tensor:
    """Return where ``tensor`` is copied to: ``out``, which is checked, or new memory on ``device``."""
    if tensor.device.type == "meta":
        raise ConfigurationError("tensor is on the meta device and has no data to copy: make it with data.")
    if out is None:
        return torch.empty_like(tensor, device=device, pin_memory=pinned)
    _check_tensor("out", out)
    if (out.shape, out.dtype, out.device) != (tensor.shape, tensor.dtype, device):
        raise ConfigurationError(
            f"out must have tensor's shape and dtype and lie on {device}: {tuple(tensor.shape)}, "
            f"{tensor.dtype}; it has {tuple(out.shape)}, {out.dtype} on {out.device}."
        )
    return out


def _copy(
    tensor: Tensor, out: Tensor, non_blocking: bool, layer_name: str | None, logger: TimingLogger | None
) -> Tensor:
    operation, on = _kind(tensor.device, out.device)
    if operation is None:
        return out.copy_(tensor)
    with timed_block(
        get_timing_logger() if logger is None else logger, operation, on,
        message_size=tensor.nbytes, layer_name=layer_name,
    ):  # fmt: skip
        return out.copy_(tensor, non_blocking=non_blocking)


def _kind(source: torch.device, target: torch.device) -> tuple[str | None, torch.device]:
    """Return the copy's operation name, None from host to host, and the device whose stream does it."""
    if not has_streams(source):
        return ("H2D" if has_streams(target) else None), target
    return ("D2D" if has_streams(target) else "D2H"), source


# -- arguments -------------------------------------------------------------------------------------


def _device(device: torch.device | str) -> torch.device:
    """Return ``device`` with its number: without one it is the current accelerator."""
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise ConfigurationError(f"device must name a device, such as 'cuda', and is {device!r}.") from error
    if found.index is not None or not has_streams(found):
        return torch.device(found.type) if found.type == "cpu" else found
    # A build for CUDA names it as its accelerator where there is neither a GPU nor a driver, too.
    here = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    if here is None or here.type != found.type:
        raise ConfigurationError(f"device is {device!r}, and this process has {here or 'no accelerator'}.")
    return torch.device(found.type, torch.accelerator.current_device_index())


def _check_tensor(name: str, value: object) -> None:
    if not isinstance(value, Tensor):
        raise ConfigurationError(f"{name} must be a torch tensor, and is {value!r}.")
