"""Whether the groups of this process are timed in C++ or in Python.

The environment variable ``TIMING_LOGGER_GROUP`` decides, ``native`` or ``python``; by default it is Python.
Where C++ is asked for and cannot be, one sentence says why, and it is Python: no run fails by its timing.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple
from weakref import ref

import torch
import torch.distributed as dist

from allreduce_instrumentation.torch_distributed._group_timing import GroupTiming
from allreduce_instrumentation.torch_distributed._torch_versions import is_tried
from allreduce_instrumentation.torch_distributed.group_library import CannotBuildError, library
from timing_logger.errors import ConfigurationError
from timing_logger.process import which_core
from timing_logger.recording.device.intervals import reserve

VARIABLE = "TIMING_LOGGER_GROUP"
log = logging.getLogger("timing_logger")


class ChosenGroup(NamedTuple):
    """What times the groups.

    Attributes:
        name: "native" or "python".
        base: the class of which a timed group is.
        methods: the methods that C++ times, with its numbers of them.
        issue: issues a call: the number, the group and the arguments.
    """

    name: str
    base: type[dist.ProcessGroup]
    methods: Mapping[str, int]
    issue: Callable[[int, dist.ProcessGroup, tuple[Any, ...]], Any]

    def begin(self, group: dist.ProcessGroup, timing: GroupTiming, untimed: dist.ProcessGroup) -> None:
        """Have C++ time the common calls over ``group`` from now on, if it can.

        Args:
            group: a timed group.
            timing: what its rows have in common.
            untimed: the group that does the work.
        """
        if self.name == "python" or type(untimed) is not dist.ProcessGroup:
            return
        recorder: Any = timing.logger
        if not timing.logger.enabled or recorder.recording_in_c() is None:
            return
        in_cpp: Any = group
        try:
            in_cpp._time(
                untimed, recorder, timing.identity, timing.has_streams, timing.timed_in_streams, reserve
            )
        except RuntimeError as error:
            log.warning("timing logger: %s is timed in Python: %s", timing.identity.name, error)
        else:
            timing.ddp.tell = partial(_name_buckets, ref(in_cpp))  # to last no longer than its user holds it

    def leave_to_python(self, group: dist.ProcessGroup, leaves: bool) -> None:
        """Have Python time all calls over ``group``, or the common ones in C++ again."""
        if self.name == "native":
            in_cpp: Any = group
            in_cpp._leave_to_python(leaves)


def _name_buckets(held: ref[Any], buckets: list[tuple[str, int]]) -> None:
    group = held()
    if group is not None:
        try:
            group._name_buckets(buckets)
        except RuntimeError:  # no room for names: this is called in the user's backward()
            group._name_buckets([])


PYTHON = ChosenGroup("python", dist.ProcessGroup, {}, lambda *_: NotImplemented)


def _chosen() -> ChosenGroup:
    wanted = os.environ.get(VARIABLE, "")
    if wanted not in ("", "python", "native"):
        raise ConfigurationError(f"{VARIABLE} must be 'python' or 'native', and is {wanted!r}.")
    if wanted != "native":
        return PYTHON
    reason = _reason_against()
    if not reason:
        try:
            module: Any = library()
            return ChosenGroup("native", module.Group, module.METHODS, module.issue)
        except (CannotBuildError, ImportError) as error:
            reason = str(error)
    log.warning("timing logger: process groups are timed in Python, though %s=native: %s", VARIABLE, reason)
    return PYTHON


def _reason_against() -> str:
    if sys.platform != "linux":
        return "C++ is tried on Linux only"
    if which_core.NAME != "native":
        return "the recording core is the one in Python"
    return "" if is_tried(torch.__version__) else f"torch {torch.__version__} was not tried"


CHOSEN = _chosen()
