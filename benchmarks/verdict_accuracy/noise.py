"""Classes of noise: how the times of healthy ranks differ, by chance and permanently.

The first lines of the functions' docstrings are in ``docs/data/verdict-accuracy-names.csv``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Shape = tuple[int, int]
"""The numbers of steps and ranks."""


class Noise(NamedTuple):
    """The noise of a run; its arrays are steps x ranks.

    Attributes:
        factor: what the usual times of a healthy rank are multiplied by.
        pause_ms: how long the rank pauses in the step, in ms.
    """

    factor: Floats
    pause_ms: Floats


def single(values: npt.ArrayLike) -> Floats:
    """Return values in single precision: last digits of exp and log differ between processors."""
    return np.asarray(values, np.float32).astype(np.float64)


def lognormal(rng: np.random.Generator, sigma: float, n: int = 1) -> Floats:
    """Draw ``n`` factors around 1, the same on all processors."""
    return single(np.exp(rng.normal(0.0, sigma, n)))


def steady(rng: np.random.Generator, shape: Shape) -> Noise:
    """Lognormal, 3%, independent in each step."""
    return Noise(np.exp(rng.normal(0.0, 0.03, shape)), np.zeros(shape))


def correlated(rng: np.random.Generator, shape: Shape) -> Noise:
    """Lognormal, 4%, with a correlation of 0.8 between consecutive steps of a rank."""
    return Noise(np.exp(_with_memory(rng, shape, 0.04, 0.8)), np.zeros(shape))


def pauses(rng: np.random.Generator, shape: Shape) -> Noise:
    """3%, heavy-tailed (Student's t, 3 degrees); in 1% of its steps a rank pauses, for 50 ms on average."""
    factor = np.exp(0.03 * np.clip(rng.standard_t(3, shape), -8, 8))
    return Noise(factor, rng.exponential(50.0, shape) * (rng.random(shape) < 0.01))


def unequal(rng: np.random.Generator, shape: Shape) -> Noise:
    """Ranks differ permanently by up to 3%, plus noise of 2%."""
    return Noise(rng.uniform(1.0, 1.03, shape[1]) * np.exp(rng.normal(0.0, 0.02, shape)), np.zeros(shape))


def lengths(rng: np.random.Generator, shape: Shape) -> Noise:
    """All ranks together take 40% more or less from step to step, as with sequence lengths; plus 3% each."""
    common = np.exp(rng.normal(0.0, 0.4, (shape[0], 1)))
    return Noise(common * np.exp(rng.normal(0.0, 0.03, shape)), np.zeros(shape))


def wandering(rng: np.random.Generator, shape: Shape) -> Noise:
    """Each rank drifts slowly by 6% (a correlation of 0.95 from step to step), plus noise of 3%."""
    return Noise(np.exp(_with_memory(rng, shape, 0.06, 0.95) + rng.normal(0.0, 0.03, shape)), np.zeros(shape))


def _with_memory(rng: np.random.Generator, shape: Shape, sigma: float, memory: float) -> Floats:
    drawn = rng.normal(0.0, sigma, shape)
    for step in range(1, shape[0]):
        drawn[step] = memory * drawn[step - 1] + (1 - memory**2) ** 0.5 * drawn[step]
    return drawn


def warming_up(rng: np.random.Generator, shape: Shape) -> Noise:
    """Like steady; all ranks take ten times as long in the first five steps."""
    factor, pause_ms = steady(rng, shape)
    factor[:5] *= 10
    return Noise(factor, pause_ms)


def mixed(rng: np.random.Generator, shape: Shape) -> Noise:
    """Ranks differ by 1.5%, steps by 20%, 2% with memory; seldom delays of 6 or 60 ms; a first step of 8."""
    steps = np.exp(rng.normal(0.0, 0.2, (shape[0], 1)))
    steps[0] *= 8
    factor = steps * np.exp(rng.normal(0.0, 0.015, shape[1]) + _with_memory(rng, shape, 0.02, 0.5))
    delay_ms = rng.exponential(6.0, shape) * (rng.random(shape) < 0.03)
    pause_ms = 60.0 * rng.lognormal(0.0, 0.5, shape) * (rng.random(shape) < 0.005)
    return Noise(factor, delay_ms + pause_ms)


def busy(rng: np.random.Generator, shape: Shape) -> Noise:
    """5%; in 30% of its steps a rank is delayed, mostly by 5 to 15 ms and seldom by up to 200 ms."""
    delay_ms = np.minimum(5.0 * (1 + rng.pareto(1.5, shape)), 200.0)
    return Noise(np.exp(rng.normal(0.0, 0.05, shape)), delay_ms * (rng.random(shape) < 0.3))


def uneven(rng: np.random.Generator, shape: Shape) -> Noise:
    """Lognormal, 20%, independent in each step, as with batches of different lengths on each rank."""
    return Noise(np.exp(rng.normal(0.0, 0.2, shape)), np.zeros(shape))


NOISES: dict[str, Callable[[np.random.Generator, Shape], Noise]] = {
    "steady": steady,
    "correlated": correlated,
    "pauses": pauses,
    "unequal": unequal,
    "lengths": lengths,
    "wandering": wandering,
}

JOB_NOISES: dict[str, Callable[[np.random.Generator, Shape], Noise]] = {
    "warm-up": warming_up,
    "mixed": mixed,
    "busy": busy,
    "uneven": uneven,
}
"""Further classes of noise, which only the jobs have whose steps differ."""

LATE_IN_TURN = frozenset({"busy", "uneven"})
"""Classes of noise in which healthy ranks are late in turn, so that ``diffuse`` is no wrong verdict."""
