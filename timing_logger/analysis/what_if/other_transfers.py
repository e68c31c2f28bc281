"""How long transfers would take with other sizes or groups, by what was measured in the same run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from timing_logger.analysis.step_times.transfers import MESSAGE
from timing_logger.analysis.stragglers.case import Case
from timing_logger.analysis.table_types import Floats
from timing_logger.analysis.what_if.fix import Fix
from timing_logger.analysis.what_if.transfer_models import Family, TransferModel, family_of, models_of
from timing_logger.errors import FixError

_MOST_ERROR = 0.15  # of a model that is believed

_LEAST_SHARE = 0.01
"""Of all time in transfers: those that take less stay as they are if nothing tells how they would be."""


def longer_with(case: Case, fix: Fix) -> Floats:
    """Return by which factor transfers would take longer, steps x links; NaN where there are none.

    Raises:
        FixError: the run has not measured what that takes.
    """
    transfers, models = case.times.transfers, models_of(case)
    if not len(transfers.links):
        raise FixError(f"{fix}: no transfer was measured without waiting")
    spent_ms = np.nansum(transfers.mean_ms * transfers.n, axis=0)
    found = np.ones(transfers.mean_bytes.shape)
    for number, link in enumerate(transfers.links):
        if fix.kind != "bytes" and link.operation == MESSAGE:
            continue  # buckets and groups are those of collectives
        size = transfers.mean_bytes[:, number]
        longer = _longer(fix, family_of(case, link), models, size[size > 0])
        if not isinstance(longer, str):
            found[size > 0, number] = longer
        elif spent_ms[number] > _LEAST_SHARE * spent_ms.sum():
            raise FixError(f"{fix}: {longer}")
    return found


def _longer(fix: Fix, family: Family, models: Mapping[Family, TransferModel], size: Floats) -> Floats | str:
    """Return by which factor transfers of a family would take longer; or why that is not known."""
    other = _Other.of(fix, family, size)
    model, new = models.get(family), models.get(other.family)
    if model is None:
        return f"{_said(family)} was measured at one size only, which tells nothing of another"
    if new is None:
        among = [str(one.n_ranks) for one in models if one._replace(n_ranks=family.n_ranks) == family]
        return f"{_said(family)} was measured among {' and '.join(sorted(among))} ranks only"
    if not new.was_measured_at(other.size):
        measured, would_be = _from_to(new.least_bytes, new.most_bytes), _from_to(*_ends(other.size))
        return f"{_said(other.family)} was measured with {measured} only, and would have {would_be}"
    if max(model.error, new.error) > _MOST_ERROR:
        error = max(model.error, new.error)
        return f"no latency and bandwidth tell what {_said(other.family)} takes: they are off by {error:.0%}"
    return other.times_as_many * new.ms(other.size) / model.ms(size)


class _Other(NamedTuple):
    """What becomes of transfers.

    Attributes:
        family: that they are of then.
        size: their sizes in bytes.
        times_as_many: how many there are for each of those that were.
    """

    family: Family
    size: Floats
    times_as_many: Floats

    @classmethod
    def of(cls, fix: Fix, family: Family, size: Floats) -> _Other:
        one = np.ones(len(size))
        if fix.kind == "bytes":
            return cls(family, fix.number * size, one)
        if fix.kind == "bucket":
            return cls(family, fix.number * one, size / fix.number)
        return cls(family._replace(n_ranks=int(fix.number)), size, one)


def _said(family: Family) -> str:
    hosts = f" on {family.n_hosts} host{'s' if family.n_hosts > 1 else ''}" if family.n_hosts else ""
    return f"{family.operation} among {family.n_ranks} ranks{hosts}"


def _ends(size: Floats) -> tuple[float, float]:
    return float(size.min()), float(size.max())


def _from_to(least: float, most: float) -> str:
    return f"{most:,.0f} bytes" if round(least) == round(most) else f"{least:,.0f} to {most:,.0f} bytes"
