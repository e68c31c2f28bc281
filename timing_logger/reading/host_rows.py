"""Read the counters of the hosts, which ranks wrote once a second, into one table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from timing_logger.reading.alignment import Alignment
from timing_logger.reading.beside import KindOfTable
from timing_logger.reading.runs_of_job import Incarnations
from timing_logger.reading.sources import Source
from timing_logger.reading.timings import AnyPath
from timing_logger.schema.host_counters import INSTANTS, NAMES
from timing_logger.schema.timing_files import HOST

if TYPE_CHECKING:
    import numpy.typing as npt

_OF_NUMBERS = b"0123456789.,-+e"
COUNTED = (*INSTANTS, *NAMES)
"""The columns that a file of counters may have."""


def read_host_counters(
    paths: AnyPath | Sequence[AnyPath], *, incarnations: Incarnations = "latest", world: str = ""
) -> pd.DataFrame:
    """Read what hosts, processes and devices counted during a run, beside its timings.

    Args:
        paths, incarnations, world: of which timing files, as for :func:`read_timings`. The counters are in
            the files ``host-rank*.csv`` beside these.

    Returns:
        One row for each second that a rank recorded, by rank and incarnation, then as in the file. ``rank``
        and ``incarnation`` (int64) are those of the timings. ``start_counter`` and ``end_counter`` (float64)
        are the interval of the row, in s on the process's own axis, and ``start_s`` and ``end_s`` the same on
        the axis of :func:`read_timings`. ``timestamp`` is the wall clock at the start (``datetime64[us,
        UTC]``, NaT without a sidecar). Then comes a float64 column for each of
        ``timing_logger.schema.host_counters.COUNTERS``, which has their meanings and units: by how much a
        counter of the kind "difference" grew in the interval, or what one of the kind "level" was at its end;
        NaN where it is not known. Ranks without such a file have no rows.

        ``attrs["files"]`` has a dict for each file read: ``path``, ``rank``, ``incarnation``, ``parts`` (a
        dict with ``path`` for each part), ``rows``, ``cut`` (the unterminated last line, which is no row),
        ``bad_lines`` and ``bad_examples`` (damaged lines, which are skipped) and ``unseen`` (counters that
        the process could not see, and why: a list of dicts ``counters`` and ``why``).

    Warns:
        UserWarning: as :func:`read_timings`, of timing files that lack; and once, if lines were cut or
            skipped.

    Raises:
        NoTimingFilesError: a path does not exist, or a folder holds no timing file.
        NotATimingFileError: a file has another header.
        ConfigurationError: as :func:`read_timings`.
        OSError: a file cannot be opened.
    """
    return _HOST_ROWS.read(paths, incarnations, world, stacklevel=2)


def host_counters_of_each(files: Iterable[tuple[Source, Alignment]]) -> Iterator[pd.DataFrame]:
    """Yield what :func:`read_host_counters` returns for each timing file that has some, one at a time.

    All of them together need much memory where ranks are many. The files are read while this is iterated.
    Lines that are damaged, and files that cannot be read, are skipped without a word.
    """
    return _HOST_ROWS.of_each(files)


def host_counters_of(files: Iterable[tuple[Source, Alignment]]) -> pd.DataFrame:
    """Return what :func:`read_host_counters` does, for an answer that can do without a file of counters.

    Args:
        files: the timing files.

    Warns:
        UserWarning: for each file that cannot be read, which is left out; of nothing else.
    """
    return _HOST_ROWS.of_files(files)


def counters_in(path: Path, data: bytes) -> npt.NDArray[np.float64]:
    """Return the rows that are in some lines of a file of counters, in the columns ``COUNTED``.

    Damaged lines are skipped.

    Args:
        path: of the file.
        data: its first line, and whole lines of it.

    Raises:
        NotATimingFileError: it has another header.
    """
    rows: npt.NDArray[np.float64] = _HOST_ROWS.lines(path, data).rows[list(COUNTED)].to_numpy(np.float64)
    return rows


def _is_sound(line: bytes, n_cells: int) -> bool:
    """Tell whether each cell of a line is a number or blank, and the interval is known."""
    cells = line.split(b",")
    if len(cells) != n_cells or line.translate(None, _OF_NUMBERS):
        return False
    try:
        for cell in cells:
            float(cell or 0)
    except ValueError:
        return False
    return bool(cells[0] and cells[1])


def _parsed(lines: list[bytes], names: list[str]) -> pd.DataFrame:
    rows: pd.DataFrame = pd.DataFrame({name: np.empty(0) for name in COUNTED})
    if lines:
        rows = pd.read_csv(BytesIO(b"\n".join(lines)), header=None, names=names, dtype="float64")
    known: pd.DataFrame = rows.reindex(columns=[*COUNTED])
    return known


def _described(sidecar: Mapping[str, Any]) -> dict[str, Any]:
    return {"unseen": (sidecar.get("host_counters") or {}).get("unseen", [])}


_HOST_ROWS = KindOfTable(
    HOST, "counters of a host", INSTANTS, _parsed, _is_sound,
    {"start_s": INSTANTS[0], "end_s": INSTANTS[1]}, _described,
)  # fmt: skip
