"""Identifies a process group and its operations in the rows, by a name and sequence numbers.

Both belong to the group itself: if a group is timed a second time, its numbers continue.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from allreduce_instrumentation._operation_counts import OperationCounts


class GroupIdentity(OperationCounts):
    """The name, size and operation counts of one process group.

    Attributes:
        name: the group's description and number, such as ``default_pg 0`` or ``mesh_dp 3``.
    """

    __slots__ = ()

    @classmethod
    def of(cls, group: dist.ProcessGroup) -> GroupIdentity:
        """Return the identity of ``group``, which is made at the first call. Not collective."""
        found = _identities.get(group)
        if found is None:
            found = cls(_name_of(group), group.size(), group.rank())
            _identities[group] = found
        return found

    def share_with(self, group: dist.ProcessGroup) -> None:
        """Make this the identity of ``group``, too, which has the same ranks and shares name and counts."""
        _identities[group] = self


def _name_of(group: dist.ProcessGroup) -> str:
    try:
        kind, name = group.group_desc, group.group_name
    except RuntimeError:  # backends keep the names, and a group written in Python has no backends
        names: dict[dist.ProcessGroup, Any] = c10d._world.pg_names
        kind, name = "", names.get(group, "")
    return f"{'process group' if kind in ('', 'undefined') else kind} {name}".rstrip()


_identities: WeakKeyDictionary[dist.ProcessGroup, GroupIdentity] = WeakKeyDictionary()
