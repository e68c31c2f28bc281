"""Pickling of timed and plain predefined communicators.

mpi4py pickles predefined communicators by name, and pickle searches all modules for one in which this name
is the very object. So the plain ones are kept here, too: in a program that assigns a timed communicator to
``MPI.COMM_WORLD``, they can still be pickled.
"""

from __future__ import annotations

from mpi4py import MPI

COMM_NULL, COMM_SELF, COMM_WORLD = MPI.COMM_NULL, MPI.COMM_SELF, MPI.COMM_WORLD


def copy_of(kind: type[MPI.Comm], name: str) -> MPI.Comm:
    """Return an object of class ``kind`` for the predefined communicator ``name``."""
    return kind.__new__(kind, getattr(MPI, name))


def standing_for(kind: type[MPI.Comm], name: str) -> MPI.Comm:
    """Return ``MPI``'s attribute ``name`` if it is of class ``kind``, else a copy of that class."""
    found: MPI.Comm = getattr(MPI, name)
    return found if type(found) is kind else copy_of(kind, name)
