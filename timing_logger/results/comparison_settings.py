"""How much of a run its summary keeps, and of how many runs is told: bounds, which decide nothing."""

from __future__ import annotations

MOST_RUNS_NAMED = 1000
"""Where more runs than that would be needed, the number is not told: nobody makes them."""

MOST_RANKS = 16
"""In runs of more ranks, own time is not kept for each."""

MOST_OPERATIONS, MOST_LAYERS = 40, 40
"""How many operations and layers are kept of a run, those that take longest: some ten kilobytes."""

MOST_STRETCHES = 64
"""Of how many stretches the course of a run is kept: as many as a chart shows, in two kilobytes."""
