"""Write a digest in few bytes, and read it again: columns of integers in JSON, compressed.

Instants and durations are in units of 100 ns. Numbers that grow from row to row are written as differences,
and a text as its number in a list, so that a step like the one before costs little more than its durations.
"""

from __future__ import annotations

import functools
import json
import math
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from timing_logger.analysis.table_types import Floats
from timing_logger.engine.live.digest import COLUMNS, Digest, Process
from timing_logger.engine.live.sampled_steps import thinned
from timing_logger.engine.live.tails import no_rows
from timing_logger.errors import TimingLoggerError
from timing_logger.record import FIELDS

FORMAT = 1

_UNITS_PER_S = 1e7
_UNITS_PER_MS = 1e4
_LEVEL = 9  # of compression: some ms for 10 kB, every few seconds
_MOST_BYTES = 2**26  # of a digest when it is unpacked
_GROWING = frozenset({"iteration", "seq", "start_counter"})
_TEXTS = tuple(field.name for field in FIELDS if field.kind == "text" and field.name in COLUMNS)
_INTEGERS = ("rank", "incarnation", *(f.name for f in FIELDS if f.kind == "integer" and f.name in COLUMNS))
_NOT_JUDGED = frozenset({
    "schema_version", "file", "versions", "parts", "device_clocks", "logger_cpu_ns", "last_error", "pid",
    "ring_path", "pid_namespace",
})  # fmt: skip
_FLOATS = frozenset({"since_s", "until_s", "wall_offset_s"})  # NaN is no JSON
_OPTIONS = ("hang_after", "ranks")
_LATEST = 4  # of the measurements of a clock: the others are of times before the window


class DamagedDigest(TimingLoggerError):
    """These bytes are no digest that can be read."""


def packed_within(digest: Digest, most_bytes: int) -> bytes:
    """Return a digest in at most so many bytes: of fewer steps, where it is too large.

    Args:
        digest: the digest.
        most_bytes: how large it may be. What it says of processes is never left out.
    """
    data = packed(digest)
    while len(data) > most_bytes and len(digest.rows):
        digest = thinned(digest)
        data = packed(digest)
    return data


def packed(digest: Digest) -> bytes:
    """Return a digest in few bytes, without the last rows of processes."""
    rows = digest.rows
    content = {
        "format": FORMAT,
        "source": digest.source,
        "number": digest.number,
        "unix_s": digest.unix_s,
        "every": digest.every,
        "processes": [_plain(process) for process in digest.processes],
        "columns": {name: _PACK[_kind(name)](rows[name], name) for name in COLUMNS if name != "end_counter"},
    }
    return zlib.compress(json.dumps(content, separators=(",", ":")).encode(), _LEVEL)


def unpacked(data: bytes) -> Digest:
    """Return the digest that :func:`packed` made these bytes of.

    Raises:
        DamagedDigest: it made them of none.
    """
    try:
        content = json.loads(zlib.decompressobj().decompress(data, _MOST_BYTES))
        if content["format"] != FORMAT:
            raise DamagedDigest(f"This digest has format {content['format']!r}; {FORMAT} can be read.")
        processes = [_process(stated) for stated in content["processes"]]
        rows = _rows(content["columns"])
        facts = (str(content["source"]), int(content["number"]), float(content["unix_s"]))
        return Digest(*facts, int(content["every"]), processes, rows)
    except (zlib.error, ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise DamagedDigest(f"These bytes are no digest: {error!r}.") from None


def _plain(process: Process) -> dict[str, Any]:
    sidecar = {name: value for name, value in process.sidecar.items() if name not in _NOT_JUDGED}
    if "options" in sidecar:
        sidecar["options"] = {name: sidecar["options"].get(name) for name in _OPTIONS}
    for name in ("clock_anchors", "clock_offsets"):
        if name in sidecar:
            sidecar[name] = sidecar[name][-_LATEST:]
    stated = process._replace(sidecar=sidecar)._asdict()
    return {name: None if value != value else value for name, value in stated.items()}


def _process(stated: dict[str, Any]) -> Process:
    unknown = {name: math.nan for name in _FLOATS if stated[name] is None}
    return Process(**{**stated, **unknown})


def _rows(columns: dict[str, Any]) -> pd.DataFrame:
    found = {name: _UNPACK[_kind(name)](columns[name], name) for name in COLUMNS if name != "end_counter"}
    found["end_counter"] = found["start_counter"] + found["elapsed_ms"] / 1000
    rows: pd.DataFrame = pd.DataFrame({name: found[name] for name in COLUMNS}).astype(_types())
    return rows


@functools.cache
def _types() -> dict[Any, Any]:
    return dict(no_rows()[list(COLUMNS)].dtypes)


# -- columns ---------------------------------------------------------------------------------------------


def _kind(name: str) -> str:
    if name in _TEXTS:
        return "text"
    return "integer" if name in _INTEGERS else name


def _of_text(column: pd.Series[str], name: str) -> dict[str, Any]:
    codes, texts = pd.factorize(column.astype(object))
    return {"texts": [str(text) for text in texts], "codes": codes.tolist()}


def _text(packed: dict[str, Any], name: str) -> Any:
    return np.array([*packed["texts"], ""], object)[packed["codes"]]


def _of_integers(column: pd.Series[Any], name: str) -> dict[str, Any]:
    return _of_numbers(column.to_numpy(np.float64, na_value=np.nan), 1.0, name)


def _integers(packed: dict[str, Any], name: str) -> Any:
    return pd.array(_numbers(packed, 1.0, name), "Float64").astype("Int64")


def _of_units(units: float) -> Callable[[pd.Series[float], str], dict[str, Any]]:
    return lambda column, name: _of_numbers(column.to_numpy(np.float64, na_value=np.nan), units, name)


def _units(units: float) -> Callable[[dict[str, Any], str], Any]:
    return lambda packed, name: _numbers(packed, units, name)


def _of_amounts(column: pd.Series[float], name: str) -> list[float | None]:
    return [None if value != value else value for value in column.to_numpy(np.float64, na_value=np.nan)]


def _amounts(packed: Sequence[float | None], name: str) -> Any:
    return np.array(packed, np.float64)


def _of_numbers(values: Floats, units: float, name: str) -> dict[str, Any]:
    known = ~np.isnan(values)
    integers = np.rint(values[known] * units).astype(np.int64)
    if name in _GROWING:
        integers = np.diff(integers, prepend=0)
    blank = {} if known.all() else {"known": "".join("01"[one] for one in known.tolist())}
    return {"values": integers.tolist(), **blank}


def _numbers(packed: dict[str, Any], units: float, name: str) -> Floats:
    integers = np.array(packed["values"], np.int64)
    if name in _GROWING:
        integers = np.cumsum(integers)
    known = np.array([one == "1" for one in packed.get("known", "1" * len(integers))], np.bool_)
    values = np.full(len(known), np.nan)
    values[known] = integers / units
    return values


_PACK: dict[str, Callable[[Any, str], Any]] = {
    "text": _of_text,
    "integer": _of_integers,
    "elapsed_ms": _of_units(_UNITS_PER_MS),
    "start_counter": _of_units(_UNITS_PER_S),
    "work": _of_amounts,
}
_UNPACK: dict[str, Callable[[Any, str], Any]] = {
    "text": _text,
    "integer": _integers,
    "elapsed_ms": _units(_UNITS_PER_MS),
    "start_counter": _units(_UNITS_PER_S),
    "work": _amounts,
}
"""How the column of each kind is written, and read again."""
