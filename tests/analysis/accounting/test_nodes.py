"""The nodes of a run's program, and the line that each of them is on."""

from __future__ import annotations

import numpy as np
from account_rows import row, table
from played_runs import played

from timing_logger.analysis.accounting.nodes import ISSUE


def test_an_operation_in_the_background_is_begun_by_the_line_that_waits_for_it() -> None:
    """A hook issues two; the main thread waits for one, and a thread that serves it for the other."""
    rows = []
    for rank in range(2):
        for seq, waiter in enumerate(["MainThread", "server"]):
            of = {"group_size": 2, "seq": seq}
            rows.append(row(rank, "IALLREDUCE", 1.0 + seq, 9.0, thread="hook", **of))
            rows.append(row(rank, "WAIT", 5.0, 9.0, thread=waiter, **of))
    program, lines = played(table(*rows))
    threads = [lines.thread[program.line[node]] for node in np.flatnonzero(program.kind == ISSUE)]
    assert sorted(threads) == ["MainThread", "MainThread", "server", "server"]
