"""Any number of ranks: runs several programs on them, since ranks take longer to start than most programs do.

Arguments: of each program the path from this folder, and its own arguments; with a ``+`` between programs.
"""

from __future__ import annotations

import os
import runpy
import sys
from itertools import groupby
from pathlib import Path
from typing import Any

from mpi4py import MPI

HERE = Path(__file__).parent


def let_groups_find_each_other() -> Any:
    """Tell torch what torchrun tells; returns the store, which must stay."""
    from torch.distributed import TCPStore

    world, here = MPI.COMM_WORLD, "127.0.0.1"
    store = TCPStore(here, 0, is_master=True, wait_for_workers=False) if world.rank == 0 else None
    port = world.bcast(store.port if store is not None else None)
    os.environ |= {
        "MASTER_ADDR": here,
        "MASTER_PORT": str(port),
        "RANK": str(world.rank),
        "WORLD_SIZE": str(world.size),
        "TORCHELASTIC_USE_AGENT_STORE": "True",  # which is there already
        "GLOO_SOCKET_IFNAME": "lo",
    }
    return store


programs = [list(words) for is_end, words in groupby(sys.argv[1:], "+".__eq__) if not is_end]
for name, *arguments in programs:
    program = HERE / name
    store = let_groups_find_each_other() if program.parent.name == "torch_programs" else None
    sys.argv = [str(program), *arguments]
    runpy.run_path(str(program), run_name="__main__")
