"""Price slow ranks: by playing the run again, or step by step where rows do not show who waits for whom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from timing_logger.analysis.accounting.program import Program
from timing_logger.analysis.rows.arrays import Floats, Ints
from timing_logger.analysis.step_times.peers import column_medians, peer_medians, row_medians
from timing_logger.analysis.step_times.step_times import StepTimes
from timing_logger.analysis.verdict.case import Case
from timing_logger.analysis.verdict.who.candidates import LONGER, WAITED, Candidate
from timing_logger.analysis.verdict.who.prices import Prices, Repair, Slowed
from timing_logger.results.rank_facts import Gate


def pricing_of(case: Case) -> Pricing:
    """Return what prices the slow ranks of a run."""
    times, policy = case.times, case.policy
    played, n_ranks = times.played, len(times.ranks)
    by_steps = BySteps(times, list(case.by_role.values()))
    if played is None or played.restarts or times.on_device:  # streams wait inside of their own rows
        return by_steps
    if not _shows_who_waits(played.program, n_ranks, played.column_of_line):
        return by_steps
    role_of_column = np.zeros(n_ranks, np.int64)
    for number, columns in enumerate(case.by_role.values()):
        role_of_column[columns] = number
    role_of_line = role_of_column[played.column_of_line]
    prices = Prices(played.program, played.call, played.column_of_line, role_of_line, policy.min_alike_ranks)
    return ByReplay(prices) if prices.error <= policy.max_replay_error_share else by_steps


def _shows_who_waits(program: Program, n_ranks: int, column_of_line: Ints) -> bool:
    """Tell whether all ranks are held together by collectives and messages that have rows."""
    both = (program.gives, program.needs)
    line = np.concatenate([np.repeat(program.line, np.diff(lists.at)) for lists in both])
    column, meeting = column_of_line[line], np.concatenate([lists.values for lists in both])
    any_column = np.zeros(len(program.done.took_s), np.int64)
    any_column[meeting] = column
    met = np.unique(column * n_ranks + any_column[meeting])  # few, as the same ranks meet again and again
    group = list(range(n_ranks))
    for one, other in zip((met // n_ranks).tolist(), (met % n_ranks).tolist(), strict=True):
        group[_root(group, one)] = _root(group, other)
    return len({_root(group, column) for column in range(n_ranks)}) == 1


def _root(group: list[int], one: int) -> int:
    while group[one] != one:
        group[one] = group[group[one]]
        one = group[one]
    return one


class ByReplay:
    """Prices slow ranks by playing the run again."""

    plays_again = True

    def __init__(self, prices: Prices) -> None:
        self._prices = prices

    def harm_ms(self, ones: Sequence[Slowed]) -> Floats:
        """Return by how much each slow rank makes a run longer in which all others are as usual."""
        return self._prices.harm_ms(ones)

    def saved_ms(self, chosen: Sequence[Candidate], candidates: Sequence[Candidate]) -> float:
        """Return by how much the run would be shorter, in ms, with the chosen ranks like their peers."""
        return float(self._prices.saved_ms([slowed(chosen)])[0])

    def explained(self, chosen: Sequence[Candidate], candidates: Sequence[Candidate]) -> float:
        """Return which fraction of the time lost to slow ranks the chosen explain; NaN if none is lost."""
        lasting = _lasting(candidates)
        regained, lost = self._prices.saved_ms([slowed(chosen), slowed([*chosen, *lasting])])
        return float(regained / lost) if lost > 0 else float("nan")

    def price_of_all_ms(self, column: int) -> float:
        """Return by how much the run would be shorter, in ms, with one rank like its peers in all steps."""
        return float(self._prices.saved_ms([[Slowed(column, self._prices.steps)]])[0])

    def saved_by_transfers_ms(self, took_s: Floats, late_s: Floats) -> float:
        """Return by how much the run would be shorter, in ms, with other transfers."""
        return self._prices.saved_by_transfers_ms(took_s, late_s)

    @property
    def error(self) -> float:
        """The part of the run that playing it again does not reproduce."""
        return self._prices.error

    def ends_s(self, repairs: Sequence[Repair]) -> Floats:
        """Return when each step, and all before it, would have ended with each repair, in s."""
        return self._prices.ends_s(repairs)

    def on(self, times: StepTimes) -> Pricing:
        """Return the same: what is played again does not depend on step times."""
        return self

    def saved_if_quicker_ms(self, factor: Floats) -> float:
        """Return by how much the run would be shorter with all own times divided by a factor, in ms."""
        return self._prices.saved_if_quicker_ms(factor)

    def at_equal_work(self, times: StepTimes, due_to_work: Floats) -> ByReplay:
        """Return what prices ranks that are slow for what they have to do."""
        return ByReplay(self._prices.at_equal_work(due_to_work))


def slowed(chosen: Sequence[Candidate]) -> list[Slowed]:
    """Return the candidates' columns and slow steps."""
    return [Slowed(candidate.column, candidate.slow.steps) for candidate in chosen]


# -- step by step ---------------------------------------------------------------------------------------


class BySteps:
    """Prices slow ranks step by step: each lasts as long as its slowest rank."""

    plays_again = False
    error = 0.0

    def __init__(self, times: StepTimes, by_role: Sequence[Ints]) -> None:
        self._times, self._by_role = times, by_role

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

    def saved_ms(self, chosen: Sequence[Candidate], candidates: Sequence[Candidate]) -> float:
        """Return by how much the steps would be shorter, in ms, with the chosen ranks like their peers.

        That is no more than others waited for them, if this is known.
        """
        actual = waited_for_ms(self._times, candidates, chosen)
        saved_ms = _slowest(actual) - _slowest(actual / np.exp(_levels(self._times, chosen)))
        return float(np.fmin(saved_ms, self.harm_ms(slowed(chosen)).sum()))

    def explained(self, chosen: Sequence[Candidate], candidates: Sequence[Candidate]) -> float:
        """Return which fraction of the time lost to slow ranks the chosen explain; NaN if none is lost.

        That is the time that would not be lost if the chosen ranks were like their peers. The lost time is
        the difference to a run in which no rank is systematically slow; some rank is still the slowest of
        each step by chance. Only steps count in which a chosen rank was slow, or another was in enough steps:
        a short stretch elsewhere, as during warm-up, does not keep a slow rank from being named.
        """
        times, lasting = self._times, _lasting(candidates)
        steps = np.unique(np.concatenate([candidate.slow.steps for candidate in (*chosen, *lasting)]))
        actual = _at_most_usual(waited_for_ms(times, candidates, chosen))[steps]
        without_chosen = actual / np.exp(_levels(times, chosen)[steps])
        without_any = actual / np.exp(_all_levels(times, chosen, lasting, steps)[steps])
        lost = _slowest(actual) - _slowest(without_any)
        regained = _slowest(actual) - _slowest(without_chosen)
        return float(regained / lost) if lost > 0 else float("nan")

    def price_of_all_ms(self, column: int) -> float:
        """Return how long the one that waited longest waited for a rank, in ms."""
        return float(np.nansum(self._times.waits.longest_ms[:, column]))

    def saved_by_transfers_ms(self, took_s: Floats, late_s: Floats) -> float:
        """Return NaN: steps do not tell what a transfer was in the way of."""
        return float("nan")

    def ends_s(self, repairs: Sequence[Repair]) -> Floats:
        """Return when each step, and all before it, would have ended with each repair, in s.

        That is as if all ranks met at the end of each step; what transfers take is left as it is.
        """
        return np.stack([1e-3 * np.cumsum(self._longest_of_steps_ms(repair)) for repair in repairs], axis=1)

    def _longest_of_steps_ms(self, repair: Repair) -> Floats:
        self_ms = self._times.self_ms / repair.quicker
        peers_ms = np.full(self_ms.shape, np.nan)
        for columns in self._by_role:
            peers_ms[:, columns] = peer_medians(self_ms[:, columns])
        if repair.all_usual:
            self_ms = np.fmin(self_ms, peers_ms)
        for column, steps in repair.slowed:
            self_ms[steps, column] = np.fmin(self_ms[steps, column], peers_ms[steps, column])
        longest_ms: Floats = np.nan_to_num(np.fmax.reduce(self_ms, axis=1, initial=np.nan))
        return longest_ms

    def on(self, times: StepTimes) -> BySteps:
        """Return what prices the slow ranks of the same run by other step times."""
        return BySteps(times, self._by_role)

    def saved_if_quicker_ms(self, factor: Floats) -> float:
        """Return by how much the steps would be shorter with all own times divided by a factor, in ms."""
        return _slowest(self._times.self_ms) - _slowest(self._times.self_ms / factor)

    def at_equal_work(self, times: StepTimes, due_to_work: Floats) -> BySteps:
        """Return what prices ranks that are slow for what they have to do."""
        return BySteps(times, self._by_role)


Pricing: TypeAlias = ByReplay | BySteps
"""What slow ranks cost: in the run played again, or, where ``plays_again`` is false, by who waited."""


def _lasting(candidates: Sequence[Candidate]) -> list[Candidate]:
    return [candidate for candidate in candidates if candidate.lasted and candidate.is_waited_for]


def waited_for_ms(
    times: StepTimes, candidates: Sequence[Candidate], chosen: Sequence[Candidate] = ()
) -> Floats:
    """Return the self times in ms, with candidates that no rank waits for made as quick as their peers.

    Such candidates make no step longer. The chosen candidates keep their times.
    """
    named = {candidate.column for candidate in chosen}
    unminded = [c for c in candidates if not c.is_waited_for and c.column not in named]
    return times.self_ms / np.exp(_levels(times, unminded))


def _at_most_usual(times: Floats) -> Floats:
    """Scale steps that were longer than usual for all ranks, such as the first ones, to the usual length.

    One step of a hundred times that length, in which ranks differ by chance, would outweigh all the others.
    """
    typical = row_medians(times)
    with np.errstate(divide="ignore", invalid="ignore"):  # a step without any own work
        scale = np.fmin(1.0, np.nanmedian(typical) / typical)
    return times * scale[:, None]


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


# -- do others wait for them? ---------------------------------------------------------------------------


def with_waiting(case: Case, candidates: list[Candidate], pricing: Pricing) -> list[Candidate]:
    """Add to the gates of candidates that are not too cheap that others wait for them.

    If nobody does, the time of a rank delays nobody, or its peers log less than it does.
    """
    dear = [one for one in candidates if one.is_dear]
    if not dear:
        return candidates
    harm_ms = pricing.harm_ms(slowed(dear)).tolist()
    of = {id(one): ms for one, ms in zip(dear, harm_ms, strict=True) if not np.isnan(ms)}
    return [_waited_for(case, one, of[id(one)], pricing) if id(one) in of else one for one in candidates]


def _waited_for(case: Case, one: Candidate, ms: float, pricing: Pricing) -> Candidate:
    share = 0.0 if pricing.plays_again else case.times.share_of_run(ms)
    return replace(one, gates=(*one.gates, waiting_gate(case, one, ms, pricing)), waited_share=share)


def waiting_gate(case: Case, one: Candidate, ms: float, pricing: Pricing) -> Gate:
    """Return the condition that others wait for a candidate.

    Args:
        case: the run to be judged.
        one: the candidate.
        ms: by how much the run is longer for it, or how long others waited for it.
        pricing: what says so.
    """
    if pricing.plays_again:
        return Gate.at_least(LONGER, case.times.share_of_run(ms), case.policy.min_cost_share)
    return Gate.at_least(WAITED, ms / one.cost_ms, case.policy.min_waited_share)
