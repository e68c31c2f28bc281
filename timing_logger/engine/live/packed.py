"""Write a digest in few bytes, and read it again: what it says of processes in JSON, then its rows.

All is compressed, so that a step like the one before costs little more than its durations.
"""

from __future__ import annotations

import json
import math
import zlib
from typing import Any

from timing_logger.engine.live.digest import Digest, Process
from timing_logger.engine.live.packed_counters import packed_counters, unpacked_counters
from timing_logger.engine.live.packed_rows import packed_rows, unpacked_rows
from timing_logger.engine.live.sampled_steps import thinned
from timing_logger.errors import TimingLoggerError

FORMAT = 2

_LEVEL = 9  # of compression: some ms for 10 kB, every few seconds
_MOST_BYTES = 2**26  # of a digest when it is unpacked
_END_OF_JSON = b"\n"
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
    (rows, data), (counters, of_counters) = packed_rows(digest.rows), packed_counters(digest.counters)
    content = {
        "format": FORMAT,
        "source": digest.source,
        "number": digest.number,
        "unix_s": digest.unix_s,
        "every": digest.every,
        "processes": [_plain(process) for process in digest.processes],
        "rows": rows,
        "counters": counters,
        "bytes": len(data),
    }
    stated = json.dumps(content, separators=(",", ":")).encode()
    return zlib.compress(stated + _END_OF_JSON + data + of_counters, _LEVEL)


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
        processes = [_process(stated) for stated in content["processes"]]
        rows = unpacked_rows(content["rows"], numbers)
        counters = unpacked_counters(content["counters"], numbers[content["bytes"] :])
        facts = (str(content["source"]), int(content["number"]), float(content["unix_s"]))
        return Digest(*facts, int(content["every"]), processes, rows, (), counters)
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
