"""One rank is enough: which methods of each kind of communicator are not timed."""

from __future__ import annotations

import inspect

from _ranks import report
from mpi4py import MPI

from allreduce_instrumentation import mpi

found = {}
for kind in ("Intracomm", "Intercomm", "Topocomm", "Cartcomm", "Graphcomm", "Distgraphcomm"):
    plain, timed = getattr(MPI, kind), getattr(mpi, f"Timed{kind}")
    names = [name for name in dir(plain) if not name.startswith("_") and callable(getattr(plain, name))]
    methods = {name: getattr(plain, name) for name in names}
    found[kind] = [
        name
        for name, one in methods.items()
        if not inspect.ismethod(one)
        and type(one).__name__ != "builtin_function_or_method"
        and getattr(timed, name) is one
    ]
report(found)
