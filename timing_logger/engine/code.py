"""In which functions of the program some ranks of a run in files were: their rows are read again."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import pandas as pd

from timing_logger.analysis.accounting.part import map_stretches_of_main_thread
from timing_logger.analysis.accounting.stack_code import code_table
from timing_logger.analysis.accounting.stretches import LineStretches
from timing_logger.analysis.rows.analysis import COLUMNS_OF, ByProcess
from timing_logger.analysis.rows.tables import opened
from timing_logger.engine.cluster import Cluster
from timing_logger.engine.rows import Query
from timing_logger.engine.run import run
from timing_logger.reading.stack_rows import stack_samples_of


def code_in_files(ranks: Collection[int], query: Query, cluster: Cluster | None = None) -> pd.DataFrame:
    """Return what ``sampled_code`` returns of some ranks; no row where they have no stack samples.

    Args:
        ranks: those that are asked for, each with a file.
        query: which rows were asked.
        cluster: who reads; None for this machine's cores.
    """
    theirs = replace(query, ranks=sorted(ranks))
    samples = stack_samples_of(theirs.files) if ranks else pd.DataFrame()
    if samples.empty:
        return code_table([], stack_samples_of([]))
    own: list[LineStretches] = run(theirs, _OWN, cluster=cluster).answer
    return code_table(own, samples)


def _own(timings: pd.DataFrame) -> LineStretches:
    return map_stretches_of_main_thread(opened(timings, COLUMNS_OF["account"]))


_OWN = ByProcess(COLUMNS_OF["account"], _own, list)
