"""Read where the main threads of ranks were, a few times a second, into one table."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from timing_logger.reading.alignment import Alignment
from timing_logger.reading.beside import KindOfTable
from timing_logger.reading.runs_of_job import Incarnations
from timing_logger.reading.sources import Source
from timing_logger.reading.timings import AnyPath
from timing_logger.schema.cells import unescape_text
from timing_logger.schema.stack_samples import COLUMNS, StackSample
from timing_logger.schema.timing_files import STACKS


def read_stack_samples(
    paths: AnyPath | Sequence[AnyPath], *, incarnations: Incarnations = "latest", world: str = ""
) -> pd.DataFrame:
    """Read in which lines of the program's code the main threads of ranks were, beside their timings.

    Args:
        paths, incarnations, world: of which timing files, as for :func:`read_timings`. The samples are in the
            files ``stacks-rank*.csv`` beside these.

    Returns:
        One row for each sample, by rank and incarnation, then by time. ``rank`` and ``incarnation`` (int64)
        are those of the timings; ``timestamp`` is the wall clock (``datetime64[us, UTC]``, NaT without a
        sidecar); ``at_s`` (float64) is the instant in s on the axis of :func:`read_timings`. Then come the
        columns of the file, ``counter``, ``function``, ``file``, ``line`` and ``library_call``:
        :class:`timing_logger.schema.stack_samples.StackSample` says what they are. Ranks without such a file
        have no rows.

        ``attrs["files"]`` has a dict for each file read: ``path``, ``rank``, ``incarnation``, ``parts`` (a
        dict with ``path`` for each part), ``rows``, ``cut`` (the unterminated last line, which is no row),
        ``bad_lines`` and ``bad_examples`` (damaged lines, which are skipped) and ``lost`` (samples that could
        not be written; None if the sidecar does not say).

    Warns:
        UserWarning: as :func:`read_timings`, of timing files that lack; and once, if lines were cut or
            skipped.

    Raises:
        NoTimingFilesError: a path does not exist, or a folder holds no timing file.
        NotATimingFileError: a file has another header.
        ConfigurationError: as :func:`read_timings`.
        OSError: a file cannot be opened.
    """
    return _STACK_ROWS.read(paths, incarnations, world, stacklevel=2)


def stack_samples_of(files: Iterable[tuple[Source, Alignment]]) -> pd.DataFrame:
    """Return what :func:`read_stack_samples` does, for an answer that can do without a file of samples.

    Args:
        files: the timing files.

    Warns:
        UserWarning: for each file that cannot be read, which is left out; of nothing else.
    """
    return _STACK_ROWS.of_files(files)


def _cells(line: bytes) -> list[str]:
    return next(csv.reader([line.decode(errors="replace")]), [])


def _is_sound(line: bytes, n_cells: int) -> bool:
    """Tell whether a line has all its cells, and numbers where they belong."""
    cells = _cells(line)
    if len(cells) != n_cells:
        return False
    try:
        float(cells[0])
        int(cells[3])
    except ValueError:
        return False
    return True


def _parsed(lines: list[bytes], names: list[str]) -> pd.DataFrame:
    cells = [_cells(line)[: len(COLUMNS)] for line in lines]
    samples = [
        StackSample(float(at), unescape_text(function), unescape_text(file), int(line), unescape_text(call))
        for at, function, file, line, call in cells
    ]
    table: pd.DataFrame = pd.DataFrame(samples, columns=list(COLUMNS))
    typed: pd.DataFrame = table.astype({"counter": np.float64, "line": np.int64})
    return typed


def _described(sidecar: Mapping[str, Any]) -> dict[str, Any]:
    return {"lost": (sidecar.get("stack_samples") or {}).get("lost")}


_STACK_ROWS = KindOfTable(
    STACKS, "stack samples", COLUMNS, _parsed, _is_sound, {"at_s": "counter"}, _described
)
