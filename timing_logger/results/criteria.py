"""The numbers by which the half that reads decides what it says, beside those of a ``Policy``.

Each has its unit in its name, and says why it is what it is. What bounds an output, a file or the memory,
waits for a disk or another process, is the size of a block, or follows from mathematics or a format decides
nothing: it stays where it is used.
"""

from __future__ import annotations

from timing_logger.schema.defaults import SIDECAR_REFRESH_S

# -- what is equal, what is next to nothing, and what is most ------------------------------------------------

SAME_INSTANT_S = 1e-6
"""Instants this close are one: counters in rows are floats, so calls that follow each other may overlap."""

ROUNDING_SHARE = 1e-6
"""What differs by a smaller part of itself is equal: it may be a sum of the same numbers in another order."""

SAME_SIZE_SHARE = 0.01
"""Messages whose mean sizes differ by less are equally large, as those of one program on all its links."""

TRIFLE_SHARE = 0.01
"""What takes less than 1% of a whole takes next to nothing: twice as much, or none of it, is no change."""

MOST_SHARE = 0.5
"""What holds of more than half holds of most, and what is more likely than not is likely."""

WORTH_NAMING_SHARE = 0.1
"""What makes up less than a tenth of a delay or of a change is not named for it."""

LIKELY_SIGMAS = 1.96
"""What lies within so many standard errors is not ruled out with 95% confidence."""

# -- processes and clocks ------------------------------------------------------------------------------------

GONE_AFTER_S = 3 * SIDECAR_REFRESH_S
"""A process that gave no sign for three refreshes of its sidecar is gone, or never came."""

SILENT_AFTER_S = SIDECAR_REFRESH_S + 2.0
"""A process whose sidecar is older may stand still: one that can refreshes it, and a disk takes a while."""

STARTED_AGAIN_S = 1.0
"""A process that is younger than its logger by more has only the number of the one that logged."""

MAX_APART_S = 60.0
"""Processes of one run are together at some time, but wall clocks of hosts may differ by this."""

SAME_CLOCK_S = 0.5
"""Processes whose wall clocks are so equally far from their counters are on one machine, and on one clock."""

MAX_APART_ON_ONE_CLOCK_S = 1.0
"""On one clock, a process that ended so long before another began was not in a collective with it."""

MAX_CLOCK_DRIFT = 30e-6
"""In s per s, the most by which two clocks drift apart: 15 ppm each, NTP's tolerance PHI (RFC 5905)."""

MAX_RANKS = 10**6
"""More ranks than any run has: a larger number that a file states is taken to be wrong."""

# -- which rows belong together ------------------------------------------------------------------------------

MAX_ITERATIONS_APART = 1
"""In one collective, a rank may be in the next iteration already. Rows farther apart are of two."""

MIN_EPOCH_FALL_ITERATIONS = 2
"""Where the iteration falls by this, a new pass begins. A row that is behind by one is only late."""

FEW_ROUNDS = 20
"""Rounds fewer than these are taken finer for any gain: a verdict needs about as many steps."""

MANY_MORE_TIMES = 4.0
"""Rounds that are not few are taken finer only if so many times as many come of it."""

ENOUGH_ROUNDS = 50
"""So many rounds need not be finer."""

FOLLOWS_RULE_SHARE = 0.75
"""If so large a part of the steps stand for equally many, that is how many were chosen to be recorded."""

UNEVEN_WORK_SHARE = 0.05
"""Exchanges that are less uneven than this tell nothing of the work: any program may have them."""

# -- messages and transfers ----------------------------------------------------------------------------------

SEEN_HELD_S = 50e-6
"""A rank that comes so much later shows whether its peer was held by it: leaving takes microseconds."""

QUICK_MESSAGES_QUANTILE = 0.1
"""This quantile of a link's messages is how long a quick one takes: some are always delayed."""

LATE_RECEIVER_TIMES = 1.5
"""A late receiver that waits so many times as long as a quick message takes waited for all of it."""

MIN_LINK_COST_SHARE = 0.02
"""Links that cost less than this part of the costliest one do not help to locate the trouble."""

MAX_EXTRAPOLATION_TIMES = 2.0
"""Of sizes that are farther from any measured one, it is not said whether compression pays."""

MIN_MODEL_SIZES = 2
"""A line of time by size needs two classes of sizes."""

MAX_MODEL_ERROR_SHARE = 0.15
"""A model of transfers that misses their times by more is not believed."""

# -- how a run ended -----------------------------------------------------------------------------------------

CLOSED_WITHIN_S = 2.0
"""After an interrupt the log is closed within this: closing gives up after 1.5 s without progress."""

GROUP_RESTART_CALLS = 32
"""Numbers of a group come nearly in order. Where they fall by more, the group was created again."""

FREED_TOGETHER_S = 1.0
"""Ranks whose standstills ended within this time were set free by the same event."""

NOTICED_WITHIN_S = 30.0
"""Within this time of a rank's end, the others notice that it is gone, or their launcher ends them."""

ENDED_WITHIN_S = 5.0
"""A process that is gone so soon after a standstill ended with it."""

SETTLED_AFTER_S = 10.0
"""The counts of a process that began nothing for this long are final, even if it hangs only later."""

# -- who stands out, and why ---------------------------------------------------------------------------------

STANDS_OUT_TIMES = 1.5
"""The time of each other rank is so many times that of one that stands out by how little it takes."""

STANDS_OUT_STEPS = 20
"""In fewer steps, a rank may take the least time by chance."""

LONG_STEP_QUANTILE = 0.75
"""This quantile of the steps is a long one, with which short ones are compared: half may be short."""

AS_OFTEN_SHARE = 0.5
"""If its peers have half as many single slow steps as a rank, these are not the rank's own."""

GROWTH_ERRORS = 2.0
"""Times grow with the work if the exponent is beyond so many of its standard errors."""

TYPICAL_STEP_QUANTILES = (0.4, 0.6)
"""Slow steps between which these parts of the time are lost are like each other: one is the typical one."""

TOLD_COST_SHARE = 0.04
"""What costs 5% is not to go untold where its estimate is a little lower."""

CERTAIN_LIKELIHOOD = 0.995
"""What would be found again in so large a part of such runs is called certain."""

MAX_DEVIATIONS = 10.0
"""Values farther from the median than so many mean deviations count as so far: one is no trend."""

EQUALLY_GOOD_SHARE = 0.8
"""Counters that go with a delay by this part of the best do so equally well: the most specific is named."""

WITH_DELAY_SHARE = 0.5
"""A stretch is slow, and a counter goes with it, from half of what is usual in slow ones on."""

USUAL_CLOCK_QUANTILE = 0.9
"""This quantile of all frequencies is the usual one: what is below costs time."""

MIN_CAUSE_PEERS = 2
"""A rank that is slow throughout is above a single peer in half of all counters by chance."""

MAX_INTERVAL_GAP_S = 0.1
"""After a longer gap an interval of counters is of another process, which was started again."""

# -- what repairs would bring --------------------------------------------------------------------------------

MIN_REPAIRED_STEPS = 4
"""In fewer steps, how far the gains of steps are apart does not tell how well their sum is known."""

NO_MATTER_SHARE = 0.005
"""Repairs whose gains differ by less of the run are equal: chance makes as much of it, from rank to rank."""

# -- comparisons of runs -------------------------------------------------------------------------------------

WARM_UP_SHARE = 0.1
"""This part of the steps is left out, as a program allocates, compiles and connects in the first ones ..."""

MAX_WARM_UP_STEPS = 10
"""... but no more steps: what is done once is not to be spread over a run of any length."""

STEP_CONFIDENCE = 0.995
"""Of the interval of the step. Of equal programs, one comparison in 400 then shows a slowdown of the step."""

PARTS_CONFIDENCE = 0.995
"""Of the intervals of all parts of a step together (Bonferroni). With that of the step, one comparison of
equal programs in 200 is called slower: a gate asked in each pull request may not be wrong more often."""

DIFFERENCE_CONFIDENCE = 0.99
"""Of the interval of each further difference, which explains and gates nothing."""

FOUND_LIKELIHOOD = 0.9
"""So likely a difference is found by the numbers of runs that are named: nine times out of ten."""

FALSE_DISCOVERIES_SHARE = 0.05
"""Of what is named as changed, beside the step, this part may be by chance (Benjamini and Hochberg, 1995)."""

MIN_CHANGE_SHARE = 0.01
"""A slowdown of less is not called a regression, however sure it is, unless another bound is given."""

MIN_RUNS = 3
"""Two runs of a side tell their spread by one difference, and the interval is wider than any change."""

MIN_BATCHES = 6
"""With a history of fewer batches, one batch could only be shown to be slower by many times their spread."""

MIN_COURSE_STRETCHES = 8
"""Since when runs differ is looked for in no fewer stretches that both sides have."""

MIN_LEVEL_STRETCHES = 2
"""A level lasts so many stretches: a single one may be anything."""

MIN_AMOUNT_CHANGE_SHARE = 0.005
"""Bytes and counts of an average step that differ by less may do so by where the recorded steps end."""

# -- a run in progress ---------------------------------------------------------------------------------------

WINDOW_STEPS = 40
"""A window is longer than asked for if it holds fewer steps: a rank is named for a dozen slow ones."""

WINDOW_CHOSEN_STEPS = 20
"""Where digests leave steps out, so many that they have are in a window."""

LONGEST_WINDOW_S = 1800.0
"""No window is made longer for its steps: what was half an hour ago is not now."""

LOOKS_UNTIL_TOLD = 2
"""So many looks in succession say the same before it is told: the next one may say something else."""

LOOKS_UNTIL_MISSING = 3
"""Ranks that are not there at so many looks are not just late to begin: they are looked for elsewhere."""

FRESH_DIGEST_S = 60.0
"""Older digests in a folder are of a run before: a host replaces its own every few seconds."""

OPEN_WORTH_TELLING_S = 1.0
"""A collective that lasts less is not told of: most are shorter, and some rank is in one at any moment."""

QUIET_AFTER_S = 5.0
"""A rank without a new row for this long is quiet: files are written to each second where there are any."""

ANY_WAITING_SHARE = 0.05
"""A rank waits this part of its time in any run, so less is not pointed at."""
