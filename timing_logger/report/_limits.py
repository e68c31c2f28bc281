"""How much of a run of many ranks a report shows: the numbers that decide, each with its reason.

What they leave out is said wherever it is left out, with the way to see it.
"""

from __future__ import annotations

MOST_LINES = 20
"""The most ranks that a table names: a terminal shows so many lines at once, with what is said below them.

Who wants more of them mostly wants all, which ``--all`` and ``--json`` have.
"""

MOST_SETS = 8
"""The most operations of which a table shows several ranks each: five of each make two screens."""

MOST_BARS = 16
"""The most ranks that have a bar of their time each; more are no longer told apart at a glance."""

FEW_PROCESSES = 64
"""A page shows each of so many processes everywhere, and as many by name where there are more.

That is what a heatmap can label and an eye can look through; with more the page would grow with the run.
"""

HOST_ROWS = 32
"""The most rows of hosts in a heatmap: half as many as of ranks, as they are there for comparison."""

BANDS = {1.0: "longest", 0.9: "90th percentile", 0.5: "median", 0.1: "10th percentile", 0.0: "shortest"}
"""The rows of a heatmap for ranks without a name: what is usual, how far it spreads, and both ends.

The ends are there so that nothing can hide: whatever one rank does in one cell shows in them.
"""

CELLS_OF_MANY = 30_000
"""The most cells of one view of a heatmap of many ranks: seven views of 4 bytes, in base64, are 1.1 MB.

That is a third of the 3 MB that a page of many ranks may have, to go by mail and to open at once.
"""

SPANS_OF_MANY = 100_000
"""The most spans of a timeline of many ranks: at about 10 bytes each, another third of these 3 MB."""

REFERENCES = 16
"""The ranks that a timeline of many shows beside the slow ones, from the slowest to the quickest.

So many lanes, and those of a slow host, are seen together without scrolling far.
"""

HOST_MATES = 16
"""The ranks of the slow ranks' hosts that a timeline of many shows: a host mostly has 8 or 16."""

POINTS_OF_MANY = 400
"""The most points of the chart of bandwidths: more lie on one another, and each takes 300 bytes."""
