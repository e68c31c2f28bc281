"""Times the MPI of any program, in C, Fortran or Python, by the entry points that MPI has for profilers.

:func:`library` builds a small library for the MPI of the machine. Preloaded into a program, it writes one
timing file and sidecar per rank into the folder that the environment variable :data:`VARIABLE` names.
"""

from timing_logger.autologging.native_mpi.build import library

VARIABLE = "TIMING_LOGGER_NATIVE_MPI"
"""The environment variable that names the folder of the timing files."""

__all__ = ["VARIABLE", "library"]
