"""Price slow ranks: by playing the run again, or step by step where rows do not show who waits for whom."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from typing import NamedTuple, TypeAlias

import numpy as np

from timing_logger.analysis.accounting.program import Program
from timing_logger.analysis.accounting.replay import OwnClock, Replay, own_clocks
from timing_logger.analysis.rows.arrays import Bools, Floats, Ints, in_few_bytes
from timing_logger.analysis.rows.grouping import quantiles
from timing_logger.analysis.step_times.peers import column_medians, peer_medians, row_medians
from timing_logger.analysis.step_times.step_times import StepTimes
from timing_logger.analysis.verdict.case import Case
from timing_logger.analysis.verdict.who.candidates import Candidate


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
    replayed = ByReplay(
        played.program, played.call, played.column_of_line, role_of_line, policy.min_alike_ranks
    )
    return replayed if replayed.error <= policy.max_replay_error_share else by_steps


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


class Slowed(NamedTuple):
    """A rank in some steps.

    Attributes:
        column: the column of the rank.
        steps: the positions of the steps, ascending.
    """

    column: int
    steps: Ints


class Repair(NamedTuple):
    """What is other in a run that is played again.

    Attributes:
        quicker: by which factor each rank is quicker in each step, steps x ranks.
        slowed: ranks that are like their peers.
        all_usual: whether all ranks take what is usual among their peers.
        transfers_s: how long each meeting takes, and how much later each node is left than it could be;
            empty if they are as recorded.
    """

    quicker: Floats
    slowed: tuple[Slowed, ...] = ()
    all_usual: bool = False
    transfers_s: tuple[Floats, ...] = ()


class ByReplay:
    """Prices slow ranks by playing the run again.

    Compare Lin et al., Understanding stragglers in large model training using what-if analysis (OSDI 2025).
    """

    plays_again = True

    def __init__(
        self, program: Program, call: Ints, column_of_line: Ints, role_of_line: Ints, min_alike: int
    ) -> None:
        """Prepare a program to be played again.

        Args:
            program: the program of the run.
            call: for each node what is called.
            column_of_line: for each line the column of its rank in arrays by step and rank.
            role_of_line: for each line its role.
            min_alike: the least number of ranks that did the same, for the others to show how much one
                differs by chance.
        """
        self._program, self._replay, self._min_alike = program, Replay(program), min_alike
        self._column = in_few_bytes(column_of_line)[program.line]
        self._clock = own_clocks(program, call, role_of_line)
        self._due_to_work: Floats = np.ones(1)
        self._parts = _Parts.of(self._column, self._clock, self._due_to_work, min_alike)
        self._length_s: dict[tuple[tuple[int, bytes], ...], float] = {}

    def at_equal_work(self, times: StepTimes, due_to_work: Floats) -> ByReplay:
        """Return what prices ranks that are slow for what they have to do.

        Like its peers is then a rank that takes as much longer than they do as its work makes it.

        Args:
            times: the times at equal work, which what is played again does not depend on.
            due_to_work: by which factor a rank takes longer due to its work, steps x ranks.
        """
        prices = copy(self)
        step = np.minimum(self._program.step, len(due_to_work) - 1)
        prices._due_to_work = due_to_work[step, self._column]
        prices._parts = _Parts.of(self._column, self._clock, prices._due_to_work, self._min_alike)
        prices._length_s = {}
        return prices

    @property
    def steps(self) -> Ints:
        """The positions of all steps."""
        return np.arange(self._program.n_steps)

    @property
    def error(self) -> float:
        """The part of the run that playing it again does not reproduce.

        It is by how much the length as played differs from that recorded, or for how long a line was in calls
        of which it is unknown for whom it waited: these take as long, whoever is late.
        """
        program = self._program
        first_s = float(np.fmin.reduce(program.start_s, axis=None, initial=np.inf))
        last_s = float(program.end_s.max(initial=-np.inf))
        if not last_s > first_s:
            return 0.0
        differs_s = abs(float(self._lengths_s([[]])[0]) - last_s)
        return max(differs_s, float(program.unknown_s.max(initial=0.0))) / (last_s - first_s)

    def saved_ms(self, chosen: Sequence[Candidate], candidates: Sequence[Candidate]) -> float:
        """Return by how much the run would be shorter, in ms, with the chosen ranks like their peers."""
        return float(self.saved_of_each_ms([slowed(chosen)])[0])

    def explained(self, chosen: Sequence[Candidate], candidates: Sequence[Candidate]) -> float:
        """Return which fraction of the time lost to slow ranks the chosen explain; NaN if none is lost."""
        lasting = _lasting(candidates)
        regained, lost = self.saved_of_each_ms([slowed(chosen), slowed([*chosen, *lasting])])
        return float(regained / lost) if lost > 0 else float("nan")

    def price_of_all_ms(self, column: int) -> float:
        """Return by how much the run would be shorter, in ms, with one rank like its peers in all steps."""
        return float(self.saved_of_each_ms([[Slowed(column, self.steps)]])[0])

    def on(self, times: StepTimes) -> ByReplay:
        """Return the same: what is played again does not depend on step times."""
        return self

    def saved_of_each_ms(self, sets: Sequence[Sequence[Slowed]]) -> Floats:
        """Return for each set of slow ranks by how much the run would be shorter with them like their peers.

        Like its peers is a rank that takes what the median of the others takes, and differs from that as much
        as some other rank does in some other step. What is rare therefore is not taken away from a busy rank.

        Returns:
            In ms; 0 where a rank has no peers that did the same.
        """
        length_s = self._lengths_s([[], *sets])
        saved_ms: Floats = 1e3 * (length_s[0] - length_s[1:])
        return saved_ms

    def _lengths_s(self, sets: Sequence[Sequence[Slowed]]) -> Floats:
        """Return for each set of slow ranks when the run would end with them like their peers.

        Each is played once, however often it is asked for.
        """
        keys = [tuple((column, steps.tobytes()) for column, steps in chosen) for chosen in sets]
        new = {key: chosen for key, chosen in zip(keys, sets, strict=True) if key not in self._length_s}
        if new:
            since_s = self._clock.since_s
            ends_s = self._replay.ends_s(
                self._clock.own_s(self._like_peers_s(chosen, since_s)) if chosen else self._program.own_s
                for chosen in new.values()
            )
            self._length_s.update(zip(new, ends_s[-1].tolist(), strict=True))
        return np.array([self._length_s[key] for key in keys])

    def harm_ms(self, ones: Sequence[Slowed]) -> Floats:
        """Return for each slow rank by how much it makes a run longer in which all others are as usual.

        So ranks that are slow at the same time do not hide each other. It is longer than with a rank like
        its peers, which makes it longer by chance, too.

        Returns:
            In ms.
        """
        length_s = self._replay.ends_s(own_s for one in ones for own_s in self._with_and_without(one))[-1]
        harm_ms: Floats = 1e3 * (length_s[::2] - length_s[1::2])
        return harm_ms

    def _with_and_without(self, one: Slowed) -> Iterator[Floats]:
        """Yield own times of a run in which all are as usual but one rank, and of one in which it is, too."""
        clock = self._clock
        yield clock.own_s(np.where(self._is_in([one]), clock.since_s, clock.usual_s))
        yield clock.own_s(self._like_peers_s([one], clock.usual_s))

    def ends_s(self, repairs: Sequence[Repair]) -> Floats:
        """Return when each step, and all before it, would have ended with each of some repairs.

        Returns:
            In seconds, steps x repairs.
        """
        return np.stack([self._repaired_s(repair) for repair in repairs], axis=1)

    def _repaired_s(self, repair: Repair) -> Floats:
        clock, program = self._clock, self._program
        step = np.minimum(program.step, len(repair.quicker) - 1)
        recorded_s = clock.usual_s if repair.all_usual else clock.since_s
        since_s = recorded_s / repair.quicker[step, self._column]
        if repair.slowed:
            since_s = self._like_peers_s(repair.slowed, since_s)
        replay = self._replay.with_times(*repair.transfers_s) if repair.transfers_s else self._replay
        return replay.ends_s([clock.own_s(since_s)])[:, 0]

    def _like_peers_s(self, chosen: Sequence[Slowed], others_s: Floats) -> Floats:
        """Return own clocks with the chosen ranks like their peers in their steps, and all else as given.

        Where several are chosen, none of them shows what is usual for another.
        """
        clock = self._clock
        fixed = self._is_in(chosen) & (clock.n_peers > 0)
        factor = self._parts.factors(np.bincount(clock.part, fixed) > 0)
        several = len({column for column, _ in chosen}) > 1
        peers_s = clock.others_without(fixed) if several else clock.others_s
        return np.where(fixed, peers_s * self._due_to_work * factor[clock.part], others_s)

    def saved_by_transfers_ms(self, took_s: Floats, late_s: Floats) -> float:
        """Return by how much the run would be shorter if its meetings had taken other times.

        Args:
            took_s: how long each meeting takes.
            late_s: how much later each node is left than it could be.

        Returns:
            In ms.
        """
        other = self._replay.with_times(took_s, late_s)
        other_s = float(other.ends_s([self._program.own_s])[-1, 0])
        return 1e3 * (float(self._lengths_s([[]])[0]) - other_s)

    def saved_if_quicker_ms(self, factor: Floats) -> float:
        """Return by how much the run would be shorter with all own times divided by a factor, in ms.

        Args:
            factor: steps x ranks.
        """
        step = np.minimum(self._program.step, len(factor) - 1)
        quicker_s = self._clock.own_s(self._clock.since_s / factor[step, self._column])
        recorded_s, quicker_s = self._replay.ends_s([self._program.own_s, quicker_s])[-1]
        return 1e3 * float(recorded_s - quicker_s)

    def _is_in(self, chosen: Sequence[Slowed]) -> Bools:
        """Tell of each node whether it is of one of these ranks in its steps.

        What a rank does after its last call of a step is in the way only of the first of the next step.
        """
        found = np.zeros(len(self._column), np.bool_)
        for column, steps in chosen:
            slow = np.zeros(self._program.n_steps + 1, np.bool_)
            slow[steps] = slow[steps + 1] = True
            found |= (self._column == column) & slow[self._program.step]
        return found


class _Parts(NamedTuple):
    """How lines differed from their peers in their parts of steps; one entry per part.

    Attributes:
        column: the column of the line's rank.
        ratio: the own time of the part relative to the median of the peers, and to what is due to more work
            than they have; NaN where that is unknown.
        by_chance: the same relative to how the line usually differs; NaN where it has too few peers to show.
    """

    column: Ints
    ratio: Floats
    by_chance: Floats

    @classmethod
    def of(cls, column: Ints, clock: OwnClock, due_to_work: Floats, min_alike: int) -> _Parts:
        last = np.flatnonzero(np.diff(clock.part, append=-1))
        total_s, usual_s, column = clock.since_s[last], (clock.others_s * due_to_work)[last], column[last]
        known = (usual_s > 0) & (total_s > 0) & (clock.n_peers[last] > 0)
        ratio = np.where(known, total_s, np.nan) / np.where(known, usual_s, np.nan)
        usually = quantiles(ratio, column, int(column.max(initial=-1)) + 1, [0.5])[0][column]
        enough = clock.n_peers[last] + 1 >= min_alike
        return cls(column, ratio, np.where(enough, ratio / usually, np.nan))

    def factors(self, is_fixed: Bools) -> Floats:
        """Return for each part by how much a rank like its peers differs from their median, as a factor.

        As much as another rank did in another part: where it took longest of all its parts, as much as where
        others did, and so on. So what delays a rank now and then does so in the same parts, but no more than
        it delays others. Where too few ranks are alike to tell,
        the rank keeps how it differs from step to step, without the level that it has where it is slow.

        Args:
            is_fixed: for each part whether its rank shall be like its peers.
        """
        columns = np.unique(self.column[is_fixed])
        donors = np.sort(self.by_chance[~np.isin(self.column, columns) & ~np.isnan(self.by_chance)])
        found = np.ones(len(self.ratio))
        for column in columns.tolist():
            its = np.flatnonzero(is_fixed & (self.column == column) & ~np.isnan(self.ratio))
            if len(donors):  # as often as others had each factor, and not as often as chance draws it
                even = ((np.arange(len(its)) + 0.5) / len(its) * len(donors)).astype(np.int64)
                found[its[np.argsort(self.ratio[its], kind="stable")]] = donors[even]
            elif len(its):
                found[its] = self.ratio[its] / np.median(self.ratio[its])
        return found


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
