"""What ``timing-logger run`` says when the job has ended: of its own run, whatever else is in the folder."""

from __future__ import annotations

import os
import shlex
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from timing_logger.autologging.settings import problem_file
from timing_logger.cli.queries import code_of, run_query_beside_host
from timing_logger.errors import TimingLoggerError
from timing_logger.native_mpi import build
from timing_logger.process.shared_files import matching
from timing_logger.process.sidecar_files import read_sidecar

if TYPE_CHECKING:
    from timing_logger.analysis.rows.files import File

_NO_RANK = (
    "nothing was recorded in {}: no process of the job made a torch process group, used mpi4py, "
    "loaded batches or stepped an optimizer of torch (of a program in C, C++ or Fortran, run --native-mpi "
    "times the MPI calls); or Python was started with -E, -I or -S; or something between this command and "
    "Python set an environment of its own (PYTHONPATH in a launch script, env -i)."
)
_NO_MPI = (
    "nothing was recorded in {}: no process of the job initialised MPI with MPI_Init; or its launcher does "
    f"not hand on LD_PRELOAD and {build.VARIABLE}, as mpiexec of Open MPI does on other hosts with -x."
)


def timing_files(log_dir: Path) -> set[Path]:
    """Return the timing files that are in a folder."""
    return set(matching(log_dir, "timing-rank*.csv"))


def files_of_run(log_dir: Path, run_id: str, before: set[Path]) -> list[Path]:
    """Return the files of the run that this command started, on all its hosts.

    Ranks on several hosts state what their launcher says of the run, and which command started each of them.

    Args:
        log_dir: the folder.
        run_id: what this command called the run.
        before: the files that were there before it. Of files whose sidecars state no run, the others count;
            those without a sidecar are just being made by another job, as this one has ended.
    """
    read = {path: read_sidecar(path) for path in timing_files(log_dir)}
    stated = {path: sidecar for path, sidecar in read.items() if sidecar is not None}
    started = [
        sidecar
        for path, sidecar in stated.items()
        if path not in before and run_id in (sidecar.get("launch_id"), sidecar.get("run_id"))
    ]
    runs = {sidecar.get("run_id") for sidecar in started} - {"", None}
    return sorted(
        path
        for path, sidecar in stated.items()
        if (sidecar["run_id"] in runs if sidecar.get("run_id") else path not in before)
    )


def said_of_run(log_dir: Path, written: list[Path], run_id: str, *, in_python: bool) -> list[str]:
    """Return the lines that are said of a run, whose files are ``written``."""
    nothing = (_NO_RANK if in_python else _NO_MPI).format(log_dir)
    said = _verdict(log_dir, written) if written else [nothing]
    return [*said, *_problems(log_dir, run_id)]


def about(written: list[Path], **further: str) -> Namespace:
    """Return the arguments of a command that is asked about all rows of these files."""
    every_row = {"run": "latest", "world": "", "ranks": None, "iterations": None}
    return Namespace(
        logdir=[str(path) for path in written],
        **every_row,
        engine="auto",
        scheduler=None,
        expected=None,
        open=False,
        **further,
    )


def _verdict(log_dir: Path, written: list[Path]) -> list[str]:
    from timing_logger.analysis.verdict.windows import stragglers_beside
    from timing_logger.report.code import code_of_verdict, ranks_to_ask_about
    from timing_logger.words.units import count
    from timing_logger.words.verdict import verdict_sentence, what_next

    try:
        files = about(written)
        result = run_query_beside_host(files, stragglers_beside)
    except TimingLoggerError as error:
        return [str(error)]
    verdict, _ = result.answer
    ranks = count(len({file["rank"] for file in result.files}), "rank")
    folder = _as_typed(log_dir)
    which = _which([Path(file["path"]) for file in result.files], log_dir)
    there = f"{folder}{_recorded_by(result.files)}"
    code = code_of_verdict(verdict, code_of(files, ranks_to_ask_about(verdict), result.query))
    return [
        *filter(None, (verdict.end.warning, verdict_sentence(verdict), what_next(verdict), *code)),
        f"The timings of {ranks} are in {there}; more: timing-logger report {folder}{which}",
        *_slow_core(result.files),
    ]


def _recorded_by(files: Sequence[File]) -> str:
    """Name what recorded, as far as the sidecars do."""
    from timing_logger.analysis.rows.files import sidecar_of

    cores = sorted({sidecar_of(file).get("core") or "" for file in files} - {""})
    return f" (recorded by the {' and the '.join(cores)} core)" if cores else ""


def _slow_core(files: Sequence[File]) -> list[str]:
    """Say of the first rank that recorded with the slow core why it did, and the way out."""
    from timing_logger.analysis.rows.files import sidecar_of

    noted = [(file["rank"], note) for file in files if (note := sidecar_of(file).get("core_note"))]
    return [f"rank {rank} recorded with the python core: {note}." for rank, note in noted[:1]]


def _which(written: list[Path], log_dir: Path) -> str:
    """Return the option that names the run of these files to a command that is asked about the folder."""
    from timing_logger.reading.runs_of_job import number_of_run
    from timing_logger.reading.timings import find_sources

    number = number_of_run(find_sources([log_dir]), written[0])
    return f" --run {number}" if number else ""


def _as_typed(log_dir: Path) -> str:
    try:
        return shlex.quote(os.path.relpath(log_dir))
    except OSError:  # the working folder is gone
        return shlex.quote(str(log_dir))


def _problems(log_dir: Path, run_id: str) -> list[str]:
    found = sorted(matching(log_dir, problem_file(run_id, "*")))
    return [f"not timed in full, as {found[0]} says; the job was not touched by it"] if found else []
