"""Put together what digests tell in turn of the groups of a process, as long as it stands still.

Then its counts stay as they are, so those of earlier digests are right. Of a process that goes on, only the
counts of the newest digest are. A digest that is lost costs time: its groups have their turn again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from timing_logger.analysis.hangs.sidecar_state import N_GROUPS
from timing_logger.engine.live.digest import Digest, Key, Process

_Group = tuple[Any, Any]


class _Told(NamedTuple):
    progressed_counter_ns: Any
    groups: dict[_Group, dict[str, Any]]


class ToldGroups:
    """What was told of the groups of processes that are in more than a digest has room for."""

    def __init__(self) -> None:
        self._told: dict[Key, _Told] = {}

    def completed(self, digest: Digest) -> Digest:
        """Return the next digest of a host with what those before it told of the groups."""
        return digest._replace(processes=[self._completed(process) for process in digest.processes])

    def _completed(self, process: Process) -> Process:
        n_groups = process.sidecar.get(N_GROUPS)
        if n_groups is None:
            self._told.pop(process.key, None)
            return process
        told = self._with_told(process)
        groups = list(told.groups.values())
        sidecar = {**process.sidecar, "groups": groups}
        if sidecar.get("last_stall"):
            sidecar["last_stall"] = {**sidecar["last_stall"], "groups": groups}
        if len(groups) >= n_groups:
            del sidecar[N_GROUPS]
        return process._replace(sidecar=sidecar)

    def _with_told(self, process: Process) -> _Told:
        progressed_counter_ns = process.sidecar.get("last_progress_counter_ns")
        told = self._told.get(process.key)
        if told is None or told.progressed_counter_ns != progressed_counter_ns:
            told = self._told[process.key] = _Told(progressed_counter_ns, {})
        told.groups.update({(one["group"], one["size"]): one for one in process.sidecar["groups"]})
        return told
