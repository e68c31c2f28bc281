"""Which columns of the files each analysis looks at: no others need be read for it."""

from __future__ import annotations

_WHEN = ("start_counter", "end_counter")
_INSTANCE = (
    "iteration", "operation", "message_size_bytes", "elapsed_ms", *_WHEN, "group", "group_size", "seq",
    "peer", "status",
)  # fmt: skip

COLUMNS_OF: dict[str, tuple[str, ...]] = {
    "overview": (
        "iteration", "operation", "message_size_bytes", "elapsed_ms", *_WHEN, "group", "group_size", "seq",
        "thread", "status",
    ),
    "summarize": (
        "iteration", "layer_name", "operation", "phase", "message_size_bytes", "elapsed_ms", *_WHEN, "group",
        "thread",
    ),
    "match_collectives": (*_INSTANCE, "layer_name", "phase", "start_s", "end_s", "clock_uncertainty_s"),
    "waits": (*_INSTANCE, "layer_name", "phase", "start_s", "end_s", "clock_uncertainty_s"),
    "bandwidth": _INSTANCE,
    "compression": (*_INSTANCE, "layer_name", "phase"),
    "overlap": ("iteration", "operation", "elapsed_ms", *_WHEN, "clock", "thread"),
    "efficiencies": ("iteration", "operation", "elapsed_ms", *_WHEN, "clock", "thread"),
    "stragglers": (
        "iteration", "layer_name", "operation", "elapsed_ms", *_WHEN, "clock", "group", "group_size", "seq",
        "thread", "status",
    ),
}  # fmt: skip
"""By the name of the analysis. ``rank`` and ``incarnation`` are always there; ``stragglers`` stands for
``windows`` and ``scores`` too."""

RUN_OF_RANK, RANKS_OF_GROUP = "run_of_rank", "ranks_of_group"
"""Columns of a block of a run (``_instance_order``), for what its rows alone would not tell: the how-manieth
incarnation of its rank each row is of, and the ranks that its group has in the whole run, as text."""
