"""Write a digest in few bytes, and read it again: what it says of processes in JSON, then its rows.

All is compressed, so that a step like the one before costs little more than its durations.
"""

from __future__ import annotations

import json
import zlib

from timing_logger.engine.live.digest import Digest
from timing_logger.engine.live.packed_counters import packed_counters, unpacked_counters
from timing_logger.engine.live.packed_processes import LEAST, MOST, as_json, plain, processes_of
from timing_logger.engine.live.packed_rows import packed_rows, unpacked_rows
from timing_logger.engine.live.sampled_steps import thinned
from timing_logger.errors import TimingLoggerError

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
