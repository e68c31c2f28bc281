"""What is shown of one step of a run in files: the rows of the ranks that are shown are read again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from timing_logger.analysis.accounting.part import map_own_stretches
from timing_logger.analysis.accounting.stretches import LineStretches
from timing_logger.analysis.rows.analysis import COLUMNS_OF, ByProcess
from timing_logger.analysis.rows.tables import opened
from timing_logger.analysis.verdict.typical_step import StepOfRanks, ranks_to_show
from timing_logger.engine.cluster import Cluster
from timing_logger.engine.rows import Query
from timing_logger.engine.run import run
from timing_logger.results.plain import ShownStep


def shown_in_files(
    step: StepOfRanks, named: Sequence[int], query: Query, cluster: Cluster | None = None
) -> ShownStep:
    """Return what is shown of a step.

    Args:
        step: the step.
        named: the ranks that the verdict names.
        query: which rows were asked.
        cluster: who reads; None for this machine's cores.
    """
    ranks = ranks_to_show(step, named)
    own: list[LineStretches] = run(replace(query, ranks=ranks), _OWN, cluster=cluster).answer
    return step.shown(ranks, own)


def _own(timings: pd.DataFrame) -> LineStretches:
    return map_own_stretches(opened(timings, COLUMNS_OF["account"]))


_OWN = ByProcess(COLUMNS_OF["account"], _own, list)
