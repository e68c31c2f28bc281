"""Computes the figures of a line from many outcomes, and the calibration of stated likelihoods."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from verdict_accuracy.scoring import Outcome
from verdict_accuracy.simulation import Scenario, is_job

Results = Mapping[Scenario, Sequence[Outcome]]

WORTH_TELLING = 1.0
"""A fault that costs less than this percentage of the run need not be found."""


def known(outcomes: Iterable[Outcome], field: str) -> list[float]:
    """Return the values of ``field`` in all outcomes that are not NaN."""
    values = (float(getattr(outcome, field)) for outcome in outcomes)
    return [value for value in values if not math.isnan(value)]


def percent(outcomes: Iterable[Outcome], field: str) -> float:
    """Return in what percentage of outcomes ``field`` is true; NaN if it is NaN in all of them."""
    values = known(outcomes, field)
    return 100 * float(np.mean(values)) if values else math.nan


def median(outcomes: Iterable[Outcome], field: str) -> float:
    """Return the median of ``field``; NaN if it is NaN in all outcomes."""
    values = known(outcomes, field)
    return float(np.median(values)) if values else math.nan


def median_percent(outcomes: Iterable[Outcome], field: str) -> float:
    """Return the median of ``field`` as a percentage; NaN if it is NaN in all outcomes."""
    return 100 * median(outcomes, field)


class Column(NamedTuple):
    """A column of the tables.

    Attributes:
        short: its heading in a terminal.
        heading: its heading on the page.
        of: computes its figure from outcomes and a field's name.
        field: the field of ``Outcome``.
        digits: how many decimals are shown.
    """

    short: str
    heading: str
    of: Callable[[Sequence[Outcome], str], float]
    field: str
    digits: int = 0

    def shown(self, outcomes: Sequence[Outcome]) -> str:
        """Return the figure of ``outcomes`` as text; "-" if it is NaN."""
        value = self.of(outcomes, self.field)
        return "-" if math.isnan(value) else f"{value:.{self.digits}f}"


COLUMNS = (
    Column("costs", "costs, % of run", median_percent, "cost_share", 1),
    Column("exact", "exactly", percent, "exact"),
    Column("probable", "probably", percent, "probable"),
    Column("wrong", "wrong name", percent, "wrong_name"),
    Column("suspect", "wrong suspect", percent, "wrong_suspect"),
    Column("other", "other verdict", percent, "other"),
    Column("alarm", "false alarm", percent, "false_alarm"),
    Column("unjudged", "not judged", percent, "not_judged"),
    Column("window", "window error, steps", median, "window_error_steps", 1),
    Column("error", "cost error, %", median_percent, "cost_error", 1),
    Column("score", "score < 0.75: exactly", percent, "nvrx_exact"),
    Column("wrong", "wrong", percent, "nvrx_wrong"),
    Column("least", "least all-reduce: exactly", percent, "least_exact"),
    Column("wrong", "wrong", percent, "least_wrong"),
)


JOB_COLUMNS = (
    Column("costs", "costs, % of run", median_percent, "cost_share", 1),
    Column("right", "exactly", percent, "exact"),
    Column("fine", "right or acceptable", percent, "fine"),
    Column("wrong", "wrong name", percent, "wrong_name"),
    Column("certain", "for certain", percent, "certain_wrong"),
    Column("suspect", "wrong suspect", percent, "wrong_suspect"),
    Column("silent", "silent", percent, "silent"),
    Column("unjudged", "not judged", percent, "not_judged"),
    Column("operation", "operation right", percent, "operation_right"),
    Column("ratio", "stated / true cost", median, "cost_ratio", 2),
    Column("near", "cost within 10%", percent, "cost_near"),
    Column("far", "cost off by 2", percent, "cost_far"),
)
"""The columns of jobs whose steps differ."""


def columns_of(scenario: Scenario) -> tuple[Column, ...]:
    """Return the columns of the table in which a line stands."""
    return JOB_COLUMNS if is_job(scenario) else COLUMNS


def worst_lines(results: Results, field: str, n: int) -> list[tuple[Scenario, float]]:
    """Return the ``n`` lines with the largest percentages of ``field``; lines without any are left out."""
    figures = [(one, percent(outcomes, field)) for one, outcomes in results.items()]
    return sorted((f for f in figures if f[1] > 0), key=lambda figure: -figure[1])[:n]


def least_found(results: Results, n: int) -> list[tuple[Scenario, float]]:
    """Return the ``n`` lines in which a fault worth telling is found least, exactly or probably.

    Of lines with the same percentage, those whose fault costs most come first. Lines of jobs do not count,
    as other verdicts may be acceptable there.
    """
    costs = {one: median_percent(outcomes, "cost_share") for one, outcomes in results.items()}
    found = [
        (one, percent(results[one], "exact") + percent(results[one], "probable"))
        for one, cost in costs.items()
        if cost >= WORTH_TELLING and not is_job(one)
    ]
    return sorted((f for f in found if f[1] < 100), key=lambda figure: (figure[1], -costs[figure[0]]))[:n]


class Bin(NamedTuple):
    """The suspects whose stated likelihood is in [low, high).

    Attributes:
        n: how many there are.
        stated: their mean stated likelihood.
        right: the fraction of them that are right.
    """

    low: float
    high: float
    n: int
    stated: float
    right: float


STATED_EDGES = (0, 0.5, 0.75, 0.9, 0.95, 0.995, 1.001)
"""The bins of stated likelihoods; in the last one is what is said to be certain."""


def stated_calibration(results: Results) -> list[Bin]:
    """Return how often ranks that are named or suspected are culprits, by the likelihood that is stated."""
    told = [(o.stated, o.stated_right) for o in _all(results) if not math.isnan(o.stated)]
    return list(_bins(told, STATED_EDGES))


def calibration(results: Results, edges: Sequence[float] = (0, 0.25, 0.5, 0.75, 0.9, 1.001)) -> list[Bin]:
    """Return how often suspects are right, by their stated likelihood; bins without any are left out."""
    told = [(o.likelihood, not o.wrong_suspect) for o in _all(results) if not math.isnan(o.likelihood)]
    return list(_bins(told, edges))


def _all(results: Results) -> list[Outcome]:
    return [outcome for line in results.values() for outcome in line]


def _bins(told: Sequence[tuple[float, float]], edges: Sequence[float]) -> Iterator[Bin]:
    for low, high in pairwise(edges):
        if inside := [one for one in told if low <= one[0] < high]:
            stated, right = np.array(inside, dtype=float).mean(axis=0)
            yield Bin(low, min(high, 1.0), len(inside), float(stated), float(right))
