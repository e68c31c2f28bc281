"""Every promise of ``docs/promises.md`` under real faults, often: ``make faults`` writes docs/reliability.md.

Each kind of fault has a file of its own; ``table.py`` lists them. A campaign is a function of a ``Trial``.
"""
