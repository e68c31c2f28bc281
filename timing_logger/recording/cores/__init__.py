"""The two cores: what a recording call makes, links and hands over, in Python and in C, class by class.

``python`` and ``native.core`` have the same names; ``chosen`` has those of the core that this process uses.
None of a core's classes depends on that choice, so that both can be at work in one process.
"""
