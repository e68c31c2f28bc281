"""What slow transfers cost: how much shorter the run would have been with usual ones.

The run is played again with each slow transfer as quick as usual. Where its rows do not allow that, what the
transfers took beyond the usual is summed instead, and limited to the time in which a rank was blocked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from timing_logger.analysis.accounting.nodes import WAIT
from timing_logger.analysis.grouping import quantiles
from timing_logger.analysis.step_times.communication import Played
from timing_logger.analysis.step_times.step_times import StepTimes
from timing_logger.analysis.step_times.transfers import Transfers
from timing_logger.analysis.stragglers.cost.pricing import Pricing
from timing_logger.analysis.stragglers.network.slow_links import SlowLink
from timing_logger.analysis.tables import Bools, Floats, Ints


def saved_ms(times: StepTimes, found: Sequence[SlowLink], pricing: Pricing) -> float:
    """Return by how much a run would be shorter, in ms, if its slow links had taken what is usual."""
    played_ms = float("nan")
    if times.played is not None:
        usual = _as_usual(times.played, times.transfers, _usual_s(times.transfers, found))
        played_ms = pricing.saved_by_transfers_ms(*usual)
    return float(lost_ms(times, found).sum()) if np.isnan(played_ms) else played_ms


# -- by sums ---------------------------------------------------------------------------------------------


def lost_ms(times: StepTimes, found: Sequence[SlowLink]) -> Floats:
    """Return for each step the longest time in ms for which a rank was blocked in what is slow."""
    return blocked_at_most(times, excess_ms(times, found) * times.transfers.n)


def excess_ms(times: StepTimes, found: Sequence[SlowLink]) -> Floats:
    """Return the time of a transfer beyond the usual in ms, steps x links; 0 where it is not slow."""
    excess = np.zeros(times.transfers.mean_ms.shape)
    for slow in found:
        beyond_ms = times.transfers.mean_ms[slow.steps, slow.link] - slow.usual_ms
        excess[slow.steps, slow.link] = np.fmax(excess[slow.steps, slow.link], beyond_ms)
    return excess


def blocked_at_most(times: StepTimes, of_links_ms: Floats) -> Floats:
    """Return for each step the longest time in ms that a rank was blocked in these transfers.

    A rank's time in its links is limited to the time in which it was blocked in the step.
    """
    takes_part = times.transfers.takes_part(len(times.ranks))
    of_ranks_ms = np.fmin(of_links_ms @ takes_part, np.nan_to_num(times.blocked_ms))
    most: Floats = np.max(of_ranks_ms, axis=1, initial=0.0)
    return most


# -- by replay -------------------------------------------------------------------------------------------


class _Usual(NamedTuple):
    """A run with other transfers: how long each meeting takes, and how much later each node is left."""

    took_s: Floats
    late_s: Floats


def _usual_s(transfers: Transfers, found: Sequence[SlowLink]) -> Floats:
    """Return for each meeting the usual time in s where it is slow; infinity where it is not."""
    usual_s = np.full(transfers.mean_ms.shape, np.inf)
    for slow in found:
        usual_s[slow.steps, slow.link] = np.fmin(usual_s[slow.steps, slow.link], slow.usual_ms / 1e3)
    has_link = transfers.link >= 0
    of_meeting = np.full(len(has_link), np.inf)
    of_meeting[has_link] = usual_s[transfers.step[has_link], transfers.link[has_link]]
    return of_meeting


def _as_usual(played: Played, transfers: Transfers, usual_s: Floats) -> _Usual:
    """Return the times of a program in which no meeting takes longer than usual.

    What a call took beyond its meeting, as a send that does not wait for its receiver, is limited to what
    such calls of the link take where it is not slow.
    """
    program, ties = played.program, played.ties
    tie, node = _waits_of_ties(played)
    meeting = ties.meeting[tie]
    is_slow = np.isfinite(usual_s[meeting])
    ordinary_s = _ordinary_late_s(
        program.late_s[node], 2 * transfers.link[meeting] + ties.needs[tie], is_slow
    )
    limit_s = np.where(np.isnan(ordinary_s), usual_s[meeting], ordinary_s)
    least_s = np.full(len(program.late_s), -np.inf)
    np.maximum.at(least_s, node[is_slow], limit_s[is_slow])
    late_s = np.where(np.isfinite(least_s), np.minimum(program.late_s, least_s), program.late_s)
    return _Usual(np.minimum(program.done.took_s, usual_s), late_s)


def _waits_of_ties(played: Played) -> tuple[Ints, Ints]:
    """Return the ties of rows in which a line waits, and for each the node in which it does."""
    program, ties = played.program, played.ties
    waits = np.flatnonzero(program.kind == WAIT)
    node_of_row = np.full(int(max(ties.row.max(initial=-1), program.row.max(initial=-1))) + 1, -1)
    node_of_row[program.row[waits]] = waits
    tie = np.flatnonzero(node_of_row[ties.row] >= 0)
    return tie, node_of_row[ties.row[tie]]


def _ordinary_late_s(late_s: Floats, kind: Ints, is_slow: Bools) -> Floats:
    """Return the median of each kind over what is not slow; NaN where all of it is."""
    kind = kind - kind.min(initial=0)
    n_kinds = int(kind.max(initial=-1)) + 1
    ordinary: Floats = quantiles(np.where(is_slow, np.nan, late_s), kind, n_kinds, [0.5])[0][kind]
    return ordinary
