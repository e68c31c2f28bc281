"""The native core: recording in C, from the call to the lines of the file. Optional: a compiler makes it.

``core`` is the extension, written in Cython, and ``csrc`` what it stands on. ``process/which_core.py``
chooses between it and the Python core, which has the same classes.
"""
