"""Follow the ends of timing files: read the whole lines that were added, and keep what is incomplete."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from timing_logger.analysis.hangs.last_rows import only_last_rows
from timing_logger.analysis.rows.arrays import Bools
from timing_logger.errors import NotATimingFileError
from timing_logger.live.digest import RowArrays
from timing_logger.live.newest_files import Parts, Sidecars
from timing_logger.live.sampled_steps import counted_steps
from timing_logger.process.shared_files import opened
from timing_logger.process.sidecar_files import check_is_file
from timing_logger.reading.content import without_replaced
from timing_logger.reading.living import as_it_stands
from timing_logger.schema.record import INFLIGHT
from timing_logger.schema.timing_files import TimingFile

_LOOK_BYTES = 2**26
_BEGIN_BYTES = 4096  # the header, and the time stamps of the first rows


@dataclass
class FollowedFile:
    """A file of lines, from the position up to which it was read.

    Attributes:
        path: of the file.
        first_look_bytes: how much of its end is read at first.
        header: its first line, once that is there.
        offset: the position up to which it was read.
        begin: how it begins, which tells it from another file of this name.
    """

    path: Path
    first_look_bytes: int
    header: bytes = b""
    offset: int = 0
    begin: bytes = b""

    def is_replaced(self) -> bool:
        """Tell whether another file now has this name: a folder may be emptied for another run."""
        begin = self._begin_now()
        replaced = not begin.startswith(self.begin)
        self.begin = begin
        return replaced

    def _begin_now(self) -> bytes:
        check_is_file("folder", self.path)
        with opened(self.path) as file:
            return file.read(_BEGIN_BYTES)

    def added(self) -> bytes:
        """Read the whole lines that were added since the last call; b"" if there are none."""
        self.begin = self.begin or self._begin_now()
        with opened(self.path) as file:
            if not self.header:
                self.header = file.readline()
                if not self.header.endswith(b"\n"):
                    self.header = b""
                    return b""
                size = self.path.stat().st_size
                self.offset = max(len(self.header), size - self.first_look_bytes)
                if self.offset > len(self.header):
                    file.seek(self.offset)
                    self.offset += len(file.readline())
            file.seek(self.offset)
            data = file.read(_LOOK_BYTES)
        whole = data[: data.rfind(b"\n") + 1]
        self.offset += len(whole)
        return whole


_FIRST_LOOK_BYTES = 2**22


@dataclass
class Tail:
    """What is read from the end of one file, which may have several parts.

    Attributes:
        name: of the file.
        generation: how many other files had this name before.
        n_read: the number of rows read of it.
        iteration, epoch: of the latest row that states an iteration; None if none does.
        rows: those of steps and calls that are not complete.
        last: the last rows, which tell what it stood in.
        changed_s: when it was last written to, in seconds since 1970.
        sidecar: what its process says of itself.
    """

    name: TimingFile
    generation: int = 0
    ends: dict[int, FollowedFile] = field(default_factory=dict)
    n_read: int = 0
    iteration: int | None = None
    epoch: int | None = None
    rows: pd.DataFrame = field(default_factory=lambda: no_rows())
    last: pd.DataFrame = field(default_factory=lambda: no_rows())
    changed_s: float = 0.0
    sidecar: dict[str, Any] = field(default_factory=dict)

    def read(self, parts: Parts, sidecars: Sidecars) -> None:
        """Read the whole lines that were added; at the first time, only the end of a long file.

        Args:
            parts: of the file.
            sidecars: tells what its process says of itself.
        """
        if any(number not in parts or end.is_replaced() for number, end in self.ends.items()):
            self._begin_anew()
        for number in self._to_read(parts):
            self._take_in(self.ends.setdefault(number, FollowedFile(parts[number], _FIRST_LOOK_BYTES)))
        last = max(parts)
        self.ends = {last: self.ends[last]}  # all other parts are complete, and were read
        self.changed_s = parts[last].stat().st_mtime
        self.sidecar = as_it_stands(sidecars.now(parts[min(parts)]), parts[last]) or {}

    def _begin_anew(self) -> None:
        self.ends, self.n_read, self.iteration, self.epoch = {}, 0, None, None
        self.rows = self.last = no_rows()
        self.generation += 1

    def _to_read(self, parts: Parts) -> list[int]:
        """Return the parts to read: for the first snapshot the last few, then those not read to the end."""
        if self.ends:
            return sorted(number for number in parts if number >= min(self.ends))
        chosen: list[int] = []
        n_bytes = 0
        for number in sorted(parts, reverse=True):
            if n_bytes < _FIRST_LOOK_BYTES:
                chosen.insert(0, number)
                n_bytes += parts[number].stat().st_size
        return chosen

    def _take_in(self, end: FollowedFile) -> None:
        from timing_logger.reading.csv_lines import UnknownHeader, parse_timings

        while added := end.added():
            try:
                frame = parse_timings(end.header + added).frame
            except UnknownHeader as error:
                raise NotATimingFileError(f"folder: {error.of(end.path)}") from None
            self.n_read += len(frame)
            self._note_latest(frame)
            frame = frame.assign(rank=self.name.rank, incarnation=self.name.incarnation)
            self.rows = without_replaced(pd.concat([self.rows, frame], ignore_index=True))
            known = pd.concat([self.last, frame], ignore_index=True)
            self.last = only_last_rows(without_replaced(known))

    def _note_latest(self, frame: pd.DataFrame) -> None:
        inside = frame[frame["iteration"].notna()]
        if len(inside):
            iteration, epoch = inside[["iteration", "epoch"]].iloc[-1]
            self.iteration, self.epoch = int(iteration), None if pd.isna(epoch) else int(epoch)

    @property
    def n_unfinished(self) -> int:
        """The number of calls whose rows were written while they were open."""
        return int(self._is_open().sum())

    def _is_open(self) -> Bools:
        return self.rows["status"].isin([INFLIGHT]).to_numpy(np.bool_)

    @property
    def is_counted(self) -> bool:
        """Whether steps have to be counted, as the process states no iteration."""
        return self.iteration is None

    def taken(self) -> pd.DataFrame:
        """Return the rows read of steps that are complete, and forget them; the others are kept.

        The step under way is not complete, nor is a call that is open.
        """
        complete = self._is_complete() & ~self._is_open()
        taken: pd.DataFrame = self.rows[complete].reset_index(drop=True)
        self.rows = self.rows[~complete].reset_index(drop=True)
        return taken

    def _is_complete(self) -> Bools:
        if self.sidecar.get("closed"):
            return np.ones(len(self.rows), np.bool_)
        if self.is_counted:
            return ~np.isnan(counted_steps(RowArrays.of(self.rows)))
        steps = self.rows[["epoch", "iteration"]].to_numpy(np.float64, na_value=-np.inf)
        under_way = (-np.inf if self.epoch is None else self.epoch), self.iteration
        complete: Bools = (steps != under_way).any(axis=1)
        return complete


def no_rows() -> pd.DataFrame:
    """Return the table of a process that has recorded nothing."""
    from timing_logger.reading.csv_lines import parse_timings

    none = pd.array([], "int64")
    empty: pd.DataFrame = parse_timings(b"").frame.assign(rank=none, incarnation=none)
    return empty
