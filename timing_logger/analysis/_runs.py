"""Which processes of several ranks were of one run of the job, that may have been started again and again."""

from __future__ import annotations

import numpy as np

from timing_logger.analysis._frames import Ints, dense_codes


def runs_of(rank: Ints, incarnation: Ints) -> Ints:
    """For each process, which run it was of, from 0; processes come by rank, then incarnation.

    Where some rank has all incarnations that there are, it took part in every run, and each run has its
    number: a rank that lacks one was not there, or its file is lost. Else the k-th of one rank was of one run
    with the k-th of another, since a rank may have been started more often than another.
    """
    place, n_runs = dense_codes(incarnation), len(np.unique(incarnation))
    of_rank = dense_codes(rank)
    if np.bincount(of_rank).max(initial=0) == n_runs:
        return place
    return np.arange(len(rank)) - np.searchsorted(of_rank, of_rank)
