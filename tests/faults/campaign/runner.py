"""Runs campaigns, each in a process of its own with a time limit, and some of them in parallel."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from campaign.trial import CORES, NATIVE_MPI, Campaign, Result, Tried
from timing_logger.process.which_core import VARIABLE

Finished = Callable[[Tried, float], None]

_TAIL_CHARS = 600


class Settings(NamedTuple):
    """See ``python -m campaign --help``.

    Attributes:
        folder: for whatever the campaigns write, each into a folder of its name in that of the writer.
        writers: those that campaigns about recording are tried over.
        most: how often each thing is tried at most; None for no limit.
    """

    short: bool
    seed: int
    fuzz_s: float
    workers: int
    folder: Path
    writers: Sequence[str]
    most: int | None = None


def run_all(campaigns: Sequence[Campaign], settings: Settings, finished: Finished) -> list[Tried]:
    """Try all of them, whatever the others found; those that measure come first, one by one.

    What held in an earlier run into the same folder is not tried again.
    """
    pairs = [
        (campaign, writer)
        for campaign in campaigns
        for writer in (settings.writers if campaign.records else ("",))
    ]

    def run(campaign: Campaign, writer: str) -> Tried:
        begin_s = time.monotonic()
        earlier = _result_in(settings.folder / writer / campaign.name)
        is_held = earlier is not None and not earlier.is_broken
        result = earlier if earlier and is_held else _in_its_own_process(campaign, writer, settings)
        tried = Tried(campaign, writer, result)
        finished(tried, time.monotonic() - begin_s)
        return tried

    done = [run(campaign, writer) for campaign, writer in pairs if campaign.alone]
    with ThreadPoolExecutor(settings.workers) as workers:
        done += workers.map(lambda pair: run(*pair), [pair for pair in pairs if not pair[0].alone])
    return sorted(done, key=lambda tried: pairs.index((tried.campaign, tried.writer)))


def _in_its_own_process(campaign: Campaign, writer: str, settings: Settings) -> Result:
    if writer == NATIVE_MPI and isinstance(campaign.native_mpi, str):
        return Result(untried=campaign.native_mpi)
    folder = settings.folder / writer / campaign.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    limit_s = campaign.limit_s[0 if settings.short else 1] + 2 * settings.fuzz_s
    command = [sys.executable, "-m", "campaign", "--inside", campaign.name, "--folder", str(folder),
               "--seed", str(settings.seed), "--fuzz-minutes", str(settings.fuzz_s / 60),
               *(["--writers", writer] if writer else []),
               *([] if settings.most is None else ["--most", str(settings.most)])]  # fmt: skip
    with (folder / "output.txt").open("wb") as output:
        process = subprocess.Popen(
            command + ["--short"] * settings.short, stdout=output, stderr=output, start_new_session=True,
            env={**os.environ, **({VARIABLE: writer} if writer in CORES else {})},
        )  # fmt: skip
        try:
            process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return Result(1, 0, failures=[f"it was not done in {limit_s:g} s; see {folder}"])
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if (result := _result_in(folder)) is not None:
        return result
    said = (folder / "output.txt").read_text(errors="replace")[-_TAIL_CHARS:]
    return Result(1, 0, failures=[f"it ended with status {process.returncode} and no result: {said}"])


def _result_in(folder: Path) -> Result | None:
    """None if there is no whole one."""
    try:
        return Result(**json.loads((folder / "result.json").read_text()))
    except (OSError, ValueError):
        return None
