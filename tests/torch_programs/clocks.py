"""Any number of ranks under torchrun: their clocks measured over process groups of gloo.

Arguments: ``init`` for a timed default group, ``instrument`` for torch's own, timed afterwards.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import torch
import torch.distributed as dist
from _clock_trials import LatePings, trials

from allreduce_instrumentation import init_process_group, instrument, synchronise_clocks, uninstrument
from allreduce_instrumentation.clock_sync import _group_link
from allreduce_instrumentation.clock_sync._group_link import GroupLink, group_link
from timing_logger.errors import ConfigurationError
from timing_logger.recording.logger import TimingLogger
from timing_logger.sinks.memory import MemorySink

torch.set_num_threads(1)
sink = MemorySink()
logger = TimingLogger(int(os.environ["RANK"]), None, sinks=[sink])


def rows_after(measure: Callable[[], Any]) -> list[str]:
    logger.flush()
    sink.records.clear()
    measure()
    logger.flush()
    return [record.operation for record in sink.records]


def injected_offsets() -> dict[str, Any]:
    with group_link(dist.group.WORLD) as link:
        return trials(link, 100)


def late_pings() -> dict[str, Any]:
    with group_link(dist.group.WORLD) as link:
        return trials(LatePings(link), 30)


def without_connections() -> dict[str, Any]:
    """Where the reference has no address that others could reach, so gloo carries the ping-pongs."""
    with patch.object(_group_link, "own_addresses", list), group_link(dist.group.WORLD) as link:
        return trials(link, 30)


def channels() -> list[str]:
    """What rank 0 and the others play through: as it is, and where rank 2 alone cannot connect."""
    seen = [channel_names()]
    if dist.get_rank() == 2:
        with patch.object(_group_link, "connect", lambda _: None):
            seen.append(channel_names())
    else:
        seen.append(channel_names())
    return [" ".join(names) for names in seen]


def channel_names() -> list[str]:
    names: list[str] = []

    class Watched(GroupLink):
        def _channel(self, *arguments: Any) -> Any:
            channel = super()._channel(*arguments)
            names.append(type(channel).__name__)
            return channel

    with patch.object(_group_link, "GroupLink", Watched):
        synchronise_clocks(logger, exchanges=3)
    return names


def rows() -> dict[str, list[str]]:
    return {
        "default group": rows_after(lambda: synchronise_clocks(logger, exchanges=3)),
        "named": rows_after(lambda: synchronise_clocks(logger, dist.group.WORLD, exchanges=3)),
        "a barrier": rows_after(dist.barrier),
    }


def part_of_the_world() -> list[int]:
    """Ranks 1 and 3 against rank 3, which is the group's second."""
    group = dist.new_group([1, 3])
    if dist.get_rank() not in (1, 3):
        return []
    offset = synchronise_clocks(logger, group, reference=1)
    return [offset.reference_rank, offset.exchanges]


def group_of_the_device() -> str:
    return error_of(dist.new_group(backend="cuda:gloo"))


def error_of(group: Any) -> str:
    try:
        synchronise_clocks(logger, group)
    except ConfigurationError as error:
        return str(error)
    return "no error"


before_init = error_of(None)
if sys.argv[1] == "init":
    init_process_group("gloo", timing_logger=logger)
else:
    dist.init_process_group("gloo")
    instrument(logger)
checks = (
    rows,
    injected_offsets,
    late_pings,
    without_connections,
    channels,
    part_of_the_world,
    group_of_the_device,
)
results: dict[str, Any] = {
    check.__name__: check() for check in (checks if sys.argv[1] == "init" else checks[:1])
}
everyone: list[Any] = [None] * dist.get_world_size()
dist.all_gather_object(everyone, {**results, "before init": before_init, "mpi4py": "mpi4py" in sys.modules})
if dist.get_rank() == 0:
    print("\nRESULTS " + json.dumps(everyone), flush=True)
uninstrument()
dist.destroy_process_group()
