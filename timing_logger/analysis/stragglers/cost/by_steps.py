"""What slow ranks cost where the rows do not show who waits for whom: step by step.

A step is then taken to last as long as its slowest rank. So the cost of a rank is not its time beyond its
peers, but how much earlier the slowest rank of each step would have been done without it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from timing_logger.analysis.stragglers.cost.prices import Slowed
from timing_logger.analysis.stragglers.slow.candidate import Candidate
from timing_logger.analysis.stragglers.slow.peers import column_medians, row_medians
from timing_logger.analysis.stragglers.times.step_times import StepTimes
from timing_logger.analysis.tables import Floats, Ints


class BySteps:
    """Prices slow ranks step by step: each lasts as long as its slowest rank."""

    plays_again = False

    def __init__(self, times: StepTimes) -> None:
        self._times = times

    def harm_ms(self, ones: Sequence[Slowed]) -> Floats:
        """Return how long the one that waited longest in each step waited for each slow rank.

        Others wait for work after the last collective of a step only in the next step. It is unknown where
        the others spent more time in communication of which rows do not tell for whom they waited.
        """
        return np.array([self._longest_ms(one) for one in ones])

    def _longest_ms(self, one: Slowed) -> float:
        waits = self._times.waits
        longest_ms = waits.longest_ms[:, one.column]
        steps = np.unique(np.concatenate([one.steps, one.steps + 1]))
        steps = steps[steps < len(longest_ms)]
        known_ms = float(np.nansum(longest_ms[steps]))
        unmatched_ms = np.delete(waits.unmatched_ms[steps], one.column, axis=1).max(axis=1, initial=0.0)
        is_unknown = np.isnan(longest_ms[one.steps]).all() or unmatched_ms.sum() > known_ms
        return float("nan") if is_unknown else known_ms

    def saved_ms(self, chosen: Sequence[Candidate], found: Sequence[Candidate]) -> float:
        """Return by how much the steps would be shorter, in ms, with the chosen ranks like their peers.

        That is no more than others waited for them, if this is known.
        """
        most_ms = self.harm_ms([Slowed(one.column, one.slow.steps) for one in chosen]).sum()
        return float(np.fmin(_saved_ms(self._times, chosen, found), most_ms))

    def explained(self, chosen: Sequence[Candidate], found: Sequence[Candidate]) -> float:
        """Return which fraction of the time lost to slow ranks the chosen explain; NaN if none is lost."""
        return _explained(self._times, chosen, found)

    def price_of_all_ms(self, column: int) -> float:
        """Return how long the one that waited longest waited for a rank, in ms."""
        return float(np.nansum(self._times.waits.longest_ms[:, column]))

    def saved_by_transfers_ms(self, took_s: Floats, late_s: Floats) -> float:
        """Return NaN: steps do not tell what a transfer was in the way of."""
        return float("nan")

    def on(self, times: StepTimes) -> BySteps:
        """Return what prices the slow ranks of the same run by other step times."""
        return BySteps(times)


def _explained(times: StepTimes, chosen: Sequence[Candidate], candidates: Sequence[Candidate]) -> float:
    """Return the fraction of the time lost to slow ranks that the chosen ones explain.

    That is the time that would not be lost if the chosen ranks were like their peers. The lost time is the
    difference to a run in which no rank is systematically slow; some rank is still the slowest of each step
    by chance. Only steps count in which a chosen rank was slow, or another was in enough steps: a short
    stretch elsewhere, as during warm-up, does not keep a slow rank from being named.

    Args:
        times: the times of the run.
        chosen: the candidates that are taken to be like their peers.
        candidates: all candidates.

    Returns:
        The fraction; NaN if no time is lost.
    """
    lasting = [candidate for candidate in candidates if candidate.lasted and candidate.is_waited_for]
    steps = np.unique(np.concatenate([candidate.slow.steps for candidate in (*chosen, *lasting)]))
    actual = _at_most_usual(waited_for_ms(times, candidates, chosen))[steps]
    without_chosen = actual / np.exp(_levels(times, chosen)[steps])
    without_any = actual / np.exp(_all_levels(times, chosen, lasting, steps)[steps])
    lost = _slowest(actual) - _slowest(without_any)
    regained = _slowest(actual) - _slowest(without_chosen)
    return float(regained / lost) if lost > 0 else float("nan")


def _saved_ms(times: StepTimes, chosen: Sequence[Candidate], candidates: Sequence[Candidate]) -> float:
    """Return how much shorter the recorded steps would be, in ms, with the chosen ranks like their peers."""
    actual = waited_for_ms(times, candidates, chosen)
    return _slowest(actual) - _slowest(actual / np.exp(_levels(times, chosen)))


def waited_for_ms(
    times: StepTimes, candidates: Sequence[Candidate], chosen: Sequence[Candidate] = ()
) -> Floats:
    """Return the self times in ms, with candidates that no rank waits for made as quick as their peers.

    Such candidates make no step longer. The chosen candidates keep their times.
    """
    named = {candidate.column for candidate in chosen}
    unminded = [c for c in candidates if not c.is_waited_for and c.column not in named]
    waited_for: Floats = times.self_ms / np.exp(_levels(times, unminded))
    return waited_for


def _at_most_usual(times: Floats) -> Floats:
    """Scale steps that were longer than usual for all ranks, such as the first ones, to the usual length.

    One step of a hundred times that length, in which ranks differ by chance, would outweigh all the others.
    """
    typical = row_medians(times)
    with np.errstate(divide="ignore", invalid="ignore"):  # a step without any own work
        scale = np.fmin(1.0, np.nanmedian(typical) / typical)
    usual: Floats = times * scale[:, None]
    return usual


def _slowest(times: Floats) -> float:
    return float(np.fmax.reduce(times, axis=1)[~np.isnan(times).all(axis=1)].sum())


def _levels(times: StepTimes, chosen: Sequence[Candidate]) -> Floats:
    levels = np.zeros(times.self_ms.shape)
    for candidate in chosen:
        levels[candidate.slow.steps, candidate.column] = candidate.slow.level
    return levels


def _all_levels(
    times: StepTimes, chosen: Sequence[Candidate], lasting: Sequence[Candidate], steps: Ints
) -> Floats:
    """Return the levels of the chosen ranks, and of all ranks slower than their peers in the same steps."""
    levels = _levels(times, lasting)
    for candidate in {candidate.role: candidate for candidate in (*lasting, *chosen)}.values():
        others = np.maximum(np.nan_to_num(column_medians(candidate.ratios[steps])), 0.0)
        levels[:, candidate.columns] = np.maximum(levels[:, candidate.columns], others)
    mine = _levels(times, chosen)
    named = sorted({candidate.column for candidate in chosen})
    levels[:, named] = mine[:, named]
    return levels
