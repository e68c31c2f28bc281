"""While a run goes on: what its ranks do is followed, judged, and told to whoever wants to know.

All of this is in a process of its own, which reads what the ranks write. A rank never waits for it.
"""
