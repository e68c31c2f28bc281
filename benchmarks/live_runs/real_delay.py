"""How soon it is told in real jobs that a rank became slow, or hangs; and what is told of healthy ones."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from live_runs.program import SLOWER
from live_runs.real_jobs import RANKS, Told, run

STEP_MS = 30.0
HANG_AFTER_S = 5.0
_HEALTHY_S, _SLOW_S = 30.0, 35.0
_STOPS_S, _BEFORE_S = 20.0, 8.0
_SPINS = "while True: pass"


class Delay(NamedTuple):
    """How long after it happened something was told of the right rank; NaN if it was not.

    Attributes:
        seconds: that time.
        wrong: what the events said that named another rank, or came before.
    """

    seconds: float
    wrong: tuple[str, ...]


def slow_rank() -> Delay:
    """Run a job whose last rank becomes 30% slower after half a minute."""
    fate = ("slow", _HEALTHY_S, _HEALTHY_S + _SLOW_S)
    return _delay(run(STEP_MS, _HEALTHY_S + _SLOW_S, fate), "verdict")


def hang() -> Delay:
    """Run a job whose last rank stays away from a collective."""
    fate = ("stops", _BEFORE_S, _STOPS_S)
    return _delay(run(STEP_MS, _BEFORE_S + 1.0, fate, HANG_AFTER_S), "hang")


def alarms_while_busy(length_s: float) -> list[str]:
    """Run a job in which nobody is slow, while other processes want all processors; return what is told."""
    with _busy():
        told = run(STEP_MS, length_s)
    return [event["text"] for event in told.events if event["change"] == "begins"]


def _delay(told: Told, kind: str) -> Delay:
    wrong: list[str] = []
    for event in told.events:
        seconds = told.seconds_until(event, "began")
        if event["change"] == "ends":
            continue
        if event["event"] == kind and event["ranks"] == [RANKS - 1] and seconds > 0:
            return Delay(seconds, tuple(wrong))
        wrong.append(f"{seconds:+.0f} s: {event['text']}")
    return Delay(float("nan"), tuple(wrong))


@contextmanager
def _busy() -> Iterator[None]:
    spinning = [subprocess.Popen([sys.executable, "-c", _SPINS]) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for one in spinning:
            one.kill()
            one.wait()


# -- the tables ------------------------------------------------------------------------------------


def lines_of_slow(delays: Sequence[Delay]) -> Iterator[str]:
    """Yield how soon slow ranks were told in real jobs."""
    yield f"Real jobs of {RANKS} ranks with steps of {STEP_MS:g} ms; the last becomes {SLOWER:.0%} slower:"
    yield ""
    yield from _lines(delays, 0.0, max(20.0, 20 * STEP_MS / 1000))


def lines_of_hangs(delays: Sequence[Delay]) -> Iterator[str]:
    """Yield how soon hangs were told in real jobs."""
    yield (
        f"Real jobs of {RANKS} ranks, the last of which stays away from an all-reduce, under "
        f"`TIMING_LOGGER_HANG_AFTER={HANG_AFTER_S:g}`:"
    )
    yield ""
    yield from _lines(delays, HANG_AFTER_S, 1.0)


def lines_of_alarms(length_s: float, texts: Sequence[str]) -> Iterator[str]:
    """Yield what was told of a healthy job on a busy machine."""
    spinning = os.cpu_count() or 1
    yield (
        f"A real job of {RANKS} ranks for {length_s:g} s, beside {spinning} processes that want all "
        f"processors: {len(texts) or 'no'} events."
    )
    yield from (f"- {text}" for text in texts)


def _lines(delays: Sequence[Delay], less_s: float, target_s: float) -> Iterator[str]:
    seconds = np.array([one.seconds for one in delays]) - less_s
    late_s = np.where(np.isnan(seconds), np.inf, seconds)
    median, most = (np.quantile(late_s, part, method="higher") for part in (0.5, 0.9))
    after = f"s after {less_s:g} s" if less_s else "s later"
    yield f"| jobs | told | {after}: median | 90% | longest | 90% within | wrong |"
    yield "|---|---|---|---|---|---|---|"
    is_met = "met" if most <= target_s else "**missed**"
    yield (
        f"| {len(delays)} | {np.isfinite(late_s).sum()} | {median:.1f} | {most:.1f} | {late_s.max():.1f} "
        f"| {target_s:g} s: {is_met} | {sum(len(one.wrong) for one in delays)} |"
    )
    if any(one.wrong for one in delays):
        yield ""
    yield from (f"- wrong, {text}" for one in delays for text in one.wrong)
