"""Which columns of the files each analysis looks at: no others need be read for it."""

from __future__ import annotations

_WHEN = ("start_counter", "end_counter")
_STEP = ("iteration", "epoch", "thread", "clock", "stream")  # where iterations restart the others tell when
_WAITED_FOR = ("group", "group_size", "seq", "peer")  # which operation a ``WAIT`` is about
_INSTANCE = (
    *_STEP, "operation", "message_size_bytes", "elapsed_ms", *_WHEN, *_WAITED_FOR, "status",
)  # fmt: skip

COLUMNS_OF: dict[str, tuple[str, ...]] = {
    "overview": (
        *_STEP, "operation", "message_size_bytes", "elapsed_ms", *_WHEN, *_WAITED_FOR, "status",
        "layer_name",
    ),
    "summarize": (
        "iteration", "epoch", "layer_name", "operation", "phase", "message_size_bytes", "elapsed_ms", *_WHEN,
        "group", "thread",
    ),
    "match_collectives": (*_INSTANCE, "layer_name", "phase", "start_s", "end_s", "clock_uncertainty_s"),
    "waits": (*_INSTANCE, "layer_name", "phase", "start_s", "end_s", "clock_uncertainty_s"),
    "bandwidth": _INSTANCE,
    "compression": (*_INSTANCE, "layer_name", "phase"),
    "overlap": (*_STEP, "operation", "elapsed_ms", *_WHEN, *_WAITED_FOR),
    "efficiencies": (*_STEP, "operation", "elapsed_ms", *_WHEN, *_WAITED_FOR),
    "stragglers": (*_INSTANCE, "layer_name"),
    "hang": (*_INSTANCE, "layer_name"),
}  # fmt: skip
"""By the name of the analysis. ``rank`` and ``incarnation`` are always there; ``stragglers`` stands for
``windows`` and ``scores`` too."""

RUN_OF_RANK, RANKS_OF_GROUP, EPOCH_OF_STEP = "run_of_rank", "ranks_of_group", "epoch_of_step"
MEANING_OF_EPOCHS, PROCESS_RESTARTS = "meaning_of_epochs", "process_restarts"
"""Columns of a block of a run (``instance_order``), for what its rows alone would not tell: the number of the
incarnation of its rank that each row is of; the ranks that its group has in the whole run, as text; the epoch
of its step, counted where none is recorded; what epochs are for in the run; and whether iterations restart in
the row's process."""

EARLIER_IN_STEP = "earlier_in_step"
"""A column of the last rows of a process (``last_rows``): how many collectives without a number its group
had begun in its step before this one; not all of them are among those rows."""
