"""Price slow ranks: by playing the run again, or step by step where rows do not show who waits for whom."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from timing_logger.analysis.accounting.program import Program
from timing_logger.analysis.stragglers.case import Case
from timing_logger.analysis.stragglers.cost.by_steps import BySteps
from timing_logger.analysis.stragglers.cost.prices import Prices, Slowed
from timing_logger.analysis.stragglers.slow.candidate import Candidate
from timing_logger.analysis.stragglers.times.step_times import StepTimes
from timing_logger.analysis.tables import Floats, Ints


class Pricing(Protocol):
    """What slow ranks cost.

    Attributes:
        plays_again: whether prices are those of the run played again; else waits tell of them.
    """

    plays_again: bool

    def harm_ms(self, ones: Sequence[Slowed]) -> Floats:
        """Return how much longer the run is for each of these ranks, in ms; NaN where it is unknown."""

    def saved_ms(self, chosen: Sequence[Candidate], found: Sequence[Candidate]) -> float:
        """Return by how much the run would be shorter, in ms, with the chosen ranks like their peers."""

    def explained(self, chosen: Sequence[Candidate], found: Sequence[Candidate]) -> float:
        """Return which fraction of the time lost to slow ranks the chosen explain; NaN if none is lost."""

    def price_of_all_ms(self, column: int) -> float:
        """Return by how much the run would be shorter, in ms, with one rank like its peers in all steps."""

    def saved_by_transfers_ms(self, took_s: Floats, late_s: Floats) -> float:
        """Return by how much the run would be shorter, in ms, with other transfers; NaN where it is unknown.

        The times are those of the program's meetings, and by how much its nodes are left late.
        """

    def on(self, times: StepTimes) -> Pricing:
        """Return what prices the slow ranks of the same run by other step times."""


def pricing_of(case: Case) -> Pricing:
    """Return what prices the slow ranks of a run."""
    times, policy = case.times, case.policy
    played, n_ranks = times.played, len(times.ranks)
    if played is None or played.restarts or times.on_device:  # streams wait inside of their own rows
        return BySteps(times)
    if not _shows_who_waits(played.program, n_ranks, played.column_of_line):
        return BySteps(times)
    role_of_column = np.zeros(n_ranks, np.int64)
    for number, columns in enumerate(case.by_role.values()):
        role_of_column[columns] = number
    role_of_line = role_of_column[played.column_of_line]
    prices = Prices(played.program, played.call, played.column_of_line, role_of_line, policy.min_alike_ranks)
    return ByReplay(prices) if prices.error <= policy.max_replay_error_share else BySteps(times)


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

    def saved_ms(self, chosen: Sequence[Candidate], found: Sequence[Candidate]) -> float:
        """Return by how much the run would be shorter, in ms, with the chosen ranks like their peers."""
        return float(self._prices.saved_ms([_slowed(chosen)])[0])

    def explained(self, chosen: Sequence[Candidate], found: Sequence[Candidate]) -> float:
        """Return which fraction of the time lost to slow ranks the chosen explain; NaN if none is lost."""
        lasting = [candidate for candidate in found if candidate.lasted and candidate.is_waited_for]
        regained, lost = self._prices.saved_ms([_slowed(chosen), _slowed([*chosen, *lasting])])
        return float(regained / lost) if lost > 0 else float("nan")

    def price_of_all_ms(self, column: int) -> float:
        """Return by how much the run would be shorter, in ms, with one rank like its peers in all steps."""
        return float(self._prices.saved_ms([[Slowed(column, self._prices.steps)]])[0])

    def saved_by_transfers_ms(self, took_s: Floats, late_s: Floats) -> float:
        """Return by how much the run would be shorter, in ms, with other transfers."""
        return self._prices.saved_by_transfers_ms(took_s, late_s)

    def on(self, times: StepTimes) -> Pricing:
        """Return the same: what is played again does not depend on step times."""
        return self


def _slowed(chosen: Sequence[Candidate]) -> list[Slowed]:
    return [Slowed(candidate.column, candidate.slow.steps) for candidate in chosen]
