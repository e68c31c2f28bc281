"""A run in progress: its files are followed to digests, judged, and what is found is told and shown.

All of this is in a process of its own, which reads what the ranks write. A rank never waits for it.
"""
