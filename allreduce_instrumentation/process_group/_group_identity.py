"""What identifies a process group and its operations in the rows: a name, and numbers.

Both belong to the group itself: whoever times it next goes on counting where another stopped.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

import torch.distributed as dist

from allreduce_instrumentation._operation_counts import OperationCounts


class GroupIdentity(OperationCounts):
    """The name, size and operation counts of one process group.

    Attributes:
        name: its description and number, such as ``default_pg 0`` or ``mesh_dp 3``.
        size: number of ranks.
        rank: this process's, in the group.
    """

    __slots__ = ("name", "rank", "size")

    def __init__(self, name: str, size: int, rank: int) -> None:
        super().__init__()
        self.name = name
        self.size = size
        self.rank = rank

    @classmethod
    def of(cls, group: dist.ProcessGroup) -> GroupIdentity:
        """The identity of ``group``, made when it is first asked for. Local."""
        found = _identities.get(group)
        if found is None:
            kind = "process group" if group.group_desc in ("", "undefined") else group.group_desc
            found = cls(f"{kind} {group.group_name}", group.size(), group.rank())
            _identities[group] = found
        return found

    def share_with(self, group: dist.ProcessGroup) -> None:
        """``group`` is the same ranks under the same name, and counts with this one."""
        _identities[group] = self


_identities: WeakKeyDictionary[dist.ProcessGroup, GroupIdentity] = WeakKeyDictionary()
