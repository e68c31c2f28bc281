"""The numbers of comparisons, each with its reason."""

from __future__ import annotations

WARM_UP_SHARE, MOST_WARM_UP = 0.1, 10
"""The first tenth of the steps is left out, at most ten: a program allocates, compiles and connects in these,
and what it does once is not to be spread over a run of any length."""

STEP_CONFIDENCE = 0.995
"""Of the interval of the step. Of equal programs, one comparison in 400 then shows a slowdown of the step."""

PARTS_CONFIDENCE = 0.995
"""Of the intervals of the parts of a step, all together (Bonferroni). With that of the step, one comparison
of equal programs in 200 is called slower: a gate that is asked in each pull request may not be wrong more
often."""

CONFIDENCE = 0.99
"""Of the interval of each further difference, which explains and decides nothing."""

POWER = 0.9
"""How likely a difference is to be found by the numbers of runs that are named: nine times out of ten."""

LEAST_CHANGE = 0.01
"""A slowdown of less than 1% is not called a regression, however sure it is, unless another bound is
given."""

LEAST_RUNS = 3
"""The fewest runs of each side that are judged: the spread of two is known by one difference only, and the
interval is wider than what any change does."""

LEAST_BATCHES = 6
"""The fewest batches of a history that is compared with one batch: the spread between batches is known from
the history alone, and with fewer only a slowdown of many times that spread could be shown."""

FALSE_DISCOVERIES = 0.05
"""Of what is named as having changed, beside the step itself, this part may be by chance (Benjamini and
Hochberg, 1995)."""

MOST_RUNS_NAMED = 1000
"""Where more runs than that would be needed, the number is not told: nobody makes them."""

MOST_RANKS = 16
"""In runs of more ranks, own time is not kept for each."""

MOST_OPERATIONS, MOST_LAYERS = 40, 40
"""How many operations and layers are kept of a run, those that take longest: some ten kilobytes."""

MOST_STRETCHES = 64
"""Of how many stretches the course of a run is kept: as many as a chart shows, in two kilobytes."""

LEAST_STRETCHES = 8
"""The fewest stretches that both sides have in common in which it is looked for since when they differ."""

LEAST_AMOUNT_CHANGE = 0.005
"""Bytes and counts of an average step that differ by less may do so by where the recorded steps end."""

FLOOR_SHARE = 0.01
"""Times below 1% of a step are compared as if they were added to that: of what takes next to nothing, twice
as much is next to nothing, too."""

VISIBLE_SHARE = 0.1
"""What explains less than a tenth of a change is not named as its cause."""
