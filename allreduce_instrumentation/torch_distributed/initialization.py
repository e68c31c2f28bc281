"""``init_process_group``: torch's function of this name, for process groups that time themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import ref

import torch
import torch.distributed as dist

from allreduce_instrumentation.torch_distributed._backend_durations import CAN_BE_TOLD, switched_on
from allreduce_instrumentation.torch_distributed._backends import backends_of
from allreduce_instrumentation.torch_distributed._operations import finish_with
from allreduce_instrumentation.torch_distributed._timed_group import TimedProcessGroup
from allreduce_instrumentation.torch_distributed._torch_patches import (
    leave_new_groups_untimed,
    time_new_groups,
)
from timing_logger.errors import ConfigurationError
from timing_logger.recording.global_logger import get_timing_logger
from timing_logger.recording.logger import TimingLogger

_torchs_own = dist.init_process_group  # a program may put ours into its place


def init_process_group(
    backend: str | None = None,
    *args: Any,
    timing_logger: TimingLogger | None = None,
    backend_durations: bool = False,
    **kwargs: Any,
) -> None:
    """Initialise the default process group as ``torch.distributed`` does, and time all operations.

    Every collective and every message over the default group, and over groups made from now on
    (``new_group``, ``split_group``, ``DeviceMesh``), is a row, whether your code issues it, the reducer
    of ``DistributedDataParallel``, FSDP2 or functional collectives. An operation in the background gives
    two rows: one from issue to completion (such as ``IALLREDUCE``), and ``WAIT`` for the time that a
    thread or stream was blocked on it.

    Args:
        backend, args, kwargs: the arguments of ``torch.distributed.init_process_group``.
        timing_logger: where the rows go. Default: ``get_timing_logger()``. If the logger is off, torch's
            function is called and nothing else is done.
        backend_durations: whether NCCL measures each collective itself, which gives rows ``BACKEND``; as
            ``TORCH_NCCL_ENABLE_TIMING=1`` does for all groups of the process. Other backends measure nothing.

    Raises:
        ConfigurationError: ``backend_durations`` is given, and this torch, older than 2.13, knows only the
            variable.
        Exception: whatever torch raises.
    """
    logger = get_timing_logger() if timing_logger is None else timing_logger
    if backend_durations and not (CAN_BE_TOLD or switched_on()):
        raise ConfigurationError(
            f"backend_durations needs torch 2.13 or later, and this is {torch.__version__}: "
            "set TORCH_NCCL_ENABLE_TIMING=1 in the environment instead."
        )
    if not logger.enabled or dist.is_initialized():
        _torchs_own(backend, *args, **kwargs)
        return

    own_world: ref[TimedProcessGroup] | None = None

    def make_timed(group: dist.ProcessGroup) -> TimedProcessGroup | None:
        nonlocal own_world
        world = dist.group.WORLD
        if own_world is not None and (world is None or world is not own_world()):
            leave_new_groups_untimed()  # the timed world was destroyed, and torch itself made this one
            return None
        timed = TimedProcessGroup.of_new(group, logger, backends_of(group), backend_durations)
        own_world = own_world or ref(timed)
        return timed

    time_new_groups(make_timed)
    finish_with(logger)
    try:
        _torchs_own(backend, *args, **kwargs)
    except BaseException:
        leave_new_groups_untimed()
        raise


def time_all_groups(logger_of: Callable[[dist.ProcessGroup], TimingLogger | None]) -> None:
    """Time all operations over every group that torch makes from now on, whoever makes it.

    Args:
        logger_of: returns where the rows of a new group go; None leaves it untimed.
    """

    def make_timed(group: dist.ProcessGroup) -> TimedProcessGroup | None:
        logger = logger_of(group)
        if logger is None or not logger.enabled:
            return None
        finish_with(logger)
        return TimedProcessGroup.of_new(group, logger, backends_of(group))

    time_new_groups(make_timed)
