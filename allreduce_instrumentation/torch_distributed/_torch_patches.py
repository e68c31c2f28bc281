"""Replaces process groups in torch's registries, and the functions that make groups and batch messages.

Of this package, only this module changes private functions and registries of torch; ``_python_calls``
replaces the methods of ``ProcessGroup``. A group is registered by name, by tag and as a key of several
dictionaries. It is replaced by a timed one in all of them before the caller gets it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch.distributed as dist
from torch._C import _distributed_c10d as c10d_in_c
from torch.distributed import distributed_c10d as c10d

from allreduce_instrumentation.torch_distributed._timed_group import TimedProcessGroup
from allreduce_instrumentation.torch_distributed._timed_work import TimedWork

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
    hand_over_works()


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


def hand_over_works() -> None:
    """Make DDP's ``join`` give its reducer the backend's own work instead of a :class:`TimedWork`.

    The reducer keeps only the C++ half of what it gets. The C++ half of a Python object waits for ever
    once the object is gone. This is never undone: a plain work is passed on as before.
    """
    setattr(c10d_in_c.Reducer, _hand_over_in_c.__name__, _hand_over)


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
