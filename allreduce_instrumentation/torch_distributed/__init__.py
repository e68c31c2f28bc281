"""Times the operations of ``torch.distributed`` process groups."""

from __future__ import annotations

from allreduce_instrumentation.torch_distributed._timed_group import TimedProcessGroup
from allreduce_instrumentation.torch_distributed.existing_groups import instrument, uninstrument
from allreduce_instrumentation.torch_distributed.initialization import init_process_group

__all__ = ["TimedProcessGroup", "init_process_group", "instrument", "uninstrument"]
