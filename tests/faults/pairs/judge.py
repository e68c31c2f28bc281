"""Judges what two faults left, by what must always hold."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pairs.notes import Notes, Record
from pairs.world import FLUSH_INTERVAL_S, SAID
from timing_logger.reading.recovery import recover
from timing_logger.schema.record import COLUMNS, INFLIGHT

_ALLOWED_NS = int((FLUSH_INTERVAL_S + 0.5) * 1e9)  # P4
_OF_PACKAGE = re.compile(r'File "[^"]*/timing_logger/')
_TRACEBACK = re.compile(r"^Traceback .*?^\w.*?$", re.DOTALL | re.MULTILINE)
_LOST = re.compile(r"(\d+) records? lost")


class Ended(NamedTuple):
    """How the process ended.

    Attributes:
        status: of the process; negative for a signal.
        said: what it and its children wrote to stderr.
        pid: of the process.
        notes: those of each generation.
        exit_codes: the statuses that it may end with, as it would without a logger.
        is_healthy: whether the interpreter came to its end by itself, so that nothing may be lost.
        is_full: whether the queue was filled, so that records may be dropped.
        lost: how many records the recovery said to be lost.
        is_by_time: whether only the latest records may be lost, as the process could not write them.
    """

    status: int
    said: str
    pid: int
    notes: list[Notes]
    exit_codes: set[int]
    is_healthy: bool
    is_full: bool
    lost: int
    is_by_time: bool


def faults_of(folder: Path, ended: Ended) -> Iterator[str]:
    """Yield whatever does not hold, in words."""
    if ended.status not in ended.exit_codes:
        yield f"exit code {ended.status} in place of {sorted(ended.exit_codes)}: {ended.said[-1500:]}"
    yield from _faults_said(ended.said)
    written, faults = _rows(folder, may_be_torn=ended.is_by_time)
    yield from faults
    begun = set().union(*(notes.begun for notes in ended.notes))
    foreign = [record for record in written if record not in begun]
    if foreign:
        yield f"{len(foreign)} rows that were not recorded, such as {foreign[:3]}"
    if twice := [record for record, times in written.items() if times > 1]:
        yield f"{len(twice)} rows twice, such as {sorted(twice)[:3]}"
    sidecars = _sidecars(folder / "logs", ended.pid)
    for name, sidecar in sidecars.items():
        yield from _faults_of_sidecar(name, sidecar, folder / "logs")
    if not sidecars:
        yield "no sidecar"
        return
    yield from _missing(written, sidecars, ended)
    yield from _faults_of_stats(written, ended)


def _faults_said(said: str) -> Iterator[str]:
    for line in said.splitlines():
        if line.startswith(SAID):
            yield f"{line.removeprefix(SAID)}: {said[-1500:]}"
        if "drain failed" in line or "could not be written" in line:
            yield line
    for traceback in _TRACEBACK.findall(said):
        if _OF_PACKAGE.search(traceback) and not traceback.splitlines()[-1].startswith("KeyboardInterrupt"):
            yield f"a traceback of the package: {traceback}"
    if "Fatal Python error" in said or "Timeout (" in said:
        yield said[-3000:]


def recovered(logs: Path) -> int:
    """Recover what a killed process left; return how many records are said to be lost."""
    said = " ".join(map(str, recover(logs)))
    return sum(map(int, _LOST.findall(said)))


def _rows(folder: Path, *, may_be_torn: bool) -> tuple[Counter[Record], list[str]]:
    """Return how often each record has a row, and what is wrong with rows.

    A kill of the Python core may tear the last line, which readers report as cut (P6).
    """
    found: Counter[Record] = Counter()
    faults = []
    for path in (*(folder / "logs").glob("timing-rank0*.csv"), *(folder / "unlinked").iterdir()):
        *lines, tail = path.read_bytes().split(b"\n")
        if tail and not may_be_torn:
            faults.append(f"the last line of {path.name} is torn: {tail!r}")
        for line in lines[1:]:
            if line.endswith(b"\0"):  # torn by a kill, and written again by the recovery
                continue
            (cells,) = csv.reader([line.decode()])
            row = dict(zip(COLUMNS, cells, strict=False))
            if len(cells) != len(COLUMNS) or not row["operation"] or not row["iteration"].isdigit():
                faults.append(f"{path.name} has a row {line!r}")
            elif row["status"] != INFLIGHT:
                found[row["operation"], int(row["iteration"])] += 1
    return found, faults[:3]


def _sidecars(logs: Path, pid: int) -> dict[str, dict[str, Any]]:
    """Return those of the process, and not of its children."""
    found = {path.name: json.loads(path.read_text()) for path in sorted(logs.glob("*.meta.json"))}
    return {name: sidecar for name, sidecar in found.items() if sidecar["pid"] == pid}


def _faults_of_sidecar(name: str, sidecar: dict[str, Any], logs: Path) -> Iterator[str]:
    counts = sidecar["counters"]
    if counts["accepted"] != counts["written"] + counts["dropped"] + counts["pending"]:
        yield f"{name}: {counts}"
    if sidecar["closed"]:
        prefix = name.removesuffix(".meta.json")
        files = [logs / f"{prefix}.csv", *logs.glob(f"{prefix}.part*.csv")]
        n_rows = sum(path.read_bytes().count(b"\n") - 1 for path in files if path.exists())
        n_removed = sum(
            path.read_bytes().count(b"\n") - 1 for path in (logs.parent / "unlinked").glob(f"*-{prefix}.*")
        )  # also after the close
        if not n_rows <= counts["written"] <= n_rows + n_removed:
            yield f"{name}: {n_rows} rows, and {counts} in its sidecar"


def _missing(written: Counter[Record], sidecars: dict[str, dict[str, Any]], ended: Ended) -> Iterator[str]:
    n_due, missing = 0, []
    for notes in ended.notes:
        may_miss_from_ns = notes.last_ns - _ALLOWED_NS if ended.is_by_time else notes.last_ns + 1
        n_due += len(notes.due)
        missing += [
            record
            for record, at_ns in notes.due.items()
            if record not in written and at_ns < may_miss_from_ns
        ]
    if ended.is_full and not ended.is_healthy:
        return  # the ring does not say how many were dropped since the last sidecar
    counters = [sidecar["counters"] for sidecar in sidecars.values()]
    counted = ended.lost + sum(counts["dropped"] + counts["pending"] for counts in counters)
    if len(missing) > counted:
        yield (
            f"{len(missing)} of {n_due} records are missing, such as {sorted(missing)[:3]}, "
            f"and {counted} are counted"
        )


def _faults_of_stats(written: Counter[Record], ended: Ended) -> Iterator[str]:
    """Check the sums that the logger itself stated at the very end."""
    for generation, notes in enumerate(ended.notes):
        if notes.stats is not None:
            accepted, n_written, dropped, pending = notes.stats
            if accepted != n_written + dropped + pending:
                yield f"accepted {accepted}, written {n_written}, dropped {dropped}, pending {pending}"
            if accepted != len(notes.begun):
                yield f"accepted {accepted} of {len(notes.begun)} calls"
            rows = sum(times for (who, _), times in written.items() if who.endswith(str(generation)))
            if rows < n_written:
                yield f"{n_written} rows are said to be written, and {rows} are there"
