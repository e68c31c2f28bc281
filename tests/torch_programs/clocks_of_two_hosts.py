"""Two ranks under torchrun: the second one in namespaces of its own, as on a host that booted a day earlier.

Arguments: the folder for the timing files, and how often to measure.
"""

from __future__ import annotations

import json
import os
import sys

EARLIER_S = 86_400


def be_another_host() -> None:
    """Start this program again, under another host name and with ``perf_counter`` a day ahead."""
    enter = ["unshare", "--map-root-user", "--uts", "--time", "--monotonic", str(EARLIER_S)]
    os.execvp("unshare", [*enter, "sh", "-c", 'hostname other; exec "$0" "$@"', sys.executable, *sys.argv])


def main(folder: str, measurements: int) -> None:
    import torch.distributed as dist

    from allreduce_instrumentation import synchronise_clocks
    from timing_logger import TimingLogger

    dist.init_process_group("gloo")
    with TimingLogger(dist.get_rank(), folder) as logger:
        for _ in range(measurements):
            synchronise_clocks(logger)
        with logger.record_mpi_operation("BARRIER"):
            dist.barrier()
    if dist.get_rank() == 0:
        print("\nRESULTS " + json.dumps([None, None]), flush=True)
    dist.destroy_process_group()


if os.environ["RANK"] == "1" and os.uname().nodename != "other":
    be_another_host()
main(sys.argv[1], int(sys.argv[2]))
