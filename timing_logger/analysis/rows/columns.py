"""List the columns of the files that each analysis needs: no others have to be read for it."""

from __future__ import annotations

_WHEN = ("start_counter", "end_counter")
_STEP = ("iteration", "epoch", "thread", "clock", "stream")  # the others tell when iterations restart
_WAITED_FOR = ("group", "group_size", "seq", "peer")  # tell which operation a ``WAIT`` is for
_NAMES = ("layer_name", "phase")
_ON_ONE_AXIS = ("start_s", "end_s", "clock_uncertainty_s")
COLUMNS_OF_COLLECTIVES = (
    *_STEP, "operation", "message_size_bytes", "elapsed_ms", *_WHEN, *_WAITED_FOR, "status",
)  # fmt: skip
"""The columns by which collectives are matched."""

COLUMNS_OF: dict[str, tuple[str, ...]] = {
    "overview": (*COLUMNS_OF_COLLECTIVES, "layer_name", *_ON_ONE_AXIS),
    "summarize": (
        "iteration", "epoch", "layer_name", "operation", "phase", "message_size_bytes", "elapsed_ms", *_WHEN,
        "group", "thread",
    ),
    "match_collectives": (*COLUMNS_OF_COLLECTIVES, *_NAMES, *_ON_ONE_AXIS),
    "waits": (*COLUMNS_OF_COLLECTIVES, *_NAMES, *_ON_ONE_AXIS),
    "bandwidth": COLUMNS_OF_COLLECTIVES,
    "compression": (*COLUMNS_OF_COLLECTIVES, *_NAMES),
    "overlap": (*_STEP, "operation", "elapsed_ms", *_WHEN, *_WAITED_FOR),
    "efficiencies": (*_STEP, "operation", "elapsed_ms", *_WHEN, *_WAITED_FOR),
    "account": (*COLUMNS_OF_COLLECTIVES, *_ON_ONE_AXIS),
    "stragglers": (*COLUMNS_OF_COLLECTIVES, "layer_name", "work", *_ON_ONE_AXIS),
    "hang": (*COLUMNS_OF_COLLECTIVES, "layer_name"),
    "summarize_run": (*COLUMNS_OF_COLLECTIVES, *_NAMES, "work", *_ON_ONE_AXIS),
}  # fmt: skip
"""The columns that each analysis needs, by the name of the analysis.

``rank`` and ``incarnation`` are always there. ``windows`` and ``scores`` need those of ``stragglers``."""

RUN_OF_RANK, EPOCH_OF_STEP = "run_of_rank", "epoch_of_step"
MEANING_OF_EPOCHS, PROCESS_RESTARTS = "meaning_of_epochs", "process_restarts"
"""Columns of the rows of communication (``communication_rows.py``), for what these alone would not tell.

They are the number of the run that each row's process was of; the epoch of its step, counted where none is
recorded; what epochs are for in the run; and whether iterations restart in the row's process."""

ROW_OF_PROCESS = "row_of_process"
"""A column of these, where an analysis wants it: the position of the row among those of its process."""

EARLIER_IN_STEP = "earlier_in_step"
"""A column of the last rows of a process (``last_rows``), for collectives without a number.

It is the number of such collectives that the process had begun before in the same group and step; not all of
them are among those rows."""
