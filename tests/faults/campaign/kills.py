"""Kills recording processes by SIGKILL at random instants. (P4, P5, P6)"""

from __future__ import annotations

import functools
import json
import warnings
from pathlib import Path

from kill_campaign import ALLOWED_S, WAYS, busy_loops, kill_once

from campaign.trial import Trial, Untried
from timing_logger.recording.cores import chosen as core

_SHORT_S = 0.4


def kills(trial: Trial, way_name: str, *, may_be_late: bool = False) -> str:
    """Check that every record older than ``flush_interval`` + 0.5 s at the kill is in the file, once.

    Of the native core :func:`recoveries` asks for more, and often: here it is tried less.

    Args:
        trial: the campaign under way.
        way_name: a key of ``WAYS``: the way in which the process records.
        may_be_late: whether records come faster than they can be written; then older ones may be missing,
            but the sidecar has to say so.
    """
    way = WAYS[way_name]
    if trial.short:
        way = way._replace(flush_interval_s=_SHORT_S)
    worst_s, told = 0.0, 0
    with busy_loops(way.busy_loops):
        for number in range(trial.times(300 if core.NAME == "python" else 100, 3)):
            after_s = way.flush_interval_s + ALLOWED_S + trial.chance(number).random()
            with trial.new_folder() as folder, trial.one(f"kill {number}, after {after_s:.3f} s"):
                kill = kill_once(folder, way, after_s)
                worst_s = max(worst_s, kill.missing_s)
                _check_file(folder / "logs", kill.recovered)
                is_late = kill.misses(way.flush_interval_s)
                is_told = may_be_late and is_late and kill.is_told(way.flush_interval_s)
                told += is_told
                assert is_told or not is_late, f"missing for {kill.missing_s:.3f} s: {kill}"
    also = f"; {told} were later, and their sidecars say so" if told else ""
    return f"oldest record missing: {worst_s:.2f} s, flush_interval {way.flush_interval_s:g} s{also}"


def recoveries(trial: Trial) -> str:
    """Check that every record whose call had returned is in the file once, after a recovery."""
    if core.NAME != "native":
        raise Untried("the Python core keeps records only in the process")
    recorded = 0
    for number in range(trial.times(300, 3)):
        way = WAYS[trial.chance(number).choice(["quiet", "100,000 records/s"])]
        after_s = 0.05 + 1.5 * trial.chance(number).random()
        with trial.new_folder() as folder, trial.one(f"kill {number}, after {after_s:.3f} s"):
            kill = kill_once(folder, way, after_s)
            recorded += kill.recorded
            _check_file(folder / "logs", kill.recovered)
            assert kill.lost == 0, kill
    return f"none of {recorded:,} records was lost"


def _check_file(folder: Path, n_rows: int) -> None:
    """Check that the file can be read and has the first rows, each once; only its end may be torn."""
    from timing_logger import read_timings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = read_timings(folder)
    assert found["iteration"].tolist() == list(range(n_rows))
    (about,) = found.attrs["files"]
    # A line that the kill tore stays, with a NUL, and its record stands whole behind it after a recovery.
    assert all(line.endswith("\0") for line in about["bad_examples"]), about["bad_examples"]
    assert about["bad_lines"] <= 1, about["bad_examples"]
    json.loads((folder / "timing-rank0.meta.json").read_text())


kills_idle = functools.partial(kills, way_name="quiet")
kills_loaded = functools.partial(kills, way_name="loaded")
kills_fast = functools.partial(kills, way_name="100,000 records/s", may_be_late=True)
