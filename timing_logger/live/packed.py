"""Write a digest in few bytes, and read it again: what it says of processes in JSON, then its rows.

All is compressed, so that a step like the one before costs little more than its durations.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from timing_logger.errors import TimingLoggerError
from timing_logger.live.counter_rows import CounterRows
from timing_logger.live.digest import Digest
from timing_logger.live.packed_processes import LEAST, MOST, as_json, plain, processes_of
from timing_logger.live.packed_rows import packed_arrays, packed_rows, unpacked_arrays, unpacked_rows
from timing_logger.live.sampled_steps import thinned
from timing_logger.reading.host_rows import COUNTED

FORMAT = 3

_MOST_BYTES = 2**26  # of a digest when it is unpacked
_LEVEL = 9  # of compression: some ms for 10 kB, every few seconds
_SHARE = 0.75  # of the bytes: for what is said of processes, where there are rows, too
_END_OF_JSON = b"\n"


class DamagedDigest(TimingLoggerError):
    """These bytes are no digest that can be read."""


def packed_within(digest: Digest, most_bytes: int) -> bytes:
    """Return a digest in at most so many bytes: of fewer steps, where it is too large.

    What it says of processes is less where that takes more than three quarters, or more than all if there are
    no rows. Each process is in it always, so that a digest of very few bytes is larger.

    Args:
        digest: the digest.
        most_bytes: how large it may be.
    """
    most = _most_within(digest, most_bytes * _SHARE if len(digest.rows) else most_bytes)
    data = packed(digest, most)
    while len(data) > most_bytes and len(digest.rows):
        digest = thinned(digest)
        data = packed(digest, most)
    return data


def _most_within(digest: Digest, most_bytes: float) -> int:
    """Return for how many groups of a process there is room in so many bytes; ``LEAST`` if for fewer."""
    without_rows, most = digest._replace(rows=digest.rows.only(slice(0))), MOST
    while most > LEAST and len(packed(without_rows, most)) > most_bytes:
        most //= 2
    return most


def packed(digest: Digest, most: int = MOST) -> bytes:
    """Return a digest in few bytes, without the last rows of processes.

    Args:
        digest: the digest.
        most: of how many groups of a process it tells.
    """
    (rows, data), (counters, of_counters) = packed_rows(digest.rows), packed_counters(digest.counters)
    content = {
        "format": FORMAT,
        "source": digest.source,
        "number": digest.number,
        "unix_s": digest.unix_s,
        "every": digest.every,
        "of": plain(digest.processes, digest.number, most),
        "rows": rows,
        "counters": counters,
        "bytes": len(data),
    }
    return zlib.compress(as_json(content) + _END_OF_JSON + data + of_counters, _LEVEL)


def unpacked(data: bytes) -> Digest:
    """Return the digest that :func:`packed` made these bytes of.

    Raises:
        DamagedDigest: it made them of none.
    """
    try:
        stated, _, numbers = zlib.decompressobj().decompress(data, _MOST_BYTES).partition(_END_OF_JSON)
        content = json.loads(stated)
        if content["format"] != FORMAT:
            raise DamagedDigest(f"This digest has format {content['format']!r}; {FORMAT} can be read.")
        processes = processes_of(content["of"])
        rows = unpacked_rows(content["rows"], numbers)
        counters = unpacked_counters(content["counters"], numbers[content["bytes"] :])
        facts = (str(content["source"]), int(content["number"]), float(content["unix_s"]))
        return Digest(*facts, int(content["every"]), processes, rows, (), counters)
    except (zlib.error, ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise DamagedDigest(f"These bytes are no digest: {error!r}.") from None


# -- what hosts counted, in few bytes --------------------------------------------------------------------


_UNITS = 1000.0  # files of counters have no more decimals


def packed_counters(rows: CounterRows) -> tuple[dict[str, Any], bytes]:
    """Return what JSON can hold of rows, and their numbers in bytes, which are yet to be compressed."""
    known = ~np.isnan(rows.values)
    arrays = [np.diff(rows.rank, prepend=0), rows.incarnation]
    columns = np.flatnonzero(known.any(axis=0)).tolist()
    for column in columns:
        values = np.rint(rows.values[known[:, column], column] * _UNITS).astype(np.int64)
        arrays += [np.diff(values, prepend=0), np.packbits(known[:, column]).astype(np.int64)]
    sizes, data = packed_arrays(arrays)
    return {"counted": [COUNTED[column] for column in columns], "sizes": sizes}, data


def unpacked_counters(stated: Mapping[str, Any], data: bytes) -> CounterRows:
    """Return the rows that :func:`packed_counters` made this of; counters that are not known are left out.

    Raises:
        ValueError, KeyError, TypeError, IndexError: it made it of none.
    """
    counted = list(stated["counted"])
    arrays = iter(unpacked_arrays(stated["sizes"], data, 2 + 2 * len(counted)))
    rank, incarnation = np.cumsum(next(arrays)), next(arrays)
    values = np.full((len(rank), len(COUNTED)), np.nan)
    for name in counted:
        numbers, bits = next(arrays), next(arrays)
        if name in COUNTED:
            known = np.unpackbits(bits.astype(np.uint8), count=len(rank)) == 1
            values[known, COUNTED.index(name)] = np.cumsum(numbers) / _UNITS
    return CounterRows(rank, incarnation, values)
