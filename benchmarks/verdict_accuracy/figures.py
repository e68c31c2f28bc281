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
        heading: its heading in a data file.
        of: computes its figure from outcomes and a field's name.
        field: the field of ``Outcome``.
        digits: how many decimals are shown.
        meaning: what it is.
    """

    short: str
    heading: str
    of: Callable[[Sequence[Outcome], str], float]
    field: str
    digits: int = 0
    meaning: str = ""

    def shown(self, outcomes: Sequence[Outcome]) -> str:
        """Return the figure of ``outcomes`` as text; "-" if it is NaN."""
        value = self.of(outcomes, self.field)
        return "-" if math.isnan(value) else f"{value:.{self.digits}f}"


COLUMNS = (
    Column(
        "costs", "costs, % of run", median_percent, "cost_share", 1,
        meaning="true cost of the fault, median; below 1% nobody needs to be named",
    ),
    Column(
        "exact", "exactly", percent, "exact",
        meaning="% with the right verdict and exactly the culprits; of a healthy run: healthy, and judged",
    ),
    Column(
        "probable", "probably", percent, "probable",
        meaning="% with a suspect, of whom the first has a culprit and is a minority of the ranks; or only "
        "culprits named, but not all, or as slow ranks although their link is slow",
    ),
    Column("wrong", "wrong name", percent, "wrong_name", meaning="% in which an innocent rank is named"),
    Column(
        "suspect", "wrong suspect", percent, "wrong_suspect", meaning="% whose first suspect has no culprit"
    ),
    Column(
        "other", "other verdict", percent, "other",
        meaning="% with another verdict that names nobody, as diffuse",
    ),
    Column(
        "alarm", "false alarm", percent, "false_alarm",
        meaning="% with a name or a suspect in a healthy run",
    ),
    Column(
        "unjudged", "not judged", percent, "not_judged",
        meaning="% whose verdict itself says that it could not judge",
    ),
    Column(
        "window", "window error, steps", median, "window_error_steps", 1,
        meaning="error of the first or last iteration, whichever is greater, if the verdict is right; median",
    ),
    Column(
        "error", "cost error, %", median_percent, "cost_error", 1,
        meaning="error of cost_ms, if the ranks are right; median",
    ),
    Column(
        "score", "score < 0.75: exactly", percent, "nvrx_exact",
        meaning="% for a rule in common use: least median of all ranks' own work / the rank's own median",
    ),
    Column("wrong", "score < 0.75: wrong", percent, "nvrx_wrong", meaning="% in which it names an innocent"),
    Column(
        "least", "least all-reduce: exactly", percent, "least_exact",
        meaning="% for another: the rank with the least time in collectives, which always names one",
    ),
    Column(
        "wrong", "least all-reduce: wrong", percent, "least_wrong", meaning="% in which it names an innocent"
    ),
)  # fmt: skip

JOB_COLUMNS = (
    *COLUMNS[:2],
    Column(
        "fine", "right or acceptable", percent, "fine",
        meaning="% exactly, probably, or with an acceptable verdict without a false name: diffuse where "
        "healthy ranks are late in turn, healthy if the fault costs less than 1%",
    ),
    COLUMNS[3],
    Column(
        "certain", "for certain", percent, "certain_wrong",
        meaning='% in which an innocent is named or suspected and the sentence ends with "Certain."',
    ),
    COLUMNS[4],
    Column(
        "silent", "silent", percent, "silent",
        meaning='% of those with a fault above 5% in which all that is said is "no rank is slow"',
    ),
    COLUMNS[7],
    Column(
        "operation", "operation right", percent, "operation_right",
        meaning="% whose operation is the one that has all of the delay, where one has",
    ),
    Column(
        "ratio", "stated / true cost", median, "cost_ratio", 2,
        meaning="median, if exactly the culprits are named, or one culprit is suspected",
    ),
    Column("near", "cost within 10%", percent, "cost_near", meaning="% in which that is 0.9 to 1.1"),
    Column("far", "cost off by 2", percent, "cost_far", meaning="% in which it is not between 0.5 and 2"),
)  # fmt: skip
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
