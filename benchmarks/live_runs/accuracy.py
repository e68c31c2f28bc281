"""How right the events are, in the simulated runs of ``verdicts.py``: judged while their files grow."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from verdict_accuracy.cells import scenarios
from verdict_accuracy.faults import Truth
from verdict_accuracy.scoring import judged
from verdict_accuracy.simulation import Scenario, SimulatedRun, simulate

from live_runs.growing_files import BEGAN_UNIX_S, GrowingFile, begin_file
from live_runs.hosts import RANKS_PER_HOST
from live_runs.watching import LOOKS_EVERY_S
from timing_logger.engine.changes import Change, Changes
from timing_logger.live.collector import Collector
from timing_logger.live.events import what_is_found
from timing_logger.live.looking import MOST_BYTES_PER_S
from timing_logger.live.packed import packed_within, unpacked
from timing_logger.live.watcher import snapshot_of
from timing_logger.live.window import Window
from timing_logger.schema.defaults import MONITOR_WINDOW_S
from timing_logger.schema.sidecar import ClockOffset

RUN_S = 100.0
LEAST_S, LEAST_STEPS = 20.0, 20
"""A fault is to be told that goes on for so long and in so many steps."""

_RANKS = (4, 16)
_ONE_OF, _QUICK_ONE_OF = 5, 60
_LEAST_SHARE = 0.01  # of the run: what costs less is not to be told
_OFFSET = ClockOffset(0, 0, 4_000, 0, "node0", "same", 100)  # of clocks that go alike, as it was measured
_STEPS_TRIED = 120  # some faults come, and some programs record, only every 40th step or so
_HEALTHY = Truth("healthy")
_TOLD = ("rank", "role", "group-wide", "communication")


class Told(NamedTuple):
    """What was told of a run.

    Attributes:
        scenario: what was simulated.
        n_events: how many events said that something began, or changed.
        n_wrong: how many of these named an innocent rank, or came in a run without a fault, or before it.
        wrong: what these said.
        is_found: whether the fault was told; None if there is none that had to be.
        is_named: whether exactly the right ranks were named; likewise.
    """

    scenario: Scenario
    n_events: int
    n_wrong: int
    wrong: tuple[str, ...]
    is_found: bool | None
    is_named: bool | None


def told_of(task: tuple[Scenario, int]) -> Told:
    """Simulate a run of about 100 s, have it judged while it goes on, and score what was told."""
    scenario, seed = task
    run = simulate(_of_that_length(scenario), seed)
    begins_s, ends_s = _times_of_steps(run.timings)
    right, wrong = [], []
    for at_s, change in _changes(run):
        began = run.truth.first is None or at_s >= begins_s.get(run.truth.first, 0.0)
        truth = run.truth if began else _HEALTHY
        outcome = judged(change.verdict, truth, run.n_ranks)
        is_wrong = outcome.wrong_name or truth.kind == "healthy" or outcome.other
        if is_wrong and change.verdict.verdict not in truth.acceptable:
            wrong.append(f"after {at_s:.0f} s: {what_is_found(change.verdict)}")
        else:
            right.append(outcome.exact)
    has_to_be = _has_to_be_told(run, begins_s, ends_s)
    return Told(
        scenario, len(right) + len(wrong), len(wrong), tuple(wrong),
        bool(right) if has_to_be else None, any(right) if has_to_be else None,
    )  # fmt: skip


def _of_that_length(scenario: Scenario) -> Scenario:
    """Return a scenario with as many steps as take so long."""
    run_ms = simulate(scenario._replace(steps=_STEPS_TRIED), 0).run_ms
    return scenario._replace(steps=max(30, round(_STEPS_TRIED * RUN_S * 1000 / run_ms)))


def _has_to_be_told(run: SimulatedRun, begins_s: Mapping[int, float], ends_s: Mapping[int, float]) -> bool:
    truth = run.truth
    if truth.kind not in _TOLD or truth.first is None or truth.last is None:
        return False
    lasts_s = ends_s.get(truth.last, run.run_ms / 1000) - begins_s.get(truth.first, 0.0)
    is_long = lasts_s >= LEAST_S and truth.last - truth.first + 1 >= LEAST_STEPS
    return is_long and run.cost_ms / 1000 >= _LEAST_SHARE * lasts_s


def _times_of_steps(timings: pd.DataFrame) -> tuple[dict[int, float], dict[int, float]]:
    """Return when each step begins and ends, in s since the run began; nothing where rows state no step."""
    began_s = timings.groupby("rank")["start_counter"].transform("min")
    step = timings["iteration"]
    begins, ends = (timings[name] - began_s for name in ("start_counter", "end_counter"))
    return begins.groupby(step).min().to_dict(), ends.groupby(step).max().to_dict()


# -- watching it -----------------------------------------------------------------------------------


def _changes(run: SimulatedRun) -> Iterator[tuple[float, Change]]:
    """Yield what is told to begin or to change, and when."""
    with tempfile.TemporaryDirectory() as made:
        files = _begun(run, Path(made))
        end_s = max(float(file.ends_s[-1]) for of_host in files.values() for file in of_host)
        collectors = {folder: Collector(folder, folder.name) for folder in files}
        window, changes, before_s = Window(MONITOR_WINDOW_S), Changes(), -1.0
        for at_s in np.arange(LOOKS_EVERY_S, end_s, LOOKS_EVERY_S).tolist():
            for file in (file for of_host in files.values() for file in of_host):
                file.grow(before_s, at_s)
            before_s = at_s
            for i, collector in enumerate(collectors.values()):
                _take_in(window, collector, is_own=i == 0)
            change = changes.after(snapshot_of(window).verdict, BEGAN_UNIX_S + at_s)
            if change is not None and change.kind != "ends":
                yield at_s, change


def _take_in(window: Window, collector: Collector, *, is_own: bool) -> None:
    digest = collector.digest()
    if not is_own:
        most_bytes = int(MOST_BYTES_PER_S * LOOKS_EVERY_S * len(digest.processes))
        digest = unpacked(packed_within(digest, most_bytes))
    window.add(digest)


def _begun(run: SimulatedRun, folder: Path) -> dict[Path, list[GrowingFile]]:
    """Begin the files of all ranks, in a folder for each host."""
    found: dict[Path, list[GrowingFile]] = {}
    stated = {one["rank"]: one["sidecar"] for one in run.timings.attrs.get("files", [])}
    share_clocks = "start_s" in run.timings
    for rank, rows in run.timings.groupby("rank"):
        of_host = folder / f"host{int(str(rank)) // RANKS_PER_HOST}"
        sidecar = {"world_size": run.n_ranks, **stated.get(rank, {}), "labels": _labels(run, int(str(rank)))}
        if share_clocks:
            sidecar |= {"boot_id": "same", "clock_offsets": [_OFFSET._asdict()]}
        began_s = 0.0 if share_clocks else float(rows["start_counter"].min())
        found.setdefault(of_host, []).append(begin_file(of_host, rows, sidecar, began_s))
    return found


def _labels(run: SimulatedRun, rank: int) -> dict[str, Any]:
    return {"role": run.roles[rank]} if run.roles else {}


# -- which runs ------------------------------------------------------------------------------------


def tasks(*, quick: bool) -> list[tuple[Scenario, int]]:
    """Return the runs to try: a part of the lines of ``verdicts.py`` with 4 to 16 ranks, in their order."""
    alike = {
        one._replace(ranks=0, steps=0): one for one in scenarios() if _RANKS[0] <= one.ranks <= _RANKS[1]
    }
    return [(one, 0) for one in list(alike.values())[:: _QUICK_ONE_OF if quick else _ONE_OF]]


def lines(found: Sequence[Told]) -> Iterator[str]:
    """Yield what was told of these runs: how much of it was right, and how much of what is wrong was told."""
    n_events, n_wrong = (sum(getattr(one, name) for one in found) for name in ("n_events", "n_wrong"))
    faulty = [one for one in found if one.is_found is not None]
    healthy = [one for one in found if one.scenario.fault == "healthy"]
    yield "| | of | |"
    yield "|---|---|---|"
    yield f"| events that name only who is slow | {n_events} | {_percent(n_events - n_wrong, n_events)} |"
    yield f"| faults that were told | {len(faulty)} | {_percent(sum(map(_is_found, faulty)), len(faulty))} |"
    n_named = sum(bool(one.is_named) for one in faulty)
    yield f"| faults with exactly the right ranks named | {len(faulty)} | {_percent(n_named, len(faulty))} |"
    n_quiet = sum(one.n_events == 0 for one in healthy)
    yield f"| healthy runs in which nothing was told | {len(healthy)} | {_percent(n_quiet, len(healthy))} |"
    untold = [str(one.scenario) for one in faulty if not one.is_found]
    if untold:
        yield from ("", f"Not told: {'; '.join(untold)}.")
    wrong = [f"{one.scenario} ({text})" for one in found for text in one.wrong]
    if wrong:
        yield from ("", f"Wrong: {'; '.join(wrong)}")


def _is_found(one: Told) -> bool:
    return bool(one.is_found)


def _percent(part: int, whole: int) -> str:
    return f"{part / whole:.0%}" if whole else "none tried"
