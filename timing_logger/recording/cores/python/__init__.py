"""The core in Python: ``core.py`` has all its classes, as the module of that name in ``native`` has."""
