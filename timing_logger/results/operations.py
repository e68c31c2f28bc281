"""Names of operations that results state, and that words tell apart."""

from __future__ import annotations

UNLOGGED = "UNLOGGED"
"""Named in place of an operation: the time for which a rank has no row, of work or of communication."""

ONE_SIDED = frozenset({
    "WIN_LOCK", "WIN_UNLOCK", "WIN_LOCK_ALL", "WIN_UNLOCK_ALL", "WIN_FLUSH", "WIN_FLUSH_ALL",
    "WIN_FLUSH_LOCAL", "WIN_FLUSH_LOCAL_ALL", "WIN_POST", "WIN_START", "WIN_COMPLETE", "WIN_WAIT",
})  # fmt: skip
"""Calls on a window in which a rank may wait for some others, but not all of the group take part."""

SET_UP = frozenset({"INIT_PROCESS_GROUP", "NEW_GROUP", "MPI_INIT"})
"""Calls by which the ranks of a job find each other, before there is a group in which they communicate."""
