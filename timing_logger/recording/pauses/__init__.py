"""Rows of what stops the training thread from within: the garbage collector, compilations, captures, imports.

Each kind has a module. What tells of it is hooked once in a process, and loggers come and go
(``recorders.py``); ``pause_rows.py`` has a logger told.
"""
