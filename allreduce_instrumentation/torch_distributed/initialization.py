"""``init_process_group``: torch's function of this name, for process groups that time themselves."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any
from weakref import ref

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d_in_c
from torch.distributed import distributed_c10d as c10d

from allreduce_instrumentation.torch_distributed._backend_durations import CAN_BE_TOLD, switched_on
from allreduce_instrumentation.torch_distributed._backends import backends_of
from allreduce_instrumentation.torch_distributed._operations import finish_with
from allreduce_instrumentation.torch_distributed._timed_group import TimedProcessGroup
from allreduce_instrumentation.torch_distributed._timed_work import TimedWork
from timing_logger.errors import ConfigurationError
from timing_logger.recording.global_logger import get_timing_logger
from timing_logger.recording.logger import TimingLogger

MakeTimed = Callable[[dist.ProcessGroup], TimedProcessGroup | None]

_make_group = c10d._new_process_group_helper
_batch_isend_irecv = c10d.batch_isend_irecv
_record_flights = getattr(c10d, "_maybe_attach_flight_recorder", None)  # since torch 2.15
_hand_over_in_c = c10d_in_c.Reducer._set_forward_pass_work_handle


def time_new_groups(make_timed: MakeTimed) -> None:
    """Replace each group that torch makes from now on by the one that ``make_timed`` returns for it.

    Args:
        make_timed: returns the timed group of an untimed one; None leaves it untimed.
    """

    def make_group(*args: Any, **kwargs: Any) -> tuple[dist.ProcessGroup | int, c10d_in_c.Store | None]:
        group, store = _make_group(*args, **kwargs)
        if not isinstance(group, dist.ProcessGroup):  # this rank is not in it
            return group, store
        timed = make_timed(group)
        if timed is None:
            return group, store
        _swap(group, timed)
        return timed, store

    c10d._new_process_group_helper = make_group
    if _record_flights is not None:
        setattr(c10d, _record_flights.__name__, record_flights)
    _replace_everywhere(_batch_isend_irecv, batch_isend_irecv)
    # DDP's `join` gives its reducer the work, of which that keeps only the C++ half, and this half of a
    # Python object waits for ever once the object is gone. So the reducer is given the backend's own work.
    # This is never undone: a plain work is passed on as before.
    setattr(c10d_in_c.Reducer, _hand_over_in_c.__name__, _hand_over)


def leave_new_groups_untimed() -> None:
    """Undo :func:`time_new_groups`; groups that are timed already stay timed."""
    c10d._new_process_group_helper = _make_group
    if _record_flights is not None:
        setattr(c10d, _record_flights.__name__, _record_flights)
    _replace_everywhere(batch_isend_irecv, _batch_isend_irecv)


def record_flights(group: dist.ProcessGroup, *args: Any) -> None:
    """Have torch's flight recorder observe ``group``, as torch's own function does; a timed one, too.

    The recorder is told of the operations over the group that does the work. A group that torch splits from
    a timed one is timed already when torch calls this.
    """
    assert _record_flights is not None
    if isinstance(group, TimedProcessGroup):
        _record_flights(group.untimed, *args)
        _move(_flight_recorders(), group.untimed, group)
    else:
        _record_flights(group, *args)


def _hand_over(self: c10d_in_c.Reducer, work: dist.Work, *args: Any, **kwargs: Any) -> None:
    _hand_over_in_c(self, work.untimed if isinstance(work, TimedWork) else work, *args, **kwargs)


def _replace_everywhere(old: object, new: object) -> None:
    """Replace ``batch_isend_irecv`` in all modules, also where it was imported from torch before."""
    for module in list(sys.modules.values()):
        names = getattr(module, "__dict__", {})
        if names is not globals() and names.get("batch_isend_irecv") is old:
            names["batch_isend_irecv"] = new


def broadcast_buffers_over(group_for: Callable[[dist.ProcessGroup], dist.ProcessGroup] | None) -> None:
    """Make DDP's C++ code broadcast a model's buffers over another group.

    Args:
        group_for: returns the group to use in place of DDP's; None undoes the change.
    """
    original = c10d_in_c._broadcast_coalesced

    # Not called broadcast: if a function of that name passes on a group that is written in Python, pybind11
    # takes the group's own method of that name for the caller, and does not call it.
    def over_another_group(group: dist.ProcessGroup, *args: Any, **kwargs: Any) -> None:
        original(group if group_for is None else group_for(group), *args, **kwargs)

    vars(dist)["_broadcast_coalesced"] = original if group_for is None else over_another_group


def batch_isend_irecv(p2p_op_list: list[dist.P2POp]) -> list[dist.Work]:
    """Issue messages as torch's ``batch_isend_irecv`` does, and coalesce them for timed groups as well.

    torch's own function coalesces messages of NCCL only in a group of exactly its own type.
    """
    first = p2p_op_list[0] if p2p_op_list and isinstance(p2p_op_list[0], dist.P2POp) else None
    group = None if first is None else first.group or c10d._get_default_group()
    if first is None or not isinstance(group, TimedProcessGroup):
        return _batch_isend_irecv(p2p_op_list)
    device = first.tensor.device
    if not group._device_types or not group._get_backend(device).supports_coalescing:
        return _batch_isend_irecv(p2p_op_list)
    c10d._check_p2p_op_list(p2p_op_list)
    with c10d._coalescing_manager(group, device, async_ops=True) as together:
        for message in p2p_op_list:
            peer = {"group_dst" if message.op is dist.isend else "group_src": message.group_peer}
            message.op(message.tensor, group=message.group, tag=message.tag, **peer)
    works: list[dist.Work] = together.works
    return works


def _swap(group: dist.ProcessGroup, timed: TimedProcessGroup) -> None:
    world = c10d._world
    by_group: tuple[dict[dist.ProcessGroup, Any], ...] = (
        world.pg_map, world.pg_names, world.pg_group_ranks, world.pg_backend_config, world.pg_to_tag,
        _flight_recorders(),
    )  # fmt: skip
    for entries in by_group:
        _move(entries, group, timed)
    for groups in world.tags_to_pg.values():
        groups[:] = [timed if member is group else member for member in groups]
    name = world.pg_names[timed]
    c10d_in_c._unregister_process_group(name)
    c10d_in_c._register_process_group(name, timed)


def _flight_recorders() -> dict[dist.ProcessGroup, Any]:
    """What torch keeps for each group until that is destroyed, so that its flight recorder observes it."""
    found: dict[dist.ProcessGroup, Any] = getattr(c10d._world, "pg_flight_recorder_hooks", {})
    return found


def _move(entries: dict[dist.ProcessGroup, Any], group: dist.ProcessGroup, timed: dist.ProcessGroup) -> None:
    if group in entries:
        entries[timed] = entries.pop(group)


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
