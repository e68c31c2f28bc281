"""Times the MPI of any program, in C, Fortran or Python, by the entry points that MPI has for profilers.

``build`` makes a small library for the MPI of the machine. Preloaded into a program, it writes one timing
file and sidecar per rank.
"""
