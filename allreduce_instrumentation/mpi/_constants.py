"""mpi4py's predefined communicators, and what a pickled one of ours becomes.

mpi4py pickles them by name, and pickle looks through all modules for one where this name still is the very
object. So they stand here too, for a program that puts a timed communicator in the place of
``MPI.COMM_WORLD``: its untimed ones can be pickled as before.
"""

from __future__ import annotations

from typing import Any

from mpi4py import MPI

COMM_NULL, COMM_SELF, COMM_WORLD = MPI.COMM_NULL, MPI.COMM_SELF, MPI.COMM_WORLD


def copy_of(kind: Any, name: str) -> MPI.Comm:
    """A communicator of this class, which is the predefined one of this name."""
    made: MPI.Comm = kind.__new__(kind, getattr(MPI, name))
    return made


def standing_for(kind: Any, name: str) -> MPI.Comm:
    """The one of this class in the place of the predefined one; a copy where another stands there."""
    found: MPI.Comm = getattr(MPI, name)
    return found if type(found) is kind else copy_of(kind, name)
