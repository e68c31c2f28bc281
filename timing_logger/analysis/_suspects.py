"""Slow ranks, and the gates that each must pass before it may be named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from timing_logger.analysis._frames import Floats, known
from timing_logger.analysis._noise import robust_sigma
from timing_logger.analysis._peers import (
    column_medians,
    log_ratios,
    members,
    peer_medians,
    relative_scores,
    row_medians,
)
from timing_logger.analysis._self_time import Integers
from timing_logger.analysis._slow_steps import MIN_GAP, MIN_SIGMA, MIN_Z, SlowSteps, slow_steps
from timing_logger.analysis._step_times import StepTimes
from timing_logger.analysis.verdict import Gate

MIN_STEPS = 20
"""A rank is named if it was slow in this many steps, or in all that the run has."""

FEW_STEPS = 10
"""With fewer steps in the run noise alone may look steady, so a rank must be slower to be named."""

MIN_GAP_OF_FEW = 0.35
"""How far its score must then lie below that of its peers."""

MIN_EXPLAINED = 0.80
"""The ranks named explain at least this part of the time lost to slow ranks."""

MIN_WAITED = 0.5
"""Of what a rank spent beyond its peers others waited at least this part, where waits are recorded."""

_WAITED = "part of its excess that others waited"
_STEPS = "steps"
_MIN_BURSTS = 3
_MIN_PEERS_FOR_SPREAD = 2


@dataclass(frozen=True, eq=False)
class Suspect:
    """A rank that is slow in some steps, with what its role did.

    Attributes:
        slow: which steps; its column is that within the role.
        column: of the rank, among all ranks.
        columns: of all ranks of its role.
        ratios: log(time / peer median) of the role, steps x ranks.
        excess_ms: per slow step, time beyond the peer median.
        score: relative score in the slow steps.
        gates: whether it may be named, but for what it explains.
    """

    slow: SlowSteps
    role: str
    column: int
    columns: Integers
    ratios: Floats
    excess_ms: Floats
    score: float
    gates: tuple[Gate, ...]

    @property
    def may_be_named(self) -> bool:
        return all(gate.passed for gate in self.gates)

    @property
    def lasted(self) -> bool:
        """Whether it was slow in enough steps."""
        return all(gate.passed for gate in self.gates if gate.name == _STEPS)

    @property
    def is_waited_for(self) -> bool:
        """Whether somebody waits for it, or that is unknown."""
        return all(gate.passed for gate in self.gates if gate.name == _WAITED)

    @property
    def cost_ms(self) -> float:
        return float(np.maximum(self.excess_ms, 0.0).sum())


def suspects(times: StepTimes, roles: Mapping[int, str]) -> list[Suspect]:
    """Every rank that is slow against its peers in some steps; the costliest first."""
    found = [
        _suspect(times, role, columns, ratios, baseline, slow)
        for role, columns in members(times.ranks, roles).items()
        if len(columns) > 1
        for baseline in [peer_medians(times.self_ms[:, columns])]
        for ratios in [log_ratios(times.self_ms[:, columns], baseline)]
        for slow in _with_bursts(slow_steps(ratios))
    ]
    return sorted(found, key=lambda suspect: -suspect.cost_ms)


def _with_bursts(found: list[SlowSteps]) -> list[SlowSteps]:
    """Several short stretches of one rank are also looked at together."""
    bursts = []
    for column in sorted({slow.column for slow in found}):
        short = [slow for slow in found if slow.column == column and len(slow.steps) < MIN_STEPS]
        if len(short) >= _MIN_BURSTS:
            steps = np.sort(np.concatenate([slow.steps for slow in short]))
            level = float(np.median([slow.level for slow in short]))
            bursts.append(SlowSteps(column, steps, "intermittent", level, min(slow.z for slow in short)))
    return found + bursts


def _suspect(
    times: StepTimes, role: str, columns: Integers, ratios: Floats, baseline: Floats, slow: SlowSteps
) -> Suspect:
    excess_ms = times.self_ms[slow.steps, columns[slow.column]] - baseline[slow.steps, slow.column]
    scores = relative_scores(times.self_ms[np.ix_(slow.steps, columns)])
    gates = (
        Gate("z over the steps", slow.z, MIN_Z, slow.z >= MIN_Z),
        *_spread_gate(ratios[slow.steps], slow.column),
        _at_least("score below that of its peers", _gap(scores, slow.column), _least_gap(ratios)),
        _steps_gate(slow, ratios),
        *_wait_gate(times, columns, slow, excess_ms),
    )
    column = int(columns[slow.column])
    return Suspect(slow, role, column, columns, ratios, excess_ms, float(scores[slow.column]), gates)


def _at_least(name: str, value: float, bound: float) -> Gate:
    return Gate(name, float(value), float(bound), bool(value >= bound))


def _gap(scores: Floats, column: int) -> float:
    peers = known(np.delete(scores, column))
    return float(np.median(peers) - scores[column]) if len(peers) else float("nan")


def _spread_gate(ratios: Floats, column: int) -> Sequence[Gate]:
    """Is it further out than its peers differ among themselves? One peer has no spread."""
    levels = column_medians(ratios)
    peers = known(np.delete(levels, column))
    if len(peers) < _MIN_PEERS_FOR_SPREAD:
        return ()
    z = (levels[column] - float(np.median(peers))) / max(MIN_SIGMA, robust_sigma(peers))
    return (_at_least("z among the peers", z, MIN_Z),)


def _least_gap(ratios: Floats) -> float:
    return MIN_GAP if _recorded(ratios) >= FEW_STEPS else MIN_GAP_OF_FEW


def _steps_gate(slow: SlowSteps, ratios: Floats) -> Gate:
    return _at_least(_STEPS, len(slow.steps), min(MIN_STEPS, _recorded(ratios)))


def _recorded(ratios: Floats) -> int:
    """Steps of the run: those of a rank that was cut short are too few."""
    return int((~np.isnan(ratios)).any(axis=1).sum())


def _wait_gate(times: StepTimes, columns: Integers, slow: SlowSteps, excess_ms: Floats) -> Sequence[Gate]:
    """Does anybody wait for it? Else it is slow where nobody minds, or its peers log less than it does.

    Asked of the steps of which that is known: a collective tells nothing once a rank's file has ended.
    """
    column = columns[slow.column]
    is_known = ~np.isnan(times.waits.own_ms[slow.steps, column])
    if not is_known.any():
        return ()
    steps, known_excess_ms = slow.steps[is_known], float(excess_ms[is_known].sum())
    # What comes after the last collective of a step is waited for in the next.
    steps = np.unique(np.concatenate([steps, steps + 1]))
    steps = steps[steps < len(times.iterations)]
    own_ms = times.waits.own_ms[steps, column]
    # A delay that is passed on may be waited for elsewhere than in its own collectives: by its peers.
    peers_ms = peer_medians(times.waits.own_ms[np.ix_(steps, columns)])[:, slow.column]
    waited_ms = max(np.nansum(times.waits.others_ms[steps, column] - own_ms), np.nansum(peers_ms - own_ms))
    share = float(waited_ms) / known_excess_ms if known_excess_ms > 0 else float("nan")
    return (_at_least(_WAITED, share, MIN_WAITED),)


def explained(times: StepTimes, chosen: Sequence[Suspect], all_suspects: Sequence[Suspect]) -> float:
    """The part of the time lost to slow ranks that goes away if the chosen ones are like their peers.

    A step takes as long as its slowest rank. What is lost is the difference to a run in which no
    rank is systematically slow: the chance by which some rank is the slowest remains in both. It is asked of
    the steps in which a chosen rank was slow, or another was for long: short stretches elsewhere, as while
    warming up, are no reason to keep silent.
    """
    lasting = [suspect for suspect in all_suspects if suspect.lasted and suspect.is_waited_for]
    steps = np.unique(np.concatenate([suspect.slow.steps for suspect in (*chosen, *lasting)]))
    actual = _at_most_usual(waited_for_ms(times, all_suspects, chosen))[steps]
    without_chosen = actual / np.exp(_levels(times, chosen)[steps])
    without_any = actual / np.exp(_all_levels(times, chosen, all_suspects, steps)[steps])
    lost = _slowest(actual) - _slowest(without_any)
    regained = _slowest(actual) - _slowest(without_chosen)
    return float(regained / lost) if lost > 0 else float("nan")


def saved_ms(times: StepTimes, chosen: Sequence[Suspect], all_suspects: Sequence[Suspect]) -> float:
    """How much shorter the recorded steps would be if the chosen ranks were like their peers."""
    actual = waited_for_ms(times, all_suspects, chosen)
    return _slowest(actual) - _slowest(actual / np.exp(_levels(times, chosen)))


def waited_for_ms(
    times: StepTimes, all_suspects: Sequence[Suspect], chosen: Sequence[Suspect] = ()
) -> Floats:
    """Self times; of a suspect that nobody waits for as if like its peers: it makes no step longer."""
    named = {suspect.column for suspect in chosen}
    unminded = [s for s in all_suspects if not s.is_waited_for and s.column not in named]
    waited_for: Floats = times.self_ms / np.exp(_levels(times, unminded))
    return waited_for


def _at_most_usual(times: Floats) -> Floats:
    """Steps that were longer than usual for all ranks, as the first ones, made as long as usual.

    One of a hundred times that length, in which ranks differ by chance, would outweigh all the others.
    """
    typical = row_medians(times)
    with np.errstate(divide="ignore", invalid="ignore"):  # a step without any own work
        scale = np.fmin(1.0, np.nanmedian(typical) / typical)
    usual: Floats = times * scale[:, None]
    return usual


def _slowest(times: Floats) -> float:
    return float(np.fmax.reduce(times, axis=1)[~np.isnan(times).all(axis=1)].sum())


def _levels(times: StepTimes, chosen: Sequence[Suspect]) -> Floats:
    levels = np.zeros(times.self_ms.shape)
    for suspect in chosen:
        levels[suspect.slow.steps, suspect.column] = suspect.slow.level
    return levels


def _all_levels(
    times: StepTimes, chosen: Sequence[Suspect], all_suspects: Sequence[Suspect], steps: Integers
) -> Floats:
    """The chosen ones, and whoever else is slower than its peers in the same steps, by however little."""
    levels = _levels(times, [suspect for suspect in all_suspects if suspect.is_waited_for])
    for suspect in {suspect.role: suspect for suspect in all_suspects}.values():
        others = np.maximum(np.nan_to_num(column_medians(suspect.ratios[steps])), 0.0)
        levels[:, suspect.columns] = np.maximum(levels[:, suspect.columns], others)
    mine = _levels(times, chosen)
    named = sorted({suspect.column for suspect in chosen})
    levels[:, named] = mine[:, named]
    return levels
