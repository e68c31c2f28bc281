"""What the kernel states of InfiniBand and RoCE ports. It may ask the adapter, which can take its time."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from timing_logger.recording.cores.chosen import SmallFiles
from timing_logger.recording.host.apart import Apart
from timing_logger.recording.host.files import Parsed, Roots, Source

_BYTES_PER_KB, _BYTES_PER_WORD = 10**3, 4

_FILES = {
    "ib_received_kb": ("port_rcv_data",),
    "ib_sent_kb": ("port_xmit_data",),
    "ib_wait_ticks": ("port_xmit_wait",),
    "ib_errors": ("symbol_error", "port_rcv_errors", "link_error_recovery", "link_downed"),
}
"""For each counter: the files of a port whose numbers are added."""

_IN_WORDS = ("ib_received_kb", "ib_sent_kb")


def infiniband_source(roots: Roots) -> Source:
    """Return what states the counters of all ports of the host."""
    ports = sorted((roots.sys / "class" / "infiniband").glob("*/ports/*/counters"))
    if not ports:
        return Parsed(tuple(_FILES), [], lambda texts: {}, "the host has no InfiniBand port")
    return Apart(tuple(_FILES), lambda: _reader([str(port) for port in ports]))


def _reader(ports: list[str]) -> Callable[[], Mapping[str, float]]:
    names = [(counter, file) for counter, files in _FILES.items() for file in files]
    paths = [f"{port}/{file}" for _, file in names for port in ports]
    files = SmallFiles()

    def read() -> Mapping[str, float]:
        sums: dict[str, int] = {}
        texts = iter(files.read(paths))
        for counter, _ in names:
            stated = [int(text) for text in (next(texts) for _ in ports) if text.strip().isdigit()]
            if stated:
                sums[counter] = sums.get(counter, 0) + sum(stated)
        return {
            counter: value * _BYTES_PER_WORD // _BYTES_PER_KB if counter in _IN_WORDS else value
            for counter, value in sums.items()
        }

    return read
