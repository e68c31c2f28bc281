"""Tell of which ranks enough is known: a rank of which nothing is known is not a healthy rank."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from timing_logger.analysis.files import File, sidecar_of
from timing_logger.analysis.stragglers.candidates import VISIBLE_COST
from timing_logger.analysis.stragglers.peers import members, peer_medians, row_medians
from timing_logger.analysis.stragglers.slow_steps import MIN_GAP
from timing_logger.analysis.stragglers.step_times import StepTimes
from timing_logger.analysis.tables import Floats

MIN_STEPS_COMPARED = 3
"""The least number of steps compared with a peer for a rank to be conclusive; fewer may be a spike."""

MIN_COVERED = 0.5
"""The least fraction of its time that a role's rows must cover to judge it: the rest may hide waits."""

MOST = 0.5
"""A rank that is last in more than this fraction of the steps is last in most of them."""

_MOST_NAMES = 4  # of functions, in a sentence


def inconclusive_ranks(times: StepTimes, roles: Mapping[int, str]) -> tuple[int, ...]:
    """Return the ranks that had no peer to be compared with in enough steps (``MIN_STEPS_COMPARED``)."""
    compared = np.zeros(len(times.ranks), np.int64)
    for columns in members(times.ranks, roles).values():
        is_known = ~np.isnan(times.self_ms[:, columns])
        has_peer = is_known.sum(axis=1, keepdims=True) > 1
        compared[columns] = (is_known & has_peer).sum(axis=0)
    return tuple(rank for rank, n in zip(times.ranks, compared, strict=True) if n < MIN_STEPS_COMPARED)


def why_inconclusive(times: StepTimes, roles: Mapping[int, str]) -> str:
    """State why a run in which no rank is known to be slow is not called healthy; "" if it is healthy."""
    if len(inconclusive_ranks(times, roles)) == len(times.ranks):
        return _why_nobody(times, roles)
    return (
        _why_hidden(times)
        or _why_roles_look_alike(times, roles)
        or _why_waits_are_not_understood(times, roles)
    )


def why_untimed(files: Sequence[File]) -> str:
    """State in which calls without rows ranks may have waited for each other; "" if they made none."""
    counts: Counter[str] = Counter()
    for file in files:
        counts.update(sidecar_of(file).get("untimed") or {})
    if not counts.total():
        return ""
    told = ", ".join(f"{n} x {name}" for name, n in counts.most_common(_MOST_NAMES))
    more = ", ..." if len(counts) > _MOST_NAMES else ""
    return f"ranks may have waited for each other in calls that are not timed ({told}{more})"


def _why_nobody(times: StepTimes, roles: Mapping[int, str]) -> str:
    """State why no rank could be compared with another."""
    if not times.ranks:
        return "there are no rows"
    if len(times.ranks) == 1:
        return "only one rank is recorded"
    if all(len(columns) == 1 for columns in members(times.ranks, roles).values()):
        return "every rank is alone in its role, so none has peers"
    if np.isnan(times.self_ms).all():
        return (
            "of no step it is known how long a rank worked: neither rows of own work nor communication tell"
        )
    return f"there are not {MIN_STEPS_COMPARED} steps that are known of two ranks of one role"


def _why_hidden(times: StepTimes) -> str:
    """State why a slow rank would look like its peers; "" if it would not.

    A stream that waits for communication stands still inside the rows around it, and no other row says for
    how long. So where one rank is late, the others' own work on the device takes as long as that rank's.
    """
    if not times.on_device:
        return ""
    met = ~np.isnan(times.waits.own_ms).all(axis=1) & ~np.isnan(times.self_ms).all(axis=1)
    if not met.any():
        return ""
    waited_ms = float(np.median(np.nanmax(times.waits.own_ms[met], axis=1)))
    if waited_ms < MIN_GAP * float(np.median(np.nanmax(times.self_ms[met], axis=1))):
        return ""
    return (
        "own work is timed on the device's clock, which goes on while a stream waits for other ranks "
        f"({waited_ms:.1f} ms in a typical step), so a slow rank looks like its peers"
    )


def _why_roles_look_alike(times: StepTimes, roles: Mapping[int, str]) -> str:
    """State why a slow role would look like the others; "" if it would not.

    Ranks of several roles may hold each other up in messages that are not logged. The time between logged
    rows is then the same for all of them, whichever role causes it.
    """
    if not times.from_gaps or len(set(roles.values())) < 2:
        return ""
    worked_ms, spent_ms = np.nansum(times.phase_ms[:-1]), np.nansum(times.gap_ms)
    if worked_ms >= MIN_COVERED * spent_ms:
        return ""
    return (
        "ranks of several roles may wait for each other in something that is not logged, and too little of "
        "their own work is, so a slow role looks like the others"
    )


def _why_waits_are_not_understood(times: StepTimes, roles: Mapping[int, str]) -> str:
    """State that one rank was last in most steps and the others waited visibly for it; "" if there is none.

    Such a run is not called healthy, although no rank is known to be slow.
    """
    length_ms = times.run_ms
    own_ms = times.waits.own_ms
    met = ~np.isnan(own_ms).all(axis=1)
    if not met.any() or not length_ms > 0:
        return ""
    is_last = times.waits.last_share[met] > MOST
    waited_ms = np.nansum(times.waits.others_ms - own_ms, axis=0)
    rank = int(np.argmax(np.where(is_last.mean(axis=0) > MOST, waited_ms, -np.inf)))
    part = float(waited_ms[rank]) / length_ms
    if is_last[:, rank].mean() <= MOST or part < VISIBLE_COST:
        return ""
    n_last, n_steps = is_last[:, rank].sum(), met.sum()
    is_slower = _own_excess_ms(times, roles)[rank] >= MOST * waited_ms[rank]
    said = (
        "and its own time is longer, but by too little or in too few steps to name it"
        if is_slower
        else "but its own time is like its peers'"
    )
    return (
        f"rank {times.ranks[rank]} was the last in {n_last} of {n_steps} steps and the others waited "
        f"{part:.0%} of the run for it, {said}"
    )


def _own_excess_ms(times: StepTimes, roles: Mapping[int, str]) -> Floats:
    """Return the time in ms that each rank spent beyond its role or beyond all ranks, whichever is more.

    It is 0 for a rank that spent less.
    """
    beyond_all = np.nansum(times.self_ms - row_medians(times.self_ms)[:, None], axis=0)
    beyond_peers = np.zeros(len(times.ranks))
    for columns in members(times.ranks, roles).values():
        own_ms = times.self_ms[:, columns]
        beyond_peers[columns] = np.nansum(own_ms - peer_medians(own_ms), axis=0)
    excess_ms: Floats = np.maximum(np.maximum(beyond_all, beyond_peers), 0.0)
    return excess_ms
