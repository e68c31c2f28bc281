"""Two faults at once: one begins, another strikes while it goes on or right after it. (P19)

``faults.py`` is the table of faults, ``world.py`` the process that they strike, ``program.py`` what it does.
``trying.py`` makes one try, and ``judge.py`` judges what is left, by what must hold whatever struck.
"""
