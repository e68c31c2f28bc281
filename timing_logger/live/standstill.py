"""Which processes stand still, by what each says of itself: known at once, and of any job for little."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from timing_logger.analysis.hangs.diagnosis import run_end_of
from timing_logger.analysis.hangs.last_rows import last_rows
from timing_logger.live.tails import no_rows
from timing_logger.process.sidecar_files import read_sidecar
from timing_logger.reading.living import as_it_stands
from timing_logger.results import criteria
from timing_logger.results.run_end import RunEnd
from timing_logger.schema.record import NS_PER_S
from timing_logger.schema.timing_files import TimingFile


def stated(path: Path) -> dict[str, Any] | None:
    """Return what is known of a file without its rows, as ``attrs["files"]`` of ``read_timings`` has it.

    It is None for a file without a sidecar, and for a part that is not the first.
    """
    name, sidecar = TimingFile.parse(path.name), read_sidecar(path)
    if name is None or name.part > 1 or sidecar is None:
        return None
    return {"path": path, "rank": name.rank, "incarnation": name.incarnation, "sidecar": sidecar}


def stands_still(sidecar: dict[str, Any]) -> bool:
    """Tell whether a process said that it hangs, or says nothing any more: of other jobs no more is read."""
    says_so = sidecar.get("open_calls") or sidecar.get("idle_stack")
    silent_ns: int = time.time_ns() - sidecar.get("updated_unix_ns", 0)
    return sidecar.get("closed") is False and bool(says_so or silent_ns > criteria.SILENT_AFTER_S * NS_PER_S)


def end_by_sidecars(files: list[dict[str, Any]]) -> RunEnd:
    """Ask what ``timing-logger hang`` asks, of the sidecars and rings alone.

    Args:
        files: as :func:`stated` returns them.
    """
    as_they_stand: list[Any] = [
        {**one, "sidecar": as_it_stands(one["sidecar"], one["path"])} for one in files
    ]
    return run_end_of([last_rows(no_rows())], as_they_stand, time.time())
