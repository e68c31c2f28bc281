"""The numbers by which the half that records decides what it does, and those that readers expect of it.

Each has its unit in its name, and says why it is what it is; most are the defaults of options. What bounds a
file or the memory, waits for a disk or another thread, is the size of a block, or follows from a format or an
algorithm decides nothing: it stays where it is used.
"""

from __future__ import annotations

# -- what a logger does --------------------------------------------------------------------------------------

FLUSH_INTERVAL_S = 1.0
"""A record is in the file within this: who follows a run sees it soon, and writes remain few."""

FLUSH_TIMEOUT_S = 5.0
"""``flush`` gives up after this, as a disk that has not answered by then may never do."""

DEVICE_TIMEOUT_S = 1.0
"""``flush`` and ``close`` wait for the device for this long: its queue is rarely longer."""

QUEUE_RECORDS = 100_000
"""So many records wait at most: those of seconds of a busy program, in some ten megabytes."""

FILE_MODE = 0o644
"""New files can be read by all, and written by their owner, unless the umask says less."""

RECORD_LATE_S = 0.25
"""A record that waits for the flush interval and so many seconds more is late: the rest of
:data:`RECORD_LATEST_S` is for the sidecar, which has to report the delay before."""

RECORD_LATEST_S = 0.5
"""After a SIGKILL no record is missing that is older than the flush interval and this (promise P4)."""

SIDECAR_REFRESH_S = 10.0
"""A process that lives writes its sidecar so often: seldom, as thousands of ranks may share a disk."""

HANG_AFTER_S = 60.0
"""A call that is open for longer hangs, unless options or the environment state another time: long for a
collective, and short beside the ten minutes or more after which torch gives up."""

# -- what is recorded ----------------------------------------------------------------------------------------

HOST_INTERVAL_S = 1.0
"""From one line of host counters to the next: a line takes half a millisecond, so this costs nothing."""

SHORTEST_HOST_INTERVAL_S = 0.01
"""A shorter interval at the end has no line: counters that move 100 times a second tell nothing of it."""

STACK_INTERVAL_S = 0.2
"""From one stack sample to the next, on average: between half and one and a half of that, so that no rhythm
of the program is met again and again at the same point."""

SHORTEST_COLLECTION_NS = 200_000
"""Shorter garbage collections have no row: there are many of them, and a step does not notice one."""

SHORTEST_IMPORT_NS = 50_000_000
"""Shorter imports have no row: a program has hundreds of them, and a step does not notice one."""

TRAINING_STEPS = 2
"""After so many steps of one optimizer, a new one is no second one of the same iteration."""

APPEARS_AFTER_S = 5.0
"""A rank that has recorded nothing has a file after this: most ranks have made their group by then."""

# -- clocks --------------------------------------------------------------------------------------------------

CLOCK_STEP_NS = 1_000_000
"""The wall clock has moved if it did by more, beyond how well that is known: rows are to be right to 1 ms."""

DEVICE_ANCHOR_EVERY_NS = 2_000_000_000
"""An anchor of a device's clock is followed by another after this: by then it may be off by 40 us."""

GOOD_ANCHOR_NS = 100_000
"""A first anchor that is known to within this is taken at once; a worse one is left for a while."""

DEVICE_CLOCK_DRIFT = 20e-6
"""In s per s, how differently a device's clock and the host's run until that is known better."""

MAX_DEVICE_CLOCK_DRIFT = 1e-3
"""In s per s, how differently they may run, even if NTP slews one. If they differ by more, one stood still
for a while, as in a suspended machine, which says nothing of their rates."""

MAX_BACKWARDS_NS = 1_000
"""A block that ends by more before it begins did so in another stream, so it has no duration."""

# -- a run in progress ---------------------------------------------------------------------------------------

MONITOR_EVERY_S = 5.0
"""A run in progress is looked at so often: a window has six looks, and who is slow is told within two."""

MONITOR_WINDOW_S = 30.0
"""So much of a run in progress is judged at a time: some dozen steps of most programs."""
