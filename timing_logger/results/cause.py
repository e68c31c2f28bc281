"""A cause as it stands in a verdict: what coincided with the slowness, in figures; and what was looked at."""

from __future__ import annotations

from typing import Literal, NamedTuple

How = Literal["coincides", "throughout", "shared"]
"""What was compared.

``coincides``: a rank's slow stretches with its others. ``throughout``: the rank with its peers, as it is
slow in all of them. ``shared``: what all ranks did with the time that they lose in turn, or together.
"""


class Cause(NamedTuple):
    """What host counters did while time was lost. It coincides, which is no proof.

    A stretch is a step, or several in succession where steps are shorter than the intervals of the counters.
    Of a counter that tells no time, figures are in its own unit, per second.

    Attributes:
        name: what it is, such as ``processor-wait``; ``kinds_of_cause.py`` has all.
        counter: the host counter that shows it.
        ranks: the ranks that it is said of.
        how: what was compared.
        states_time: whether the counter tells how much time something took.
        slow: the number of slow stretches.
        slow_with: in how many of these the counter shows enough for half of the delay.
        other: the number of the other stretches that are known.
        other_with: in how many of those it shows as much as half of what is usual in slow ones.
        delay_ms: the delay of the rank in a typical slow stretch, in ms.
        in_slow: the counter in a typical slow stretch: ms, or events per second.
        in_others: likewise in a typical other stretch; NaN if there is none.
        covered_share: how much of the delay the counter states, as a fraction of it; NaN if it tells no time.
        time_share: the fraction of its time that the counter states for the typical rank; NaN likewise.
        chance: how likely any of the counters would coincide as well by chance; NaN where there was nothing
            to compare with.
        stretch_steps: the number of steps of a typical stretch.
        stretch_s: how long a typical stretch lasts, in seconds.
        runnable: how many tasks wanted to run there in a typical stretch; NaN if unknown.
        usable_cores: how many cores they could use; NaN if unknown.
    """

    name: str
    counter: str
    ranks: tuple[int, ...]
    how: How
    states_time: bool
    slow: int
    slow_with: int
    other: int
    other_with: int
    delay_ms: float
    in_slow: float
    in_others: float
    covered_share: float
    time_share: float
    chance: float
    stretch_steps: int
    stretch_s: float
    runnable: float
    usable_cores: float


class Sought(NamedTuple):
    """What was looked at in search of a cause.

    Attributes:
        counters: the host counters that were recorded and may show a cause.
        ranks: the number of ranks whose counters were compared.
        stretches: the number of stretches of steps.
        stretch_s: how long a typical one lasts, in seconds.
        chance: how likely the best of them would coincide as well by chance; NaN if nothing was tested.
    """

    counters: tuple[str, ...]
    ranks: int
    stretches: int
    stretch_s: float
    chance: float
