"""Tries every promise of ``docs/promises.md`` many times under real faults.

``make faults`` runs the campaigns and writes docs/reliability.md. Each kind of fault has a file of its own;
``table.py`` lists the campaigns. A campaign is a function of a ``Trial``, and returns a note.
"""
